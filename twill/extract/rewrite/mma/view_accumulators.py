"""MMAs that add to a view, a row that is broadcast, say, to a tile as it is loaded, or to one in another
layout of the same registers, add to zeros first.

An MMA in registers updates its accumulator in place. A view is in no registers of its own: whoever reads it
finds its elements elsewhere, as in a slot that a load fills. Takes a module; gives the same where the view is
added to the MMA's result (Triton makes one operation of a dot and the addition of
`tl.where(mask[None, :], 0, -inf)`). Lines stay where they are.
"""

from collections.abc import Iterator, Set

from twill.extract.dependence.fold import stays_in_threads
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, accumulated, edited, mentions, text_of
from twill.extract.rewrite.text.type_text import type_text, zero_text
from twill.ir.loop import Block, Function, Module, Op
from twill.ops.table import named, role

_MMAS = ("wgmma", "dot")
_VIEWS = ("broadcast", "expand", "splat")
_LOADS = ("pointer_load", "tma_load")


def apart(module: Module) -> Module:
    """The module itself where no MMA adds to a view or loaded tile of its block, or to a view from outside of
    it that is more than one number."""
    return edited(module, [edit for function in module.functions for edit in _of_function(module, function)])


def _of_function(module: Module, function: Function) -> Iterator[Edit]:
    spread = {op.result.id for op in function.walk() if role(op) in _VIEWS and role(op) != "splat"}
    for block in function.blocks():
        yield from _edits(module, block, spread)


def _edits(module: Module, block: Block, spread: Set[int]) -> Iterator[Edit]:
    loads = {value.id for op in block.ops if role(op) in _LOADS for value in op.results}
    moved = {op.result.id for op in block.ops if _is_renamed(op, loads)}
    views = {op.result.id for op in block.ops if role(op) in _VIEWS} | moved | spread
    for mma, following in zip(block.ops, block.ops[1:], strict=False):
        if role(mma) in _MMAS and mma.operands[2].id in views:
            yield from added_behind(module, mma, following)


def _is_renamed(op: Op, loads: Set[int]) -> bool:
    """A change of layout that no schedule has: of what is loaded, or after which every thread holds what it
    held (from the result of an MMA to the accumulator of one of other types)."""
    return role(op) == "layout" and (
        op.operands[0].id in loads or stays_in_threads(op.operands[0].type, op.result.type)
    )


def added_behind(module: Module, mma: Op, following: Op) -> Iterator[Edit]:
    """An MMA that adds to zeros, and the sum with its accumulator in front of the operation that follows it;
    no edits where its tile has no name."""
    kind, zero = type_text(module, mma.result.type), zero_text(module, mma.result.type)
    if kind is None or zero is None or "#" in mma.result.name:
        return
    result, view, zeros = mma.result.name, mma.operands[2].name, f"%twill_zeros{mma.index}"
    text = mentions(view).sub(zeros, text_of(module, mma), count=1)
    part = text.replace(result, f"{result}_part", 1)
    yield Edit(mma.span.start, mma.span.end, f"{zeros} = {named('constant')} {zero} {UNKNOWN} {part}")
    place = following.span.start
    yield Edit(
        place, place, f"{result} = {accumulated(view, f'{result}_part', mma.result.type, kind)} {UNKNOWN} "
    )
