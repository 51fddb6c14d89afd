"""The answer made simple at its interval: fewest groups, then fewest channels between them, then the shortest, then the latest starts.

Groups and channels come before length because they cost warps, registers and barriers in every iteration, while length costs only the
prologue and the epilogue. Latest starts last: what need not be early (loads, above all) then takes its room no sooner than it must.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.smt import cpsat, decode
from twill.smt.cpsat import Goal
from twill.smt.partitions import under

SHARE = 0.5
"""Deterministic seconds for each goal."""


@dataclass
class Polish:
    """Improves `best` by one goal after the other."""

    problem: Problem
    copies: int
    best: Solution
    joint: bool
    remaining: Callable[[], float]

    def run(self) -> tuple[Solution, list[str]]:
        """The simplified answer, and the goals whose optimum is not proven."""
        proven = {"groups": self._groups(), "channels": self._channels()} if self.joint else {}
        proven["length"] = self._length()
        self._improve("lateness", self._this_partition())
        return self.best, [goal for goal, sure in proven.items() if not sure]

    def _groups(self) -> bool:
        """Refute one group, then two, ... below the answer's number; stop at the first that works."""
        kinds = {op.variable for op in self.problem.operations}
        for count in range(len(kinds), len(self.best.groups)):
            fewer, left = self._within(count), max(0.0, self.remaining())
            word = cpsat.attempt(fewer, self.best.interval, self.copies, time_limit=left, effort=SHARE)
            if word.solution is not None:
                self.best = word.solution
            if word.verdict != "infeasible":
                return word.verdict == "feasible"
        return True

    def _channels(self) -> bool:
        return not decode.channels(self.problem, self.best.group) or self._improve("channels", self._as_few_groups())

    def _length(self) -> bool:
        """Within the partition first, which is quick; then over all as simple ones, which proves it."""
        if self.joint:
            self._improve("length", self._this_partition())
        return self._improve("length", self._as_few_groups())

    def _improve(self, goal: Goal, problem: Problem) -> bool:
        """Whether the best is now proven best by this goal."""
        left = self.remaining()
        if left <= 0:
            return False
        interval, copies = self.best.interval, self.copies
        self.best, sure = cpsat.improve(goal, problem, interval, copies, self.best, joint=self.joint, time_limit=left, effort=SHARE)
        return sure

    def _within(self, groups: int) -> Problem:
        return replace(self.problem, limits=replace(self.problem.limits, groups=groups))

    def _as_few_groups(self) -> Problem:
        return self._within(len(self.best.groups)) if self.joint else self.problem

    def _this_partition(self) -> Problem:
        return under(self._as_few_groups(), self.best.group) if self.joint else self.problem
