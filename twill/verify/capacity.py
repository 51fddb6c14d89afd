"""CAPACITY: what a refutation "capacity of ..." claims, counted again from the definitions in
`twill.ir.problem`.

`excludes` says whether the named limit alone excludes an interval, and every smaller one, for schedules of
any length.
"""

from itertools import accumulate

from twill.ir.problem import Operation, Problem, Time, Value

PREFIX = "capacity of "


def excludes(problem: Problem, limit: str, interval: Time, *, joint: bool) -> bool:
    """Whether no schedule at `interval` or below respects the limit."""
    if any(limit == unit.name for unit in problem.units):
        return _overbooked(problem, limit)
    if not joint:
        return False
    match limit:
        case "shared memory":
            return _overflows(
                problem, {v.id: v.shared for v in problem.values}, problem.limits.shared, interval
            )
        case "tensor memory":
            return _overflows(
                problem, {v.id: v.tensor for v in problem.values}, problem.limits.tensor, interval
            )
        case "registers":
            return any(_too_greedy(problem, op) for op in problem.operations if op.warps > 1)
        case "groups":
            fewest = len({op.variable for op in problem.operations})
            return fewest > problem.limits.groups or _loads_among_others(problem)
        case "warps":
            return _least_warps(problem) > problem.limits.warps
        case _:
            return False


def _loads_among_others(problem: Problem) -> bool:
    """A load has to share a group with what is no load."""
    group = {op.id: {op.id} for op in problem.operations}
    for same in problem.together:
        joined = set[str]().union(*(group[op] for op in same))
        group |= dict.fromkeys(joined, joined)
    loads = {op.id for op in problem.operations if op.variable}
    return any(one & loads and one - loads for one in group.values())


def _overbooked(problem: Problem, name: str) -> bool:
    """Some cycle of an operation's reservation table has more of the unit than there is."""
    capacity = next(unit.capacity for unit in problem.units if unit.name == name and not unit.aggregate)
    return any(_fullest(op, name) > capacity for op in problem.operations)


def _fullest(op: Operation, unit: str) -> int:
    """The changes in what the operation keeps of the unit, summed in the order of time; what ends in a cycle
    ends before what begins there."""
    changes = list[tuple[Time, int]]()
    for used in op.reservations:
        if used.unit == unit and used.cycles > 0:
            changes += [(used.offset, used.amount), (used.offset + used.cycles, -used.amount)]
    return max(accumulate((amount for _, amount in sorted(changes)), initial=0))


def _overflows(problem: Problem, size: dict[str, int], capacity: int, interval: Time) -> bool:
    """At the fullest residue there are at least the slots that values keep to themselves, and of the others
    the average of an iteration, one that lives at all, or all that one operation finds as it starts."""
    kept, shared, found = 0, list[tuple[int, Time]](), dict[str, int]()
    for value in problem.values:
        time = _lifetime(problem, value) if size[value.id] else 0
        if value.resident:
            kept += size[value.id] * (1 + value.slots)
        elif value.slots or time > interval:
            kept += size[value.id] * (value.slots + (time + interval - 1) // interval)
        else:
            shared.append((size[value.id], time))
            for op in _finding(problem, value) if size[value.id] else ():
                found[op] = found.get(op, 0) + size[value.id]
    single = max([0, *found.values(), *(bytes_ for bytes_, time in shared if time > 0)])
    return kept + single > capacity or sum(b * t for b, t in shared) > (capacity - kept) * interval


def _finding(problem: Problem, value: Value) -> set[str]:
    """The operations at whose start an instance of the value is there: they hold it, and cannot come before
    it."""
    return {
        use.op
        for use in value.uses
        for edge in problem.edges
        if use.hold > 0 and (edge.src, edge.dst) == (value.src, use.op) and edge.distance <= use.distance
    }


def _lifetime(problem: Problem, value: Value) -> Time:
    """Cycles for which every schedule keeps an instance."""
    found = 0
    for use in value.uses:
        for edge in (
            e for e in problem.edges if (e.src, e.dst) == (value.src, use.op) and e.distance <= use.distance
        ):
            found = max(found, min(edge.delay, edge.crossing) + use.hold)
    return found


def _too_greedy(problem: Problem, op: Operation) -> bool:
    """The group of `op` needs more registers than a thread, or an SM, has, whatever else it runs."""
    limits, own = problem.limits, [v for v in problem.values if v.src == op.id]
    kept = max(
        (v.registers for v in own if v.resident or (op.latency > 0 and _lifetime(problem, v) > 0)), default=0
    )
    grant = next(r for r in range(limits.register_base + kept, 1 << 60) if r % limits.register_step == 0)
    loads = 128 * limits.narrow_registers if _loads_are_narrow(problem) else 0
    return grant > limits.registers_per_thread or 32 * op.warps * grant + loads > limits.registers_total


def _loads_are_narrow(problem: Problem) -> bool:
    widths = {op.warps for op in problem.operations if op.variable}
    return widths == {1}


def _least_warps(problem: Problem) -> int:
    wide = max((op.warps for op in problem.operations if op.warps > 1), default=0)
    return wide + (4 if _loads_are_narrow(problem) or (not wide and problem.operations) else 0)
