"""SHARED and TENSOR: the places of a solution, judged by laying the values down at their addresses for a few periods.

Takes `Numbers` and the `Allocation`s that a solution claims; yields a `Violation` for a value without its place, a place that is wrong or
outside the memory, a ring that anything else touches, and any two instances that would lie on one address at the same time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from twill.ir.problem import Time
from twill.ir.schedule import Allocation
from twill.verify.numbers import Numbers, Room, peak, rooms
from twill.verify.violation import Violation

Key = tuple[str, str, bool]

PERIODS = 3
"""A value in a place that may be shared lives at most one period; three show every wrap round the period's end."""


def places(n: Numbers, claimed: Sequence[Allocation]) -> Iterator[Violation]:
    """SHARED and TENSOR: capacity, a place for everything that needs one, and no address used twice at once."""
    for memory, capacity in (("shared", n.problem.limits.shared), ("tensor", n.problem.limits.tensor)):
        needed = [room for room in rooms(n) if room.memory == memory]
        stated = [place for place in claimed if place.memory == memory]
        yield from _capacity(memory, needed, capacity, n.interval)
        wrong = list(_accounts(needed, stated))
        yield from wrong or _laid(needed, stated, capacity, n.interval)


def _capacity(memory: str, needed: Sequence[Room], capacity: int, interval: Time) -> Iterator[Violation]:
    """No residue needs more than there is, wherever it would lie."""
    top = peak([span for room in needed for span in room.spans(interval)], interval)
    if top.amount > capacity:
        text = f"{memory} memory overflows at residue {top.residue} with {', '.join(dict.fromkeys(top.owners))}"
        yield Violation(memory.upper(), text, values=top.owners, needs=top.amount, has=capacity)


def _laid(needed: Sequence[Room], stated: Sequence[Allocation], capacity: int, interval: Time) -> Iterator[Violation]:
    """Every room at its place."""
    by_key = {_key(place): place for place in stated}
    laid = [(room, by_key[room.value, room.memory, room.staging]) for room in needed]
    yield from _bounds(stated, capacity)
    yield from _owned(laid)
    yield from _collisions(laid, interval)


def _accounts(needed: Sequence[Room], claimed: Sequence[Allocation]) -> Iterator[Violation]:
    """Every room has exactly one place of its size and copies, and no place is without a room."""
    count = Counter(_key(place) for place in claimed)
    room_of = {(room.value, room.memory, room.staging): room for room in needed}
    for key, room in room_of.items():
        if count[key] != 1:
            text = f"{room.name} needs one place and has {count[key]}"
            yield Violation(room.memory.upper(), text, values=(room.value,), needs=1, has=count[key])
    for place in claimed:
        room = room_of.get(_key(place))
        if room is None:
            yield Violation(place.memory.upper(), f"{place.value} has a place and takes no room", values=(place.value,))
        elif (room.size, room.copies) != (place.size, place.copies):
            text = f"{room.name} needs {room.copies} x {room.size} and has {place.copies} x {place.size}"
            yield Violation(place.memory.upper(), text, values=(place.value,), needs=room.size * room.copies, has=place.size * place.copies)


def _bounds(stated: Sequence[Allocation], capacity: int) -> Iterator[Violation]:
    for place in stated:
        if place.address < 0 or _top(place) > capacity:
            text = f"{place.value} lies at [{place.address}, {_top(place)}), outside the memory"
            yield Violation(place.memory.upper(), text, values=(place.value,), needs=_top(place), has=capacity)


def _owned(laid: Sequence[tuple[Room, Allocation]]) -> Iterator[Violation]:
    """A value of several places has them for itself."""
    for (room, a), (other, b) in combinations(laid, 2):
        if (room.own or other.own) and _overlap(a, b):
            yield Violation(a.memory.upper(), f"{room.name} and {other.name} share places of a ring", values=(room.value, other.value))


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


def _collisions(laid: Sequence[tuple[Room, Allocation]], interval: Time) -> Iterator[Violation]:
    """Runs the loop for a few periods: whatever begins must not lie where something else still is.

    Rings stay out of it: nothing else touches them, and as many copies as periods begun keep their own instances apart.
    """
    instances = [x for room, place in laid if not room.own for x in _instances(room, place, interval)]
    alive: list[_Instance] = []
    seen: set[tuple[str, str]] = set()
    for new in sorted(instances, key=lambda x: (x.start, x.name, x.number)):
        alive = [old for old in alive if old.end > new.start]
        for old in alive:
            if old.low < new.high and new.low < old.high and (old.name, new.name) not in seen:
                seen.add((old.name, new.name))
                text = f"{new.name} (iteration {new.number}) overwrites {old.name} (iteration {old.number}) at time {new.start}"
                yield Violation(laid[0][0].memory.upper(), text, values=(old.value, new.value))
        alive.append(new)


def _instances(room: Room, place: Allocation, interval: Time) -> Iterator[_Instance]:
    """The instances that exist at some time of [0, PERIODS * I)."""
    first = -(room.end // interval)
    last = (PERIODS * interval - room.start - 1) // interval
    for k in range(first, last + 1):
        yield _Instance(room.value, room.name, k, room.start + k * interval, room.end + k * interval, place.address, _top(place))


def _key(place: Allocation) -> Key:
    return place.value, place.memory, place.staging


def _top(place: Allocation) -> int:
    return place.address + place.size * place.copies


def _overlap(a: Allocation, b: Allocation) -> bool:
    return a.address < _top(b) and b.address < _top(a)
