"""A modulo reservation table: which operations occupy each machine at each residue of the interval.

A machine is a unit, or the issue of a warp group. `parts_of` gives what an operation occupies; a `Table`
says which operations are in its way at a start, and how far it must move to be past them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from twill.ir.problem import Operation, Problem, Time
from twill.modulo.simplest import Machine


@dataclass(frozen=True, slots=True)
class Part:
    """A row of an operation's reservation table, or its issue."""

    machine: Machine
    offset: Time
    cycles: Time
    amount: int = 1


def parts_of(problem: Problem, op: Operation, group: int | None) -> list[Part]:
    """What an operation keeps: units that are no aggregates, and the issue of its group."""
    real = {unit.name for unit in problem.units if not unit.aggregate}
    found = [
        Part(use.unit, use.offset, use.cycles, use.amount)
        for use in op.reservations
        if use.unit in real and use.cycles and use.amount
    ]
    return found if group is None else [*found, Part(group, 0, max(1, op.issue))]


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of an operation from residue `begin` on."""

    op: int
    begin: Time
    part: Part


@dataclass(slots=True)
class Track:
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

    def blocking(self, part: Part, begin: Time) -> list[_Span]:
        """The spans that leave no room for `part` at `begin`."""
        if self.capacity == 1:
            return self._near(part, begin)
        near = self._overlapping(part, begin)
        if sum(span.part.amount for span in near) + part.amount <= self.capacity:
            return []
        inside = (s.begin for s in near if (s.begin - begin) % self.interval < part.cycles)
        peak = max(self._running(near, at) for at in (begin, *inside))
        return near if peak + part.amount > self.capacity else []

    def _running(self, spans: Sequence[_Span], at: Time) -> int:
        return sum(s.part.amount for s in spans if (at - s.begin) % self.interval < s.part.cycles)

    def _overlapping(self, part: Part, begin: Time) -> list[_Span]:
        interval, cycles = self.interval, part.cycles
        return [
            span
            for at, span in zip(self.begins, self.spans, strict=True)
            if (at - begin) % interval < cycles or (begin - at) % interval < span.part.cycles
        ]

    def _near(self, part: Part, begin: Time) -> list[_Span]:
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
class Table:
    """A modulo reservation table."""

    interval: Time
    tracks: Mapping[Machine, Track]

    def spans(self, op: int, parts: Sequence[Part], start: Time) -> Iterator[tuple[Track, _Span]]:
        for part in parts:
            yield self.tracks[part.machine], _Span(op, (start + part.offset) % self.interval, part)

    def rivals(self, parts: Sequence[Part], start: Time) -> set[int]:
        """The operations that are in the way of `parts` from `start` on."""
        return {span.op for _, _, blocking in self._blocking(parts, start) for span in blocking}

    def later(self, parts: Sequence[Part], start: Time) -> Time:
        """How much later than `start` the first span that blocks it then is over; 0 where nothing does."""
        latest = 0
        for _, begin, (first, *_) in self._blocking(parts, start):
            over = (first.begin + first.part.cycles - begin) % self.interval or self.interval
            latest = max(latest, over)
        return latest

    def sooner(self, parts: Sequence[Part], start: Time) -> Time:
        """How much sooner than `start` it must be over before the last span that blocks it then begins."""
        soonest = 0
        for part, begin, (*_, last) in self._blocking(parts, start):
            over = (begin + part.cycles - last.begin) % self.interval or self.interval
            soonest = max(soonest, over)
        return soonest

    def _blocking(self, parts: Sequence[Part], start: Time) -> Iterator[tuple[Part, Time, list[_Span]]]:
        """The parts that have no room, from which residue on, and what is in their way."""
        for part in parts:
            begin = (start + part.offset) % self.interval
            if blocking := self.tracks[part.machine].blocking(part, begin):
                yield part, begin, blocking
