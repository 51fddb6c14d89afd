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
from twill.smt.coarse import coarsen, stretch
from twill.smt.engine import Attempt
from twill.smt.explain import explain
from twill.smt.partitions import Labels, partitions
from twill.smt.portfolio import complete_engines, engine
from twill.smt.relax import Projection, projections

COARSE_UNITS = (100, 200)
"""Units of time per interval that the hunt in coarse time tries, one after the other."""

COARSE_PATIENCE = 6.0
"""Seconds it gets for each, per share."""

POLISH_SHARE = 1.5
"""Deterministic seconds for each goal after the interval."""

FIRST_SHARE = 0.5
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
    projected: bool = False
    binding: list[Projection] = field(default_factory=list[Projection])
    """Projections that refuted something."""
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
            if self.low < self.high and not self.projected and self.joint and self.problem.monotone:
                self.project()
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
            return (floor + self.high - 1) // 2
        step = self.low * 4**self.misses // 1024 if self.misses else 0
        return min(self.top, max(floor, self.low + step))

    def decide(self, interval: Time) -> None:
        """Try one interval with the current share."""
        self._tell("trying", "search", interval)
        verdict = Race(self, interval).run()
        if verdict.solution is not None:
            self.best = verdict.solution
            self._tell("feasible", verdict.engine, self.best.interval)
            return
        self.misses += 1
        self._tell(verdict.verdict, verdict.engine, interval)
        if verdict.verdict == "infeasible":
            self.refute(Refutation(interval, self.options.copies, verdict.engine, verdict.seconds, below=self.problem.monotone))
        else:
            self.undecided.add(interval)

    def project(self) -> None:
        """Raise the lower end to the smallest interval at which no projection of the problem is refuted."""
        self.projected = True
        for projection in projections(self.problem):
            refutation = self._rise(projection)
            if refutation:
                self.binding.append(projection)
                self.refute(refutation)

    def _rise(self, projection: Projection) -> Refutation | None:
        """The largest interval at which a projection is refuted, by growing steps, then bisection; None if never."""
        last: Refutation | None = None
        low, high, step = self.low, self.high, 0
        while low < high and self.remaining > 0:
            interval = min(low + step, high - 1) if high == self.high else (low + high) // 2
            self._tell("trying", projection.name, interval)
            small, copies = projection.at(interval), self.options.copies
            word = cpsat.attempt(small, interval, copies, time_limit=self.remaining, effort=FIRST_SHARE)
            self._tell(word.verdict, projection.name, interval)
            if word.verdict == "infeasible":
                last = Refutation(interval, copies, f"cpsat on the {projection.name} projection", word.seconds, below=True)
                low, step = interval + 1, max(4 * step, interval // 256, 1)
            else:
                high = interval
        return last

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
    and can be cut out of the period: a schedule at I + 1 gives one at I. The cut must come after every pin, so as not to move it.
    """
    ops = sum(op.duration + op.issue for op in problem.operations)
    edges = sum(max(edge.delay, edge.crossing) for edge in problem.edges)
    holds = sum(use.hold for value in problem.values for use in value.uses)
    pinned = max((start for _, start in problem.starts), default=0)
    return max(low, ops + edges + holds + pinned + 1)


def _bound_name(found: Bounds) -> str:
    """Which bound refutes everything below it."""
    if found.recurrence.value > found.resource.value:
        return f"RecMII {' -> '.join(found.recurrence.ops)}"
    return f"ResMII {found.resource.unit}"


@dataclass
class Race:
    """One interval, three ways at once: a hunt under natural partitions, one in coarse time, and the complete engines.

    The first way that has an answer, in this order, gives it, however long the others took: so the answer is always the same.
    """

    state: _State
    interval: Time
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Attempt:
        """A find, at this interval or (in coarse time) a little above it; or a refutation, or a timeout."""
        with ThreadPoolExecutor(3) as pool:
            ways = [pool.submit(way) for way in (self._hunt, self._coarse, self._prove)]
            try:
                words: list[Attempt] = []
                for way in ways:
                    words.append(way.result())
                    if words[-1].verdict != "timeout":
                        break
                return _best_word(words)
            finally:
                self.stop.set()

    @property
    def left(self) -> float:
        return max(0.0, self.state.remaining)

    def _nothing(self, name: str) -> Attempt:
        return Attempt("timeout", name, 0.0)

    def _hunt(self) -> Attempt:
        """Look under each natural partition, that of the best answer first; what fails here proves nothing."""
        for copies, labels in self._looks():
            if self.stop.is_set() or self.left <= 0:
                break
            fixed, effort = _under(self.state.problem, labels), self.state.share / 4
            word = cpsat.attempt(fixed, self.interval, copies, time_limit=self.left, stop=self.stop, effort=effort, proving=False)
            if word.solution is not None:
                return word
        return self._nothing("cpsat")

    def _looks(self) -> Iterator[tuple[int, Labels]]:
        """(copies, partition) pairs: two iterations in flight first; one alone is what works at very large intervals."""
        if self.state.options.engine in ("auto", "cpsat"):
            best = (self.state.best.group,) if self.state.best else ()
            for copies in (n for n in (2, 1, 3) if n <= self.state.options.copies):
                for labels in dict.fromkeys((*best, *self.state.candidates)):
                    yield copies, labels

    def _coarse(self) -> Attempt:
        """SAT on times rounded up, in about 100, then 200 units an interval: finds at or a little above this interval."""
        state = self.state
        if state.options.engine != "auto" or not (state.joint and state.problem.monotone):
            return self._nothing("sat")
        for units in COARSE_UNITS:
            step = -(-self.interval // units)
            turns = -(-self.interval // step)
            if step == 1 or turns * step >= state.high or self.stop.is_set():
                continue
            small, copies = coarsen(state.problem, step), min(2, state.options.copies)
            word = engine("sat")(small, turns, copies, time_limit=min(self.left, COARSE_PATIENCE * state.share), stop=self.stop)
            if word.solution is not None:
                return replace(word, solution=stretch(state.problem, step, word.solution))
        return self._nothing("sat")

    def _prove(self) -> Attempt:
        """Projections, then the complete engines on the whole; a proof ends the race for everyone."""
        word = self._by_projection() or self._by_engines()
        if word.verdict == "infeasible":
            self.stop.set()
        return word

    def _by_projection(self) -> Attempt | None:
        if self.state.options.engine != "auto" or not (self.state.joint and self.state.problem.monotone):
            return None
        for projection in self.state.binding:
            small, copies = projection.at(self.interval), self.state.options.copies
            word = cpsat.attempt(small, self.interval, copies, time_limit=self.left, stop=self.stop, effort=2 * self.state.share)
            if word.verdict == "infeasible":
                return replace(word, engine=f"cpsat on the {projection.name} projection")
        return None

    def _by_engines(self) -> Attempt:
        state = self.state
        engines = complete_engines(state.problem, state.options, self.interval)
        patience = self.left if state.options.engine != "auto" else min(self.left, 3 * state.share)
        with ThreadPoolExecutor(len(engines)) as pool:
            words = [
                pool.submit(run, state.problem, self.interval, state.options.copies, joint=state.joint, time_limit=patience, stop=self.stop)
                for run in engines
            ]
            return _best_word([word.result() for word in words])


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
