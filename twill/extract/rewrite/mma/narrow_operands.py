"""MMAs of tiles that are widened to float32 before: of the narrow elements.

An MMA takes float32 as tf32, which has all bits of float16 and bfloat16 numbers; their products are the same
numbers then, added in float32. Of 16 bits it has half as many instructions and half the registers for its
operands. (On an H200, FlagGems' sparse attention with latent keys of 512 numbers: 0.63 to 0.42 ms.) Takes a
module; gives the same with such MMAs in front of the widening. Lines stay where they are.
"""

import re
from collections.abc import Iterator, Mapping

from twill.extract.rewrite.layouts.narrow_extremes import NARROW, WIDENING
from twill.extract.rewrite.text.edits import Edit, edited, mentions, text_of
from twill.ir.loop import DotOperand, Module, NvidiaMma, Op, Scalar, Tensor, Value
from twill.ops.table import role

ROUNDED = ("tf32", 0)
"""The precision in which an MMA takes float32 numbers, as a word or by number."""
WIDTH = 2
"""Neighbours along K in registers of a thread: of 16 bits as the MMA of one warp has them."""
WIDE = re.compile(r"f32(?=, #)")
"""The type of the elements of a tile, behind its sizes."""


def operands_narrowed(module: Module) -> Module:
    """The module itself where there are no such MMAs."""
    edits = list[Edit]()
    for function in module.functions:
        makers = {op.result.id: op for op in function.walk() if op.name == WIDENING}
        edits += (edit for op in function.walk() for edit in _edits(module, makers, op))
    return edited(module, edits)


def _edits(module: Module, makers: Mapping[int, Op], op: Op) -> Iterator[Edit]:
    """The MMA keeps its accumulator and the name of its result."""
    if role(op) != "dot" or op.attributes.get("inputPrecision") not in ROUNDED:
        return
    found = [_widened(makers, value) for value in op.operands[:2]]
    kinds = {_element(value) for value in found if value is not None}
    if None in found or len(kinds) != 1:
        return
    (kind,) = kinds
    named, types = text_of(module, op).split(" : ", 1)
    tiles, result = types.split(" -> ", 1)
    for old, new in zip(op.operands[:2], found, strict=True):
        if new is not None and old.name in named:
            named = mentions(old.name).sub(new.name, named, count=1)
    yield Edit(op.span.start, op.span.end, f"{named} : {WIDE.sub(kind, tiles)} -> {result}")


def _element(value: Value) -> str:
    kind = value.type.dtype if isinstance(value.type, Tensor) else None
    return kind.name if isinstance(kind, Scalar) else ""


def _widened(makers: Mapping[int, Op], value: Value) -> Value | None:
    """The narrow tile of an operand in registers of an MMA by one warp."""
    maker = makers.get(value.id)
    source = maker.operands[0] if maker is not None else None
    if source is None or not isinstance(source.type, Tensor) or source.type.dtype not in NARROW:
        return None
    layout = source.type.encoding
    if not isinstance(layout, DotOperand) or layout.k_width != WIDTH:
        return None
    parent = layout.parent
    return source if isinstance(parent, NvidiaMma) and parent.version[0] == 2 else None
