"""The search over intervals: the smallest one that works, with evidence for every smaller one.

Takes a `Problem` and `Options`; gives a `Result`. It starts at the lower bound, finds some interval that works, and closes the gap from
both sides. At every interval two things run at once: a hunt that looks under natural partitions (finds, proves nothing), and complete
engines that race each other (find or refute). Where the problem is monotone (`Problem.monotone`), a refutation at I covers all
below, so the gap is bisected; elsewhere every interval is decided in turn.

Which verdict arrives first does not change the answer: a hunt under way is always let finish its share of deterministic work.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Bounds, Reason, Refutation, Result, Solution
from twill.ir.search import Options, Progress, Report
from twill.modulo.bounds import bounds
from twill.smt import cpsat, decode
from twill.smt.engine import Attempt
from twill.smt.explain import explain
from twill.smt.partitions import Labels, partitions
from twill.smt.portfolio import complete_engines

POLISH_SHARE = 1.5
"""Deterministic seconds for each goal after the interval."""

FIRST_SHARE = 2.0
"""Deterministic seconds a hunt and a complete engine get at an interval before the search looks elsewhere; doubled each round."""


def search(problem: Problem, options: Options, report: Report) -> Result:
    """The smallest interval that works under all rules, or under timing alone where `options.modulo_only`."""
    state = _State(problem, options, report, bounds(problem, joint=not options.modulo_only))
    state.run()
    return state.result()


@dataclass
class _State:
    """What is known so far: intervals below `low` are refuted, `best` works, `undecided` ones took a share without a verdict."""

    problem: Problem
    options: Options
    report: Report
    bounds: Bounds
    best: Solution | None = None
    refuted: list[Refutation] = field(default_factory=list[Refutation])
    undecided: set[Time] = field(default_factory=set[Time])
    share: float = FIRST_SHARE
    misses: int = 0
    notes: list[str] = field(default_factory=list[str])
    reasons: tuple[Reason, ...] = ()

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.joint = not self.options.modulo_only
        self.low = self.bounds.value
        self.top = largest_needed(self.problem, self.low)
        self.candidates = partitions(self.problem) if self.joint else ()
        if self.low > 1:
            self.refuted.append(Refutation(self.low - 1, None, _bound_name(self.bounds), 0.0, below=True))

    @property
    def remaining(self) -> float:
        return self.options.time_limit - (time.monotonic() - self.began)

    @property
    def high(self) -> Time:
        """The smallest interval known to work, or one past the largest worth trying."""
        return self.best.interval if self.best else self.top + 1

    def run(self) -> None:
        """Decide intervals until the gap is closed or the time is up."""
        while self.low < self.high and self.remaining > 0:
            self.decide(self.target())
        if self.best and self.remaining > 0:
            self.polish(self.best)
        self.explain()

    def target(self) -> Time:
        """The next interval to decide: the bound at first, then upward in growing steps, then the middle of the gap."""
        if not self.problem.monotone:
            return self.low
        floor = max([self.low, *(i + 1 for i in self.undecided if i < self.high)])
        if floor >= self.high:  # everything between was tried: again from the top, with a larger share
            self.undecided.clear()
            self.share *= 2
            return self.high - 1
        if self.best:
            return floor if floor == self.bounds.value else (floor + self.high - 1) // 2
        step = self.bounds.value * 4**self.misses // 256 if self.misses else 0
        return min(self.top, max(floor, self.bounds.value + step))

    def decide(self, interval: Time) -> None:
        """Try one interval with the current share."""
        self._tell("trying", "search", interval)
        verdict = Race(self, interval).run()
        if verdict.solution is not None:
            self._tell("feasible", verdict.engine, interval)
            self.best = verdict.solution
            return
        self.misses += 1
        self._tell(verdict.verdict, verdict.engine, interval)
        if verdict.verdict == "infeasible":
            self.refute(Refutation(interval, self.options.copies, verdict.engine, verdict.seconds, below=self.problem.monotone))
        else:
            self.undecided.add(interval)

    def refute(self, refutation: Refutation) -> None:
        """Raise the lower end; where a refutation covers all below, the weaker ones are not kept."""
        if refutation.below:
            self.refuted = [old for old in self.refuted if old.copies is None]
        self.refuted.append(refutation)
        self.low = max(self.low, refutation.interval + 1)
        self.undecided = {i for i in self.undecided if i >= self.low}

    def polish(self, found: Solution) -> None:
        """Fewest groups, then fewest channels between them, then the shortest: each within a share of work."""
        self._tell("trying", "cpsat", found.interval, "fewest groups and channels, then the shortest length")
        simpler = Polish(self.problem, self.options.copies, found, lambda: self.remaining)
        self.best, open_goals = simpler.run(self.joint)
        self.notes += [f"least {goal} not proven" for goal in open_goals]
        self._tell("improved", "cpsat", found.interval)

    def explain(self) -> None:
        """Which families keep the interval above what timing alone allows."""
        above = self.best is None or self.best.interval > self.bounds.value
        if not (self.joint and self.options.explain and above and self.remaining > 0):
            return
        self._tell("note", "cpsat", self.bounds.value, "asking which constraints keep the interval above its bound")
        self.reasons = explain(self.result(), self.bounds.value, self._quick)

    def _quick(self, problem: Problem, interval: Time) -> Solution | None:
        """A schedule found in a share of work: under natural partitions, then freely."""
        for copies in (2, self.options.copies):
            for labels in partitions(problem):
                word = self._look(_under(problem, labels), interval, copies, FIRST_SHARE / 8)
                if word:
                    return word
        return self._look(problem, interval, self.options.copies, FIRST_SHARE)

    def _look(self, problem: Problem, interval: Time, copies: int, effort: float) -> Solution | None:
        return cpsat.attempt(problem, interval, copies, time_limit=max(0.0, self.remaining), effort=effort).solution

    def result(self) -> Result:
        """The answer with its evidence."""
        if self.best:
            status = "optimal" if self.low >= self.best.interval else "feasible"
        else:
            status = "infeasible" if self.low > self.top else "unknown"
        return Result(self.problem, status, self.bounds, self.low, self.best, tuple(self.refuted), self.reasons, tuple(self.notes))

    def _tell(self, what: str, engine: str, interval: Time, detail: str = "") -> None:
        self.report(Progress(time.monotonic() - self.began, engine, interval, what, detail))  # pyright: ignore[reportArgumentType]


@dataclass
class Polish:
    """Simplifies an answer at its interval, one goal after the other."""

    problem: Problem
    copies: int
    best: Solution
    remaining: Callable[[], float]

    def run(self, joint: bool) -> tuple[Solution, list[str]]:
        """The simplified answer and the goals whose optimum is not proven."""
        proven = {"groups": self._groups(), "channels": self._channels()} if joint else {}
        proven["length"] = self._length(joint)
        return self.best, [goal for goal, sure in proven.items() if not sure]

    def _groups(self) -> bool:
        """Refute one group, then two, ... below the answer's number; stop at the first that works."""
        loads = any(op.variable for op in self.problem.operations)
        least = loads + any(not op.variable for op in self.problem.operations)
        for count in range(least, len(self.best.groups)):
            word = cpsat.attempt(
                self._within(count), self.best.interval, self.copies, time_limit=max(0.0, self.remaining()), effort=POLISH_SHARE
            )
            if word.solution is not None:
                self.best = word.solution
                return True
            if word.verdict == "timeout":
                return False
        return True

    def _within(self, groups: int) -> Problem:
        return replace(self.problem, limits=replace(self.problem.limits, groups=groups))

    def _channels(self) -> bool:
        if not decode.channels(self.problem, self.best.group) or self.remaining() <= 0:
            return self.remaining() > 0
        fewer = self._within(len(self.best.groups))
        self.best, sure = cpsat.simplest(
            fewer, self.best.interval, self.copies, self.best, time_limit=self.remaining(), effort=POLISH_SHARE
        )
        return sure

    def _length(self, joint: bool) -> bool:
        """Within the partition first, which is quick; then over all as simple ones, which proves it."""
        sure = False
        fewer = self._within(len(self.best.groups)) if joint else self.problem
        for problem in (_under(fewer, self.best.group), fewer) if joint else (fewer,):
            if self.remaining() <= 0:
                return False
            self.best, sure = cpsat.shortest(
                problem, self.best.interval, self.copies, self.best, joint=joint, time_limit=self.remaining(), effort=POLISH_SHARE
            )
        return sure


def largest_needed(problem: Problem, low: Time) -> Time:
    """An interval so large that if it does not work, none does.

    When all delays, holds, durations and issue times of one iteration together are less than I, some residue is inside none of them
    and can be cut out of the period: a schedule at I + 1 gives one at I.
    """
    ops = sum(op.duration + op.issue for op in problem.operations)
    edges = sum(max(edge.delay, edge.crossing) for edge in problem.edges)
    holds = sum(use.hold for value in problem.values for use in value.uses)
    return max(low, ops + edges + holds + 1, *(start + 1 for _, start in problem.starts))


def _bound_name(found: Bounds) -> str:
    """Which bound refutes everything below it."""
    if found.recurrence.value > found.resource.value:
        return f"RecMII {' -> '.join(found.recurrence.ops)}"
    return f"ResMII {found.resource.unit}"


@dataclass
class Race:
    """One interval: complete engines against each other, a hunt beside them."""

    state: _State
    interval: Time

    def run(self) -> Attempt:
        """The hunt's find if it has one, else the first complete verdict, else a timeout."""
        state, stop = self.state, threading.Event()
        engines = complete_engines(state.problem, state.options, self.interval)
        limit = max(0.05, state.remaining)
        with ThreadPoolExecutor(len(engines) + 1) as pool:
            verdicts = [pool.submit(self._complete, engine, min(limit, self.patience()), stop) for engine in engines]
            try:
                found = self._hunt(stop, time.monotonic() + limit)
                if found is not None:
                    return found
                return _best_word([future.result() for future in verdicts])
            finally:
                stop.set()

    def patience(self) -> float:
        """Wall seconds that a complete engine gets at this interval."""
        return 3 * self.state.share

    def _complete(self, engine: Callable[..., Attempt], seconds: float, stop: threading.Event) -> Attempt:
        """Run one complete engine; a proof ends the race for everyone."""
        state = self.state
        word = engine(state.problem, self.interval, state.options.copies, joint=state.joint, time_limit=seconds, stop=stop)
        if word.verdict == "infeasible":
            stop.set()
        return word

    def _hunt(self, stop: threading.Event, deadline: float) -> Attempt | None:
        """Look under each natural partition with few copies; None where nothing is found within the share."""
        for copies, labels in self._looks():
            left = deadline - time.monotonic()
            if stop.is_set() or left <= 0:
                return None
            fixed = _under(self.state.problem, labels)
            word = cpsat.attempt(fixed, self.interval, copies, joint=True, time_limit=left, stop=stop, effort=self.state.share / 4, proving=False)
            if word.solution is not None:
                return word
        return None

    def _looks(self) -> Iterator[tuple[int, Labels]]:
        """(copies, partition) pairs: few iterations in flight first (one alone is what works at very large intervals)."""
        if self.state.options.engine in ("auto", "cpsat"):
            for copies in range(1, min(3, self.state.options.copies) + 1):
                for labels in self.state.candidates:
                    yield copies, labels


def _best_word(words: list[Attempt]) -> Attempt:
    """A find before a refutation before a timeout."""
    rank = {"feasible": 0, "infeasible": 1, "timeout": 2}
    return min(words, key=lambda word: rank[word.verdict])


def _under(problem: Problem, labels: Labels) -> Problem:
    """The problem with this partition as part of its rules."""
    members: dict[int, list[str]] = {}
    for op, label in zip(problem.operations, labels, strict=True):
        members.setdefault(label, []).append(op.id)
    heads = [ops[0] for ops in members.values()]
    apart = [(a, b) for i, a in enumerate(heads) for b in heads[i + 1 :]]
    return replace(problem, together=(*problem.together, *map(tuple, members.values())), apart=(*problem.apart, *apart))
