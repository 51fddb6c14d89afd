"""Changes of layout that are the same in every iteration, before their loop (loop-invariant code motion).

Triton leaves a change of layout beside the operation that reads it, also where it moves a tile that was made
before the loop: inside a branch of the loop, for instance, which `predicated` has taken apart. Every
iteration would then move that tile between threads again. Takes a module; gives the same with such operations
in front of their loop. Other invariant operations cost less than the registers that would keep their results.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.edits import UNKNOWN, Edit, blanked, edited, text_of
from twill.ir.loop import Function, Module, Op, Tensor
from twill.ops.table import role


def hoisted(module: Module) -> Module:
    """The module itself where no loop to be scheduled has such an operation."""
    edits = list[Edit]()
    for loop in loops(module):
        if loop.innermost and loop.tensor_ops:
            edits += _edits(module, loop.function, loop.op)
    return edited(module, edits)


def _edits(module: Module, function: Function, loop: Op) -> Iterator[Edit]:
    """Lines stay where they are."""
    inside = {value.id for op in loop.inner() for value in op.results}
    inside |= {arg.id for region in loop.regions for block in region.blocks for arg in block.args}
    named = Counter(value.name for op in function.walk() for value in op.results)
    for op, following in pairwise(loop.regions[0].blocks[0].ops):
        moved = role(op) == "layout" and isinstance(op.result.type, Tensor) and named[op.result.name] == 1
        if moved and not any(value.id in inside for value in op.operands):
            yield Edit(loop.span.start, loop.span.start, f"{text_of(module, op)} {UNKNOWN} ")
            yield blanked(module, op.span.start, following.span.start)
