"""From an engine's raw answer to a `Solution` in canonical form, the same for every engine.

Takes starts, a group label per operation and an address per allocation; gives first start 0, groups numbered
by first operation (the loads' first), the grants that the held registers need, and allocations with as many
slots as the live ranges need.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from twill.ir.problem import Problem, Time, Value
from twill.ir.schedule import Allocation, Group, Solution

Address = Mapping[tuple[str, str, bool], int]
"""(value, memory, staging) to the address an engine chose."""


def solution(
    problem: Problem, interval: Time, start: Sequence[Time], label: Sequence[int], address: Address
) -> Solution:
    """The canonical solution of an engine's answer."""
    earliest = 0 if problem.starts else min(start, default=0)
    starts = tuple(s - earliest for s in start)
    group = _number(problem, label)
    grants = tuple(_grant(problem, interval, starts, group, g) for g in sorted(set(group)))
    return Solution(
        interval, starts, group, grants, tuple(_allocations(problem, interval, starts, group, address))
    )


def modulo(problem: Problem, interval: Time, start: Sequence[Time]) -> Solution:
    """The solution of plain modulo scheduling: starts alone."""
    earliest = 0 if problem.starts else min(start, default=0)
    return Solution(interval, tuple(s - earliest for s in start), (0,) * len(start))


def _number(problem: Problem, label: Sequence[int]) -> tuple[int, ...]:
    """Labels to 0, 1, 2, ... by first appearance, the loads' group first; 0 is kept for loads."""
    order = sorted(range(len(label)), key=lambda i: (not problem.operations[i].variable, i))
    lowest = 0 if any(op.variable for op in problem.operations) else 1
    numbers: dict[int, int] = {}
    for i in order:
        numbers.setdefault(label[i], lowest + len(numbers))
    return tuple(numbers[mine] for mine in label)


def _grant(problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int], g: int) -> Group:
    limits = problem.limits
    width = max(op.warps for op, mine in zip(problem.operations, group, strict=True) if mine == g)
    if width == 1:
        return Group(g, 1, limits.narrow_registers)
    need = limits.register_base + peak(problem, interval, start, group, g)
    return Group(g, width, -(-need // limits.register_step) * limits.register_step)


def channels(problem: Problem, group: Sequence[int]) -> set[tuple[int, int]]:
    """The distinct (operation, other group) pairs of which the group waits for the operation; loads that
    stream are free."""
    ends = [(problem.index(edge.src), problem.index(edge.dst)) for edge in problem.edges]
    return {(a, group[b]) for a, b in ends if group[a] != group[b] and not problem.operations[a].streaming}


def waiting(problem: Problem, group: Sequence[int]) -> set[int]:
    """The operations that start with a blocking wait."""
    ends = [(edge, problem.index(edge.src), problem.index(edge.dst)) for edge in problem.edges]
    return {
        b
        for edge, a, b in ends
        if (edge.blocking if group[a] == group[b] else not problem.operations[a].streaming)
    }


def wait_clashes(
    problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int]
) -> list[tuple[str, str]]:
    """(waiting operation, operation issuing then) pairs of one group: what rule CONCURRENCY forbids."""
    return [
        (problem.operations[v].id, other.id)
        for v in sorted(waiting(problem, group))
        for o, other in enumerate(problem.operations)
        if o != v and group[o] == group[v] and (start[v] - start[o]) % interval < other.undivided
    ]


def peak(problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int], g: int) -> int:
    """The most registers per thread that group g holds at any residue (rule REGISTERS)."""
    spans = [
        (span, value.registers)
        for value in problem.values
        if value.registers
        for span in _held(problem, interval, start, group, g, value)
    ]
    always = sum(size * ((end - begin) // interval) for (begin, end), size in spans)
    events = sorted({begin % interval for (begin, _), _ in spans} or {0})
    return always + max(sum(size * _covers(span, interval, at) for span, size in spans) for at in events)


def _covers(span: tuple[Time, Time], interval: Time, at: Time) -> bool:
    """The part of the span beyond whole periods covers residue `at`."""
    begin, end = span
    return (at - begin) % interval < (end - begin) % interval


def _held(
    problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int], g: int, value: Value
) -> list[tuple[Time, Time]]:
    """The span during which group g holds a value, if any."""
    src = problem.index(value.src)
    uses = [
        (start[i := problem.index(use.op)] + use.distance * interval, use.hold, group[i])
        for use in value.uses
    ]
    here = [time + hold for time, hold, mine in uses if mine == g]
    if group[src] == g:
        if value.resident:
            return [(0, interval)]
        handed = (
            [start[src] + problem.operations[src].latency] if any(mine != g for _, _, mine in uses) else []
        )
        return [(start[src], max([start[src], *here, *handed]))]
    return [(min(time for time, _, mine in uses if mine == g), max(here))] if here else []


def live_range(
    problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int], value: Value, staging: bool
) -> Time:
    """Length of a value's range in memory, or of its staging's (rules SHARED and TENSOR)."""
    src = problem.index(value.src)
    uses = [(use, problem.index(use.op)) for use in value.uses]
    ends = [
        start[i] + use.distance * interval + use.hold
        for use, i in uses
        if not staging or group[i] != group[src]
    ]
    return max(0, max(ends, default=start[src]) - start[src])


def _allocations(
    problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int], address: Address
) -> list[Allocation]:
    found: list[Allocation] = []
    for value in problem.values:
        for memory, size, staging in buffers(value):
            length = live_range(problem, interval, start, group, value, staging)
            count = slots(interval, value, length, staging)
            if size and count:
                found.append(
                    Allocation(value.id, memory, address[value.id, memory, staging], size, count, staging)
                )
    return sorted(found, key=lambda a: (a.memory, a.address, a.value, a.staging))


def slots(interval: Time, value: Value, length: Time, staging: bool) -> int:
    """Slots of a value whose live range is this long, or of its staging."""
    periods = 1 if value.resident and not staging else -(-length // interval)
    return periods + (0 if staging else value.slots)


def buffers(value: Value) -> tuple[tuple[Literal["shared", "tensor"], int, bool], ...]:
    """(memory, size of one slot, staging) for each kind of storage a value may take."""
    return ("shared", value.shared, False), ("tensor", value.tensor, False), ("shared", value.staging, True)
