"""Tiles of which one of several equal rows is kept: how the kept ones follow one another in memory.

Takes a tile of integers or pointers with the `AxisAnalysis` of its function; gives the arithmetic progression
of every so many-th element along a dimension, as far as it follows from constants and from the divisors of
arguments. (Packed integers: row k of a tile of weights reads the word of row k / 8, so that the words of its
kept rows are consecutive where those of a column are.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from twill.ir.loop import Op, Tensor, Value
from twill.ops.axis_info import MOST, AxisAnalysis, element_bytes
from twill.ops.table import role


@dataclass(frozen=True, slots=True)
class Progression:
    """`step` from each element to the next; of pointers elements."""

    step: int
    divisor: int
    """Divides the first one, wherever that is along the other dimensions; of pointers bytes."""


def progression(analysis: AxisAnalysis, value: Value, axis: int, every: int) -> Progression | None:
    """Of each element of a tile along `axis` whose number is a multiple of `every`; None where nothing is
    known."""
    maker, known = analysis.maker(value), analysis.of(value)
    if not isinstance(value.type, Tensor) or axis >= known.rank:
        return None
    if known.constancy[axis] % value.type.shape[axis] == 0:
        return Progression(0, known.divisibility[axis])
    match role(maker) if maker else None:
        case "range":
            return Progression(every, known.divisibility[axis])
        case "broadcast" | "layout" | "integer_cast":
            assert maker
            return progression(analysis, maker.operands[0], axis, every)
        case "expand":
            assert maker
            inserted = maker.attributes["axis"]
            assert isinstance(inserted, int)
            return progression(analysis, maker.operands[0], axis - (axis > inserted), every)
        case "add" | "address":
            assert maker
            one, other = (progression(analysis, operand, axis, every) for operand in maker.operands)
            return _sum(one, other, value)
        case "multiply":
            assert maker
            return _product(analysis, maker, axis, every)
        case "divide":
            assert maker
            found = progression(analysis, maker.operands[0], axis, every)
            return _quotient(found, analysis.number(maker.operands[1]) or 0)
        case _:
            return None


def _sum(one: Progression | None, other: Progression | None, value: Value) -> Progression | None:
    if one is None or other is None:
        return None
    return Progression(one.step + other.step, gcd(one.divisor, other.divisor * element_bytes(value.type)))


def _product(analysis: AxisAnalysis, op: Op, axis: int, every: int) -> Progression | None:
    for tile, factor in (op.operands, op.operands[::-1]):
        number, found = analysis.number(factor), progression(analysis, tile, axis, every)
        if number is not None and found is not None:
            return Progression(found.step * number, min(MOST, found.divisor * (abs(number) or MOST)))
    return None


def _quotient(found: Progression | None, by: int) -> Progression | None:
    """Where all are multiples of the divisor."""
    if found is None or by <= 0 or found.step % by or found.divisor % by:
        return None
    return Progression(found.step // by, found.divisor // by)


def kept_together(analysis: AxisAnalysis, load: Op, repeated: int, widths: Sequence[int]) -> int:
    """How many bytes one copy of a masked pointer load may move along its columns, of which one of `repeated`
    equal rows is kept: the first of `widths` that is possible, or 0 where none is. The pointers of a copy are
    consecutive, the first is aligned to its size, and one mask is that of all."""
    tile, (pointers, *rest) = load.result.type, load.operands
    found = progression(analysis, pointers, 0, repeated)
    if found is None or found.step != 1 or not isinstance(tile, Tensor):
        return 0
    size, rows = element_bytes(pointers.type), tile.shape[0] // repeated
    equal = gcd(tile.shape[0], *(analysis.of(mask).constancy[0] for mask in rest[:1]))

    def possible(width: int) -> bool:
        run = width // size
        return run > 0 and not (rows % run or found.divisor % width or equal % (run * repeated))

    return next((width for width in widths if possible(width)), 0)
