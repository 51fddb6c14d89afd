"""MMAs whose accumulator is needed again after them add to zeros first.

An MMA in registers updates its accumulator in place, so nothing may read the accumulator behind it: not
another MMA that adds to the same tile (both sides of a branch, executed one after the other), and nothing
that follows from its result. Takes a module; gives the same where the accumulator is added to the MMA's
result instead. What a loop carries may be read again, from a copy that is made before the MMA. Lines stay
where they are.
"""

from collections.abc import Iterator, Sequence

from twill.extract.rewrite.mma.view_accumulators import added_behind
from twill.extract.rewrite.text.edits import Edit, edited
from twill.ir.loop import Block, Module, Op, Tensor, Value
from twill.ops.table import role


def kept(module: Module) -> Module:
    """The module itself where every MMA may update its accumulator in place."""
    blocks = (block for function in module.functions for block in function.blocks())
    return edited(module, [edit for block in blocks for edit in _edits(module, block)])


def _edits(module: Module, block: Block) -> Iterator[Edit]:
    mmas = [op for op in block.ops if role(op) == "wgmma" and isinstance(op.operands[2].type, Tensor)]
    made = {value.id: op for op in block.ops for value in op.results if role(op) != "constant"}
    carried = {value.id for value in block.args}
    following = dict(zip((op.index for op in block.ops), block.ops[1:], strict=False))
    for mma in mmas:
        tile = mma.operands[2]
        shared = any(other is not mma and other.operands[2] is tile for other in mmas)
        if (tile.id in made and (shared or _read_behind(block, mma, tile))) or (
            tile.id in carried and shared
        ):
            yield from added_behind(module, mma, following[mma.index])


def _read_behind(block: Block, mma: Op, tile: Value) -> bool:
    """Whether something that follows from an MMA's result, or the next iteration, reads a tile."""
    known = {mma.result.id}
    for op in block.ops:
        read = _read(op)
        if op is block.ops[-1] and tile.id in read:
            return True
        if known & set(read):
            if tile.id in read:
                return True
            known |= {value.id for value in op.results}
    return False


def _read(op: Op) -> Sequence[int]:
    return [value.id for one in (op, *op.inner()) for value in one.operands]
