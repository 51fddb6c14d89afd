"""Coarse time: the same problem with times rounded up to multiples of a step, where the SAT engine finds schedules in a second.

Every delay, duration, hold and issue time is rounded up, so a schedule in coarse time, stretched again, keeps every rule of the exact
problem; that none exists in coarse time proves nothing.
"""

from dataclasses import replace

from twill.ir.problem import Edge, Operation, Problem, Time, Value
from twill.ir.schedule import Solution
from twill.smt import decode


def coarsen(problem: Problem, step: Time) -> Problem:
    """The problem in units of `step`; aggregate units, which bound the interval alone, are left out."""

    def up(time: Time) -> Time:
        return -(-time // step)

    real = {unit.name for unit in problem.units if not unit.aggregate}

    def operation(op: Operation) -> Operation:
        uses = tuple(replace(use, cycles=up(use.cycles)) for use in op.reservations if use.unit in real)
        return replace(op, reservations=uses, latency=up(op.latency), issue=up(op.issue))

    def edge(link: Edge) -> Edge:
        return replace(link, delay=up(link.delay), cross_delay=None if link.cross_delay is None else up(link.cross_delay))

    def value(held: Value) -> Value:
        return replace(held, uses=tuple(replace(use, hold=up(use.hold)) for use in held.uses))

    return replace(
        problem,
        units=tuple(unit for unit in problem.units if not unit.aggregate),
        operations=tuple(map(operation, problem.operations)),
        edges=tuple(map(edge, problem.edges)),
        values=tuple(map(value, problem.values)),
    )


def stretch(problem: Problem, step: Time, found: Solution) -> Solution:
    """A solution of the coarse problem as one of the exact problem."""
    start = [s * step for s in found.start]
    address = {(place.value, place.memory, place.staging): place.address for place in found.places}
    return decode.solution(problem, found.interval * step, start, found.group, address)
