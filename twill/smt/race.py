"""One interval, decided from two sides at once.

One side finds: quick probes under natural partitions. The other decides: the complete model for few
iterations in flight, then `twill.smt.benders`; for all of them projections, the complete model,
`twill.smt.benders` and the other engines. A schedule that the first side finds is the answer, whatever the
other does, and every probe has a budget of work, so the result does not depend on which side is faster or on
how many cores there are (`twill.engine.parallel`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from twill.engine.clock import SEARCHED
from twill.engine.parallel import NOTHING, Step, Stop, find_and_prove
from twill.engine.partitions import under
from twill.engine.probe import Probe
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Refutation, Solution
from twill.smt import benders, cpsat, slots
from twill.smt.cpsat import Tactics
from twill.smt.parts import independent, refute
from twill.smt.portfolio import complete_engines
from twill.smt.relax import Projection
from twill.smt.setting import Setting

QUICK = 4
"""A quick probe under a natural partition gets this part of a share: what works there is mostly found
soon."""

WHOLE = 2.0
"""Shares for the complete model."""

PROOF = 12.0
"""The same where the proof just below the answer is to settle it."""

PARTS = 6.0
"""The same for independent parts, which are decided soon or not at all."""

SLOTS = 48.0
"""The same for numbers of slots by cases of the partition."""

PATIENCE = 10.0
"""Shares for `twill.smt.benders` ..."""

LARGE_PART = 0.25
"""... or this part of the time that is left."""

Stage = Literal["few", "brief", "full"]
"""How far an interval is decided: for few iterations in flight; where those are refuted, by quick proofs for
more of them; by all proofs."""


@dataclass(frozen=True, slots=True)
class Race:
    """Deciding `interval`, with shares of `work` deterministic seconds."""

    setting: Setting
    interval: Time
    work: float
    stage: Stage
    """Before the last one, other intervals come first."""
    best: Solution | None
    """An answer at a larger interval."""
    binding: tuple[Projection, ...]
    known: Refutation | None = None
    """What is refuted for few iterations in flight at this interval already."""

    @property
    def problem(self) -> Problem:
        return self.setting.problem

    @property
    def searches(self) -> bool:
        """Probes that find and prove nothing take part."""
        return self.setting.options.engine in ("auto", "cpsat")

    @property
    def few(self) -> int:
        return self.setting.few(self.interval)


@dataclass(frozen=True, slots=True)
class Decision:
    """The probe that decides the interval, or an unknown one, and what was refuted for few iterations in
    flight on the way."""

    probe: Probe
    partly: Refutation | None = None


def decide(race: Race) -> Decision:
    """Few iterations in flight first: most answers have no more, and they are decided in a hundredth of the
    time."""
    first = (
        _sides(race, _find_few(race), _decide_few(race)) if race.searches and race.known is None else NOTHING
    )
    if first.solution is not None or (first.refuted and race.few == race.setting.in_flight):
        return Decision(first)
    partly = race.known or first.refutation(race.interval, race.few, below=race.problem.monotone)
    if partly is not None and race.stage == "few":
        return Decision(NOTHING, partly)
    return Decision(
        _sides(race, _find_more(race, partly is not None), _prove(race, partly is not None)), partly
    )


def _sides(race: Race, find: Iterable[Step], prove: Iterable[Step]) -> Probe:
    """All steps have what is left of the time limit before any begins."""
    setting = race.setting
    probe = find_and_prove(tuple(find), tuple(prove), setting.options.jobs, Stop(), setting.remaining)
    setting.clock.count(probe.counted)
    return probe


def _nothing(probe: Probe) -> Probe:
    """It counts, but not what it found out."""
    return replace(NOTHING, counted=probe.counted)


def _find_few(race: Race) -> Iterator[Step]:
    """The natural partitions; the complete model too, where the best answer overlaps no iterations: there
    whole tiles fill the registers, and starts with less room are found sooner."""
    yield from _hunts(race, (1, race.few), race.work / QUICK)
    alone = race.best is not None and race.best.in_flight(race.problem) == 1
    if alone and race.setting.small and race.setting.shortest <= race.interval:
        yield _finding(_whole(race, 1, 2))


def _decide_few(race: Race) -> Iterator[Step]:
    few = race.few
    if race.setting.small:
        yield _whole(race, few, 0)
    if race.setting.decomposes:
        yield _split(race, few)


def _find_more(race: Race, few_refuted: bool) -> Iterator[Step]:
    """The natural partitions again with a full share, and with one more iteration in flight."""
    few, most = race.few, race.setting.in_flight
    if race.searches and not few_refuted:
        yield from _hunts(race, (few,), race.work)
    if race.searches and few < most:
        yield from _hunts(race, (few + 1,), race.work / QUICK)
        if race.setting.small:
            yield _finding(_whole(race, few + 1, 0))


def _prove(race: Race, few_refuted: bool) -> Iterator[Step]:
    """Projections, independent parts, the complete model at each level of linearization (no level is best for
    all), numbers of slots beside the first of them, partitions, other engines."""
    most, brief = race.setting.in_flight, race.stage != "full" and few_refuted
    if race.setting.decomposes:
        yield from (_projected(race, projection) for projection in race.binding)
        yield from _in_parts(race)
    shares = PROOF if race.stage == "full" else WHOLE
    if race.searches and race.setting.small:
        yield _whole(race, most, 2, shares)
    if brief:
        return
    if race.setting.decomposes:
        yield from _by_slots(race)
    if race.searches and race.setting.small:
        yield from (_whole(race, most, level, shares) for level in (1, 0))
    if race.setting.decomposes:
        yield _split(race, most)
    yield from _engines(race)


def _hunts(race: Race, flights: Iterable[int], work: float) -> Iterator[Step]:
    """Each natural partition, that of the best answer first; what fails there proves nothing."""
    best = (race.best.group,) if race.best else ()
    partitions = dict.fromkeys((*best, *race.setting.candidates)) if race.setting.joint else {}
    problems = [under(race.problem, labels) for labels in partitions] or [race.problem]
    tactics = Tactics(linearization=0, hint=race.best)
    for in_flight in dict.fromkeys(n for n in flights if n <= race.setting.in_flight):
        for problem in problems:
            yield _finding(_cpsat(race, problem, in_flight, work, tactics))


def _whole(race: Race, in_flight: int, linearization: Literal[0, 1, 2], shares: float = WHOLE) -> Step:
    """The complete model."""
    tactics = Tactics(linearization=linearization, hint=race.best)
    return _cpsat(race, race.problem, in_flight, shares * race.work, tactics)


def _cpsat(race: Race, problem: Problem, in_flight: int, work: float, tactics: Tactics) -> Step:
    return lambda stop: cpsat.attempt(
        problem,
        race.interval,
        in_flight,
        joint=race.setting.joint,
        budget=race.setting.budget(work, stop),
        tactics=tactics,
    )


def _finding(step: Step) -> Step:
    """Only what it finds counts."""

    def found(stop: Stop) -> Probe:
        probe = step(stop)
        return probe if probe.solution is not None else _nothing(probe)

    return found


def _split(race: Race, in_flight: int) -> Step:
    """A partition in coarse time, then exact times under it; for a large loop with an answer within a part of
    the time, so that other intervals are decided too."""
    work, large = PATIENCE * race.work, race.best is not None and not race.setting.small
    most = LARGE_PART * race.setting.remaining / SEARCHED if large else work
    return lambda stop: benders.attempt(
        race.problem, race.interval, in_flight, budget=race.setting.budget(min(work, most), stop)
    )


def _projected(race: Race, projection: Projection) -> Step:
    """A projection: its refutation is the whole problem's, a schedule of it is not."""

    def refute(stop: Stop) -> Probe:
        budget = race.setting.budget(WHOLE * race.work, stop)
        probe = cpsat.attempt(
            projection.at(race.interval), race.interval, race.setting.in_flight, budget=budget
        )
        return replace(probe, engine=projection.engine) if probe.refuted else _nothing(probe)

    return refute


def _in_parts(race: Race) -> Iterator[Step]:
    """Independent parts: their refutation is the whole problem's, a schedule of them is not."""
    whole = independent(race.problem) if race.setting.small else None
    if whole is None:
        return

    def refuted(stop: Stop) -> Probe:
        budget = race.setting.budget(PARTS * race.work, stop)
        probe = refute(whole, race.interval, race.setting.in_flight, budget)
        return probe if probe.refuted else _nothing(probe)

    yield refuted


def _by_slots(race: Race) -> Iterator[Step]:
    """Every number of slots of a load by itself: their refutations are the whole problem's. By cases, where
    the interval is all that is left."""
    load = slots.splits(race.problem) if race.setting.small else None
    if load is None:
        return

    def refuted(stop: Stop) -> Probe:
        last = race.known is not None
        budget = race.setting.budget((SLOTS if last else PARTS) * race.work, stop)
        probe = slots.refute(race.problem, load, race.interval, race.setting.in_flight, budget, by_cases=last)
        return probe if probe.refuted else _nothing(probe)

    yield refuted


def _engines(race: Race) -> Iterator[Step]:
    """Complete engines on the whole; one that was chosen by name has no budget but the time limit."""
    setting = race.setting
    work = None if setting.options.engine != "auto" else 3 * race.work
    for attempt in complete_engines(race.problem, setting.options, race.interval):
        yield lambda stop, attempt=attempt: attempt(
            race.problem,
            race.interval,
            setting.in_flight,
            joint=setting.joint,
            budget=setting.budget(work, stop),
        )
