"""A timed run with all that the machine file says.

Takes a program with its scheduled loops; gives the events of the run and the steady state of each loop.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import mul

from twill.costs.estimates import ends
from twill.costs.model import extremes, implemented
from twill.costs.notes import loaded
from twill.ir.loop import shares
from twill.ir.machine import Machine
from twill.ir.program import Program
from twill.ir.statements import For, Pipelined, While
from twill.modulo.bounds import bounds
from twill.simulate.actions import two_ways
from twill.simulate.control import cycles
from twill.simulate.explore import same
from twill.simulate.outside import arrivals
from twill.simulate.passing import Passing, passing
from twill.simulate.report import Steady, steady
from twill.simulate.stored import storing
from twill.simulate.timed import run
from twill.simulate.times import Costs, Event, Pace, Paces, Run
from twill.warp.tasks import Scheduled

TRIPS = 32
"""Iterations of every loop, unless told."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A run of a program."""

    events: tuple[Event, ...]
    """Of every loop; those of the second part of a branch are of another run."""
    loops: Mapping[str, Steady]
    """By path."""
    run: Run
    """Without that other one, with what passes through the channels."""
    units: tuple[str, ...]
    """In the order of the schedule's drawing."""


def predict(program: Program, loops: Sequence[Scheduled], trips: int = TRIPS) -> Predicted:
    """Run every loop `trips` times, those of the second part of a branch in a run of their own. A loop
    that no run reaches is given the interval of its schedule. Raises HazardError where the program stands
    still."""
    costed, tiles = paces(loops), passing(program, loops).values()
    counts, costs = same(trips, 1), Costs.of(loops[0].machine)
    done = run(program, loops, counts, costs, costed)
    events, reached = done.events, {event.loop for event in done.events}
    if two_ways([group.body for group in program.groups]):
        other = run(program, loops, counts, costs, costed, second=True).events
        events = (*events, *(event for event in other if event.loop not in reached))
        reached |= {event.loop for event in events}
    beside = {one.loop.path: _beside(program, one, tiles) for one in loops}
    found = {
        one.loop.path: _sustained(
            steady(events, one.loop.op.index, trips), one, costed, beside[one.loop.path]
        )
        if one.loop.op.index in reached
        else Steady(float(round(one.solution.interval * one.problem.resolution.cycles_per_unit)), {}, {})
        for one in loops
    }
    units = dict.fromkeys(unit.name for one in loops for unit in one.problem.units)
    return Predicted(events, found, done, tuple(units))


def _sustained(found: Steady, one: Scheduled, costed: Paces, beside: Mapping[str, float]) -> Steady:
    """No faster than units allow for ever: a run of a few iterations draws on what aggregate ones have left
    at its start, may begin and end at different places of its iterations, and executes no instructions beside
    those of operations."""
    capacities = {unit.name: unit.capacity for unit in one.problem.units}
    taken = Counter[str]()
    for (loop, _), pace in costed.items():
        if loop == one.loop.op.index:
            for r in pace.idle.reservations:
                taken[r.unit] += r.cycles * r.amount
    least = max(
        ((taken[unit] + beside.get(unit, 0.0)) / most for unit, most in capacities.items()), default=0.0
    )
    return replace(found, interval=max(found.interval, least))


def _beside(program: Program, one: Scheduled, tiles: Iterable[Passing]) -> dict[str, float]:
    """What an iteration of a loop takes of units beside its operations: tiles that pass from group to group,
    and what controls the loop."""
    taken, machine = dict[str, float](), one.machine
    if machine.shared:
        passed = (tile.shared for tile in tiles if tile.loop == one.loop.op.index)
        taken[machine.shared.unit] = float(sum(passed))
    if machine.control:
        unit = machine.control.unit
        taken[unit] = taken.get(unit, 0.0) + cycles(program, one, machine.control)
    return taken


def allowed(program: Program, loops: Sequence[Scheduled]) -> Mapping[str, tuple[float, float]]:
    """The least and the most machine cycles of an iteration of each loop, by its path, with the machine's
    estimates as they are, all at their slow or fast ends, and those of each table at either end (a program
    may take longer where one operation is faster: groups then meet at other places)."""
    tried, found = {_times(loops)}, [intervals(program, loops)]
    for machine in ends(loops[0].machine):
        other = tuple(_on(one, machine) for one in loops)
        if (times := _times(other)) not in tried:
            tried.add(times)
            found.append(intervals(program, other))
    return {path: (min(one[path] for one in found), max(one[path] for one in found)) for path in found[0]}


def _on(one: Scheduled, machine: Machine) -> Scheduled:
    """A loop with its schedule on a machine with other numbers."""
    problem = replace(one.problem, units=tuple(machine.units[unit.name] for unit in one.problem.units))
    return Scheduled(one.loop, one.graph, problem, one.solution, machine)


def _times(loops: Sequence[Scheduled]) -> Hashable:
    """All that a prediction takes from the machine file."""
    machine = loops[0].machine
    units = tuple(unit for one in loops for unit in one.problem.units)
    return Costs.of(machine), machine.handover.bytes_per_cycle, units, tuple(paces(loops).items())


def block_time(program: Program, loops: Sequence[Scheduled], trips: int | Mapping[int, int]) -> float:
    """Machine cycles of a thread block whose loops have so many iterations each, or by the operation of the
    loop: from the first operation of a loop to the last, and what it waits for before its first load."""
    machine, costed = loops[0].machine, paces(loops)
    counts = same(trips, 1) if isinstance(trips, int) else partial(_counted, trips)
    done = run(program, loops, counts, Costs.of(machine), costed)
    return max(event.end for event in done.events) + arrivals(program, loops) * machine.loads.arrival


FEW, MANY = 4, 8
"""Tiles of a thread block, in the runs that `tile_time` compares."""


def tile_time(program: Program, loops: Sequence[Scheduled], trips: int) -> float:
    """Machine cycles from tile to tile of a kernel whose loops have so many iterations for each tile, stores
    behind the loops included. Raises HazardError where the program stands still."""
    machine, costed = loops[0].machine, paces(loops)
    stores = storing(program, machine)

    def end(tiles: int) -> float:
        done = run(program, loops, same(trips, tiles), Costs.of(machine), costed, stores)
        return max(event.end for event in done.events)

    return (end(MANY) - end(FEW)) / (MANY - FEW)


def _counted(trips: Mapping[int, int], loop: Pipelined | For | While) -> int:
    return trips[loop.op] if isinstance(loop, Pipelined) else 1


def busy(one: Scheduled) -> float:
    """Machine cycles for which an iteration occupies the busiest unit of an SM."""
    return bounds(one.problem).resource.value * one.problem.resolution.cycles_per_unit


def from_l2(one: Scheduled) -> float:
    """Machine cycles for which L2 gives an SM the tiles that an iteration loads, where all SMs load; 0 where
    the machine does not say what it gives."""
    rate = one.machine.loads.reused
    return loaded(one.graph) / rate if rate else 0.0


def intervals(program: Program, loops: Sequence[Scheduled]) -> Mapping[str, float]:
    """Machine cycles of a thread block for an iteration of each loop, by its path."""
    return {path: found.interval for path, found in predict(program, loops).loops.items()}


def of_sm(program: Program, loops: Sequence[Scheduled]) -> float:
    """Machine cycles of an SM for an iteration of each loop, together, in their `shares`: thread blocks that
    share it hide what the others wait for, until a unit is always busy."""
    return shared_sm(intervals(program, loops), program.resident_blocks, loops)


def shared_sm(alone: Mapping[str, float], blocks: int, loops: Sequence[Scheduled]) -> float:
    """`of_sm` from the `intervals` of one of the thread blocks."""
    return shared(loops, [max(busy(one), alone[one.loop.path] / blocks) for one in loops])


EVENLY = 3
"""Exponent with which `overlapped` times count."""


def time_of_sm(
    program: Program,
    loops: Sequence[Scheduled],
    trips: Mapping[int, int],
    alone: Mapping[str, float] | None = None,
    needs: Callable[[Scheduled], float] = busy,
) -> float:
    """Machine cycles of an SM for a thread block whose loops have so many iterations, by the operation of the
    loop; for an iteration of each loop, together, in their `shares`, where `trips` has none. `alone`: the
    `intervals` of one of the blocks, if known; `needs`: cycles that an iteration needs the busiest unit for.
    This compares numbers of thread blocks on an SM; `of_sm` is what an SM would take at best, were all of its
    blocks ready whenever a unit is free."""
    blocks = program.resident_blocks
    if trips:
        least = sum(trips[one.loop.op.index] * needs(one) for one in loops)
        return overlapped(least, block_time(program, loops, trips) / blocks)
    found = alone or intervals(program, loops)
    return shared(loops, [overlapped(needs(one), found[one.loop.path] / blocks) for one in loops])


def overlapped(least: float, waiting: float) -> float:
    """Machine cycles of an SM whose busiest unit is needed for `least` cycles, and whose thread blocks take
    `waiting` beside each other, were no unit ever busy: close to the larger one where they are far apart.
    Where they are equal, blocks wait for the unit at times and the unit for them at others, and both take
    1.26 times as long, as two to eight blocks do in a closed queue in front of one unit (mean value analysis:
    1.22 to 1.27). (On an H200, predicted, predicted by the larger one, and measured: three thread blocks for
    two in LMDeploy's product of 4-bit weights 1.18, 1.09, 1.08, in FastVideo's attention backward 1.24, 1.29,
    1.20; three of one group for two of two in vLLM's attention over int4 pages 1.26, 1.41, 1.20; two of one
    group for one of two in NanoGPT's symmetric product 1.14, 1.00, 1.09; two groups for one in a block that
    is alone in Triton's grouped product 1.62, 1.75, 1.44. Blocks that spill for being more gain less, or
    nothing: six for four in fla's chunk_fwd_o with rows of 32 1.41, 1.50, 1.04; four for three in vLLM's
    attention in float32 1.25, 1.33, 0.83.)"""
    larger = max(least, waiting)
    return (
        larger * ((least / larger) ** EVENLY + (waiting / larger) ** EVENLY) ** (1 / EVENLY)
        if larger
        else 0.0
    )


def shared(loops: Sequence[Scheduled], cycles: Sequence[float]) -> float:
    """The sum of cycles of an iteration of each loop, in their `shares`."""
    return sum(map(mul, shares([one.loop for one in loops]), cycles))


def paces(loops: Sequence[Scheduled]) -> Paces:
    """Of every operation of the loops, in units of their problems."""
    found = dict[tuple[int | None, str], Pace]()
    for one in loops:
        if one.problem.resolution.cycles_per_unit == 1.0:
            idle, busy = extremes(implemented(one.graph, one.problem), one.machine)
            found |= {(one.loop.op.index, op.id): Pace(op, busy.operation(op.id)) for op in idle.operations}
    return found
