"""Tiles that are loaded before a loop and read behind it alone, loaded behind it: no register keeps them
during the loop.

The loop hides the latency of what is loaded before it, so kernels are written so, and where registers suffice
they stay so. Where ptxas spills, it spills such tiles, and loads them from local memory behind the loop
instead of from L2. Takes a module; gives the same with such loads, what only they need, and what is computed
from them, behind the loop. Nothing that stands between may write what they load: it does no more than store
through other arguments of the function, which point to other memory. Lines stay where they are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.loads.early_loads import STORES, Arguments, apart, is_movable
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, text_of
from twill.ir.loop import Block, Function, Module, Op, Tensor, users_of
from twill.ops.row import Role
from twill.ops.table import role, writes_global

_ORDERS: frozenset[Role] = frozenset({"barrier", "return"})


def loaded_late(module: Module) -> Module:
    """The module itself where no loop to be scheduled has such loads before it. What is read behind several
    loops is loaded behind the last."""
    for number in range(len(loops(module))):
        loop = loops(module)[number]
        if loop.schedulable:
            block = next(one for one in loop.function.blocks() if loop.op in one.ops)
            module = edited(module, _edits(module, loop.function, block, loop.op))
    return module


def _edits(module: Module, function: Function, block: Block, loop: Op) -> Iterator[Edit]:
    moved = _moved(function, block, loop)
    for op, following in pairwise(block.ops):
        if op is loop and moved:
            texts = (f"{text_of(module, one)} {UNKNOWN} " for one in block.ops if one.index in moved)
            yield Edit(following.span.start, following.span.start, "".join(texts))
        elif op.index in moved:
            yield blanked(module, op.span.start, following.span.start)


def _moved(function: Function, block: Block, loop: Op) -> frozenset[int]:
    """The loads, what they need and what is computed from that, of those read behind the loop alone."""
    place = block.ops.index(loop)
    behind = {one.index for op in block.ops[place + 1 :] for one in (op, *op.inner())}
    users = users_of(list(function.walk()))
    named = Counter(value.name for op in function.walk() for value in op.results)
    arguments, free = Arguments(function), set[int]()
    for op in reversed(block.ops[:place]):
        readers = [user.index for value in op.results for user in users.get(value.id, ())]
        alone = readers and all(index in behind or index in free for index in readers)
        simple = all(named[value.name] == 1 for value in op.results)
        if alone and simple and is_movable(op) and _unchanged(arguments, block, op, loop):
            free.add(op.index)
    return _around_loads([op for op in block.ops[:place] if op.index in free])


def _unchanged(arguments: Arguments, block: Block, op: Op, loop: Op) -> bool:
    """Whether nothing between an operation and the end of the loop writes what it loads, or waits for
    others."""
    if role(op) != "pointer_load":
        return True
    between = block.ops[block.ops.index(op) + 1 : block.ops.index(loop) + 1]
    inner = [one for op in between for one in (op, *op.inner())]
    writing = [one for one in inner if writes_global(one)]
    if any(role(one) in _ORDERS for one in inner) or any(role(one) not in STORES for one in writing):
        return False
    return apart([arguments.of(one) for one in writing], [arguments.of(op)])


def _around_loads(free: Sequence[Op]) -> frozenset[int]:
    """Of operations in their order: loads of tiles, what these need, and what is computed from any of it."""
    makers = {value.id: op.index for op in free for value in op.results}
    needs = {op.index: {makers[v.id] for v in op.operands if v.id in makers} for op in free}
    found = {op.index for op in free if _loads_tile(op)}
    while (
        more := {
            *(index for op in found for index in needs[op]),
            *(index for index, needed in needs.items() if needed & found),
        }
        - found
    ):
        found |= more
    return frozenset(found)


def _loads_tile(op: Op) -> bool:
    return role(op) == "pointer_load" and any(isinstance(value.type, Tensor) for value in op.results)
