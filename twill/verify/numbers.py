"""The numbers that the rules are judged on, and the arithmetic of what repeats every interval.

Takes a `Problem` and a `Solution`; gives start times and groups by name, and live ranges as concrete spans of time. Everything is
computed from the definitions in `twill.ir.problem`, with the infinite repetition counted, never sampled on an unrolled program.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from twill.ir.problem import Problem, Time, Value
from twill.ir.schedule import Solution


@dataclass(frozen=True, slots=True)
class Numbers:
    """A problem with a start and a group for every operation."""

    problem: Problem
    interval: Time
    start: dict[str, Time]
    group: dict[str, int]

    @staticmethod
    def of(problem: Problem, solution: Solution) -> "Numbers":
        ids = [op.id for op in problem.operations]
        start = dict(zip(ids, solution.start, strict=True))
        return Numbers(problem, solution.interval, start, dict(zip(ids, solution.group, strict=True)))


@dataclass(frozen=True, slots=True)
class LiveSpan:
    """`amount` of something, taken by `owner` during [start, end) and again every interval."""

    owner: str
    start: Time
    end: Time
    amount: int

    def alive(self, time: Time, interval: Time) -> int:
        """How many instances are there at `time`: the integers k with start + k*I <= time < end + k*I."""
        return (time - self.start) // interval - (time - self.end) // interval


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest sum of amounts over all residues, a residue where it is reached, and who is there."""

    amount: int = 0
    residue: Time = 0
    owners: tuple[str, ...] = ()


def peak(spans: Sequence[LiveSpan], interval: Time) -> Peak:
    """The sum only grows where a span starts, so the residues of the starts are all that need looking at."""
    level = {
        residue: sum(span.amount * span.alive(residue, interval) for span in spans)
        for residue in sorted({span.start % interval for span in spans})
    }
    if not level:
        return Peak()
    top = max(level, key=lambda residue: level[residue])
    return Peak(level[top], top, tuple(span.owner for span in spans if span.amount and span.alive(top, interval)))


def live(numbers: Numbers, value: Value) -> tuple[Time, Time]:
    """Definition to the end of the last use; empty where nobody uses it."""
    return _until(numbers, value, (_end(numbers, value, i) for i in range(len(value.uses))))


def staged(numbers: Numbers, value: Value) -> tuple[Time, Time]:
    """Definition to the end of the last use in another group; empty where there is no such use."""
    away = (i for i, use in enumerate(value.uses) if numbers.group[use.op] != numbers.group[value.src])
    return _until(numbers, value, (_end(numbers, value, i) for i in away))


def held(numbers: Numbers, value: Value) -> Iterator[tuple[int, Time, Time]]:
    """(group, start, end) for every group that keeps the value in its registers."""
    home, start = numbers.group[value.src], numbers.start[value.src]
    groups = {numbers.group[use.op] for use in value.uses}
    for group in sorted(groups | {home}):
        mine = [i for i, use in enumerate(value.uses) if numbers.group[use.op] == group]
        end = max([_end(numbers, value, i) for i in mine], default=start)
        if group != home:
            yield group, min(_begin(numbers, value, i) for i in mine), end
            continue
        transfer = start + numbers.problem.operation(value.src).latency if groups - {home} else start
        if value.resident:
            yield group, start, start + numbers.interval
        else:
            yield group, start, max(start, end, transfer)


@dataclass(frozen=True, slots=True)
class Room:
    """The room that a value takes in shared or tensor memory: `copies` places of `size`; `own` ones nothing else may use."""

    value: str
    memory: Literal["shared", "tensor"]
    staging: bool
    size: int
    start: Time
    end: Time
    copies: int
    own: bool
    slots: int = 0

    @property
    def name(self) -> str:
        return f"{self.value} (staging)" if self.staging else self.value

    def spans(self, interval: Time) -> Iterator[LiveSpan]:
        """Its live range, and the slots of a ring at all times."""
        yield LiveSpan(self.name, self.start, self.end, self.size)
        if self.slots:
            yield LiveSpan(self.name, 0, interval, self.size * self.slots)


def rooms(numbers: Numbers) -> tuple[Room, ...]:
    """All that has to lie somewhere in shared or tensor memory; empty ranges and sizes of 0 take no room."""
    every = (room for value in numbers.problem.values for room in _rooms_of(numbers, value))
    return tuple(room for room in every if room.size > 0 and room.copies > 0)


def _rooms_of(numbers: Numbers, value: Value) -> Iterator[Room]:
    start, end = live(numbers, value)
    if value.resident:
        start, end = numbers.start[value.src], numbers.start[value.src] + numbers.interval
    turns = -(-(end - start) // numbers.interval)
    own = turns > 1 or value.slots > 0
    yield Room(value.id, "shared", False, value.shared, start, end, turns + value.slots, own, value.slots)
    yield Room(value.id, "tensor", False, value.tensor, start, end, turns + value.slots, own, value.slots)
    start, end = staged(numbers, value)
    turns = -(-(end - start) // numbers.interval)
    yield Room(value.id, "shared", True, value.staging, start, end, turns, turns > 1)


def _begin(numbers: Numbers, value: Value, use: int) -> Time:
    reader = value.uses[use]
    return numbers.start[reader.op] + reader.distance * numbers.interval


def _end(numbers: Numbers, value: Value, use: int) -> Time:
    return _begin(numbers, value, use) + value.uses[use].hold


def _until(numbers: Numbers, value: Value, ends: Iterable[Time]) -> tuple[Time, Time]:
    start = numbers.start[value.src]
    return start, max([start, *ends])
