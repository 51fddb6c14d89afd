"""What an operation costs while the tensor core works.

Takes a machine and the part of the time that its tensor core works; gives the machine as the other operations
then find it. `load` says how large that part is at best.
"""

from collections.abc import Iterable, Mapping
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


def load(operations: Iterable[Operation], machine: Machine) -> float:
    """The part of the time that the tensor core works where the busiest unit always does; 0 where nothing is
    known of contention."""
    if machine.contention is None:
        return 0.0
    demand = dict.fromkeys(machine.units, 0.0)
    for taken in (taken for op in operations for taken in op.reservations):
        demand[taken.unit] += taken.cycles * taken.amount / machine.units[taken.unit].capacity
    busiest = max(demand.values())
    return demand[machine.contention.unit] / busiest if busiest else 0.0
