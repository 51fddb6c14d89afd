"""The registers that groups hold while the starts of their operations are chosen one after the other.

Takes a `Problem` and a partition; `Held.start` gives the first time from which an operation may start without
its group holding more than it can be granted. Starts of a group must not decrease. What wraps past the end of
the period is only counted at the starts themselves, so that the caller verifies each schedule.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twill.ir.problem import Problem, Time, Value
from twill.modulo.constructive import NEVER
from twill.modulo.simplest import Labels


@dataclass(slots=True)
class _Instance:
    """A value as one group holds it in one iteration."""

    registers: int
    readers: dict[int, Time]
    """Operations of the group that have not started, each with how long it reads."""
    end: Time = 0
    """When those that have started are done with it."""
    kept: bool = False
    """The next iteration reads it."""


@dataclass(slots=True)
class Held:
    """What each group holds."""

    interval: Time
    capacity: Mapping[int, int]
    """Registers of each group that computes with more than one warp."""
    label: Labels
    made: Mapping[int, Sequence[_Instance]]
    """Instances that begin with an operation's start, ..."""
    read: Mapping[int, Sequence[_Instance]]
    """... and those that an operation reads; one that begins with its first reader is in both."""
    open: dict[int, int]
    """Registers of what each group holds until an operation that has not started."""
    begun: set[int] = field(default_factory=set[int])
    """Instances that are held, by identity."""
    closing: dict[int, list[tuple[Time, int]]] = field(
        default_factory=lambda: defaultdict[int, list[tuple[Time, int]]](list)
    )
    """When which registers of a group become free, the first one first."""
    past: dict[int, list[tuple[Time, int]]] = field(
        default_factory=lambda: defaultdict[int, list[tuple[Time, int]]](list)
    )
    """What a group held from each of its starts on."""

    def start(self, op: int, early: Time) -> Time:
        """The first time from `early` on at which there is room, with what is held then."""
        group = self.label[op]
        if group not in self.capacity:
            return early
        more = self._more(op)
        changes = [end for end, _ in self.closing[group]]
        changes += [begin + self.interval for begin, _ in self.past[group]]
        for time in (early, *sorted(change for change in changes if change > early)):
            if self._at(group, time) + more <= self.capacity[group]:
                return time
        return NEVER

    def place(self, op: int, time: Time) -> None:
        """The operation starts."""
        group = self.label[op]
        if group not in self.capacity:
            return
        for one in self.made.get(op, ()):
            if id(one) not in self.begun:
                self.begun.add(id(one))
                self.open[group] += one.registers
        for one in self.read.get(op, ()):
            one.end = max(one.end, time + one.readers.pop(op, 0))
            if not one.readers and not one.kept:
                self._close(group, one)
        for one in self.made.get(op, ()):
            if not (one.readers or one.kept or one.end):
                one.end = time
                self._close(group, one)
        self.past[group].append((time, self._now(group, time)))

    def _close(self, group: int, one: _Instance) -> None:
        self.open[group] -= one.registers
        insort(self.closing[group], (one.end, one.registers))

    def _more(self, op: int) -> int:
        """Registers that a group holds beyond those before, when the operation starts."""
        more = sum(one.registers for one in self.made.get(op, ()) if id(one) not in self.begun)
        for one in self.read.get(op, ()):
            last = not one.kept and set(one.readers) == {op}
            more -= one.registers if last and not one.readers[op] else 0
        return more

    def _now(self, group: int, time: Time) -> int:
        return self.open[group] + sum(registers for end, registers in self.closing[group] if end > time)

    def _at(self, group: int, time: Time) -> int:
        """With what the iteration before holds then."""
        earlier = [held for begin, held in self.past[group] if begin <= time - self.interval]
        return self._now(group, time) + (earlier[-1] if earlier else 0)


def empty(problem: Problem, interval: Time, label: Labels) -> Held:
    """Nothing but what is held at every time, and what the iteration before left."""
    capacity = _capacity(problem, label)
    made, read = defaultdict[int, list[_Instance]](list), defaultdict[int, list[_Instance]](list)
    held = defaultdict[int, int](int)
    for value in problem.values:
        src = problem.index(value.src)
        for group in capacity if value.registers else ():
            if value.resident:
                held[group] += value.registers if label[src] == group else 0
                continue
            for one, begins, before in _instances(problem, value, label, group):
                for op in one.readers:
                    read[op].append(one)
                for op in begins:
                    made[op].append(one)
                held[group] += one.registers if before else 0
    return Held(interval, capacity, label, made, read, held)


def _instances(
    problem: Problem, value: Value, label: Labels, group: int
) -> list[tuple[_Instance, list[int], bool]]:
    """How the group holds it: from its own start or its first reader on, with the operations that begin it;
    what a later iteration reads is also there before they do."""
    src = problem.index(value.src)
    own = label[src] == group
    uses = [(problem.index(use.op), use) for use in value.uses]
    uses = [(op, use) for op, use in uses if label[op] == group]
    if not own and not uses:
        return []
    now = {op: use.hold for op, use in uses if not use.distance}
    later = {op: use.hold for op, use in uses if use.distance}
    found = list[tuple[_Instance, list[int], bool]]()
    if later:
        found.append((_Instance(value.registers, later), [], True))
        if own:
            found.append((_Instance(value.registers, {}, kept=True), [src], False))
    elif own or now:
        found.append((_Instance(value.registers, now), [src] if own else list(now), False))
    return found


def _capacity(problem: Problem, label: Labels) -> dict[int, int]:
    """Registers per thread of each group of more than one warp, where all are granted as many."""
    limits, ops = problem.limits, problem.operations
    width = defaultdict[int, int](int)
    for op, group in zip(ops, label, strict=True):
        width[group] = max(width[group], op.warps)
    wide = {group: warps for group, warps in width.items() if warps > 1}
    left = limits.registers_total - 128 * limits.narrow_registers * -(-(len(width) - len(wide)) // 4)
    each = min(limits.registers_per_thread, left // (32 * max(1, sum(wide.values()))))
    most = each // limits.register_step * limits.register_step - limits.register_base
    return dict.fromkeys(wide, most)
