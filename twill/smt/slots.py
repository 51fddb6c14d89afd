"""One number of slots after the other, for the loads whose slots fill shared memory.

A load that streams has a slot for every period between it and its last reader. How many these are says how
far the operations that read it may be from each other, and what memory is left for everything else, so that
each number is refuted by itself where all together resist. The operations of one warp may be in any group
meanwhile (`twill.smt.conflict`): what they wait for excludes little. Refuting every number refutes the
interval; a schedule is not one of the loop.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from twill.engine.probe import Budget, Probe, Refuted, Unknown
from twill.ir.problem import Edge, Problem, Time, Value
from twill.smt import cases
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


def refute(
    problem: Problem, load: Value, interval: Time, in_flight: int, budget: Budget, *, by_cases: bool = False
) -> Probe:
    """Refuted where no number of slots has a schedule, all within the budget; ends with the first number that
    is not refuted. What takes long at once is decided by cases of the partition."""
    small, left, spent = narrow_anywhere(problem), budget, Probe(Refuted(), NAME)
    decide = cases.refute if by_cases else _at_once
    for periods in _numbers(problem, load):
        probe = decide(small, interval, in_flight, left, Tactics(periods=(load.id, periods)))
        spent, left = spent.with_cost_of(probe), left.after(probe)
        if not probe.refuted:
            return replace(spent, outcome=Unknown())
    return spent


def refute_beside(
    problem: Problem, load: Value, interval: Time, in_flight: int, budget: Budget, jobs: int
) -> Probe:
    """The same with `jobs` numbers at a time; each has the budget."""
    small = narrow_anywhere(problem)

    def decide(periods: int) -> Probe:
        return _at_once(small, interval, in_flight, budget, Tactics(periods=(load.id, periods)))

    with ThreadPoolExecutor(jobs) as pool:
        probes = tuple(pool.map(decide, _numbers(problem, load)))
    outcome = Refuted() if all(probe.refuted for probe in probes) else Unknown()
    seconds, counted = max(p.seconds for p in probes), max(p.counted for p in probes)
    return Probe(outcome, NAME, seconds, sum(p.work for p in probes), counted)


def _at_once(problem: Problem, interval: Time, in_flight: int, budget: Budget, tactics: Tactics) -> Probe:
    return attempt(problem, interval, in_flight, budget=budget, tactics=tactics)


def pieces(problem: Problem, load: Value) -> tuple[Problem, ...]:
    """What `refute` decides, as a problem for each number of slots, for engines that know rules alone."""
    small = narrow_anywhere(problem)
    return tuple(_lasting(small, load, periods) for periods in _numbers(problem, load))


def _numbers(problem: Problem, load: Value) -> range:
    """Periods that the load may last: its slots fill the memory with more."""
    return range(1, max(1, problem.limits.shared // load.shared - load.slots) + 1)


def _lasting(problem: Problem, load: Value, periods: int) -> Problem:
    """The load lasts so many periods at most, and has the slots of so many at all times.

    Readers hold it off by edges, for which a load would have to wait: so loads issue in no time here. A range
    of a single period may be empty, and then takes the slots that it runs ahead alone.
    """
    slots = load.slots + (0 if periods == 1 else periods)
    back = (Edge(use.op, load.src, use.hold, periods - use.distance, kind="order") for use in load.uses)
    return replace(
        problem,
        operations=tuple(replace(op, issue=0) if op.variable else op for op in problem.operations),
        edges=(*problem.edges, *back),
        values=tuple(part for value in problem.values for part in _stored(value, load, slots)),
    )


def _stored(value: Value, load: Value, slots: int) -> tuple[Value, ...]:
    """That load's slots, all the time, as one of their size (the rules know no resident value of several),
    and its registers; others as they are."""
    if value.id != load.id:
        return (value,)
    held = replace(value, id=f"{value.id} in registers", shared=0, tensor=0, slots=0)
    kept = replace(held, id=value.id, uses=(), registers=0, staging=0, resident=True)
    return replace(kept, shared=slots * value.shared, tensor=slots * value.tensor), held
