"""Facts derived from a solution: stages, unit utilization, registers and memory in use over modulo time.

Takes a problem and its solution; returns plain values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from twill.ir.problem import Edge, Problem, Time, Value
from twill.ir.schedule import Solution


@dataclass(frozen=True, slots=True)
class Utilization:
    """How much of a unit one iteration uses: `busy` of `available` units of time."""

    unit: str
    busy: int
    available: int

    @property
    def fraction(self) -> float:
        return self.busy / self.available if self.available else 0.0


@dataclass(frozen=True, slots=True)
class Live:
    """A live range of `size` registers of `group`, or of memory (group None), from `start` to `end` (not
    modulo)."""

    value: str
    group: int | None
    start: Time
    end: Time
    size: int


@dataclass(frozen=True, slots=True)
class Profile:
    """A quantity over modulo time: `levels[i]` from `times[i]` to the next time, the last one to the end of
    the interval."""

    name: str
    times: tuple[Time, ...]
    levels: tuple[int, ...]
    limit: int
    """The largest level allowed; 0 without a limit."""
    parts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The share of each value in `levels`, in the order of first use."""

    @property
    def peak(self) -> int:
        return max(self.levels, default=0)


def stage(start: Time, interval: Time) -> int:
    """The stage of an operation: how many younger iterations have started before it."""
    return start // interval


def cycles(problem: Problem, time: Time) -> int:
    """`time` in machine cycles, rounded."""
    return round(time * problem.resolution.cycles_per_unit)


def utilization(problem: Problem, solution: Solution) -> tuple[Utilization, ...]:
    """The utilization of each unit in the steady state, in the order of the machine's units."""
    busy = {unit.name: 0 for unit in problem.units}
    for op in problem.operations:
        for r in op.reservations:
            busy[r.unit] += r.cycles * r.amount
    return tuple(
        Utilization(unit.name, busy[unit.name], unit.capacity * solution.interval) for unit in problem.units
    )


def delay(problem: Problem, solution: Solution | None, edge: Edge) -> Time:
    """The delay of an edge under a solution: the cross-group delay where its ends are in different groups."""
    return edge.crossing if solution and crosses(problem, solution, edge) else edge.delay


def crosses(problem: Problem, solution: Solution, edge: Edge) -> bool:
    """The ends of an edge are in different groups."""
    return solution.group[problem.index(edge.src)] != solution.group[problem.index(edge.dst)]


# --- registers and memory ---------------------------------------------------------------------------------


def _ends(problem: Problem, solution: Solution, value: Value, group: int | None = None) -> list[Time]:
    """The ends of the uses of a value, of all uses or of those by operations of `group`."""
    return [
        solution.start[problem.index(use.op)] + use.distance * solution.interval + use.hold
        for use in value.uses
        if group is None or solution.group[problem.index(use.op)] == group
    ]


def live(problem: Problem, solution: Solution, value: Value) -> tuple[Time, Time]:
    """The live range of a value in memory; a resident value is always live."""
    start = solution.start[problem.index(value.src)]
    if value.resident:
        return start, start + solution.interval
    return start, max([start, *_ends(problem, solution, value)])


def register_ranges(problem: Problem, solution: Solution, value: Value) -> tuple[Live, ...]:
    """The live ranges of a value in registers: in its producer's group, and in every other group that uses
    it."""
    if not value.registers:
        return ()
    home = problem.index(value.src)
    groups = sorted({solution.group[problem.index(use.op)] for use in value.uses} - {solution.group[home]})
    start, end = (
        solution.start[home],
        max([solution.start[home], *_ends(problem, solution, value, solution.group[home])]),
    )
    if groups:
        end = max(end, start + problem.operations[home].latency)
    if value.resident:
        end = start + solution.interval
    held = [Live(value.id, solution.group[home], start, end, value.registers)]
    for group in groups:
        first = min(_ends(problem, solution, _without_hold(value), group))
        held.append(
            Live(value.id, group, first, max(_ends(problem, solution, value, group)), value.registers)
        )
    return tuple(held)


def _without_hold(value: Value) -> Value:
    return replace(value, uses=tuple(replace(use, hold=0) for use in value.uses))


def profile(name: str, ranges: Iterable[Live], interval: Time, limit: int) -> Profile:
    """The sum of the sizes of all live instances, over modulo time."""
    known, level, changes = tuple(ranges), 0, dict[Time, int]()
    for item in known:
        whole, rest = divmod(item.end - item.start, interval)
        begin = item.start % interval
        level += whole * item.size
        if rest:
            changes[begin] = changes.get(begin, 0) + item.size
            changes[(begin + rest) % interval] = changes.get((begin + rest) % interval, 0) - item.size
            level += item.size if begin + rest >= interval else 0
    times, levels = [0], [level + changes.pop(0, 0)]
    for time in sorted(time for time in changes if changes[time]):
        times.append(time)
        levels.append(levels[-1] + changes[time])
    return Profile(name, tuple(times), tuple(levels), limit, _parts(known, times, interval))


def _parts(
    ranges: Sequence[Live], times: Sequence[Time], interval: Time
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The level of each value at each time."""

    def level(value: str, time: Time) -> int:
        return sum(_instances(item, time, interval) * item.size for item in ranges if item.value == value)

    values = dict.fromkeys(item.value for item in sorted(ranges, key=lambda item: (item.start, item.value)))
    parts = ((value, tuple(level(value, time) for time in times)) for value in values)
    return tuple((value, levels) for value, levels in parts if any(levels))


def _instances(item: Live, time: Time, interval: Time) -> int:
    """How many instances of a live range cover a time, modulo the interval."""
    whole, rest = divmod(item.end - item.start, interval)
    return whole + ((time - item.start) % interval < rest)


def register_profiles(problem: Problem, solution: Solution) -> tuple[Profile, ...]:
    """Registers per thread of each group, over modulo time."""
    ranges = [item for value in problem.values for item in register_ranges(problem, solution, value)]
    return tuple(
        profile(
            f"group {g.id}",
            (item for item in ranges if item.group == g.id),
            solution.interval,
            g.registers - problem.limits.register_base,
        )
        for g in solution.groups
    )


def memory_profiles(problem: Problem, solution: Solution) -> tuple[Profile, ...]:
    """Bytes of shared memory and columns of tensor memory in use, over modulo time."""
    memories = (
        ("shared memory", "shared", problem.limits.shared),
        ("tensor memory", "tensor", problem.limits.tensor),
    )
    return tuple(
        profile(name, _memory_ranges(problem, solution, field), solution.interval, limit)
        for name, field, limit in memories
        if any(getattr(value, field) for value in problem.values)
    )


def _memory_ranges(problem: Problem, solution: Solution, field: str) -> Iterable[Live]:
    for value in problem.values:
        size = int(getattr(value, field))
        if not size:
            continue
        yield Live(value.id, None, *live(problem, solution, value), size)
        if value.slots:
            yield Live(value.id, None, 0, solution.interval * value.slots, size)
    if field == "shared":
        yield from _staging(problem, solution)


def _staging(problem: Problem, solution: Solution) -> Iterable[Live]:
    """The staging buffers of values that pass to another group through shared memory."""
    for value in problem.values:
        home = solution.group[problem.index(value.src)]
        away = [u for u in value.uses if solution.group[problem.index(u.op)] != home]
        if value.staging and away:
            start = solution.start[problem.index(value.src)]
            ends = [
                solution.start[problem.index(u.op)] + u.distance * solution.interval + u.hold for u in away
            ]
            yield Live(value.id, None, start, max(start, *ends), value.staging)


def allocated(solution: Solution, memory: str) -> int:
    """One past the highest address in use."""
    return max((p.address + p.size * p.slots for p in solution.allocations if p.memory == memory), default=0)


# --- text -------------------------------------------------------------------------------------------------


def members(problem: Problem, solution: Solution, group: int) -> tuple[str, ...]:
    """The operations of a group, by start."""
    timed = [
        (start, op.id)
        for op, start, g in zip(problem.operations, solution.start, solution.group, strict=True)
        if g == group
    ]
    return tuple(op for _, op in sorted(timed))


def percent(fraction: float) -> str:
    return f"{100 * fraction:.0f}%"


def listed(words: Sequence[str], most: int = 12) -> str:
    """`a, b, c`, and how many more where there are many."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def counted(number: int, noun: str) -> str:
    """`1 warp`, `4 warps`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
