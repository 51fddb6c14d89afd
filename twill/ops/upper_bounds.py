"""Masks that hold for the first elements of a copy: comparisons of consecutive numbers with an upper bound.

Takes a mask with the `AxisAnalysis` of its function; gives the comparisons that may leave out the last
elements of a run. An asynchronous copy reads any number of its first bytes and writes zeros behind them (PTX
ISA, cp.async, src-size), so it needs no divisor of the bound.
"""

from twill.ir.loop import Op, Tensor, Value
from twill.ops.axis_info import AxisAnalysis
from twill.ops.table import role

AND = "arith.andi"
"""Joins masks, and keeps bits of numbers."""
_SAME_AXES = frozenset({"broadcast", "layout"})


def bounded(op: Op) -> tuple[Value, Value] | None:
    """The numbers and their upper bound, which is not one of them, of a comparison of signed integers; None
    for other comparisons."""
    predicate = op.attributes.get("predicate")
    if role(op) != "compare" or predicate not in ("slt", "sgt"):
        return None
    numbers, bound = op.operands if predicate == "slt" else op.operands[::-1]
    return numbers, bound


def upper_bounds(analysis: AxisAnalysis, mask: Value, axis: int, run: int) -> frozenset[int] | None:
    """The comparisons, by index, of which each holds for the first elements of every run of `run` elements
    along `axis`; the rest of the mask is the same for a whole run. None where the mask is not made so."""
    known, maker = analysis.of(mask), analysis.maker(mask)
    if known.rank > axis and known.constancy[axis] % run == 0:
        return frozenset()
    if maker is None:
        return None
    if maker.name == AND:
        return _joined([upper_bounds(analysis, value, axis, run) for value in maker.operands])
    if role(maker) == "expand":
        added = maker.attributes["axis"]
        assert isinstance(added, int)
        return (
            None if added == axis else upper_bounds(analysis, maker.operands[0], axis - (axis > added), run)
        )
    if role(maker) in _SAME_AXES:
        return upper_bounds(analysis, maker.operands[0], axis, run) if _as_many_axes(maker) else None
    if (sides := bounded(maker)) is None:
        return None
    numbers, bound = map(analysis.of, sides)
    holds = numbers.contiguity[axis] % run == 0 and bound.constancy[axis] % run == 0
    return frozenset({maker.index}) if holds else None


def _joined(found: list[frozenset[int] | None]) -> frozenset[int] | None:
    known = [one for one in found if one is not None]
    return frozenset[int]().union(*known) if len(known) == len(found) else None


def _as_many_axes(op: Op) -> bool:
    source, result = op.operands[0].type, op.result.type
    return (
        isinstance(source, Tensor) and isinstance(result, Tensor) and len(source.shape) == len(result.shape)
    )
