"""Schedules at the lower bound, without a solver: iterative modulo scheduling (Rau 1994) under natural
partitions.

Takes a `Problem` and an interval; gives schedules that keep dependences and units and issue one operation of
a group after the other, with first-fit addresses; `rising` gives simpler ones at larger intervals. Registers
and the capacity of memories are not looked at while times are chosen: the caller verifies each schedule, and
takes none that breaks a rule. An operation that fits nowhere displaces others, which are then placed again,
within a budget. Deterministic; what it does not find may exist.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, product

from twill.engine import decode
from twill.engine.partitions import partitions
from twill.ir.problem import Operation, Problem, Time
from twill.ir.schedule import Solution
from twill.modulo.addresses import first_fit
from twill.modulo.simplest import Labels, Machine, arcs, windows

PLACEMENTS = 8
"""Times an operation is placed, on average, before a partition is given up."""

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
"""Up to how many times the lowest interval copies are looked for, at intervals that rise by which part."""

REACH = 16
"""Times the lowest interval: a first answer is not looked for beyond."""


Late = Callable[[], bool]
"""Whether there is no more time."""


def never() -> bool:
    """There is time."""
    return False


def schedules(
    problem: Problem, interval: Time, in_flight: int, *, joint: bool = True, late: Late = never
) -> Iterator[Solution]:
    """One schedule at most for each natural partition, the simplest partition first; none where the problem
    has what `_supported` excludes. It ends when it is `late`."""
    if not _supported(problem, interval, joint) or len(problem.operations) > LARGEST:
        return
    for labels in _by_groups(problem) if joint else (None,):
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
    if not _supported(problem, top, joint) or count > MOST:
        return
    least = [(labels, _least(problem, labels)) for labels in (_by_groups(problem) if joint else [None])]
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
    orders = [range(count), _depth_first(problem)]
    if count > LARGEST:
        return [(1, order) for order in orders]
    return list(product(AHEAD, (*orders, _fewest_registers(problem))))


def _least(problem: Problem, labels: Labels | None) -> Time:
    """The interval that the busiest machine needs under a partition."""
    capacity: dict[Machine, int] = {unit.name: unit.capacity for unit in problem.units}
    taken = defaultdict[Machine, Time](int)
    for i, op in enumerate(problem.operations):
        for part in _parts(problem, op, None if labels is None else labels[i]):
            taken[part.machine] += part.cycles * part.amount
    return max((-(-time // capacity.get(machine, 1)) for machine, time in taken.items()), default=1)


def shifted(
    problem: Problem,
    low: Time,
    in_flight: int,
    families: Sequence[Sequence[Sequence[int]]],
    late: Late = never,
) -> Iterator[Solution]:
    """Schedules at intervals that rise slowly from `low`, in which the isomorphic parts of each of `families`
    are copies of one, spread evenly over the interval: units that are almost full have room only so. It ends
    when it is `late`."""
    if not families or not _supported(problem, low, joint=True) or len(problem.operations) > LARGEST:
        return
    orders = (range(len(problem.operations)), _depth_first(problem))
    least = [(labels, _least(problem, labels)) for labels in _by_groups(problem)]
    interval = low
    while interval <= SPREAD * low:
        fitting = [labels for labels, lowest in least if lowest <= interval]
        for labels, order in product(fitting, orders):
            if late():
                return
            starts = _copies(problem, interval, labels, order, families)
            found = None if starts is None else _solution(problem, interval, starts, labels)
            if found is not None and found.in_flight(problem) <= in_flight:
                yield found
        interval += max(1, interval // FINE)


def _supported(problem: Problem, interval: Time, joint: bool) -> bool:
    """Pinned starts, what takes longer than the interval, and an operation that takes a unit twice are left
    to the solvers."""
    for op in problem.operations:
        parts = _parts(problem, op, 0 if joint else None)
        if len({part.machine for part in parts}) < len(parts) or any(
            part.cycles > interval for part in parts
        ):
            return False
    return not problem.starts


def _by_groups(problem: Problem) -> list[Labels]:
    candidates: list[Labels] = [*partitions(problem)]
    return sorted(candidates, key=lambda labels: len(set(labels)))


def _solution(problem: Problem, interval: Time, starts: Sequence[Time], labels: Labels | None) -> Solution:
    if labels is None:
        return decode.modulo(problem, interval, starts)
    return decode.solution(problem, interval, starts, labels, first_fit(problem, interval, starts, labels))


# --- one partition ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """A row of an operation's reservation table, or its issue."""

    machine: Machine
    offset: Time
    cycles: Time
    amount: int = 1


def _parts(problem: Problem, op: Operation, group: int | None) -> list[_Part]:
    """What an operation keeps: units that are no aggregates, and the issue of its group."""
    real = {unit.name for unit in problem.units if not unit.aggregate}
    found = [
        _Part(use.unit, use.offset, use.cycles, use.amount)
        for use in op.reservations
        if use.unit in real and use.cycles and use.amount
    ]
    return found if group is None else [*found, _Part(group, 0, max(1, op.issue))]


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of an operation from residue `begin` on."""

    op: int
    begin: Time
    part: _Part


@dataclass(slots=True)
class _Track:
    """What one machine runs, by residue; `begins` is sorted."""

    interval: Time
    capacity: int
    begins: list[Time] = field(default_factory=list[Time])
    spans: list[_Span] = field(default_factory=list[_Span])

    def add(self, span: _Span) -> None:
        at = bisect_right(self.begins, span.begin)
        self.begins.insert(at, span.begin)
        self.spans.insert(at, span)

    def remove(self, span: _Span) -> None:
        at = bisect_left(self.begins, span.begin)
        while self.spans[at] != span:
            at += 1
        del self.begins[at], self.spans[at]

    def blocking(self, part: _Part, begin: Time) -> list[_Span]:
        """The spans that leave no room for `part` at `begin`."""
        if self.capacity == 1:
            return self._near(part, begin)
        near = list(self._overlapping(part, begin))
        if sum(span.part.amount for span in near) + part.amount <= self.capacity:
            return []
        inside = (s.begin for s in near if (s.begin - begin) % self.interval < part.cycles)
        peak = max(self._running(near, at) for at in (begin, *inside))
        return near if peak + part.amount > self.capacity else []

    def _running(self, spans: Sequence[_Span], at: Time) -> int:
        return sum(s.part.amount for s in spans if (at - s.begin) % self.interval < s.part.cycles)

    def _overlapping(self, part: _Part, begin: Time) -> Iterator[_Span]:
        for span in self.spans:
            behind, ahead = (begin - span.begin) % self.interval, (span.begin - begin) % self.interval
            if behind < span.part.cycles or ahead < part.cycles:
                yield span

    def _near(self, part: _Part, begin: Time) -> list[_Span]:
        """Those that overlap `part` where no two spans do: the one before `begin`, and those that begin
        within `part`."""
        spans, interval, found = self.spans, self.interval, list[_Span]()
        if not spans:
            return found
        at = bisect_right(self.begins, begin)
        if (begin - self.begins[at - 1]) % interval < spans[at - 1].part.cycles:
            found.append(spans[at - 1])
        for span in chain(islice(spans, at, None), islice(spans, at)):
            if (span.begin - begin) % interval >= part.cycles:
                break
            if span not in found:
                found.append(span)
        return found


@dataclass(slots=True)
class _Table:
    """A modulo reservation table."""

    interval: Time
    tracks: Mapping[Machine, _Track]

    def spans(self, op: int, parts: Sequence[_Part], start: Time) -> Iterator[tuple[_Track, _Span]]:
        for part in parts:
            yield self.tracks[part.machine], _Span(op, (start + part.offset) % self.interval, part)

    def rivals(self, parts: Sequence[_Part], start: Time) -> set[int]:
        """The operations that are in the way of `parts` from `start` on."""
        return {span.op for _, _, blocking in self._blocking(parts, start) for span in blocking}

    def later(self, parts: Sequence[_Part], start: Time) -> Time:
        """How much later than `start` the first span that blocks it then is over; 0 where nothing does."""
        latest = 0
        for _, begin, (first, *_) in self._blocking(parts, start):
            over = (first.begin + first.part.cycles - begin) % self.interval or self.interval
            latest = max(latest, over)
        return latest

    def sooner(self, parts: Sequence[_Part], start: Time) -> Time:
        """How much sooner than `start` it must be over before the last span that blocks it then begins."""
        soonest = 0
        for part, begin, (*_, last) in self._blocking(parts, start):
            over = (begin + part.cycles - last.begin) % self.interval or self.interval
            soonest = max(soonest, over)
        return soonest

    def _blocking(self, parts: Sequence[_Part], start: Time) -> Iterator[tuple[_Part, Time, list[_Span]]]:
        """The parts that have no room, from which residue on, and what is in their way."""
        for part in parts:
            begin = (start + part.offset) % self.interval
            if blocking := self.tracks[part.machine].blocking(part, begin):
                yield part, begin, blocking


@dataclass(slots=True)
class _Placing:
    """Iterative modulo scheduling under one partition."""

    interval: Time
    parts: list[list[_Part]]
    before: list[list[tuple[int, Time]]]
    """Predecessors and successors of each operation, with weights."""
    after: list[list[tuple[int, Time]]]
    table: _Table
    start: dict[int, Time] = field(default_factory=dict[int, Time])
    last: dict[int, Time] = field(default_factory=dict[int, Time])

    def earliest(self, op: int) -> Time:
        return max([0, *(self.start[a] + w for a, w in self.before[op] if a in self.start)])

    def place(self, op: int, start: Time) -> list[int]:
        """Place an operation; the operations that it displaces."""
        out = self.table.rivals(self.parts[op], start)
        out |= {b for b, w in self.after[op] if b != op and b in self.start and self.start[b] < start + w}
        for other in out:
            self.remove(other)
        for track, span in self.table.spans(op, self.parts[op], start):
            track.add(span)
        self.start[op] = self.last[op] = start
        return sorted(out)

    def remove(self, op: int) -> None:
        for track, span in self.table.spans(op, self.parts[op], self.start.pop(op)):
            track.remove(span)

    def slot(self, op: int) -> Time:
        """The first start at which nothing is in the way; where there is none, the earliest that is later
        than the last."""
        early = self.earliest(op)
        time = self.free(op, early)
        return max(early, self.last.get(op, -1) + 1) if time is None else time

    def free(self, op: int, early: Time) -> Time | None:
        """The first start from `early` on at which nothing is in the way, within an interval."""
        time = early
        while time < early + self.interval:
            later = self.table.later(self.parts[op], time)
            if later == 0:
                return time
            time += later
        return None

    def run(self, rank: Sequence[tuple[Time, int]], late: Late) -> bool:
        """Place all operations, those of lower rank first, within the budget, unless it is `late` before."""
        waiting = [(rank[op], op) for op in range(len(self.parts))]
        heapq.heapify(waiting)
        for _ in range(PLACEMENTS * len(self.parts)):
            if not waiting or late():
                break
            _, op = heapq.heappop(waiting)
            for other in self.place(op, self.slot(op)):
                heapq.heappush(waiting, (rank[other], other))
        return not waiting

    def move(self, op: int, *, latest: Time | None) -> None:
        """To the earliest start that the others leave, or with `latest` to the last one until then."""
        early, start = self.earliest(op), self.start[op]
        self.remove(op)
        if latest is None:
            found = self.slot(op)
            self.place(op, found if found <= start else start)
            return
        time = min([latest, *(self.start[b] - w for b, w in self.after[op] if b != op)])
        while time > max(early, start) and (sooner := self.table.sooner(self.parts[op], time)):
            time -= sooner
        self.place(op, max(time, start))


def _starts(problem: Problem, interval: Time, labels: Labels | None, late: Late) -> list[Time] | None:
    """Starts at which no machine is overbooked: longest rest of the iteration first."""
    joint = labels is not None
    window = windows(problem, interval, labels, joint=joint)
    if window is None:
        return None
    placing = _placing(problem, interval, labels)
    if not placing.run([(-tail, op) for op, tail in enumerate(window.tail)], late):
        return None
    _settle(problem, placing)
    return [placing.start[op] for op in range(len(problem.operations))]


def _one_after_the_other(
    problem: Problem, interval: Time, labels: Labels | None, order: Sequence[int], ahead: int
) -> list[Time] | None:
    """Each group issues one operation after the other: of the first `ahead` in this order whose operands are
    there, the one that can start first."""
    if windows(problem, interval, labels, joint=labels is not None) is None:
        return None
    placing, last = _placing(problem, interval, labels), defaultdict[int, Time](int)
    rank, after, missing = {op: i for i, op in enumerate(order)}, *_successors(problem)
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
    _fill_late(problem, placing)
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
    placing = _Copying(_placing(problem, interval, labels), _members(interval, order, families))
    if not placing.run([op for op in order if op in placing.members]):
        return None
    _fill_late(problem, placing.placing)
    return [placing.placing.start[op] for op in range(len(problem.operations))]


Copies = Sequence[tuple[int, Time]]
"""An operation of a first part and its copies, each with its shift."""


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


@dataclass(slots=True)
class _Copying:
    """Iterative modulo scheduling of operations together with their copies."""

    placing: _Placing
    members: dict[int, Copies]
    last: dict[int, Time] = field(default_factory=dict[int, Time])

    def run(self, order: Sequence[int]) -> bool:
        """Place all, in this order, within the budget."""
        first = {copy: op for op, copies in self.members.items() for copy, _ in copies}
        rank = {op: i for i, op in enumerate(order)}
        waiting = [(i, op) for op, i in rank.items()]
        for _ in range(PLACEMENTS * len(order)):
            if not waiting:
                break
            _, op = heapq.heappop(waiting)
            for other in sorted({first[out] for out in self._place(op)}):
                self._remove(other)
                heapq.heappush(waiting, (rank[other], other))
        return not waiting

    def _place(self, op: int) -> set[int]:
        """The operations that it and its copies displace."""
        start = self.last[op] = self._slot(self.members[op], self.last.get(op, -1))
        return {out for copy, shift in self.members[op] for out in self.placing.place(copy, start + shift)}

    def _remove(self, op: int) -> None:
        for copy, _ in self.members[op]:
            if copy in self.placing.start:
                self.placing.remove(copy)

    def _slot(self, copies: Copies, last: Time) -> Time:
        """The first start at which nothing is in the way of any; where there is none, the earliest that is
        later than the last."""
        placing = self.placing
        early = time = max(0, *(placing.earliest(op) - shift for op, shift in copies))
        while later := max(placing.table.later(placing.parts[op], time + shift) for op, shift in copies):
            time += later
            if time >= early + placing.interval:
                return max(early, last + 1)
        return time


def _fill_late(problem: Problem, placing: _Placing) -> None:
    """What fills shared or tensor memory as late as its readers allow, so that less is full at once."""
    ops, end = problem.operations, _end(problem, placing)
    filled = {value.src for value in problem.values if (value.shared or value.tensor) and not value.resident}
    for op in sorted(placing.start, key=lambda op: (-placing.start[op], -op)):
        if ops[op].id in filled:
            placing.move(op, latest=end - ops[op].duration)


NEVER = 1 << 60
"""Where nothing is free within an interval."""


def _start(placing: _Placing, op: int, labels: Labels | None, last: Mapping[int, Time]) -> Time:
    """The earliest start behind what its group has issued."""
    behind = 0 if labels is None else last.get(labels[op], 0)
    time = placing.free(op, max(placing.earliest(op), behind))
    return NEVER if time is None else time


def _successors(problem: Problem) -> tuple[list[list[int]], list[int]]:
    """The readers of each operation in one iteration, and how many it waits for."""
    after: list[list[int]] = [[] for _ in problem.operations]
    missing = [0] * len(problem.operations)
    for edge in problem.edges:
        if edge.distance == 0:
            after[problem.index(edge.src)].append(problem.index(edge.dst))
            missing[problem.index(edge.dst)] += 1
    return after, missing


def _depth_first(problem: Problem) -> list[int]:
    """An order of one iteration in which results are used soon."""
    after, missing = _successors(problem)
    ready, order = [op for op, count in enumerate(missing) if not count][::-1], list[int]()
    while ready:
        order.append(ready.pop())
        for other in reversed(after[order[-1]]):
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return order


def _fewest_registers(problem: Problem) -> list[int]:
    """An order of one iteration: of the operations whose operands are there, the one after which the fewest
    registers are live, as far as one step ahead shows."""
    after, missing = _successors(problem)
    index = {op.id: i for i, op in enumerate(problem.operations)}
    made, waiting = defaultdict[int, int](int), list[tuple[int, set[int]]]()
    for value in problem.values:
        last = max((use.distance for use in value.uses), default=0)
        if value.registers and value.uses and not value.resident:
            made[index[value.src]] += value.registers
            waiting.append((value.registers, {index[use.op] for use in value.uses if use.distance == last}))

    def freed(op: int) -> int:
        return sum(registers for registers, readers in waiting if readers == {op})

    ready, order = [op for op, count in enumerate(missing) if not count], list[int]()
    while ready:
        op = min(ready, key=lambda op: (made[op] - freed(op), op))
        ready.remove(op)
        order.append(op)
        for _, readers in waiting:
            readers.discard(op)
        for other in after[op]:
            missing[other] -= 1
            ready += [other] if not missing[other] else []
    return order


def _placing(problem: Problem, interval: Time, labels: Labels | None) -> _Placing:
    count = range(len(problem.operations))
    before: list[list[tuple[int, Time]]] = [[] for _ in count]
    after: list[list[tuple[int, Time]]] = [[] for _ in count]
    for a, b, weight in arcs(problem, interval, labels, joint=labels is not None):
        before[b].append((a, weight))
        after[a].append((b, weight))
    parts = [
        _parts(problem, op, None if labels is None else labels[i]) for i, op in enumerate(problem.operations)
    ]
    capacity: dict[Machine, int] = {unit.name: unit.capacity for unit in problem.units}
    machines = {part.machine for own in parts for part in own}
    tracks = {machine: _Track(interval, capacity.get(machine, 1)) for machine in machines}
    return _Placing(interval, parts, before, after, _Table(interval, tracks))


def _settle(problem: Problem, placing: _Placing) -> None:
    """Loads as late as their readers allow, then all else as early as possible."""
    ops, end = problem.operations, _end(problem, placing)
    loads = [op for op in placing.start if ops[op].variable]
    for op in sorted(loads, key=lambda op: (-placing.start[op], -op)):
        placing.move(op, latest=end - ops[op].duration)
    for op in sorted(placing.start, key=lambda op: (placing.start[op], op)):
        if not ops[op].variable:
            placing.move(op, latest=None)


def _end(problem: Problem, placing: _Placing) -> Time:
    return max(start + problem.operations[op].duration for op, start in placing.start.items())
