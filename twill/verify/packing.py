"""Exhaustive packing of tiny memories: whether boxes that must not overlap while alive fit, and where.

Takes boxes (a size, and the residues at which each is alive) and a capacity; gives an address for each, or
None where no packing exists. In any packing every box can be pushed down until it touches the bottom or the
top of a box that it conflicts with, so placing boxes in order of address, each at one of those heights, meets
every packing that matters.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """`size` in all, for `slots` slots side by side, alive at `residues`."""

    size: int
    slots: int
    residues: frozenset[int]


def pack(boxes: Sequence[Box], capacity: int) -> list[int] | None:
    """Addresses parallel to `boxes`, or None where there are none."""
    found = next(_pack(boxes, capacity, {}), None)
    return None if found is None else [found[i] for i in range(len(boxes))]


def _pack(boxes: Sequence[Box], capacity: int, placed: Mapping[int, int]) -> Iterator[Mapping[int, int]]:
    if len(placed) == len(boxes):
        yield placed
        return
    highest = max(placed.values(), default=0)
    for i, box in enumerate(boxes):
        if i in placed:
            continue
        rivals = [j for j in placed if box.residues & boxes[j].residues]
        heights = sorted({0, *(placed[j] + boxes[j].size for j in rivals)})
        for address in heights:
            if highest <= address <= capacity - box.size and _free(boxes, placed, rivals, address, box.size):
                yield from _pack(boxes, capacity, {**placed, i: address})


def _free(
    boxes: Sequence[Box], placed: Mapping[int, int], rivals: Sequence[int], address: int, size: int
) -> bool:
    return all(address >= placed[j] + boxes[j].size or address + size <= placed[j] for j in rivals)
