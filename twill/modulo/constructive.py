"""Schedules at the lower bound, without a solver: iterative modulo scheduling (Rau 1994) under natural
partitions.

Takes a `Problem` and an interval; gives schedules that keep dependences and units and issue one operation of
a group after the other, with first-fit addresses. Registers and the capacity of memories are not looked at
while times are chosen: the caller verifies each schedule, and takes none that breaks a rule. An operation
that fits nowhere displaces others, which are then placed again, within a budget. Deterministic; what it does
not find may exist.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twill.engine import decode
from twill.engine.partitions import partitions
from twill.ir.problem import Operation, Problem, Time
from twill.ir.schedule import Solution
from twill.modulo.addresses import first_fit
from twill.modulo.simplest import Labels, Machine, arcs, windows

PLACEMENTS = 16
"""Times an operation is placed, on average, before a partition is given up."""

LARGEST = 1000
"""Operations above which it is not tried: it takes seconds there."""


def schedules(problem: Problem, interval: Time, in_flight: int, *, joint: bool = True) -> Iterator[Solution]:
    """One schedule at most for each natural partition, the simplest partition first; none where the problem
    has what `_supported` excludes."""
    if not _supported(problem, interval, joint):
        return
    for labels in _by_groups(problem) if joint else (None,):
        starts = _starts(problem, interval, labels)
        if starts is not None:
            found = _solution(problem, interval, starts, labels)
            if found.in_flight(problem) <= in_flight:
                yield found


def _supported(problem: Problem, interval: Time, joint: bool) -> bool:
    """Pinned starts, what takes longer than the interval, and an operation that takes a unit of several twice
    are left to the solvers."""
    several = {unit.name for unit in problem.units if unit.capacity > 1}
    for op in problem.operations:
        parts = _parts(problem, op, 0 if joint else None)
        shared = [part.machine for part in parts if part.machine in several]
        if len(set(shared)) < len(shared) or any(part.cycles > interval for part in parts):
            return False
    return not problem.starts and len(problem.operations) <= LARGEST


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


@dataclass(slots=True)
class _Table:
    """A modulo reservation table: what every machine runs, by operation."""

    interval: Time
    capacity: Mapping[Machine, int]
    taken: defaultdict[Machine, dict[tuple[int, int], tuple[Time, _Part]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, op: int, parts: Sequence[_Part], start: Time) -> None:
        for k, part in enumerate(parts):
            self.taken[part.machine][op, k] = ((start + part.offset) % self.interval, part)

    def remove(self, op: int, parts: Sequence[_Part]) -> None:
        for k, part in enumerate(parts):
            del self.taken[part.machine][op, k]

    def rivals(self, parts: Sequence[_Part], start: Time) -> set[int]:
        """The operations that are in the way of `parts` from `start` on."""
        return {op for part in parts for op in self._in_the_way(part, (start + part.offset) % self.interval)}

    def _in_the_way(self, part: _Part, begin: Time) -> set[int]:
        near = {
            key: (other, theirs)
            for key, (other, theirs) in self.taken[part.machine].items()
            if (begin - other) % self.interval < theirs.cycles
            or (other - begin) % self.interval < part.cycles
        }
        room = self.capacity.get(part.machine, 1) - part.amount
        if sum(theirs.amount for _, theirs in near.values()) <= room:
            return set()
        inside = (other for other, _ in near.values() if (other - begin) % self.interval < part.cycles)
        peak = max(
            sum(p.amount for other, p in near.values() if (at - other) % self.interval < p.cycles)
            for at in (begin, *inside)
        )
        return {op for op, _ in near} if peak > room else set()

    def ends(self, parts: Sequence[_Part]) -> Iterator[Time]:
        """Residues of a start at which some part begins just as another operation ends."""
        for part in parts:
            for begin, other in self.taken[part.machine].values():
                yield (begin + other.cycles - part.offset) % self.interval

    def begins(self, parts: Sequence[_Part]) -> Iterator[Time]:
        """Residues of a start at which some part ends just as another operation begins."""
        for part in parts:
            for begin, _ in self.taken[part.machine].values():
                yield (begin - part.cycles - part.offset) % self.interval


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
        self.table.add(op, self.parts[op], start)
        self.start[op] = self.last[op] = start
        return sorted(out)

    def remove(self, op: int) -> None:
        self.table.remove(op, self.parts[op])
        del self.start[op]

    def slot(self, op: int) -> Time:
        """The first start at which nothing is in the way; where there is none, the earliest that is later
        than the last."""
        early = self.earliest(op)
        ends = (early, *self.table.ends(self.parts[op]))
        for later in sorted({(at - early) % self.interval for at in ends}):
            if not self.table.rivals(self.parts[op], early + later):
                return early + later
        return max(early, self.last.get(op, -1) + 1)

    def run(self, rank: Sequence[tuple[Time, int]]) -> bool:
        """Place all operations, those of lower rank first, within the budget."""
        waiting = [(rank[op], op) for op in range(len(self.parts))]
        heapq.heapify(waiting)
        for _ in range(PLACEMENTS * len(self.parts)):
            if not waiting:
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
        late = min([latest, *(self.start[b] - w for b, w in self.after[op] if b != op)])
        back = sorted({(late - at) % self.interval for at in (late, *self.table.begins(self.parts[op]))})
        times = [late - by for by in back if late - by >= max(early, start)]
        free = (time for time in times if not self.table.rivals(self.parts[op], time))
        self.place(op, next(free, start))


def _starts(problem: Problem, interval: Time, labels: Labels | None) -> list[Time] | None:
    """Starts at which no machine is overbooked: longest rest of the iteration first."""
    joint = labels is not None
    window = windows(problem, interval, labels, joint=joint)
    if window is None:
        return None
    placing = _placing(problem, interval, labels)
    if not placing.run([(-tail, op) for op, tail in enumerate(window.tail)]):
        return None
    _settle(problem, placing)
    return [placing.start[op] for op in range(len(problem.operations))]


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
    return _Placing(interval, parts, before, after, _Table(interval, capacity))


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
