"""Rules SHARED and TENSOR, addresses: found by first fit where that works, decided with everything else where
it does not.

Most schedules that fit a memory at every residue have a fixed-address allocation that first fit finds, so
engines decide without addresses first and then place; only where that fails do `state`'s variables join the
formula.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twill.engine import decode
from twill.engine.boolean.allocation import Key, Lodging, Memory, Tenant, wanted
from twill.engine.boolean.formula import FALSE, TRUE, Formula, Lane
from twill.ir.problem import Problem, Time


@dataclass(frozen=True, slots=True)
class Address:
    """Order encoding: `line[k]` says that the tenant lies at k * grain or higher; constants at both ends."""

    tenant: Tenant
    grain: int
    line: Lane


def state(formula: Formula, lodgings: Sequence[Lodging]) -> tuple[Address, ...]:
    """Every tenant has an address, and no two that are live together overlap."""
    found: list[Address] = []
    for lodging in lodgings:
        addresses = [
            Address(tenant, lodging.grain, _line(formula, tenant, lodging.capacity))
            for tenant in lodging.tenants
        ]
        for i, above in enumerate(addresses):
            for below in addresses[:i]:
                _disjoint(formula, below, above)
        found += addresses
    return tuple(found)


def read(addresses: Sequence[Address], truth: NDArray[np.bool_]) -> dict[Key, int]:
    """Addresses of an assignment, in bytes or columns."""
    return {address.tenant.key: address.grain * int(truth[address.line[1:-1]].sum()) for address in addresses}


def _line(formula: Formula, tenant: Tenant, capacity: int) -> Lane:
    highest = capacity - tenant.size * tenant.always
    line = np.concatenate(([TRUE], formula.fresh(highest), [FALSE])).astype(np.int32)
    formula.clause(-line[1:], line[:-1])
    for slots, literal in enumerate(tenant.extra, 1):
        formula.imply([literal], int(-line[highest - tenant.size * slots + 1]))
    return line


def _disjoint(formula: Formula, one: Address, other: Address) -> None:
    """Where both are live together, or one will not share, one lies below the other."""
    meets, below, above = formula.literal(), formula.literal(), formula.literal()
    if one.tenant.live is not None and other.tenant.live is not None:
        formula.imply([one.tenant.live, other.tenant.live], meets)
    formula.imply([one.tenant.alone, other.tenant.alive], meets)
    formula.imply([other.tenant.alone, one.tenant.alive], meets)
    formula.imply([meets, -below], above)
    _below(formula, one, other, below)
    _below(formula, other, one, above)


def _below(formula: Formula, low: Address, high: Address, condition: int) -> None:
    """All slots of `low` end where those of `high` begin, or sooner."""
    top = np.arange(len(low.line) - 1)
    for slots, taken in enumerate((TRUE, *low.tenant.extra), low.tenant.always):
        clear = np.minimum(top + low.tenant.size * slots, len(high.line) - 1)
        formula.imply([condition, taken, low.line[top]], high.line[clear])


@dataclass(frozen=True, slots=True)
class _Box:
    """Something to allocate: `size` for all its slots together, live in [begin, begin + length) modulo I,
    always where `alone`."""

    key: Key
    size: int
    alone: bool
    begin: Time
    length: Time

    def meets(self, other: "_Box", interval: Time) -> bool:
        """Both are live at some residue."""
        apart = (other.begin - self.begin) % interval >= self.length and (
            self.begin - other.begin
        ) % interval >= other.length
        return self.alone or other.alone or not apart


def first_fit(
    problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int]
) -> dict[Key, int] | None:
    """Addresses for a schedule, each the lowest that is free; None where no order tried fits the memories."""
    found: dict[Key, int] = {}
    limits: Mapping[Memory, int] = {"shared": problem.limits.shared, "tensor": problem.limits.tensor}
    for memory, capacity in limits.items():
        boxes = list(_boxes(problem, interval, start, group, memory))
        attempts = (_place(sorted(boxes, key=order), interval, capacity) for order in _ORDERS)
        placed = next((attempt for attempt in attempts if attempt is not None), None)
        if placed is None:
            return None
        found |= placed
    return found


_ORDERS: tuple[Callable[[_Box], tuple[int, ...]], ...] = (
    lambda box: (not box.alone, -box.size, -box.length, box.begin),
    lambda box: (not box.alone, box.begin, -box.size),
    lambda box: (not box.alone, -box.length, -box.size, box.begin),
    lambda box: (not box.alone, -box.size * box.length, box.begin),
    lambda box: (not box.alone, box.begin + box.length, -box.size),
)


def _boxes(
    problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int], memory: Memory
) -> Iterator[_Box]:
    for value, size, staging in wanted(problem, memory):
        length = decode.live_range(problem, interval, start, group, value, staging)
        resident, slots = (False, 0) if staging else (value.resident, value.slots)
        count = 1 if resident else slots + -(-length // interval)
        if count:
            alone = resident or slots > 0 or length > interval
            yield _Box(
                (value.id, memory, staging), size * count, alone, start[problem.index(value.src)], length
            )


def _place(boxes: Sequence[_Box], interval: Time, capacity: int) -> dict[Key, int] | None:
    placed: list[tuple[_Box, int]] = []
    for box in boxes:
        rivals = sorted((at, at + other.size) for other, at in placed if box.meets(other, interval))
        address = 0
        for low, high in rivals:
            if address + box.size <= low:
                break
            address = max(address, high)
        if address + box.size > capacity:
            return None
        placed.append((box, address))
    return {box.key: address for box, address in placed}
