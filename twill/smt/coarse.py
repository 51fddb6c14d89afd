"""Coarse time: the same problem in units of a step, every time rounded one way, where the SAT engine answers in a second.

Rounded up, a schedule in coarse time, stretched again, keeps every rule of the exact problem; that none exists proves nothing. Rounded
down it is the other way about (`twill.smt.bracket`): that none exists is a proof, a schedule says nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from twill.ir.problem import Edge, Operation, Problem, Time, Value
from twill.ir.schedule import Solution
from twill.smt import decode


def coarsen(problem: Problem, step: Time) -> Problem:
    """The problem in units of `step`, every time rounded up."""
    return _in_units(problem, lambda time: -(-time // step))


def rounded_down(problem: Problem, step: Time) -> Problem:
    """The problem in units of `step`, every time rounded down."""
    return _in_units(problem, lambda time: time // step)


def _in_units(problem: Problem, units: Callable[[Time], Time]) -> Problem:
    """Every delay, duration, hold and issue time converted; aggregate units, which bound the interval alone, are left out."""
    real = {unit.name for unit in problem.units if not unit.aggregate}

    def operation(op: Operation) -> Operation:
        uses = tuple(replace(use, cycles=units(use.cycles)) for use in op.reservations if use.unit in real)
        return replace(op, reservations=uses, latency=units(op.latency), issue=units(op.issue))

    def edge(link: Edge) -> Edge:
        return replace(link, delay=units(link.delay), cross_delay=None if link.cross_delay is None else units(link.cross_delay))

    def value(held: Value) -> Value:
        return replace(held, uses=tuple(replace(use, hold=units(use.hold)) for use in held.uses))

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
