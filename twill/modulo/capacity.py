"""What no schedule can do without: bounds by memories, registers, groups and units, whatever the length and
the partition.

Takes a `Problem`; gives a `Shortage` for each limit that excludes some or all intervals. No solver: each
bound is a sum over values or operations. `twill.verify.capacity` computes them again, independently.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.ir.problem import Edge, Problem, Time, Value


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
    """A reservation of more than a unit has."""
    capacity = {unit.name: unit.capacity for unit in problem.units if not unit.aggregate}
    for op in problem.operations:
        for use in op.reservations:
            if use.cycles and use.amount > capacity.get(use.unit, use.amount):
                yield Shortage(
                    use.unit, None, f"{op.id} needs {use.amount} of {use.unit}, there is {capacity[use.unit]}"
                )


def _groups(problem: Problem) -> Iterator[Shortage]:
    """A group for loads and one for the rest; the widest operation's warps, and a warpgroup for narrow
    loads."""
    limits, kinds = problem.limits, {op.variable for op in problem.operations}
    if len(kinds) > limits.groups:
        yield Shortage("groups", None, f"needs {len(kinds)} groups, has {limits.groups}")
    warps = max((op.warps for op in problem.operations if op.warps > 1), default=0)
    warps += 4 * (_narrow_loads(problem) or warps == 0) if problem.operations else 0
    if warps > limits.warps:
        yield Shortage("warps", None, f"needs {warps} warps, has {limits.warps}")


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
    """Bytes (or columns) times live time of one iteration, over what is not taken all the time."""
    values = [(value, value.shared if name == "shared memory" else value.tensor) for value in problem.values]
    values = [(value, size) for value, size in values if size]
    always = sum(size * (value.slots + value.resident) for value, size in values)
    live = [(size, ranges[value.id]) for value, size in values if not value.resident]
    area = sum(size * least for size, least in live)
    largest = max((size for size, least in live if least), default=0)
    what = "bytes" if name == "shared memory" else "columns"
    if always + largest > capacity:
        yield Shortage(name, None, f"needs at least {always + largest} {what} of {name}, has {capacity}")
    elif area:
        least = -(-area // (capacity - always))
        yield Shortage(
            name,
            least,
            f"values are live for {area} {what} x cycles of {name} in each iteration, of {capacity - always}"
            f" {what}",
        )


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
