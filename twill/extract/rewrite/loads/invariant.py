"""Changes of layout and tiles staged in shared memory that are the same in every iteration, before their loop
(loop-invariant code motion).

Triton leaves a change of layout, or the copy of a tile to shared memory, beside the operation that reads it,
also where it moves a tile that was made before the loop: inside a branch of the loop, for instance, which
`predicated` has taken apart. Every iteration would then move that tile again, and a staged one would have
more than one slot. Takes a module; gives the same with such operations in front of their loop. Other
invariant operations cost less than the registers that would keep their results.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, text_of
from twill.ir.loop import Function, MemDesc, Module, Op, Tensor, Value
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
        if _moves(op) and named[op.result.name] == 1 and not any(v.id in inside for v in op.operands):
            yield Edit(loop.span.start, loop.span.start, f"{text_of(module, op)} {UNKNOWN} ")
            yield blanked(module, op.span.start, following.span.start)


def _moves(op: Op) -> bool:
    """Whether an operation only moves a tile: between threads, or to a buffer that nothing else writes."""
    match op.results:
        case [Value(type=Tensor())]:
            return role(op) == "layout"
        case [Value(type=MemDesc(mutable=False))]:
            return role(op) == "alloc" and bool(op.operands)
        case _:
            return False
