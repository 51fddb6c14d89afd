"""Fixed addresses over modulo time by first fit, for starts that are chosen.

Takes starts and groups; gives an address for everything that needs storage, the largest first, each at the
lowest place where nothing else lives at the same time. It does not look at the capacity: the verifier does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from twill.engine import decode
from twill.engine.decode import Address
from twill.ir.problem import Problem, Time, Value


@dataclass(frozen=True, slots=True)
class _Box:
    key: tuple[str, str, bool]
    height: int
    begin: Time
    """Residue at which it becomes live."""
    length: Time
    """How long it is live; the interval where it always is."""


def first_fit(problem: Problem, interval: Time, start: Sequence[Time], group: Sequence[int]) -> Address:
    """An address for each (value, memory, staging)."""
    boxes = [
        box
        for value in problem.values
        for memory, size, staging in decode.buffers(value)
        if size and (box := _box(problem, interval, start, group, value, (memory, size, staging)))
    ]
    address: dict[tuple[str, str, bool], int] = {}
    placed: list[tuple[_Box, int]] = []
    for box in sorted(boxes, key=lambda box: (box.length < interval, -box.height, box.key)):
        rivals = sorted((at, at + other.height) for other, at in placed if _meet(interval, box, other))
        address[box.key] = _lowest(box.height, rivals)
        placed.append((box, address[box.key]))
    return address


def _box(
    problem: Problem,
    interval: Time,
    start: Sequence[Time],
    group: Sequence[int],
    value: Value,
    buffer: tuple[str, int, bool],
) -> _Box | None:
    """What one buffer of a value takes, where it takes any."""
    memory, size, staging = buffer
    length = decode.live_range(problem, interval, start, group, value, staging)
    slots = decode.slots(interval, value, length, staging)
    alone = slots > 1 or (value.resident and not staging) or (value.slots > 0 and not staging)
    begin = start[problem.index(value.src)] % interval
    key = value.id, memory, staging
    return _Box(key, slots * size, begin, interval if alone else length) if slots else None


def _meet(interval: Time, a: _Box, b: _Box) -> bool:
    """They are in the same memory and live at the same residue."""
    overlap = (a.begin - b.begin) % interval < b.length or (b.begin - a.begin) % interval < a.length
    return a.key[1] == b.key[1] and overlap


def _lowest(height: int, rivals: Sequence[tuple[int, int]]) -> int:
    """The lowest gap between address ranges, which are in order."""
    address = 0
    for begin, end in rivals:
        if address + height <= begin:
            return address
        address = max(address, end)
    return address
