"""What no schedule can do without: bounds by memories, registers, groups and units, whatever the length and
the partition.

Takes a `Problem`; gives a `Shortage` for each limit that excludes some or all intervals. No solver: each
bound is a sum over values or operations. `twill.verify.capacity` computes them again, independently.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twill.engine.connected import components
from twill.ir.problem import Edge, Problem, Reservation, Time, Value


@dataclass(frozen=True, slots=True)
class Shortage:
    """A limit that no interval below `least` respects; none at all where `least` is None."""

    limit: str
    """As in `Refutation.by`: "capacity of" this."""
    least: Time | None
    text: str
    """What is needed, and what there is."""

    @property
    def by(self) -> str:
        return f"capacity of {self.limit}"


def shortages(problem: Problem, *, joint: bool = True) -> tuple[Shortage, ...]:
    """Those that exclude every interval come first; without `joint` only what units exclude."""
    if not joint:
        return tuple(_units(problem))
    ranges = least_ranges(problem)
    found = [*_units(problem), *_groups(problem), *_registers(problem, ranges)]
    found += _memory(problem, "shared memory", problem.limits.shared, ranges)
    found += _memory(problem, "tensor memory", problem.limits.tensor, ranges)
    return tuple(sorted(found, key=lambda shortage: shortage.least is not None))


def _units(problem: Problem) -> Iterator[Shortage]:
    """An operation that alone keeps more of a unit at a time than there is."""
    capacity = {unit.name: unit.capacity for unit in problem.units if not unit.aggregate}
    for op in problem.operations:
        for unit in dict.fromkeys(use.unit for use in op.reservations if use.unit in capacity):
            most = _most_at_a_time([use for use in op.reservations if use.unit == unit and use.cycles])
            if most > capacity[unit]:
                yield Shortage(unit, None, f"{op.id} needs {most} of {unit}, there is {capacity[unit]}")


def _most_at_a_time(uses: Sequence[Reservation]) -> int:
    """Where one of them begins, as one of them does where they take most."""
    return max(
        (
            sum(one.amount for one in uses if one.offset <= use.offset < one.offset + one.cycles)
            for use in uses
        ),
        default=0,
    )


def _groups(problem: Problem) -> Iterator[Shortage]:
    """A group for loads and one for the rest; the widest operation's warps, and a warpgroup for narrow
    loads."""
    limits, kinds = problem.limits, {op.variable for op in problem.operations}
    if len(kinds) > limits.groups:
        yield Shortage("groups", None, f"needs {len(kinds)} groups, has {limits.groups}")
    if mixed := _loads_with_others(problem):
        yield Shortage("groups", None, f"{mixed[0]} is of the group of loads, and {mixed[1]} has to share it")
    warps = max((op.warps for op in problem.operations if op.warps > 1), default=0)
    warps += 4 * (_narrow_loads(problem) or warps == 0) if problem.operations else 0
    if warps > limits.warps:
        yield Shortage("warps", None, f"needs {warps} warps, has {limits.warps}")


def _loads_with_others(problem: Problem) -> tuple[str, str] | None:
    """A load and another operation that have to share a group."""
    variable = [op.variable for op in problem.operations]
    indices = [[problem.index(op) for op in same] for same in problem.together]
    links = (pair for same in indices for pair in pairwise(same))
    for part in components(range(len(variable)), links):
        loads, others = ([i for i in part if variable[i] == kind] for kind in (True, False))
        if loads and others:
            return problem.operations[loads[0]].id, problem.operations[others[0]].id
    return None


def _narrow_loads(problem: Problem) -> bool:
    loads = [op for op in problem.operations if op.variable]
    return bool(loads) and all(op.warps == 1 for op in loads)


def _registers(problem: Problem, ranges: Mapping[str, Time]) -> Iterator[Shortage]:
    """The least grant of the group that makes a value: all that it holds besides is left out."""
    limits = problem.limits
    made = {
        value.src: value
        for value in problem.values
        if value.registers and _surely_held(problem, value, ranges)
    }
    loads = 128 * limits.narrow_registers * _narrow_loads(problem)
    for op in (op for op in problem.operations if op.warps > 1):
        held = made[op.id].registers if op.id in made else 0
        grant = -(-(limits.register_base + held) // limits.register_step) * limits.register_step
        total = 32 * op.warps * grant + loads
        if grant > limits.registers_per_thread:
            text = (
                f"the group of {op.id} needs at least {grant} registers per thread, has"
                f" {limits.registers_per_thread}"
            )
            yield Shortage("registers", None, text)
            return
        if total > limits.registers_total:
            text = (
                f"the group of {op.id} needs at least {total} registers per SM with its loads, there are"
                f" {limits.registers_total}"
            )
            yield Shortage("registers", None, text)
            return


def _surely_held(problem: Problem, value: Value, ranges: Mapping[str, Time]) -> bool:
    """Its range in the group that makes it is not empty: read there later, or elsewhere after the latency."""
    return value.resident or (problem.operation(value.src).latency > 0 and ranges[value.id] > 0)


def _memory(problem: Problem, name: str, capacity: int, ranges: Mapping[str, Time]) -> Iterator[Shortage]:
    """The smallest interval at which what is surely live fits; what is shrinks as the interval grows."""
    size = {value.id: value.shared if name == "shared memory" else value.tensor for value in problem.values}
    values = [value for value in problem.values if size[value.id]]
    after: dict[tuple[str, str], int] = {}
    for edge in problem.edges:
        after[edge.src, edge.dst] = min(edge.distance, after.get((edge.src, edge.dst), edge.distance))
    stored = [_Stored(size[v.id], ranges[v.id], v.slots, v.resident, _readers(v, after)) for v in values]
    what, low = "bytes" if name == "shared memory" else "columns", 1
    high = (1 + max(ranges.values(), default=0)) * (1 + sum(value.size for value in stored))
    if (least := _needed(stored, high)) > capacity:
        yield Shortage(name, None, f"needs at least {least} {what} of {name}, has {capacity}")
        return
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _needed(stored, middle) > capacity else (low, middle)
    if low > 1:
        least = _needed(stored, low - 1)
        text = f"needs at least {least} {what} of {name} below interval {low}, has {capacity}"
        yield Shortage(name, low, text)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A value's size in a memory, how long it is live at least, and what it takes besides."""

    size: int
    range: Time
    slots: int
    resident: bool
    readers: frozenset[str]
    """Operations that find it live as they start."""


def _readers(value: Value, after: Mapping[tuple[str, str], int]) -> frozenset[str]:
    """Those that come after what makes it, and hold it; `after` has the least distances of edges."""
    return frozenset(
        use.op
        for use in value.uses
        if use.hold and after.get((value.src, use.op), use.distance + 1) <= use.distance
    )


def _needed(values: Sequence[_Stored], interval: Time) -> int:
    """What the fullest residue holds at least: slots that nothing else shares; of the rest the average, or
    what one operation reads."""
    alone, area, largest, read = 0, 0, 0, Counter[str]()
    for value in values:
        periods = 1 if value.resident else -(-value.range // interval)
        if value.resident or value.slots or periods > 1:
            alone += value.size * (periods + value.slots)
        elif periods:
            area += value.size * value.range
            largest = max(largest, value.size)
            read.update(dict.fromkeys(value.readers, value.size))
    return alone + max(-(-area // interval), largest, *read.values())


def least_ranges(problem: Problem) -> dict[str, Time]:
    """How long each value lives at least: to each reader in its own iteration or an earlier one's, and until
    that has read it."""
    delays: dict[tuple[str, str], list[Edge]] = {}
    for edge in problem.edges:
        delays.setdefault((edge.src, edge.dst), []).append(edge)
    return {
        value.id: max(
            (
                min(edge.delay, edge.crossing) + use.hold
                for use in value.uses
                for edge in delays.get((value.src, use.op), ())
                if edge.distance <= use.distance
            ),
            default=0,
        )
        for value in problem.values
    }
