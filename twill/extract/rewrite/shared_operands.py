"""First operands of MMAs that are not generated from registers: tf32 and 8-bit integers.

Takes a module; gives the same in which such a tile, where an MMA takes it from registers, is copied to a
buffer in shared memory first. Lines stay where they are.
"""

from collections.abc import Iterator

from twill.extract.rewrite.edits import UNKNOWN, Edit, edited
from twill.extract.rewrite.type_text import type_text
from twill.ir.loop import Module, Op, Scalar, Tensor
from twill.ops.table import named, role

LINE = 128
"""Bytes of a line of the widest swizzle pattern (PTX ISA, wgmma, shared memory matrix layout)."""
STAGED = {"f32": 32, "i8": 8}
"""The element types, with their bits."""


def staged_operands(module: Module) -> Module:
    """The module itself where no MMA needs it."""
    ops = [op for function in module.functions for op in function.walk()]
    return edited(module, (edit for op in ops if role(op) == "wgmma" for edit in _edits(module, op)))


def _edits(module: Module, dot: Op) -> Iterator[Edit]:
    operand = dot.operands[0]
    tile, text = operand.type, type_text(module, operand.type)
    if not isinstance(tile, Tensor) or not isinstance(tile.dtype, Scalar) or text is None:
        return
    bits = STAGED.get(tile.dtype.name)
    at = module.text.find(text, dot.span.start, dot.span.end)
    name = module.text.find(operand.name, dot.span.start, dot.span.end)
    if bits is None or at < 0 or name < 0:
        return
    line = tile.shape[-1] * bits // 8
    layout = (
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {min(LINE, line & -line)}, transposed = false,"
        f" elementBitWidth = {bits}}}>"
    )
    shape = "".join(f"{size}x" for size in tile.shape)
    buffer = f"!ttg.memdesc<{shape}{tile.dtype.name}, {layout}, #ttg.shared_memory>"
    own = f"%twill_operand{dot.index}"
    made = f"{own} = {named('alloc')} {operand.name} : ({text}) -> {buffer} {UNKNOWN} "
    yield Edit(dot.span.start, dot.span.start, made)
    yield Edit(name, name + len(operand.name), own)
    yield Edit(at, at + len(text), buffer)
