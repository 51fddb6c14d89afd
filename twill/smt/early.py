"""An early answer: shifted copies of one schedule for a loop of sub-tiles (`twill.smt.symmetry`); for any
other loop what is found soon under a natural partition.

Two iterations in flight, at intervals that rise from the lowest in growing steps, then nearer to the lowest,
to within a part of it. It finds and proves nothing; its probes have budgets of work, and so has the whole.
"""

from dataclasses import dataclass, replace
from math import inf

from twill.engine.clock import SEARCHED
from twill.engine.partitions import Labels, under
from twill.engine.probe import Probe
from twill.ir.problem import Time
from twill.ir.schedule import Solution
from twill.modulo.simplest import windows
from twill.smt import cpsat
from twill.smt.cpsat import Tactics
from twill.smt.setting import Evidence, Setting
from twill.smt.symmetry import spread


@dataclass(frozen=True, slots=True)
class _Effort:
    """How much it takes part: a good answer for sub-tiles, which are alike, a rough one for others."""

    grain: int
    """It ends where the gap is less than this part of the interval."""
    stride: int
    """The first step up from the lowest interval is this part of it."""
    probe: float
    """Shares of work for a probe."""
    whole: float
    """The same for all of it."""


SUBTILES = _Effort(4096, 64, 1.0, 24.0)
UNPROVEN = replace(SUBTILES, grain=64)
"""For sub-tiles where the answer is not to be proven the best: the last steps find little."""
OTHERS = _Effort(8, 8, 0.25, 6.0)

ROOM = (4, 32, 256)
"""Schedules without overlap of iterations are looked for at intervals that are longer than the lowest by
these parts ..."""

ALONE = 4.0
"""... with this many shares of work."""

SHORT = 8
"""Short schedules are longer than the shortest possible iteration, or than the interval, by this part."""

SOON = 0.125
"""Part of the time limit for one round of quick probes, about."""

REACH = 4
"""Times the lowest interval: it does not try larger ones."""


@dataclass(frozen=True, slots=True)
class _State:
    effort: _Effort
    evidence: Evidence
    floor: Time
    step: Time = 0
    spent: float = 0.0
    works: "_Way | None" = None
    """What the last schedule was found with."""


@dataclass(frozen=True, slots=True)
class _Way:
    """Which schedules a probe looks for."""

    partition: int
    """A natural one, or then one that keeps what is tied together, by its number."""
    in_flight: int
    short: bool


def early(setting: Setting, evidence: Evidence) -> Evidence:
    """The evidence with the best schedule that is found soon."""
    if setting.options.engine not in ("auto", "cpsat"):
        return evidence
    if setting.in_flight == 1 or not setting.subtiled:
        # shifted copies fill the gaps of each other where iterations overlap, of all but loads
        setting = replace(setting, alike=())
    state = _state(setting, evidence)
    if _goes_on(setting, state):
        state = _constructed(setting, _at(setting, state, _interval(state)))
    while _goes_on(setting, state):
        state = _at(setting, state, _interval(state))
    return state.evidence if state.evidence.best else _without_overlap(setting, state.evidence)


def _constructed(setting: Setting, state: _State) -> _State:
    """With the schedule in reserve, where quick probes find none at the lowest interval."""
    made = setting.reserve() if state.evidence.best is None else None
    if made is None or not state.evidence.low <= made.interval < state.evidence.high:
        return state
    setting.tell("feasible", "construction", made.interval)
    return replace(state, evidence=state.evidence.found(made))


def _without_overlap(setting: Setting, evidence: Evidence) -> Evidence:
    """With schedules that the complete model finds without overlap of iterations, at intervals with less and
    less time to spare: where whole tiles fill the registers, natural partitions with two of them in flight
    find none soon."""
    for part in ROOM if setting.small else ():
        interval = max(evidence.low + evidence.low // part, setting.shortest)
        if interval >= evidence.high:
            continue
        setting.tell("trying", "cpsat", interval, "without overlap of iterations")
        budget, tactics = setting.budget(ALONE * setting.work), Tactics(linearization=2, hint=evidence.best)
        found = cpsat.attempt(
            setting.problem, interval, 1, joint=setting.joint, budget=budget, tactics=tactics
        ).solution
        if found is None:
            break
        setting.tell("feasible", "cpsat", interval)
        evidence = evidence.found(found)
    return evidence


def soon(setting: Setting, evidence: Evidence) -> Solution | None:
    """A schedule at the lowest interval, where one round of quick probes finds it."""
    setting.tell("trying", "cpsat", evidence.low, "quickly")
    most = SOON * setting.options.time_limit / SEARCHED
    return _probe(setting, _state(setting, evidence), evidence.low, most).solution


def _state(setting: Setting, evidence: Evidence) -> _State:
    subtiles = SUBTILES if setting.options.proofs else UNPROVEN
    first = evidence.expected(setting.hoped)
    return _State(subtiles if setting.alike else OTHERS, evidence, first)


def _grain(state: _State) -> Time:
    return max(1, state.evidence.low // state.effort.grain)


def _goes_on(setting: Setting, state: _State) -> bool:
    evidence = state.evidence
    near = evidence.best is not None and evidence.high - state.floor < _grain(state)
    within = state.floor < min(evidence.high, REACH * evidence.low)
    return within and not near and state.spent < state.effort.whole * setting.work and setting.remaining > 0


def _interval(state: _State) -> Time:
    evidence = state.evidence
    return (
        (state.floor + evidence.high - 1) // 2
        if evidence.best
        else min(state.floor + state.step, evidence.top)
    )


def _at(setting: Setting, state: _State, interval: Time) -> _State:
    setting.tell("trying", "cpsat", interval, "sub-tiles as shifted copies" if setting.alike else "quickly")
    found = _probe(setting, state, interval)
    spent = state.spent + found.spent
    if found.solution is None:
        first = max(1, state.evidence.low // state.effort.stride)
        return replace(state, floor=interval + 1, step=max(2 * state.step, first), spent=spent)
    setting.tell("feasible", "cpsat", interval)
    return replace(state, evidence=state.evidence.found(found.solution), works=found.way, spent=spent)


def _short(setting: Setting, interval: Time) -> Time:
    """A length with little more overlap of iterations than there must be: starts have few places then."""
    least = max(setting.shortest, interval)
    return least + least // SHORT


@dataclass(frozen=True, slots=True)
class _Found:
    """A schedule, if any, what it was found with, and the work of all probes."""

    solution: Solution | None
    way: _Way | None
    spent: float


def _probe(setting: Setting, state: _State, interval: Time, most: float = inf) -> _Found:
    """In every way, that which found the last schedule first; none begins once `most` work is done."""
    spent = 0.0
    for way in dict.fromkeys((*([state.works] if state.works else ()), *_ways(setting, interval))):
        if spent >= most or _too_long(setting, interval, way):
            continue
        probe = _attempt(setting, state, interval, way)
        spent += probe.work
        if probe.solution is not None:
            return _Found(probe.solution, way, spent)
    return _Found(None, None, spent)


def _partitions(setting: Setting) -> tuple[Labels, ...]:
    return (*setting.candidates, *setting.tied)


def _ways(setting: Setting, interval: Time) -> list[_Way]:
    """Under each natural partition, then under those that keep what is tied together."""
    natural = len(setting.candidates) if setting.joint else 1
    tied = range(natural, natural + len(setting.tied))
    return [*_under(setting, interval, range(natural)), *_under(setting, interval, tied)]


def _under(setting: Setting, interval: Time, partitions: range) -> list[_Way]:
    """Short schedules first; shifted copies, which are soon decided, with one more iteration in flight
    too."""
    few = setting.few(interval)
    most = min(few + bool(setting.alike), setting.in_flight)
    short = [_Way(k, few, True) for k in partitions if not setting.alike and few > 1]
    return [*short, *(_Way(k, n, False) for n in range(few, most + 1) for k in partitions)]


def _too_long(setting: Setting, interval: Time, way: _Way) -> bool:
    """The dependences alone exclude such schedules, which no model needs to be stated for."""
    joint = setting.joint
    labels = _partitions(setting)[way.partition] if joint else None
    links = spread(setting.alike, interval)
    window = windows(setting.problem, interval, labels, joint=joint, links=links)
    return window is None or window.longest > way.in_flight * interval


def _attempt(setting: Setting, state: _State, interval: Time, way: _Way) -> Probe:
    problem = setting.problem
    tactics = Tactics(
        linearization=0, shifted=setting.alike, longest=_short(setting, interval) if way.short else None
    )
    return cpsat.attempt(
        under(problem, _partitions(setting)[way.partition]) if setting.joint else problem,
        interval,
        way.in_flight,
        joint=setting.joint,
        budget=setting.budget(state.effort.probe * setting.work),
        tactics=tactics,
    )
