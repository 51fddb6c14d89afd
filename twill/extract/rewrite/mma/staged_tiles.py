"""Operands of dots without a tensor core that a thread has no registers for.

Each thread of such a dot needs all of K for the rows and columns of its elements of the result. Takes a
module; gives the same in which a large operand that is computed, and then changes its layout, is left in the
layout in which it is computed: the dot passes it through shared memory and reads it K by K. Lines stay where
they are.
"""

from collections.abc import Iterator
from itertools import pairwise

from twill.extract.rewrite.text.edits import Edit, blanked, edited, mentions
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.distribution import distribution
from twill.ir.loop import Block, DotOperand, Function, Module, Op, Tensor, Value
from twill.ops.table import role

MOST = 128
"""Elements of an operand for each thread up to which it stays in registers: half of what a thread has."""


def staged_tiles(module: Module) -> Module:
    """The module itself where no dot needs it."""
    return edited(module, (edit for function in module.functions for edit in _of_function(module, function)))


def _of_function(module: Module, function: Function) -> Iterator[Edit]:
    makers = {value.id: op for op in function.walk() for value in op.results}
    dots = [op for op in function.walk() if role(op) == "dot"]
    moved = {one.id: makers[one.id] for dot in dots for one in dot.operands[:2] if _large(makers, one)}
    readers = [one.id for op in function.walk() if op not in dots for one in op.operands]
    for dot in dots:
        for one in dict.fromkeys(one.id for one in dot.operands[:2] if one.id in moved):
            yield from _as_computed(module, dot, moved[one])
    gone = {op.index for op in moved.values() if op.result.id not in readers}
    for block in function.blocks():
        yield from _without(module, block, gone)


def _large(makers: dict[int, Op], operand: Value) -> bool:
    """Whether an operand changes its layout to be held by each thread for all of K, and has too many elements
    for that. Tiles that are loaded are read from where they were loaded to."""
    tile, maker = operand.type, makers.get(operand.id)
    if not isinstance(tile, Tensor) or maker is None or role(maker) != "layout":
        return False
    source, layout = makers.get(maker.operands[0].id), tile.encoding
    if source is None or role(source) in ("constant", "pointer_load", "tma_load"):
        return False
    if not isinstance(layout, DotOperand) or layout.k_width is not None or len(tile.shape) != 2:
        return False
    found = distribution(layout, tile.shape)
    return found is not None and found.per_thread > MOST


def _as_computed(module: Module, dot: Op, change: Op) -> Iterator[Edit]:
    """The dot reads what the change of layout reads."""
    source, result = change.operands[0], change.result
    new, old = type_text(module, source.type), type_text(module, result.type)
    name = mentions(result.name).search(module.text, dot.span.start, dot.span.end)
    at = module.text.find(old, dot.span.start, dot.span.end) if old else -1
    if new is None or old is None or name is None or at < 0:
        raise ValueError(f"the types of {dot.name} are not written as expected")
    yield Edit(name.start(), name.end(), source.name)
    yield Edit(at, at + len(old), new)


def _without(module: Module, block: Block, gone: set[int]) -> Iterator[Edit]:
    for op, following in pairwise(block.ops):
        if op.index in gone:
            yield blanked(module, op.span.start, following.span.start)
