"""How many tiles a launch stores, where a kernel's constants say so.

Takes a function; gives a number that costs may count on: as many thread blocks of a launch have something to
do, whatever its grid is. A store says so whose mask ends each axis of the tile at a constant and whose
address follows from the positions along these axes alone: what another thread block stores is in another tile
of the same matrix.
"""

from collections.abc import Iterator
from functools import cache
from math import prod

from twill.ir.loop import Function, Op, Pointer, Tensor, Type, Value
from twill.ops.axis_info import AxisAnalysis
from twill.ops.row import Role
from twill.ops.table import is_elementwise, lookup, role

_WRITES = frozenset[Role](("pointer_store", "tma_store", "tma_reduce", "atomic", "atomic_exchange"))
_SHAPES = frozenset[Role](("splat", "broadcast", "expand", "layout"))
"""Give each element what an element of their operand is."""


@cache
def stored_tiles(function: Function) -> int | None:
    """Tiles that a launch stores; None where that does not follow from the kernel, or a thread block stores
    several."""
    analysis = AxisAnalysis(function)
    writes = [op for op in function.walk() if role(op) in _WRITES]
    repeated = {one.index for op in function.walk() if role(op) in ("for", "while") for one in op.inner()}
    if not writes or any(role(op) != "pointer_store" or op.index in repeated for op in writes):
        return None
    counts = [_tiles(analysis, op) for op in writes]
    return None if None in counts else max(count or 0 for count in counts)


def _tiles(analysis: AxisAnalysis, store: Op) -> int | None:
    pointers, _, *masks = store.operands
    shape, ends = _shape(pointers.type), dict[int, tuple[Value, int]]()
    for mask in masks:
        for axis, position, end in _ends(analysis, mask, len(shape), None):
            if axis not in ends or end < ends[axis][1]:
                ends[axis] = position, end
    if any(axis not in ends for axis, size in enumerate(shape) if size > 1) or not shape:
        return None
    known = {_source(analysis, position).id for position, _ in ends.values()}
    if not _follows(analysis, pointers, known):
        return None
    return prod(-(-end // shape[axis]) for axis, (_, end) in ends.items())


def _ends(
    analysis: AxisAnalysis, mask: Value, rank: int, axis: int | None
) -> Iterator[tuple[int, Value, int]]:
    """Axes of the tile that a mask ends at a constant: the axis, the position along it, and the constant."""
    maker = analysis.maker(mask)
    if maker is None:
        return
    long = [i for i, size in enumerate(_shape(mask.type)) if size > 1]
    if len(_shape(mask.type)) == rank and len(long) == 1:
        (axis,) = long
    known = lookup(maker.name)
    if role(maker) == "compare" and axis is not None and maker.attributes.get("predicate") in ("slt", "ult"):
        end = analysis.number(maker.operands[1])
        if end is not None:
            yield axis, maker.operands[0], end
    elif role(maker) in _SHAPES or (known is not None and known.word == "andi"):
        for operand in maker.operands:
            yield from _ends(analysis, operand, rank, axis)


def _source(analysis: AxisAnalysis, value: Value) -> Value:
    """The vector that a tile repeats."""
    maker = analysis.maker(value)
    if maker is None or role(maker) not in _SHAPES or role(maker) == "splat":
        return value
    return _source(analysis, maker.operands[0])


def _follows(analysis: AxisAnalysis, value: Value, known: set[int]) -> bool:
    """Whether a value follows from those known, by id, from constants and from where arrays begin."""
    if _source(analysis, value).id in known or analysis.number(value) is not None:
        return True
    maker = analysis.maker(value)
    if maker is None:
        return value in analysis.function.args and isinstance(value.type, Pointer)
    plain = role(maker) in _SHAPES or (is_elementwise(maker) and bool(maker.operands))
    return plain and all(_follows(analysis, operand, known) for operand in maker.operands)


def _shape(type: Type) -> tuple[int, ...]:
    return tuple(type.shape) if isinstance(type, Tensor) else ()
