"""A timed run with all that the machine file says.

Takes a program with its scheduled loops; gives the events of the run and the steady state of each loop.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.costs.model import extremes, implemented
from twill.ir.program import Program
from twill.modulo.bounds import bounds
from twill.simulate.explore import same
from twill.simulate.passing import Passing, passing
from twill.simulate.report import Steady, steady
from twill.simulate.timed import run
from twill.simulate.times import Costs, Event, Pace, Paces, Run
from twill.warp.tasks import Scheduled

TRIPS = 32
"""Iterations of every loop, unless told."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A run of a program."""

    events: tuple[Event, ...]
    loops: Mapping[str, Steady]
    """By path."""
    run: Run
    """The same events, with what passes through the channels."""
    units: tuple[str, ...]
    """In the order of the schedule's drawing."""


def predict(program: Program, loops: Sequence[Scheduled], trips: int = TRIPS) -> Predicted:
    """Run every loop `trips` times. A loop that the run does not reach, in a branch that is not taken,
    is given the interval of its schedule. Raises HazardError where the program stands still."""
    costed, tiles = paces(loops), passing(program, loops).values()
    done = run(program, loops, same(trips, 1), Costs.of(loops[0].machine), costed)
    reached = {event.loop for event in done.events}
    found = {
        one.loop.path: _sustained(steady(done.events, one.loop.op.index, trips), one, costed, tiles)
        if one.loop.op.index in reached
        else Steady(float(round(one.solution.interval * one.problem.resolution.cycles_per_unit)), {}, {})
        for one in loops
    }
    units = dict.fromkeys(unit.name for one in loops for unit in one.problem.units)
    return Predicted(done.events, found, done, tuple(units))


def _sustained(found: Steady, one: Scheduled, costed: Paces, tiles: Iterable[Passing]) -> Steady:
    """No faster than aggregate units allow for ever: a run of a few iterations draws on what they have left
    at its start."""
    aggregate = {unit.name: unit.capacity for unit in one.problem.units if unit.aggregate}
    taken = Counter[str]()
    for (loop, _), pace in costed.items():
        if loop == one.loop.op.index:
            for r in pace.idle.reservations:
                taken[r.unit] += r.cycles * r.amount
    for tile in tiles:
        if tile.loop == one.loop.op.index and one.machine.shared:
            taken[one.machine.shared.unit] += tile.shared
    least = max((taken[unit] / capacity for unit, capacity in aggregate.items()), default=0.0)
    return replace(found, interval=max(found.interval, least))


def busy(one: Scheduled) -> float:
    """Machine cycles for which an iteration occupies the busiest unit of an SM."""
    return bounds(one.problem).resource.value * one.problem.resolution.cycles_per_unit


def intervals(program: Program, loops: Sequence[Scheduled]) -> Mapping[str, float]:
    """Machine cycles of a thread block for an iteration of each loop, by its path."""
    return {path: found.interval for path, found in predict(program, loops).loops.items()}


def of_sm(program: Program, loops: Sequence[Scheduled]) -> float:
    """Machine cycles of an SM for an iteration of each loop, together: thread blocks that share it hide what
    the others wait for, until a unit is always busy."""
    return shared_sm(intervals(program, loops), program.resident_blocks, loops)


def shared_sm(alone: Mapping[str, float], blocks: int, loops: Sequence[Scheduled]) -> float:
    """`of_sm` from the `intervals` of one of the thread blocks."""
    return sum(max(busy(one), alone[one.loop.path] / blocks) for one in loops)


def paces(loops: Sequence[Scheduled]) -> Paces:
    """Of every operation of the loops, in units of their problems."""
    found = dict[tuple[int | None, str], Pace]()
    for one in loops:
        if one.problem.resolution.cycles_per_unit == 1.0:
            idle, busy = extremes(implemented(one.graph, one.problem), one.machine)
            found |= {(one.loop.op.index, op.id): Pace(op, busy.operation(op.id)) for op in idle.operations}
    return found
