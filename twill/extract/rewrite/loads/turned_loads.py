"""Tiles that TMA leaves contiguous along one dimension in a buffer that is contiguous along the other: turned
by threads.

MMAs read operands of 16 bits in either order, most others along K alone (PTX ISA, wgmma, "Matrix fragments";
tcgen05, valid combinations of type-size, major-ness and swizzling), and TMA keeps the order of global memory.
Takes a module; gives the same in which such a tile is copied before it is put into its buffer, so that a
group which computes reads it from the slot of its load and writes it in the other order, spread over the
threads so that few of them meet in a bank. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from twill.extract.rewrite.text.edits import UNKNOWN, Edit, constant, edited
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.distribution import powers
from twill.ir.loop import Function, MemDesc, Module, NvmmaShared, Op, Scalar, Tensor, TensorDesc, Type
from twill.ops.table import named, role

EITHER = 16
"""Bits of the elements that every MMA reads in either order."""


def turned_loads(module: Module) -> Module:
    """The module itself where every buffer has the order in which TMA fills it."""
    return edited(module, (edit for function in module.functions for edit in _edits(module, function)))


def _edits(module: Module, function: Function) -> Iterator[Edit]:
    makers = {value.id: op for op in function.walk() for value in op.results}
    for op in function.walk():
        if role(op) != "alloc" or len(op.operands) != 1 or not _turned(makers, op):
            continue
        tile = op.operands[0]
        kind, spread = type_text(module, tile.type), _spread(module, tile.type)
        if kind is None or spread is None or not isinstance(tile.type, Tensor):
            continue
        name, every = f"%twill_turned{op.index}", _spread(module, replace(tile.type, dtype=Scalar("i1")))
        text = f"{name}_read = {named('layout')} {tile.name} : {kind} -> {spread} {UNKNOWN} "
        text += f"{name}_all = {constant('dense<true>', str(every))} {UNKNOWN} "
        text += (
            f"{name} = {named('select')} {name}_all, {name}_read, {name}_read : {every}, {spread} {UNKNOWN} "
        )
        yield Edit(op.span.start, op.span.start, text)
        for old, new in ((tile.name, name), (kind, spread)):
            at = module.text.index(old, module.text.index(named("alloc"), op.span.start))
            yield Edit(at, at + len(old), new)


OWN, ROW_LANES, COLUMN_LANES = 2, 2, 3
"""Bits of the row of an element in memory that number a thread's own elements first, and the lanes of a warp;
bits of its column that do. Own elements are neighbours in the buffer. Of lines of 128 bytes, swizzled in
pieces of 16 as TMA writes and MMAs read them, two lanes of a warp at most meet in a bank, whatever the size
of elements."""


def _spread(module: Module, type: Type) -> str | None:
    """The type of a tile of two dimensions as threads turn it; None for others."""
    element = type_text(module, type.dtype) if isinstance(type, Tensor) else None
    if not isinstance(type, Tensor) or len(type.shape) != 2 or element is None:
        return None
    rows = [[bit, 0] for bit in powers(1, type.shape[0])]
    columns = [[0, bit] for bit in powers(1, type.shape[1])]
    left = [*columns[COLUMN_LANES:], *rows[OWN + ROW_LANES :]]
    warps = len([*powers(1, module.num_warps)])
    if len(rows) < OWN + ROW_LANES or len(columns) < COLUMN_LANES or len(left) < warps:
        return None
    lanes = [*columns[:COLUMN_LANES], *rows[OWN : OWN + ROW_LANES]]
    layout = (
        f"#ttg.linear<{{register = {[*rows[:OWN], *left[warps:]]}, lane = {lanes}, warp = {left[:warps]},"
        " block = [], exact = true}>"
    )
    return f"tensor<{type.shape[0]}x{type.shape[1]}x{element}, {layout}>"


def _turned(makers: Mapping[int, Op], alloc: Op) -> bool:
    """Whether a buffer of what TMA loads is contiguous along another dimension than the tile in memory."""
    value, buffer = alloc.operands[0], alloc.result.type
    while (maker := makers.get(value.id)) is not None and role(maker) == "layout":
        value = maker.operands[0]
    if maker is None or role(maker) != "tma_load" or not isinstance(value.type, Tensor):
        return False
    loaded = next((one.type for one in maker.operands if isinstance(one.type, TensorDesc)), None)
    if loaded is None or not isinstance(buffer, MemDesc) or not isinstance(buffer.encoding, NvmmaShared):
        return False
    order = isinstance(loaded.encoding, NvmmaShared) and loaded.encoding.transposed
    return buffer.encoding.element_bits != EITHER and buffer.encoding.transposed != order
