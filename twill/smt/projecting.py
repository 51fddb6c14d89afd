"""The lower end raised by projections (`twill.smt.relax`), for monotone problems.

With few iterations in flight the smallest interval that a projection allows is found in a hundredth of the
time, and most often more of them make no difference: so few locate the answer, and one refutation just below,
for all of them, is the proof.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from twill.engine.clock import SEARCHED
from twill.engine.probe import Probe
from twill.ir.problem import Time
from twill.ir.schedule import Refutation
from twill.smt import cpsat
from twill.smt.relax import Projection
from twill.smt.setting import Evidence, Setting

WORK = 2.0
"""Deterministic seconds for a projection at one interval ..."""

PART = 0.14
"""... but no more than this part of the time limit."""

FIRST_WORK = 0.5
"""The same before it has refuted anything."""

IN_ALL = 20.0
"""The same for all intervals, while there is no answer yet: that comes first ..."""

BESIDE = 5.0
"""... and once there is one, which other proofs reach as well."""

ALL_FEW = 1.0
"""Counted seconds for all intervals where few iterations in flight are all that count: the complete model
decides those as soon."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The evidence after a projection, and the smallest interval that it allowed for few iterations in
    flight, if it refuted any."""

    evidence: Evidence
    hope: Time | None = None


def raise_by(setting: Setting, evidence: Evidence, projection: Projection) -> Raised:
    """Exclude what the projection refutes. Once there is an answer, it has to refute the lowest interval for
    all iterations in flight first: where few of them would end is of no use then."""
    if evidence.best is not None and _lowest_refuted(setting, evidence, projection) is None:
        return Raised(evidence)
    high, last = _least(setting, evidence, projection)
    if last is None:
        return Raised(evidence)
    hope = high if high < evidence.high else None
    if setting.few(last.interval) < setting.in_flight:
        (probe,) = _probes(setting, projection, (last.interval,), lambda _: setting.in_flight, WORK)
        last = _refutation(setting, projection, last.interval, setting.in_flight, probe)
    if last is None:
        return Raised(evidence, hope)
    bound = replace(evidence.excluding(last), binding=(*evidence.binding, (projection, last.interval)))
    return Raised(bound, hope)


def _lowest_refuted(setting: Setting, evidence: Evidence, projection: Projection) -> Refutation | None:
    low, most = evidence.low, setting.in_flight
    work = WORK if setting.options.proofs else FIRST_WORK
    (probe,) = _probes(setting, projection, (low,), lambda _: most, work)
    return _refutation(setting, projection, low, most, probe)


def _least(setting: Setting, evidence: Evidence, projection: Projection) -> tuple[Time, Refutation | None]:
    """The smallest interval at which few iterations in flight are not refuted, and the refutation next to it:
    from the lowest up by growing steps, two at once, then by thirds."""
    last: Refutation | None = None
    low, high, step, spent, counted = evidence.low, evidence.high, 0, 0.0, 0.0
    most = BESIDE if evidence.best else IN_ALL
    all_few = evidence.best is not None and setting.small and setting.few(low) == setting.in_flight
    while low < high and setting.remaining > 0 and spent < most and (counted < ALL_FEW or not all_few):
        third = (high - low) // 3
        rising = (low + step, low + 4 * step) if last else (low,)
        pair = rising if high == evidence.high else (low + third, high - 1 - third)
        intervals = tuple(sorted({min(interval, high - 1) for interval in pair}))
        probes = _probes(setting, projection, intervals, setting.few, WORK if last else FIRST_WORK)
        spent += sum(probe.work for probe in probes)
        counted += sum(probe.counted for probe in probes)
        for interval, probe in zip(intervals, probes, strict=True):
            refuted = _refutation(setting, projection, interval, setting.few(interval), probe)
            if not refuted:
                high = interval
                break
            last, low, step = refuted, interval + 1, max(4 * step, interval // 256, 1)
    return high, last


def _refutation(
    setting: Setting, projection: Projection, interval: Time, in_flight: int, probe: Probe
) -> Refutation | None:
    """The refutation that a probe is, if any; a proof where it is for all iterations in flight."""
    if not probe.refuted:
        setting.tell("note", projection.name, interval, "not refuted")
        return None
    few = in_flight < setting.in_flight
    detail = f"not with {in_flight} iterations in flight" if few else ""
    setting.tell("note" if few else "infeasible", projection.name, interval, detail)
    return replace(probe, engine=projection.engine).refutation(interval, in_flight, below=True)


def _probes(
    setting: Setting,
    projection: Projection,
    intervals: tuple[Time, ...],
    in_flight: Callable[[Time], int],
    work: float,
) -> list[Probe]:
    """The projection at several intervals at once."""
    for interval in intervals:
        setting.tell("trying", projection.name, interval)

    budget = setting.budget(min(work, PART * setting.options.time_limit / SEARCHED))

    def probe(interval: Time) -> Probe:
        return cpsat.attempt(projection.at(interval), interval, in_flight(interval), budget=budget)

    with ThreadPoolExecutor(min(len(intervals), setting.options.jobs)) as pool:
        return list(pool.map(probe, intervals))
