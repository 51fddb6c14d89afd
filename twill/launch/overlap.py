"""Whether arrays that a kernel takes to be apart lie in the same memory (`twill.ir.apart`).

`refuse` takes the arrays of a launch by the names of their arguments and raises TwillError; `share` compares
two arrays element by element, without going through them.
"""

from collections.abc import Mapping, Sequence
from re import search

from twill.diagnostics import TwillError
from twill.ir.apart import Apart
from twill.launch.arrays import Array


def refuse(pairs: Sequence[Apart], arrays: Mapping[str, Array]) -> None:
    """Raises TwillError where two arrays share memory that must not."""
    for pair in pairs:
        one, other = arrays.get(pair.stored), arrays.get(pair.other)
        if one is not None and other is not None and wrong(pair, one, other):
            raise TwillError(
                f"argument `{pair.stored}`: it overlaps `{pair.other}`, and the kernel stores to it",
                help=(
                    f"pass a copy as `{pair.other}`: the kernel loads ahead of what it stores, so that what"
                    " is loaded may be old or new"
                ),
            )


def wrong(pair: Apart, one: Array, other: Array) -> bool:
    """Whether the kernel must not be launched with these two arrays."""
    same = pair.in_place and one.address == other.address and one.strides == other.strides
    return not same and share(one, other)


def share(one: Array, other: Array) -> bool:
    """Whether two arrays may have a byte in common. False is certain; views that alternate in memory, such as
    the queries and keys of packed rows, are told apart where a stride of either is a period of both."""
    if 0 in one.shape or 0 in other.shape or one.device != other.device:
        return False
    first, second = _dimensions(one), _dimensions(other)
    begins, sizes = (one.address, other.address), (_size(one), _size(other))
    ends = [
        begin + _extent(found, size)
        for begin, found, size in zip(begins, (first, second), sizes, strict=True)
    ]
    if ends[0] <= begins[1] or ends[1] <= begins[0]:
        return False
    periods = {stride for _, stride in (*first, *second) if stride > 0}
    return not any(_alternate(period, begins, (first, second), sizes) for period in periods)


def _alternate(
    period: int, begins: Sequence[int], arrays: Sequence[Sequence[tuple[int, int]]], sizes: Sequence[int]
) -> bool:
    """Whether two arrays take different bytes of every so many."""
    extents = list[int]()
    for dimensions, size in zip(arrays, sizes, strict=True):
        inner = [(count, stride) for count, stride in dimensions if stride % period]
        extents.append(_extent(inner, size))
    distance = (begins[1] - begins[0]) % period
    return extents[0] <= distance and distance + extents[1] <= period


def _dimensions(array: Array) -> tuple[tuple[int, int], ...]:
    """Elements and stride in bytes of each dimension of more than one element."""
    size = _size(array)
    pairs = zip(array.shape, array.strides, strict=True)
    return tuple((count, stride * size) for count, stride in pairs if count > 1 and stride)


def _extent(dimensions: Sequence[tuple[int, int]], size: int) -> int:
    """Bytes from the first to the end of the last element."""
    return sum((count - 1) * stride for count, stride in dimensions) + size


def _size(array: Array) -> int:
    """Bytes of an element."""
    bits = search(r"\d+", array.type)
    return max(1, int(bits[0]) // 8) if bits else 1
