"""Schedules in which a warp group issues several operations at once, constructed without a solver.

The rules allow that, but where an operation starts with a blocking wait (rule CONCURRENCY), and bound the sum
of what all groups issue by a unit; with what each group issues in order (`twill.modulo.constructive`) loops
of many small operations in few groups are far above their bounds. Takes a `Problem` and intervals; gives
schedules that keep dependences, units and waits. Registers and the capacity of memories are not looked at
while times are chosen: the caller verifies each schedule. Deterministic; what it does not find may exist.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from twill.engine import decode
from twill.engine.partitions import cut_if_large, partitions
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.modulo import held_registers
from twill.modulo.addresses import first_fit
from twill.modulo.constructive import LARGEST, NEVER, fill_late, settle, supported
from twill.modulo.held_registers import Held
from twill.modulo.orders import depth_first, fewest_registers, longest_first, results_first, successors
from twill.modulo.placing import Late, Placing, empty_placing, never
from twill.modulo.reservation_table import Part, Table, Track, parts_of
from twill.modulo.simplest import Labels, Machine, Window, windows

ALL = 1 << 20
"""Of what a group may issue at once: what an operation that waits takes as it starts, others take 1."""

WAYS = ((1, 0), (1, 4), (4, 0), (1, 16))
"""Of how many operations that come next the first is chosen that can start, and which part of the interval it
may start before those that came before it; 0 for none."""

LEAN = (4, 16)
"""The first of these numbers where registers are counted."""

COARSE, FINE = 16, 128
"""Intervals rise by these parts."""

REACH = 2
"""Times the lowest interval: larger ones are not tried."""

SMALL = 48
"""Operations up to which iterative modulo scheduling, which places them many times, is tried at each
interval."""

PLACED = 20_000
"""Operations that are placed in all: two seconds of an idle core, about."""


class _Way(NamedTuple):
    """How the operations of a group come one after the other."""

    order: Sequence[int]
    among: int
    sooner: int


def at(problem: Problem, interval: Time, in_flight: int) -> Iterator[Solution]:
    """Schedules at one interval: for each natural partition, the fewest groups first, by iterative modulo
    scheduling, of the shortest rest of the iteration and of the earliest start first."""
    if not _possible(problem, interval):
        return
    for labels in _fewest_first(problem, interval):
        window = windows(problem, interval, labels)
        for rank in () if window is None else _ranks(window):
            placing = _placing(problem, interval, labels)
            if placing.run(rank, never):
                settle(problem, placing)
                yield from _within(problem, placing, labels, in_flight)


def rising(
    problem: Problem,
    low: Time,
    high: Time,
    in_flight: int,
    late: Late = never,
    part: int = COARSE,
    placed: int = PLACED,
) -> Iterator[Solution]:
    """Schedules at intervals from `low` up to below `high`, which rise by a `part`: those of `at` at the
    first, and those in which the operations of a group begin about in an order, which keeps few values live;
    until `placed` operations are."""
    return _rising(problem, low, high, in_flight, late, part, placed, within=False)


def within_registers(
    problem: Problem,
    low: Time,
    high: Time,
    in_flight: int,
    late: Late = never,
    part: int = COARSE,
    placed: int = PLACED,
) -> Iterator[Solution]:
    """Schedules at intervals from `low` up to below `high`, which rise by a `part`: the operations of a group
    start about in an order, and none before its group has registers for what it makes; until `placed`
    operations are."""
    return _rising(problem, low, high, in_flight, late, part, placed, within=True)


def _rising(
    problem: Problem,
    low: Time,
    high: Time,
    in_flight: int,
    late: Late,
    part: int,
    placed: int,
    *,
    within: bool,
) -> Iterator[Solution]:
    """`within_registers`, or `rising`."""
    count = len(problem.operations)
    if count > LARGEST or (within and low >= high):
        return
    ways = list(_lean_ways(problem) if within else _ways(problem))
    fewest, left, interval = _fewest_first(problem, low), placed, low
    while interval < min(high, REACH * low + 1) and left > 0:
        if not within and (interval == low or count <= SMALL):
            yield from at(problem, interval, in_flight)
        for labels, way in product(fewest, ways if _possible(problem, interval) else ()):
            if late() or left <= 0:
                return
            left -= count
            held = held_registers.empty(problem, interval, labels) if within else None
            placing = _about_in_order(problem, interval, labels, way, held)
            if placing is not None:
                yield from _within(problem, placing, labels, in_flight)
        interval += max(1, interval // part)


def _lean_ways(problem: Problem) -> Iterator[_Way]:
    orders = (
        results_first(problem),
        range(len(problem.operations)),
        depth_first(problem),
        fewest_registers(problem),
        longest_first(problem),
    )
    for among, order in product(LEAN, orders):
        yield _Way(order, among, 0)


def _possible(problem: Problem, interval: Time) -> bool:
    return len(problem.operations) <= LARGEST and supported(problem, interval, joint=True)


def _fewest_first(problem: Problem, interval: Time) -> list[Labels]:
    return sorted(
        (*partitions(problem), *cut_if_large(problem, interval)), key=lambda labels: len(set(labels))
    )


def _ranks(window: Window) -> Iterator[list[tuple[Time, int]]]:
    yield [(-tail, op) for op, tail in enumerate(window.tail)]
    yield [(head, op) for op, head in enumerate(window.head)]


def _ways(problem: Problem) -> Iterator[_Way]:
    orders = (range(len(problem.operations)), depth_first(problem), fewest_registers(problem))
    for order, (among, sooner) in product(orders, WAYS):
        yield _Way(order, among, sooner)


def _within(problem: Problem, placing: Placing, labels: Labels, in_flight: int) -> Iterator[Solution]:
    """The schedule, if it has no more iterations in flight."""
    starts = [placing.start[op] for op in range(len(problem.operations))]
    address = first_fit(problem, placing.interval, starts, labels)
    found = decode.solution(problem, placing.interval, starts, labels, address)
    if found.in_flight(problem) <= in_flight:
        yield found


def _about_in_order(
    problem: Problem, interval: Time, labels: Labels, way: _Way, held: Held | None = None
) -> Placing | None:
    """Of the operations that come next in the order and whose operands are there, the one that can start
    first, not much sooner than those of its group that came before it, and with `held` not before there are
    registers for it."""
    if windows(problem, interval, labels) is None:
        return None
    placing, last = _placing(problem, interval, labels), defaultdict[int, Time](int)
    rank, after, missing = {op: i for i, op in enumerate(way.order)}, *successors(problem)
    ready = sorted((op for op, count in enumerate(missing) if not count), key=rank.__getitem__)
    sooner = interval // way.sooner if way.sooner else 0

    def start(op: int) -> Time:
        early = max(placing.earliest(op), last[labels[op]] - sooner)
        while early < NEVER:
            time = placing.free(op, early)
            fits = time if held is None or time is None else held.start(op, time)
            if time is None or fits == time:
                return NEVER if time is None else time
            early = NEVER if fits is None else fits
        return NEVER

    while ready:
        time, op = min(((start(op), op) for op in ready[: way.among]), key=lambda one: one[0])
        if time == NEVER or placing.place(op, time):
            return None
        if held is not None:
            held.place(op, time)
        last[labels[op]] = max(last[labels[op]], time)
        ready.remove(op)
        for other in after[op]:
            missing[other] -= 1
            if not missing[other]:
                insort(ready, other, key=rank.__getitem__)
    fill_late(problem, placing)
    return placing


def _placing(problem: Problem, interval: Time, labels: Labels) -> Placing:
    """An empty table in which a group may issue much at once, and nothing as one of its operations waits."""
    waiting = decode.waiting(problem, labels)
    parts = [_parts(problem, op, labels[op], op in waiting) for op in range(len(problem.operations))]
    capacity: dict[Machine, int] = {unit.name: unit.capacity for unit in problem.units}
    machines = {part.machine for own in parts for part in own}
    tracks = {machine: Track(interval, capacity.get(machine, ALL)) for machine in machines}
    return replace(empty_placing(problem, interval, labels), parts=parts, table=Table(interval, tracks))


def _parts(problem: Problem, op: int, label: int, waits: bool) -> list[Part]:
    operation = problem.operations[op]
    units, issue = parts_of(problem, operation, None), operation.undivided
    begins = [Part(label, 0, 1, ALL)] if waits else []
    issued = Part(label, len(begins), issue - len(begins))
    return [*units, *begins, *([issued] if issued.cycles > 0 else [])]
