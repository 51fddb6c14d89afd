"""One number of slots after the other, for the loads whose slots fill shared memory.

A load that streams has a slot for every period between it and its last reader. How many these are says how
far the operations that read it may be from each other, and what memory is left for everything else, so that
each number is refuted by itself where all together resist. The operations of one warp may be in any group
meanwhile (`twill.smt.conflict`): what they wait for excludes little. Refuting every number refutes the
interval; a schedule is not one of the loop.
"""

from dataclasses import replace

from twill.engine.probe import Budget, Probe, Refuted, Unknown
from twill.ir.problem import Problem, Time, Value
from twill.smt.conflict import narrow_anywhere
from twill.smt.cpsat import Tactics, attempt

NAME = "cpsat on the projections to numbers of slots"

LEAST = 8
"""Slots of less than this part of shared memory leave the others as they are."""


def splits(problem: Problem) -> Value | None:
    """The load whose slots are the largest, if these are large."""
    loads = {op.id for op in problem.operations if op.streaming}
    streamed = [value for value in problem.values if value.src in loads and value.slots and value.shared]
    largest = max(streamed, key=lambda value: value.shared, default=None)
    return largest if largest and LEAST * largest.shared >= problem.limits.shared else None


def refute(problem: Problem, load: Value, interval: Time, in_flight: int, budget: Budget) -> Probe:
    """Refuted where no number of slots has a schedule, all within the budget; ends with the first number that
    is not refuted."""
    small, work, seconds = narrow_anywhere(problem), 0.0, 0.0
    for periods in range(1, max(1, problem.limits.shared // load.shared - load.slots) + 1):
        left = replace(
            budget,
            seconds=budget.seconds - seconds,
            work=None if budget.work is None else max(0.0, budget.work - work),
        )
        tactics = Tactics(periods=(load.id, periods))
        probe = attempt(small, interval, in_flight, budget=left, tactics=tactics)
        work, seconds = work + probe.work, seconds + probe.seconds
        if not probe.refuted:
            return Probe(Unknown(), NAME, seconds, work)
    return Probe(Refuted(), NAME, seconds, work)
