"""What an operation costs while the tensor core works.

Takes a machine and the part of the time that its tensor core works; gives the machine as the other operations
then find it. `load` says how large that part is at best.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from twill.ir.machine import Cost, Machine, Rate
from twill.ir.problem import Operation


def under_contention(machine: Machine, busy: float) -> Machine:
    """The machine with its tensor core working a part `busy` (0 to 1) of the time, which it does not slow
    down itself."""
    if machine.contention is None or not busy:
        return machine
    return replace(
        machine, costs={name: _slowed(cost, machine, busy) for name, cost in machine.costs.items()}
    )


def _slowed(cost: Cost, machine: Machine, busy: float) -> Cost:
    assert machine.contention is not None
    found = machine.contention
    if found.unit in cost.rate or cost.asynchronous:
        return cost
    slower = {unit: 1 + busy * (found.slower.get(unit, 1.0) - 1) for unit in cost.rate}
    rate = {unit: _over(rate, slower[unit]) for unit, rate in cost.rate.items()}
    if not cost.step:
        return replace(cost, rate=rate)
    waiting = 1 + busy * (found.reductions - 1)
    return replace(cost, rate=rate, step=cost.step * waiting, latency=round(cost.latency * waiting))


def _over(rate: Rate, factor: float) -> Rate:
    return (
        {dtype: value / factor for dtype, value in rate.items()}
        if isinstance(rate, Mapping)
        else rate / factor
    )


def load(operations: Sequence[Operation], beside: Set[str], machine: Machine) -> float:
    """The part of the time that the tensor core works `beside` other operations, for the asynchronous ones
    with these ids, where the busiest unit always does; 0 where nothing is known of contention.

    MMAs of warps (mma.sync) count for what is busy, and do not slow down others: a product of fp8 by 16 rows
    of Triton's on an H200, whose warps convert 16384 elements in an iteration of 151 cycles, converts 108 in
    a cycle, of the 116 that there are with an idle tensor core, while MMAs take 128 cycles."""
    if machine.contention is None:
        return 0.0
    unit, demand, slowing = machine.contention.unit, dict.fromkeys(machine.units, 0.0), 0.0
    taken_by = ((op.id, taken) for op in operations for taken in op.reservations)
    for name, taken in taken_by:
        cycles = taken.cycles * taken.amount / machine.units[taken.unit].capacity
        demand[taken.unit] += cycles
        slowing += cycles if taken.unit == unit and name in beside else 0.0
    busiest = max(demand.values())
    return slowing / busiest if busiest else 0.0
