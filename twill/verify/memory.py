"""SHARED and TENSOR: the allocations of a solution, checked by simulating the addresses for a few periods.

Takes `Numbers` and the `Allocation`s that a solution claims; yields a `Violation` for a missing allocation,
one that is wrong or outside the memory, a multi-buffered channel that anything else overlaps, and any two
instances that would lie on one address at the same time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from twill.ir.problem import Time
from twill.ir.schedule import Allocation
from twill.verify.numbers import Buffer, Numbers, buffers, peak
from twill.verify.violation import Violation

Key = tuple[str, str, bool]

PERIODS = 3
"""A value in a slot that may be shared lives at most one period; three periods show every wrap-around."""


def allocations(n: Numbers, claimed: Sequence[Allocation]) -> Iterator[Violation]:
    """SHARED and TENSOR: capacity, an allocation for everything that needs one, and no address used twice at
    once."""
    for memory, capacity in (("shared", n.problem.limits.shared), ("tensor", n.problem.limits.tensor)):
        needed = [buffer for buffer in buffers(n) if buffer.memory == memory]
        stated = [allocation for allocation in claimed if allocation.memory == memory]
        yield from _capacity(memory, needed, capacity, n.interval)
        wrong = list(_accounts(needed, stated))
        yield from wrong or _laid(needed, stated, capacity, n.interval)


def _capacity(memory: str, needed: Sequence[Buffer], capacity: int, interval: Time) -> Iterator[Violation]:
    """At no residue the live bytes exceed the memory, whatever the addresses."""
    top = peak([span for buffer in needed for span in buffer.spans(interval)], interval)
    if top.amount > capacity:
        text = (
            f"{memory} memory overflows at residue {top.residue} with {', '.join(dict.fromkeys(top.owners))}"
        )
        yield Violation(memory.upper(), text, values=top.owners, needs=top.amount, has=capacity)


def _laid(
    needed: Sequence[Buffer], stated: Sequence[Allocation], capacity: int, interval: Time
) -> Iterator[Violation]:
    """Every buffer at its address."""
    by_key = {_key(allocation): allocation for allocation in stated}
    laid = [(buffer, by_key[buffer.value, buffer.memory, buffer.staging]) for buffer in needed]
    yield from _bounds(stated, capacity)
    yield from _owned(laid)
    yield from _collisions(laid, interval)


def _accounts(needed: Sequence[Buffer], claimed: Sequence[Allocation]) -> Iterator[Violation]:
    """Every buffer has exactly one allocation, of its size and slots, and every allocation has a buffer."""
    count = Counter(_key(allocation) for allocation in claimed)
    buffer_of = {(buffer.value, buffer.memory, buffer.staging): buffer for buffer in needed}
    for key, buffer in buffer_of.items():
        if count[key] != 1:
            text = f"{buffer.name} needs one allocation and has {count[key]}"
            yield Violation(buffer.memory.upper(), text, values=(buffer.value,), needs=1, has=count[key])
    for allocation in claimed:
        buffer = buffer_of.get(_key(allocation))
        if buffer is None:
            yield Violation(
                allocation.memory.upper(),
                f"{allocation.value} is allocated and takes no storage",
                values=(allocation.value,),
            )
        elif (buffer.size, buffer.slots) != (allocation.size, allocation.slots):
            text = (
                f"{buffer.name} needs {buffer.slots} x {buffer.size} and has {allocation.slots} x"
                f" {allocation.size}"
            )
            yield Violation(
                allocation.memory.upper(),
                text,
                values=(allocation.value,),
                needs=buffer.size * buffer.slots,
                has=allocation.size * allocation.slots,
            )


def _bounds(stated: Sequence[Allocation], capacity: int) -> Iterator[Violation]:
    for allocation in stated:
        if allocation.address < 0 or _top(allocation) > capacity:
            text = (
                f"{allocation.value} lies at [{allocation.address}, {_top(allocation)}), outside the memory"
            )
            yield Violation(
                allocation.memory.upper(),
                text,
                values=(allocation.value,),
                needs=_top(allocation),
                has=capacity,
            )


def _owned(laid: Sequence[tuple[Buffer, Allocation]]) -> Iterator[Violation]:
    """Nothing overlaps a value of several slots."""
    for (buffer, a), (other, b) in combinations(laid, 2):
        if (buffer.own or other.own) and _overlap(a, b):
            yield Violation(
                a.memory.upper(),
                f"{buffer.name} and {other.name} overlap, though one of them has several slots",
                values=(buffer.value, other.value),
            )


@dataclass(frozen=True, slots=True)
class _Instance:
    """Instance `number` of a value, on [low, high) during [start, end)."""

    value: str
    name: str
    number: int
    start: Time
    end: Time
    low: int
    high: int


def _collisions(laid: Sequence[tuple[Buffer, Allocation]], interval: Time) -> Iterator[Violation]:
    """Runs the loop for a few periods: nothing may begin where something else is still live.

    Values of several slots are left out: nothing overlaps them, and one slot per period begun separates their
    instances.
    """
    instances = [
        x for buffer, allocation in laid if not buffer.own for x in _instances(buffer, allocation, interval)
    ]
    alive: list[_Instance] = []
    seen: set[tuple[str, str]] = set()
    for new in sorted(instances, key=lambda x: (x.start, x.name, x.number)):
        alive = [old for old in alive if old.end > new.start]
        for old in alive:
            if old.low < new.high and new.low < old.high and (old.name, new.name) not in seen:
                seen.add((old.name, new.name))
                text = (
                    f"{new.name} (iteration {new.number}) overwrites {old.name} (iteration {old.number}) at"
                    f" time {new.start}"
                )
                yield Violation(laid[0][0].memory.upper(), text, values=(old.value, new.value))
        alive.append(new)


def _instances(buffer: Buffer, allocation: Allocation, interval: Time) -> Iterator[_Instance]:
    """The instances that exist at some time of [0, PERIODS * I)."""
    first = -(buffer.end // interval)
    last = (PERIODS * interval - buffer.start - 1) // interval
    for k in range(first, last + 1):
        yield _Instance(
            buffer.value,
            buffer.name,
            k,
            buffer.start + k * interval,
            buffer.end + k * interval,
            allocation.address,
            _top(allocation),
        )


def _key(allocation: Allocation) -> Key:
    return allocation.value, allocation.memory, allocation.staging


def _top(allocation: Allocation) -> int:
    return allocation.address + allocation.size * allocation.slots


def _overlap(a: Allocation, b: Allocation) -> bool:
    return a.address < _top(b) and b.address < _top(a)
