"""The search over intervals: the smallest one that works, with evidence for every smaller one.

Takes a `Problem` and `Options`; gives a `Result`. It starts at the lower bound, finds some interval that works, and closes the gap from
both sides, each interval decided by a `twill.smt.race`. Where the problem is monotone (`Problem.monotone`), a refutation at I covers all
below, so projections raise the lower end and the gap is bisected; elsewhere every interval is decided in turn.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from twill.engine.probe import FEW, Probe
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Bounds, Reason, Refutation, Result, Solution
from twill.ir.search import Options, Progress, Report
from twill.modulo.bounds import bounds
from twill.smt import cpsat
from twill.smt.causes import cause
from twill.smt.cpsat import Tactics
from twill.smt.explain import explain
from twill.smt.partitions import partitions, under
from twill.smt.polish import Polish
from twill.smt.race import Race
from twill.smt.relax import Projection, projections
from twill.smt.symmetry import families

PROJECTION_SHARE = 2.0
"""Deterministic seconds for a projection at one interval."""

FIRST_SHARE = 0.5
"""Deterministic seconds a hunt and a complete engine get at an interval before the search looks elsewhere; doubled each round, and more
for more operations than `FEW_OPERATIONS`, in the square of their number."""

FEW_OPERATIONS = 32

DESPAIR = 4
"""Misses after which the largest interval is asked about: whether there is any schedule at all."""

TURN_PART = 0.5
"""Of the time limit, what the look for sub-tiles in turn may take."""

TURN_GRAIN = 64
"""It ends where the gap is less than this part of the interval."""

TURN_REACH = 4
"""Times the lowest interval: further up it does not look."""


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
    partly: Refutation | None = None
    """The largest interval that was refuted for few iterations in flight alone."""
    undecided: set[Time] = field(default_factory=set[Time])
    hasty: bool = True
    """Where none was found for few iterations in flight, look further up: proofs for more of them come last, where one is enough."""
    tried: set[Time] = field(default_factory=set[Time])
    misses: int = 0
    hope: Time | None = None
    """The smallest interval that a projection, having refuted others, allowed, for few iterations in flight."""
    binding: list[tuple[Projection, Time]] = field(default_factory=list[tuple[Projection, Time]])
    """Projections that refuted something, with the largest interval that they did."""
    notes: list[str] = field(default_factory=list[str])
    reasons: tuple[Reason, ...] = ()

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.joint = not self.options.modulo_only
        size = max(1.0, (len(self.problem.operations) / FEW_OPERATIONS) ** 2)
        self.share = min(FIRST_SHARE * size, self.options.time_limit / 3)
        self.low = self.bounds.value
        self.top = largest_needed(self.problem, self.low)
        self.candidates = partitions(self.problem) if self.joint else ()
        self.alike = families(self.problem)
        if self.low > 1:
            self.refuted.append(Refutation(self.low - 1, None, _bound_name(self.bounds), 0.0, below=True))

    @property
    def few(self) -> int:
        """Iterations in flight that are asked about first."""
        return min(FEW, self.options.max_in_flight)

    def remaining(self) -> float:
        return self.options.time_limit - (time.monotonic() - self.began)

    @property
    def high(self) -> Time:
        """The smallest interval known to work, or one past the largest worth trying."""
        return self.best.interval if self.best else self.top + 1

    def run(self) -> None:
        """Decide intervals until the gap is closed or the time is up."""
        pending = list(projections(self.problem)) if self.joint and self.problem.monotone else []
        while pending and pending[0].quick:
            self.project(pending.pop(0))
        self.take_turns()
        while self.low < self.high and self.remaining() > 0:
            self.decide(self.target())
            while pending and self.low < self.high:
                self.project(pending.pop(0))
        if self.best and self.remaining() > 0:
            self.polish(self.best)
        self.explain()

    def take_turns(self) -> None:
        """An early answer for a loop of sub-tiles: shifted in_flight of one schedule, two iterations in flight, at intervals that rise from
        the lowest in growing steps; then nearer to the lowest, to within a small part. At the lowest, three in flight too, where the
        simplest partition allows it."""
        if not self.alike or self.options.engine not in ("auto", "cpsat"):
            return
        grain = max(1, self.low // TURN_GRAIN)
        problems = [under(self.problem, labels) for labels in self.candidates] if self.joint else [self.problem]
        floor, step, until = self.low, 0, (1 - TURN_PART) * self.options.time_limit
        while floor < min(self.high, TURN_REACH * self.low) and not (self.best and self.high - floor < grain) and self.remaining() > until:
            interval = (floor + self.high - 1) // 2 if self.best else min(floor + step, self.top)
            self._tell("trying", "cpsat", interval, "sub-tiles in turn")
            looks = [(problem, self.few) for problem in problems]
            if interval == self.low and self.few < self.options.max_in_flight:
                looks += [(problem, self.few + 1) for problem in problems[:1]]
            found = next((word for problem, in_flight in looks if (word := self._in_turn(problem, interval, in_flight, until))), None)
            if found:
                self.best = found
                self._tell("feasible", "cpsat", interval)
            else:
                floor, step = interval + 1, max(2 * step, grain)

    def _in_turn(self, problem: Problem, interval: Time, in_flight: int, until: float) -> Solution | None:
        limit = max(0.0, self.remaining() - until)
        return cpsat.attempt(
            problem,
            interval,
            in_flight,
            joint=self.joint,
            time_limit=limit,
            tactics=Tactics(self.share, proving=False, shifted=self.alike),
        ).solution

    def target(self) -> Time:
        """The next interval to decide: the lowest when it is new (or what projections leave of it), then far above until something
        works, then the middle of the gap."""
        if self.best is None and self.hope and self.hope not in self.tried:
            return max(self.low, self.hope)
        if not self.problem.monotone or not self.tried:
            return self.low
        floor = max([self.low, *(i + 1 for i in self.undecided if i < self.high)])
        if floor >= self.high:
            return self._again()
        if self.best:
            return (floor + self.high - 1) // 2
        return min(self.top, floor + floor * 4**self.misses // 64) if self.misses < DESPAIR else self.top

    def _again(self) -> Time:
        """Everything between was tried: first the proof that would settle it, then all again with a larger share."""
        self.undecided.clear()
        if self.hasty:
            self.hasty = False
            return self.high - 1
        self.share *= 2
        return (self.low + self.high - 1) // 2

    def decide(self, interval: Time) -> None:
        """Try one interval with the current share."""
        self._tell("trying", "search", interval)
        self.tried.add(interval)
        known = self.best, self.candidates, tuple(projection for projection, _ in self.binding)
        race = Race(self.problem, self.options, interval, self.share, self.remaining, self.hasty, *known)
        found = race.run()
        if found.solution is not None:
            self.best = found.solution
            self._tell("feasible", found.engine, self.best.interval)
            return
        self.misses += 1
        self._tell(found.what, found.engine, interval)
        refutation = found.refutation(interval, self.options.max_in_flight, below=self.problem.monotone)
        if refutation:
            self.refute(refutation)
        else:
            self.undecided.add(interval)
            if race.partly:
                self.partly = max(race.partly, self.partly or race.partly, key=lambda partly: partly.interval)
                self._tell(
                    "note", found.engine, interval, f"none at {interval} with up to {race.partly.max_in_flight} iterations in flight"
                )

    def project(self, projection: Projection) -> None:
        """Raise the lower end to the smallest interval at which the projection is not refuted.

        With few iterations in flight that is found in a hundredth of the time, and most often more of them make no difference: so few tell
        where to look for an answer, and one refutation just below, for all, is the proof.
        """
        in_flight = self.options.max_in_flight
        high, last = self._least(projection, self.few)
        if last is None:
            return
        self.hope = high if high < self.high else self.hope
        if self.few < in_flight:
            (word,) = self._ask(projection, [high - 1], in_flight, PROJECTION_SHARE)
            last = self._refuted(projection, high - 1, in_flight, word)
        if last:
            self.binding.append((projection, last.interval))
            self.refute(last)

    def _least(self, projection: Projection, in_flight: int) -> tuple[Time, Refutation | None]:
        """The smallest interval at which a projection is not refuted, and the refutation next to it: from the lowest up by growing steps,
        two at once, then by thirds.

        With no answer yet it stops at a part of the time limit: an answer comes first.
        """
        high = self.high
        last: Refutation | None = None
        low, step = self.low, 0
        while low < high and self.remaining() > (0 if self.best else 0.75 * self.options.time_limit):
            third = (high - low) // 3
            rising = (low + step, low + 4 * step) if last else (low,)
            pair = rising if high == self.high else (low + third, high - 1 - third)
            asked = sorted({min(interval, high - 1) for interval in pair})
            words = self._ask(projection, asked, in_flight, PROJECTION_SHARE if last else FIRST_SHARE)
            for interval, word in zip(asked, words, strict=True):
                refuted = self._refuted(projection, interval, in_flight, word)
                if not refuted:
                    high = interval
                    break
                last, low, step = refuted, interval + 1, max(4 * step, interval // 256, 1)
        return high, last

    def _refuted(self, projection: Projection, interval: Time, in_flight: int, probe: Probe) -> Refutation | None:
        """The refutation that a probe is; it is a proof if it was for all iterations in flight."""
        if not probe.refuted:
            self._tell("note", projection.name, interval, "not refuted")
            return None
        few = in_flight < self.options.max_in_flight
        self._tell("note" if few else "infeasible", projection.name, interval, f"not with {in_flight} iterations in flight" if few else "")
        return replace(probe, engine=f"cpsat on the {projection.name} projection").refutation(interval, in_flight, below=True)

    def _ask(self, projection: Projection, intervals: list[Time], in_flight: int, effort: float) -> list[Probe]:
        """The projection at several intervals at once."""
        for interval in intervals:
            self._tell("trying", projection.name, interval)
        with ThreadPoolExecutor(len(intervals)) as pool:
            running = [
                pool.submit(
                    cpsat.attempt, projection.at(interval), interval, in_flight, time_limit=self.remaining(), tactics=Tactics(effort)
                )
                for interval in intervals
            ]
            return [probe.result() for probe in running]

    def refute(self, refutation: Refutation) -> None:
        """Raise the lower end; where a refutation covers all below, the weaker ones are not kept."""
        if refutation.below:
            self.refuted = [old for old in self.refuted if old.max_in_flight is None]
        self.refuted.append(refutation)
        self.low = max(self.low, refutation.interval + 1)
        self.undecided = {i for i in self.undecided if i >= self.low}

    def polish(self, found: Solution) -> None:
        """Fewest groups, channels between them and stages, then the shortest: each within a share of work."""
        self._tell("trying", "cpsat", found.interval, "fewest groups, channels and stages, then the shortest length")
        self.best, open_goals = Polish(self.problem, self.options.max_in_flight, found, self.alike, self.joint, self.remaining).run()
        self.notes += [f"least {goal} not proven" for goal in open_goals]
        self._tell("improved", "cpsat", found.interval)

    def explain(self) -> None:
        """What keeps the interval above what timing alone allows: what is proven to by itself, else families that do together."""
        above = self.best is None or self.best.interval > self.bounds.value
        if not (self.joint and self.options.explain and above and self.remaining() > 0):
            return
        self._tell("note", "cpsat", self.bounds.value, "asking which constraints keep the interval above its bound")
        flights, target = self.options.max_in_flight, self.bounds.value
        self.reasons = tuple(cause(projection, worst, target, flights, self._refutes) for projection, worst in self.binding)
        if all(worst + 1 < self.low for _, worst in self.binding):
            self.reasons += explain(self.result(), target, self._quick) or self._just_below(target)

    def _just_below(self, target: Time) -> tuple[Reason, ...]:
        """Where the bound is out of reach, what keeps the interval from being one less."""
        below = self.best.interval - 1 if self.best else target
        reasons = explain(self.result(), below, self._quick) if below > target else ()
        return tuple(replace(reason, text=f"at {below} already: {reason.text}") for reason in reasons)

    def _refutes(self, problem: Problem, interval: Time, in_flight: int) -> bool:
        limit = max(0.0, self.remaining())
        return cpsat.attempt(problem, interval, in_flight, time_limit=limit, tactics=Tactics(FIRST_SHARE)).refuted

    def _quick(self, problem: Problem, interval: Time) -> Solution | None:
        """A schedule found in a share of work: under natural partitions, then freely."""
        problems = [under(problem, labels) for labels in partitions(problem)]
        for in_flight in range(self.few, self.options.max_in_flight + 1):
            for one in problems:
                word = self._look(one, interval, in_flight, FIRST_SHARE / 8)
                if word:
                    return word
        return self._look(problem, interval, self.options.max_in_flight, FIRST_SHARE)

    def _look(self, problem: Problem, interval: Time, in_flight: int, effort: float) -> Solution | None:
        return cpsat.attempt(problem, interval, in_flight, time_limit=max(0.0, self.remaining()), tactics=Tactics(effort)).solution

    def result(self) -> Result:
        """The answer with its evidence."""
        if self.best:
            status = "optimal" if self.low >= self.best.interval else "feasible"
        else:
            status = "infeasible" if self.low > self.top else "unknown"
        partly = [self.partly] if self.partly and self.partly.interval >= self.low else []
        return Result(self.problem, status, self.bounds, self.low, self.best, (*self.refuted, *partly), self.reasons, tuple(self.notes))

    def _tell(self, what: str, engine: str, interval: Time, detail: str = "") -> None:
        self.report(Progress(time.monotonic() - self.began, engine, interval, what, detail))  # pyright: ignore[reportArgumentType]


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
