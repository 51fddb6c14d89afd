"""What is left between the lower end and an answer, before the long proofs: where these do not end in time,
most of the gap is closed."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from twill.engine.probe import Probe
from twill.ir.problem import Time, Value
from twill.smt import slots
from twill.smt.setting import Evidence, Setting

SLOTS = 9.0
"""Shares of work for numbers of slots at an interval within what is left ..."""

WIDE = 64
"""... if that is at least this part of the interval."""


ROUNDS = 3
"""Times that what is left is divided by them: again where one interval was refuted and another one not."""

PARTS = 3
"""Into so many parts each time."""

LAST = 24.0
"""Shares of work for each number of slots just below the answer."""


def by_slots(setting: Setting, evidence: Evidence, *, last_too: bool = False) -> Evidence:
    """What is left in three parts, by numbers of slots at the intervals between; then the part between the
    largest interval that is refuted and the next one, where that is not. `last_too`: where all of them are,
    the interval just below the answer."""
    applies = evidence.open and evidence.best is not None and setting.decomposes and setting.small
    load = slots.splits(setting.problem) if applies else None
    last = evidence.high - 1
    for _ in range(ROUNDS):
        low = evidence.low
        if load is None or WIDE * (last - low) < last or setting.remaining <= 0:
            break
        intervals = [low + (last - low) * part // PARTS for part in range(1, PARTS)]
        evidence = _probed(setting, evidence, load, intervals)
        left = [one for one in intervals if one >= evidence.low]
        if not left and last_too and last == evidence.high - 1:
            return _excluding(setting, evidence, last, _just_below(setting, load, last))
        if evidence.low == low or not left:
            break
        last = left[0] - 1
    return evidence


def _just_below(setting: Setting, load: Value, interval: Time) -> Probe:
    setting.tell("trying", slots.NAME, interval)
    budget = setting.budget(LAST * setting.work)
    jobs = setting.options.jobs
    return slots.refute_beside(setting.problem, load, interval, setting.in_flight, budget, jobs)


def _excluding(setting: Setting, evidence: Evidence, interval: Time, probe: Probe) -> Evidence:
    setting.tell("infeasible" if probe.refuted else "timeout", probe.engine, interval)
    refutation = probe.refutation(interval, setting.in_flight, below=True)
    return evidence.excluding(refutation) if refutation else evidence


def _probed(setting: Setting, evidence: Evidence, load: Value, intervals: Sequence[Time]) -> Evidence:
    for interval in intervals:
        setting.tell("trying", slots.NAME, interval)

    budget = setting.budget(SLOTS * setting.work)

    def probe(interval: Time) -> Probe:
        return slots.refute(setting.problem, load, interval, setting.in_flight, budget)

    with ThreadPoolExecutor(min(len(intervals), setting.options.jobs)) as pool:
        probes = tuple(pool.map(probe, intervals))
    for interval, one in zip(intervals, probes, strict=True):
        evidence = _excluding(setting, evidence, interval, one)
    return evidence
