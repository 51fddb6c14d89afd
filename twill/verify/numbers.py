"""The numbers that the rules are judged on, and the arithmetic of what repeats every interval.

Takes a `Problem` and a `Solution`; gives start times and groups by name, and live ranges as concrete spans of
time. Everything is computed from the definitions in `twill.ir.problem`, with the infinite repetition counted,
never sampled on an unrolled program.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
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
    """The sum only grows where a span starts, so the residues of the starts are all that need looking at. It
    is what is there at residue 0, and what starts and ends from there on."""
    if not spans:
        return Peak()
    change = defaultdict[Time, int](int)
    for span in spans:
        change[0] += span.amount * span.alive(0, interval)
        for time, sign in ((span.start % interval, 1), (span.end % interval, -1)):
            change[time] += sign * span.amount if time else 0
    residues = sorted(change)
    level = dict(zip(residues, accumulate(change[residue] for residue in residues), strict=True))
    starts = sorted({span.start % interval for span in spans})
    top = max(starts, key=lambda residue: level[residue])
    return Peak(
        level[top], top, tuple(span.owner for span in spans if span.amount and span.alive(top, interval))
    )


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
class Buffer:
    """The storage of a value in shared or tensor memory: `slots` slots of `size`; nothing else may use those
    of an `own` one."""

    value: str
    memory: Literal["shared", "tensor"]
    staging: bool
    size: int
    start: Time
    end: Time
    slots: int
    own: bool
    extra_slots: int = 0

    @property
    def name(self) -> str:
        return f"{self.value} (staging)" if self.staging else self.value

    def spans(self, interval: Time) -> Iterator[LiveSpan]:
        """Its live range, and its further slots at all times."""
        yield LiveSpan(self.name, self.start, self.end, self.size)
        if self.extra_slots:
            yield LiveSpan(self.name, 0, interval, self.size * self.extra_slots)


def buffers(numbers: Numbers) -> tuple[Buffer, ...]:
    """All that has to lie somewhere in shared or tensor memory; empty ranges and sizes of 0 take no
    buffer."""
    every = (buffer for value in numbers.problem.values for buffer in _buffers_of(numbers, value))
    return tuple(buffer for buffer in every if buffer.size > 0 and buffer.slots > 0)


def _buffers_of(numbers: Numbers, value: Value) -> Iterator[Buffer]:
    start, end = live(numbers, value)
    if value.resident:
        start, end = numbers.start[value.src], numbers.start[value.src] + numbers.interval
    periods = -(-(end - start) // numbers.interval)
    own = periods > 1 or value.slots > 0
    yield Buffer(value.id, "shared", False, value.shared, start, end, periods + value.slots, own, value.slots)
    yield Buffer(value.id, "tensor", False, value.tensor, start, end, periods + value.slots, own, value.slots)
    start, end = staged(numbers, value)
    periods = -(-(end - start) // numbers.interval)
    yield Buffer(value.id, "shared", True, value.staging, start, end, periods, periods > 1)


def _begin(numbers: Numbers, value: Value, use: int) -> Time:
    reader = value.uses[use]
    return numbers.start[reader.op] + reader.distance * numbers.interval


def _end(numbers: Numbers, value: Value, use: int) -> Time:
    return _begin(numbers, value, use) + value.uses[use].hold


def _until(numbers: Numbers, value: Value, ends: Iterable[Time]) -> tuple[Time, Time]:
    start = numbers.start[value.src]
    return start, max([start, *ends])
