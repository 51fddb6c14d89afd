"""Schedules at the lower bound, without a solver: iterative modulo scheduling (Rau 1994) under natural
partitions.

Takes a `Problem` and an interval; gives schedules that keep dependences and units and issue one operation of
a group after the other, with first-fit addresses; `rising` gives simpler ones at larger intervals. Registers
and the capacity of memories are not looked at while times are chosen: the caller verifies each schedule, and
takes none that breaks a rule. Deterministic; what it does not find may exist.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from twill.engine import decode
from twill.engine.partitions import cut_if_large, partitions
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.modulo.addresses import first_fit
from twill.modulo.orders import depth_first, fewest_registers, successors
from twill.modulo.placing import Copies, Copying, Late, Placing, empty_placing, never
from twill.modulo.reservation_table import parts_of
from twill.modulo.simplest import Labels, Machine, windows

LARGEST = 1000
"""Operations above which only first answers are constructed, in order: all else takes seconds there."""

MOST = 10_000
"""Operations above which not even those are."""

PLACED = 120_000
"""Operations that are placed in all for the first answer of such a loop: about a minute."""

STEP, LARGE_STEP = 16, 8
"""A first answer is looked for at intervals that rise by this part; where there are more than `LARGEST`
operations, by that one."""

AHEAD = (1, 4)
"""Operations that a first answer chooses from: in order, or with others while one waits."""

SPREAD, FINE = 1.25, 128
"""Up to how many times the lowest interval copies are looked for, at intervals that rise by which part of
it."""

REACH = 16
"""Times the lowest interval: a first answer is not looked for beyond."""


def schedules(
    problem: Problem, interval: Time, in_flight: int, *, joint: bool = True, late: Late = never
) -> Iterator[Solution]:
    """One schedule at most for each natural partition, the simplest partition first; none where the problem
    has what `supported` excludes. It ends when it is `late`."""
    if not supported(problem, interval, joint) or len(problem.operations) > LARGEST:
        return
    for labels in _by_groups(problem, interval) if joint else (None,):
        starts = _starts(problem, interval, labels, late)
        if starts is not None:
            found = _solution(problem, interval, starts, labels)
            if found.in_flight(problem) <= in_flight:
                yield found


def rising(
    problem: Problem,
    low: Time,
    top: Time,
    in_flight: int,
    *,
    joint: bool = True,
    late: Late = never,
) -> Iterator[Solution]:
    """Schedules at intervals that rise from `low`, for a first answer: the operations of each group one after
    the other, about in the order of the program, depth first, or so that few registers are live at once. More
    than `LARGEST` operations strictly in order, at intervals that rise faster, within `PLACED`. It ends when
    it is `late`."""
    count = len(problem.operations)
    if not supported(problem, top, joint) or count > MOST:
        return
    least = [(labels, _least(problem, labels)) for labels in (_by_groups(problem, low) if joint else [None])]
    ways, step, left = _ways(problem), LARGE_STEP if count > LARGEST else STEP, PLACED
    interval = low
    while interval <= min(top, REACH * low) and (left > 0 or count <= LARGEST):
        fitting = [labels for labels, lowest in least if lowest <= interval]
        for labels, (ahead, order) in product(fitting, ways):
            if late():
                return
            starts = _one_after_the_other(problem, interval, labels, order, ahead)
            found = None if starts is None else _solution(problem, interval, starts, labels)
            if found is not None and found.in_flight(problem) <= in_flight:
                yield found
        left -= count * len(fitting) * len(ways)
        interval += max(1, interval // step)


def _ways(problem: Problem) -> list[tuple[int, Sequence[int]]]:
    """How many operations to choose from, and the order."""
    count = len(problem.operations)
    orders = [range(count), depth_first(problem)]
    if count > LARGEST:
        return [(1, order) for order in orders]
    return list(product(AHEAD, (*orders, fewest_registers(problem))))


def _least(problem: Problem, labels: Labels | None) -> Time:
    """The interval that the busiest machine needs under a partition."""
    capacity: dict[Machine, int] = {unit.name: unit.capacity for unit in problem.units}
    taken = defaultdict[Machine, Time](int)
    for i, op in enumerate(problem.operations):
        for part in parts_of(problem, op, None if labels is None else labels[i]):
            taken[part.machine] += part.cycles * part.amount
    return max((-(-time // capacity.get(machine, 1)) for machine, time in taken.items()), default=1)


def slowly(low: Time) -> range:
    """The intervals at which copies are looked for."""
    return range(low, int(SPREAD * low) + 1, max(1, low // FINE))


def shifted(
    problem: Problem,
    intervals: Sequence[Time],
    in_flight: int,
    families: Sequence[Sequence[Sequence[int]]],
    late: Late = never,
) -> Iterator[Solution]:
    """Schedules at these rising intervals, in which the isomorphic parts of each of `families` are copies of
    one, spread evenly over the interval: units that are almost full have room only so. It ends when it is
    `late`."""
    unfit = not intervals or not supported(problem, intervals[0], joint=True)
    if not families or unfit or len(problem.operations) > LARGEST:
        return
    orders = (range(len(problem.operations)), depth_first(problem))
    least = [(labels, _least(problem, labels)) for labels in _by_groups(problem, None)]
    for interval in intervals:
        fitting = [labels for labels, lowest in least if lowest <= interval]
        for labels, order in product(fitting, orders):
            if late():
                return
            starts = _copies(problem, interval, labels, order, families)
            found = None if starts is None else _solution(problem, interval, starts, labels)
            if found is not None and found.in_flight(problem) <= in_flight:
                yield found


def supported(problem: Problem, interval: Time, joint: bool) -> bool:
    """Pinned starts, what takes longer than the interval, and an operation that takes a unit twice are left
    to the solvers."""
    for op in problem.operations:
        parts = parts_of(problem, op, 0 if joint else None)
        if len({part.machine for part in parts}) < len(parts) or any(
            part.cycles > interval for part in parts
        ):
            return False
    return not problem.starts


def _by_groups(problem: Problem, interval: Time | None) -> list[Labels]:
    """Natural partitions, and where none of a large loop can issue its work in an interval, the
    order of the program cut."""
    candidates: list[Labels] = [*partitions(problem), *(cut_if_large(problem, interval) if interval else ())]
    return sorted(candidates, key=lambda labels: len(set(labels)))


def _solution(problem: Problem, interval: Time, starts: Sequence[Time], labels: Labels | None) -> Solution:
    if labels is None:
        return decode.modulo(problem, interval, starts)
    return decode.solution(problem, interval, starts, labels, first_fit(problem, interval, starts, labels))


# --- one partition ----------------------------------------------------------------------------------------


def _starts(problem: Problem, interval: Time, labels: Labels | None, late: Late) -> list[Time] | None:
    """Starts at which no machine is overbooked: longest rest of the iteration first."""
    joint = labels is not None
    window = windows(problem, interval, labels, joint=joint)
    if window is None:
        return None
    placing = empty_placing(problem, interval, labels)
    if not placing.run([(-tail, op) for op, tail in enumerate(window.tail)], late):
        return None
    settle(problem, placing)
    return [placing.start[op] for op in range(len(problem.operations))]


def _one_after_the_other(
    problem: Problem, interval: Time, labels: Labels | None, order: Sequence[int], ahead: int
) -> list[Time] | None:
    """Each group issues one operation after the other: of the first `ahead` in this order whose operands are
    there, the one that can start first."""
    if windows(problem, interval, labels, joint=labels is not None) is None:
        return None
    placing, last = empty_placing(problem, interval, labels), defaultdict[int, Time](int)
    rank, after, missing = {op: i for i, op in enumerate(order)}, *successors(problem)
    ready = sorted((op for op, count in enumerate(missing) if not count), key=rank.__getitem__)
    while ready:
        free = [(_start(placing, op, labels, last), op) for op in ready[:ahead]]
        time, op = min(free, key=lambda one: one[0])
        if time == NEVER or placing.place(op, time):
            return None
        last[0 if labels is None else labels[op]] = time
        ready.remove(op)
        for other in after[op]:
            missing[other] -= 1
            if not missing[other]:
                insort(ready, other, key=rank.__getitem__)
    fill_late(problem, placing)
    return [placing.start[op] for op in range(len(problem.operations))]


def _copies(
    problem: Problem,
    interval: Time,
    labels: Labels,
    order: Sequence[int],
    families: Sequence[Sequence[Sequence[int]]],
) -> list[Time] | None:
    """Each operation of a first part at the first start that is free for it and, shifted, for its copies;
    what that displaces is placed again, with its copies, within the budget."""
    if windows(problem, interval, labels, joint=True) is None:
        return None
    placing = Copying(empty_placing(problem, interval, labels), _members(interval, order, families))
    if not placing.run([op for op in order if op in placing.members]):
        return None
    fill_late(problem, placing.placing)
    return [placing.placing.start[op] for op in range(len(problem.operations))]


def _members(
    interval: Time, order: Iterable[int], families: Sequence[Sequence[Sequence[int]]]
) -> dict[int, Copies]:
    """By the operation of the first part; what is in no part has no copies."""
    found: dict[int, Copies] = {op: [(op, 0)] for op in order}
    for family in families:
        for same in zip(*family, strict=True):
            found = {op: copies for op, copies in found.items() if op not in same}
            found[same[0]] = [(op, k * interval // len(same)) for k, op in enumerate(same)]
    return found


def fill_late(problem: Problem, placing: Placing) -> None:
    """What fills shared or tensor memory as late as its readers allow, so that less is full at once."""
    ops, end = problem.operations, _end(problem, placing)
    filled = {value.src for value in problem.values if (value.shared or value.tensor) and not value.resident}
    for op in sorted(placing.start, key=lambda op: (-placing.start[op], -op)):
        if ops[op].id in filled:
            placing.move(op, latest=end - ops[op].duration)


NEVER = 1 << 60
"""Where nothing is free within an interval."""


def _start(placing: Placing, op: int, labels: Labels | None, last: Mapping[int, Time]) -> Time:
    """The earliest start behind what its group has issued."""
    behind = 0 if labels is None else last.get(labels[op], 0)
    time = placing.free(op, max(placing.earliest(op), behind))
    return NEVER if time is None else time


def settle(problem: Problem, placing: Placing) -> None:
    """Loads as late as their readers allow, then all else as early as possible."""
    ops, end = problem.operations, _end(problem, placing)
    loads = [op for op in placing.start if ops[op].variable]
    for op in sorted(loads, key=lambda op: (-placing.start[op], -op)):
        placing.move(op, latest=end - ops[op].duration)
    for op in sorted(placing.start, key=lambda op: (placing.start[op], op)):
        if not ops[op].variable:
            placing.move(op, latest=None)


def _end(problem: Problem, placing: Placing) -> Time:
    return max(start + problem.operations[op].duration for op, start in placing.start.items())
