"""The answer made simple at its interval: fewest groups, channels between them and stages, then the shortest, then the latest starts.

Groups and channels come first because they cost warps, registers and barriers in every iteration. A stage more is one more iteration whose
values are kept apart in the steady state, and one more copy of the loop's code before it and after it. Length costs only the time of the
prologue and the epilogue. Latest starts last: what need not be early (loads, above all) then takes its room no sooner than it must.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.smt import cpsat, decode
from twill.smt.cpsat import Goal
from twill.smt.partitions import under
from twill.smt.symmetry import Family

SHARE = 0.5
"""Deterministic seconds for each goal."""


@dataclass
class Polish:
    """Improves `best` by one goal after the other."""

    problem: Problem
    copies: int
    best: Solution
    alike: tuple[Family, ...]
    """Sub-tiles (see `twill.smt.symmetry`)."""
    joint: bool
    remaining: Callable[[], float]

    def run(self) -> tuple[Solution, list[str]]:
        """The simplified answer, and the goals whose optimum is not proven."""
        proven = {"groups": self._groups(), "channels": self._channels()} if self.joint else {}
        proven["stages"] = self.best.stages == 1 or self._within_partition("stages")
        proven["length"] = self._within_partition("length")
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

    def _within_partition(self, goal: Goal) -> bool:
        """Within the partition first, which is quick, quicker yet with sub-tiles in turn; then over all as simple ones, which proves it."""
        if self.alike:
            self._improve(goal, self._this_partition(), self.alike)
        if self.joint:
            self._improve(goal, self._this_partition())
        return self._improve(goal, self._as_few_groups())

    def _improve(self, goal: Goal, problem: Problem, alike: tuple[Family, ...] = ()) -> bool:
        """Whether the best is now proven best by this goal."""
        left = self.remaining()
        if left <= 0:
            return False
        interval, copies, joint = self.best.interval, self.copies, self.joint
        self.best, sure = cpsat.improve(
            goal, problem, interval, copies, self.best, joint=joint, time_limit=left, effort=SHARE, shifted=alike
        )
        return sure

    def _within(self, groups: int) -> Problem:
        return replace(self.problem, limits=replace(self.problem.limits, groups=groups))

    def _as_few_groups(self) -> Problem:
        return self._within(len(self.best.groups)) if self.joint else self.problem

    def _this_partition(self) -> Problem:
        return under(self._as_few_groups(), self.best.group) if self.joint else self.problem
