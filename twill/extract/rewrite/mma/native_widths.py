"""MMAs of one warp whose operands come from shared memory: with an instruction's neighbours along K.

Triton lets a thread hold more neighbours of a row, or of a column, than a register has, where an operand was
widened. An access has parts of two instructions then, and a thread copies registers until the parts of each
lie side by side. What is only exchanged or loaded for the MMA can be read in any order along K, the same for
both operands: in that of the instruction, in which ldmatrix reads it. Takes a module; gives the same with
such operands. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from twill.extract.rewrite.text.edits import Edit, edited, text_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import DotOperand, Module, NvidiaMma, Op, Scalar, Tensor, Value
from twill.ops.table import role

WIDTH = {"f16": 2, "bf16": 2}
"""Elements of a register, by their type: those that ldmatrix reads from rows and from columns (PTX ISA,
fragments of mma.m16n8k16, and ldmatrix)."""


def native_widths(module: Module) -> Module:
    """The module itself where no operands are wider."""
    edits = list[Edit]()
    for function in module.functions:
        makers = {op.result.id: op for op in function.walk() if role(op) in ("layout", "buffer_load")}
        users = function.users()
        for op in function.walk():
            if role(op) == "dot":
                edits += _edits(module, makers, users, op)
    return edited(module, edits)


def _edits(
    module: Module, makers: Mapping[int, Op], users: Mapping[int, Sequence[Op]], mma: Op
) -> Iterator[Edit]:
    """Of the MMA, and of what reads its operands from shared memory for it alone."""
    operands, texts = mma.operands[:2], dict[str, str]()
    for value in operands:
        native = _native(value)
        if native is None or value.id not in makers or len(users[value.id]) > 1:
            return
        old, new = type_text(module, value.type), type_text(module, native)
        if old is None or new is None:
            return
        texts[old] = new
    for op in (mma, *(makers[value.id] for value in operands)):
        text = text_of(module, op)
        for old, new in texts.items():
            text = text.replace(old, new)
        yield Edit(op.span.start, op.span.end, text)


def _native(value: Value) -> Tensor | None:
    """The type with an instruction's neighbours; None of what has them, or is no such operand."""
    tile = value.type
    if not isinstance(tile, Tensor) or not isinstance(tile.dtype, Scalar):
        return None
    layout, width = tile.encoding, WIDTH.get(tile.dtype.name)
    if not isinstance(layout, DotOperand) or layout.k_width is None or width is None:
        return None
    if not isinstance(layout.parent, NvidiaMma) or layout.parent.version[0] != 2 or layout.k_width <= width:
        return None
    return replace(tile, encoding=replace(layout, k_width=width))
