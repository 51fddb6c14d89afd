"""What is left between the lower end and an answer, before the long proofs: where these do not end in time,
most of the gap is closed."""

from concurrent.futures import ThreadPoolExecutor

from twill.engine.probe import Probe
from twill.ir.problem import Time
from twill.smt import slots
from twill.smt.setting import Evidence, Setting

SLOTS = 6.0
"""Shares of work for numbers of slots at an interval within what is left ..."""

WIDE = 64
"""... if that is at least this part of the interval."""


def by_slots(setting: Setting, evidence: Evidence, *, upper: bool) -> Evidence:
    """The middle of what is left, and the middle of its upper or lower half, by numbers of slots."""
    low, last = evidence.low, evidence.high - 1
    applies = evidence.open and evidence.best is not None and setting.decomposes and setting.small
    load = slots.splits(setting.problem) if applies else None
    if load is None or WIDE * (last - low) < last:
        return evidence
    middle, half = (low + last) // 2, last if upper else low
    middles = sorted((middle, (middle + half) // 2))
    for interval in middles:
        setting.tell("trying", slots.NAME, interval)

    def probe(interval: Time) -> Probe:
        budget = setting.budget(SLOTS * setting.work)
        return slots.refute(setting.problem, load, interval, setting.in_flight, budget)

    with ThreadPoolExecutor(min(len(middles), setting.options.jobs)) as pool:
        probes = tuple(pool.map(probe, middles))
    for interval, one in zip(middles, probes, strict=True):
        setting.tell("infeasible" if one.refuted else "timeout", one.engine, interval)
        refutation = one.refutation(interval, setting.in_flight, below=True)
        evidence = evidence.excluding(refutation) if refutation else evidence
    return evidence
