"""Tiles that only one branch of an `if` reads, loaded in that branch.

A tile that is copied to shared memory for an MMA and also read in registers, by a few thread blocks alone, is
loaded once more by the group that computes, which would wait for it in every block. (On an H200, Aiter's
gradients of experts' weights, whose biases need such a tile in one of 16 blocks.) Takes the operations of a
statement; gives those loads. Nothing in the statement may write what they load.
"""

from collections.abc import Mapping, Sequence, Set

from twill.ir.loop import Op, Tensor
from twill.ops.table import role, writes_global

Branch = tuple[int, int]
"""An `if`, by its index, and which of its regions."""


def loaded_in_branches(ops: Sequence[Op], written: Set[int]) -> Mapping[Branch, Sequence[Op]]:
    """The loads of each branch, in their order; `written`: values, by id, that others read."""
    if any(writes_global(one) for op in ops for one in (op, *op.inner())):
        return {}
    found = dict[Branch, list[Op]]()
    for load in ops:
        if role(load) != "pointer_load" or not isinstance(load.result.type, Tensor):
            continue
        if load.attributes.get("isVolatile") or load.result.id in written:
            continue
        if (branch := _only_branch(ops, load.result.id)) is not None:
            found.setdefault(branch, []).append(load)
    return found


def _only_branch(ops: Sequence[Op], value: int) -> Branch | None:
    """The branch in which all operations are that read a value."""
    found = set[Branch]()
    for op in ops:
        if any(one.id == value for one in op.operands):
            return None
        for i, region in enumerate(op.regions):
            inner = (one for block in region.blocks for one in block.walk())
            if any(operand.id == value for one in inner for operand in one.operands):
                if role(op) != "if":
                    return None
                found.add((op.index, i))
    return found.pop() if len(found) == 1 else None
