"""How far apart in memory neighbouring elements of a tile are.

Takes a tile of integers or pointers with the `AxisAnalysis` of its function; gives the elements from each to
the next along a dimension, as far as they follow from constants and from the divisors of arguments.
"""

from dataclasses import dataclass
from math import gcd

from twill.ir.loop import Op, Tensor, Value
from twill.ops.axis_info import AxisAnalysis
from twill.ops.table import role

RUN = 8
"""Equal numbers, at least, of what counts as the same: as many elements of 32 bits are in a sector."""


@dataclass(frozen=True, slots=True)
class Step:
    """From one element to the next, but for where a remainder begins again, a quotient grows or a bound holds
    all further ones."""

    divisor: int
    exact: bool = False
    """It is `divisor`; else an unknown multiple of that. A kernel is compiled for an argument of 1, so an
    unknown one is more."""

    @property
    def least(self) -> int:
        """What it is at least, where it is positive."""
        return self.divisor if self.exact else 2 * self.divisor


def step(analysis: AxisAnalysis, value: Value, axis: int) -> Step | None:
    """None where nothing is known."""
    maker = analysis.maker(value)
    if not isinstance(value.type, Tensor):
        return None
    if _uniform(analysis, value, axis):
        return Step(0, exact=True)
    match role(maker) if maker else None:
        case "range":
            return Step(1, exact=True)
        case "broadcast" | "layout" | "integer_cast" | "remainder":
            assert maker
            return step(analysis, maker.operands[0], axis)
        case "expand":
            assert maker
            inserted = maker.attributes["axis"]
            assert isinstance(inserted, int)
            return step(analysis, maker.operands[0], axis - (axis > inserted))
        case "add" | "subtract" | "address":
            assert maker
            return _sum(*(step(analysis, operand, axis) for operand in maker.operands))
        case "multiply":
            assert maker
            return _product(analysis, maker, axis)
        case "divide":
            assert maker
            return _quotient(analysis, maker, axis)
        case "extreme":
            assert maker
            return _either(*(step(analysis, operand, axis) for operand in maker.operands))
        case "select":
            assert maker
            return _either(*(step(analysis, operand, axis) for operand in maker.operands[1:]))
        case _:
            return None


def closer(analysis: AxisAnalysis, value: Value, axis: int, other: int) -> bool:
    """Whether elements are known to be closer along one dimension than along the other."""
    one, farther = (step(analysis, value, of) for of in (axis, other))
    return one is not None and farther is not None and one.least < farther.least


def _uniform(analysis: AxisAnalysis, value: Value, axis: int) -> bool:
    """Whether numbers along a dimension are the same, in runs of `RUN` at least."""
    assert isinstance(value.type, Tensor)
    return analysis.of(value).constancy[axis] % min(RUN, value.type.shape[axis]) == 0


def _sum(one: Step | None, other: Step | None) -> Step | None:
    if one is None or other is None:
        return None
    if one.divisor and other.divisor:
        return Step(gcd(one.divisor, other.divisor))
    return one if one.divisor else other


def _either(one: Step | None, other: Step | None) -> Step | None:
    """Of a number that is one of two, as one that is held within bounds: the step of the one that grows."""
    if one is None or other is None or (one != other and one.divisor and other.divisor):
        return None
    return one if one.divisor else other


def _product(analysis: AxisAnalysis, op: Op, axis: int) -> Step | None:
    for tile, factor in (op.operands, op.operands[::-1]):
        found = step(analysis, tile, axis) if _uniform(analysis, factor, axis) else None
        if found is not None:
            number = analysis.number(factor)
            by = analysis.of(factor).divisibility[axis] if number is None else abs(number)
            return Step(found.divisor * by, found.exact and number is not None)
    return None


def _quotient(analysis: AxisAnalysis, op: Op, axis: int) -> Step | None:
    """The most that it grows by."""
    tile, divisor = op.operands
    found, number = step(analysis, tile, axis), analysis.number(divisor)
    if found is None or not found.exact or not number:
        return None
    return Step(-(-found.divisor // abs(number)), exact=True)
