"""Tiles that TMA leaves contiguous along one dimension in a buffer that is contiguous along the other: turned
by threads.

MMAs read operands of 16 bits in either order, most others along K alone (PTX ISA, wgmma, "Matrix fragments";
tcgen05, valid combinations of type-size, major-ness and swizzling), and TMA keeps the order of global memory.
Takes a module; gives the same in which such a tile is copied before it is put into its buffer, so that a
group which computes reads it from the slot of its load and writes it in the other order. Lines stay where
they are.
"""

from collections.abc import Iterator, Mapping

from twill.extract.rewrite.edits import UNKNOWN, Edit, constant, edited, mentions
from twill.extract.rewrite.predication import truths
from twill.extract.rewrite.type_text import type_text
from twill.ir.loop import Function, MemDesc, Module, NvmmaShared, Op, Tensor, TensorDesc
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
        kind, name = type_text(module, tile.type), f"%twill_turned{op.index}"
        at = mentions(tile.name).search(module.text, op.span.start, op.span.end)
        if kind is None or at is None:
            continue
        every = truths(module, tile.type)
        text = f"{name}_all = {constant('dense<true>', every)} {UNKNOWN} "
        text += (
            f"{name} = {named('select')} {name}_all, {tile.name}, {tile.name} : {every}, {kind} {UNKNOWN} "
        )
        yield Edit(op.span.start, op.span.start, text)
        yield Edit(at.start(), at.end(), name)


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
