"""Where the elements of a tile lie in shared memory that a linear layout addresses: without a swizzle,
each bit of a place is one bit of a coordinate (the blocks of scale factors of an MMA, for one)."""

from collections.abc import Sequence

from twill.ir.loop import Bases, Encoding, SharedLinear


def places(shape: Sequence[int], encoding: Encoding | None) -> Bases | None:
    """Row and column at each bit of an element's place in a tile of two dimensions; None for a tile that is
    not addressed so, or by coordinates of several bits."""
    if not isinstance(encoding, SharedLinear) or len(shape) != 2:
        return None
    single = all(sum(at.bit_count() for at in one) == 1 for one in encoding.offset)
    whole = 1 << len(encoding.offset) == shape[0] * shape[1]
    return encoding.offset if single and whole and len({*encoding.offset}) == len(encoding.offset) else None


def run(found: Bases) -> int:
    """How many neighbours of a row lie side by side, the first at a multiple."""
    count = 1
    for one in found:
        if one != (0, count):
            break
        count *= 2
    return count
