"""Which lanes of a warp store their pairs in another order, so that a store to a swizzled tile has as few
bank conflicts as possible.

Takes how a tile lies in shared memory; gives an `Exchange`, chosen by counting. Shared memory has 32 banks of
4 bytes; a warp that accesses 8 bytes per thread does so in two halves (CUDA C++ Programming Guide, compute
capability 5.x and later, shared memory).
"""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

BANKS, WORD, LANES = 32, 4, 32
PAIR = 2
"""Neighbouring columns that a thread stores at once; four threads have a row (PTX ISA, register fragments of
wgmma)."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Lanes whose row has the bit `row` set store the pair that is `bytes` away, in both directions, in place
    of their own; the pairs of all other lanes are as they are. Neither where both are 0."""

    row: int = 0
    bytes: int = 0


def exchange(width: int, size: int) -> Exchange:
    """For the pairs of elements of `size` bytes in boxes of lines of `width` bytes: the first of those with
    the fewest conflicts."""
    step = 4 * PAIR * size
    found = [Exchange(), *(Exchange(row, away) for row in (1, 2, 4) for away in range(step, width, step))]
    return min(
        (one for one in found if one.bytes & (one.bytes - 1) == 0),
        key=lambda one: wavefronts(width, size, one),
    )


def wavefronts(width: int, size: int, how: Exchange) -> int:
    """How many passes over the banks a store of one pair of every lane takes."""
    return passes(PAIR * size, [_place(lane, width, size, how) for lane in range(LANES)])


def passes(bytes: int, places: Sequence[int]) -> int:
    """How many passes an access of `bytes` at the place of each lane takes: as many bytes at once as all
    banks have, of lanes one behind the other. Lanes that read one word meet in no conflict."""
    active = min(LANES, BANKS * WORD // max(bytes, WORD))
    groups = (places[first : first + active] for first in range(0, LANES, active))
    return sum(
        _conflicts({(at + byte) // WORD for at in own for byte in range(0, bytes, WORD)}) for own in groups
    )


def _conflicts(words: Set[int]) -> int:
    return max(Counter(word % BANKS for word in words).values())


def _place(lane: int, width: int, size: int, how: Exchange) -> int:
    row = lane // 4
    return swizzle(width, row * width + lane % 4 * PAIR * size) ^ (how.bytes if row & how.row else 0)


def swizzle(width: int, offset: int) -> int:
    """As `swizzle` of the runtime: a byte offset in a tile of lines of `width` bytes."""
    return offset ^ (offset >> 3 & width - 16)
