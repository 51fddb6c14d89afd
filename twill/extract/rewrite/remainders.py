"""Remainders of remainders in tiles, of the first number.

`x % m % d` is `x % d` where `d` divides `m`: both differ from `x` by multiples of `d`, are smaller than `d`,
and have its sign where remainders have one. What a loop shifts or masks by then does not divide by what is no
constant in each iteration. (Numbers of columns modulo their count, eight of which share a word of weights:
an iteration of a fused MoE of 4 bits has 558 instructions instead of 750.) Takes a module; gives the same
with such operands replaced. Lines stay where they are.
"""

from collections.abc import Iterator

from twill.extract.rewrite.text.edits import Edit, edited, mentions, text_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.validate import valid
from twill.ir.loop import Module, Op, Tensor, Value
from twill.ops.axis_info import AxisAnalysis
from twill.ops.table import role


def remainders_once(module: Module) -> Module:
    """The module itself where there are none."""
    edits = list[Edit]()
    for function in (one for one in module.functions if valid(module, one)):
        analysis, makers = AxisAnalysis(function), makers_of(function.walk())
        edits += (edit for op in function.walk() for edit in _edits(module, analysis, makers, op))
    return edited(module, edits)


def _edits(module: Module, analysis: AxisAnalysis, makers: Makers, op: Op) -> Iterator[Edit]:
    tiles = role(op) == "remainder" and isinstance(op.result.type, Tensor)
    inner = makers.of(op.operands[0], "remainder") if tiles else None
    if inner is None or inner.name != op.name:
        return
    divisor = makers.number(op.operands[1])
    if not divisor or _divisor(analysis, inner.operands[1]) % divisor:
        return
    text = text_of(module, op)
    begin, end = next(mentions(op.operands[0].name).finditer(text, text.index("="))).span()
    yield Edit(op.span.start + begin, op.span.start + end, inner.operands[0].name)


def _divisor(analysis: AxisAnalysis, value: Value) -> int:
    """What divides each element; 1 where nothing is known."""
    found = analysis.of(value)
    return max(found.divisibility, default=1) if set(found.contiguity) <= {1} else 1
