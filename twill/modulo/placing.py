"""Iterative modulo scheduling (Rau 1994): operations are placed in a modulo reservation table one by one.

An operation goes to the first start at which dependences and units leave room. One that fits nowhere
displaces others, which are placed again, within a budget. `Copying` does so for operations together with
their shifted copies.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twill.ir.problem import Problem, Time
from twill.modulo.reservation_table import Part, Table, Track, parts_of
from twill.modulo.simplest import Labels, Machine, arcs

PLACEMENTS = 8
"""Times an operation is placed, on average, before a partition is given up."""


Late = Callable[[], bool]
"""Whether there is no more time."""


def never() -> bool:
    """There is time."""
    return False


@dataclass(slots=True)
class Placing:
    """Iterative modulo scheduling under one partition."""

    interval: Time
    parts: list[list[Part]]
    before: list[list[tuple[int, Time]]]
    """Predecessors and successors of each operation, with weights."""
    after: list[list[tuple[int, Time]]]
    table: Table
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


Copies = Sequence[tuple[int, Time]]
"""An operation of a first part and its copies, each with its shift."""


@dataclass(slots=True)
class Copying:
    """Iterative modulo scheduling of operations together with their copies."""

    placing: Placing
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


def empty_placing(problem: Problem, interval: Time, labels: Labels | None) -> Placing:
    count = range(len(problem.operations))
    before: list[list[tuple[int, Time]]] = [[] for _ in count]
    after: list[list[tuple[int, Time]]] = [[] for _ in count]
    for a, b, weight in arcs(problem, interval, labels, joint=labels is not None):
        before[b].append((a, weight))
        after[a].append((b, weight))
    parts = [
        parts_of(problem, op, None if labels is None else labels[i])
        for i, op in enumerate(problem.operations)
    ]
    capacity: dict[Machine, int] = {unit.name: unit.capacity for unit in problem.units}
    machines = {part.machine for own in parts for part in own}
    tracks = {machine: Track(interval, capacity.get(machine, 1)) for machine in machines}
    return Placing(interval, parts, before, after, Table(interval, tracks))
