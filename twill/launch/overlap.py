"""Whether arrays that a kernel takes to be apart lie in the same memory (`twill.ir.apart`).

`refuse` takes the arrays of a launch by the names of their arguments and raises TwillError; `share` compares
two arrays element by element, without going through them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from re import search
from typing import TypeAlias

from twill.diagnostics import TwillError
from twill.ir.apart import Apart
from twill.launch.arrays import Array

REMEMBERED = 4096
"""Pairs of arrays."""


def refuse(pairs: Sequence[Apart], arrays: Mapping[str, Array]) -> None:
    """Raises TwillError where two arrays share memory that must not."""
    for pair in overlapping(pairs, arrays):
        raise TwillError(
            f"argument `{pair.stored}`: it overlaps `{pair.other}`, and the kernel stores to it",
            help=(
                f"pass a copy as `{pair.other}`: the kernel loads ahead of what it stores, so that what"
                " is loaded may be old or new"
            ),
        )


def overlapping(pairs: Sequence[Apart], arrays: Mapping[str, Array]) -> Iterator[Apart]:
    """The pairs whose arrays share memory that must not; what is not in `arrays` shares none."""
    for pair in pairs:
        one, other = arrays.get(pair.stored), arrays.get(pair.other)
        if one is not None and other is not None and wrong(pair, one, other):
            yield pair


def wrong(pair: Apart, one: Array, other: Array) -> bool:
    """Whether the kernel must not be launched with these two arrays."""
    same = pair.in_place and one.address == other.address and one.strides == other.strides
    return not same and share(one, other)


def share(one: Array, other: Array) -> bool:
    """Whether two arrays may have a byte in common. False is certain; views that alternate in memory, such as
    the queries and keys of packed rows, are told apart where a stride of either is a period of both."""
    if one.device != other.device:
        return False
    first, second = (one.shape, one.strides, _size(one.type)), (other.shape, other.strides, _size(other.type))
    return _share(other.address - one.address, first, second)


_Layout: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides in elements, bytes of an element."""


@lru_cache(REMEMBERED)
def _share(distance: int, one: _Layout, other: _Layout) -> bool:
    """The same of arrays that begin so many bytes apart: views of one allocation have their distances in
    every launch, wherever that lies."""
    if 0 in one[0] or 0 in other[0]:
        return False
    first, second = _dimensions(one), _dimensions(other)
    if distance >= _extent(first, one[2]) or -distance >= _extent(second, other[2]):
        return False
    periods = {stride for _, stride in (*first, *second) if stride > 0}
    return not any(
        _within(first, one[2], period) <= distance % period <= period - _within(second, other[2], period)
        for period in periods
    )


def _within(dimensions: Sequence[tuple[int, int]], size: int, period: int) -> int:
    """Of every `period` bytes, those from the first to the last that an array takes."""
    return _extent([(count, stride) for count, stride in dimensions if stride % period], size)


def _dimensions(layout: _Layout) -> tuple[tuple[int, int], ...]:
    """Elements and stride in bytes of each dimension of more than one element."""
    shape, strides, size = layout
    pairs = zip(shape, strides, strict=True)
    return tuple((count, stride * size) for count, stride in pairs if count > 1 and stride)


def _extent(dimensions: Sequence[tuple[int, int]], size: int) -> int:
    """Bytes from the first to the end of the last element."""
    return sum((count - 1) * stride for count, stride in dimensions) + size


@cache
def _size(type: str) -> int:
    """Bytes of an element."""
    bits = search(r"\d+", type)
    return max(1, int(bits[0]) // 8) if bits else 1
