"""Small tiles that are loaded behind a loop, loaded before it: what a loop takes hides their latency.

Kernels load a bias, a scale or a gate where they apply it to the accumulator, behind the loop, and wait for
it with the tensor core idle. Takes a module; gives the same with such loads, and the addresses and masks that
they need, in front of the loop. Nothing between the loop's begin and the load may write what it loads: the
loop does no more than store through other arguments of the function, which point to other memory, and behind
it nothing is written. Nothing that the load needs may come from the loop. A barrier of the thread block
orders nothing here: behind a store it is refused. In a loop over tiles loads stay: another tile's loads run
meanwhile, and the tile's number would be taken apart before its first MMA (1% slower). Lines stay where they
are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from twill.extract.dependence.loops import LOOPS, loops
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, text_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.ir.distribution import distribution
from twill.ir.loop import Block, Function, Module, Op, Tensor
from twill.ops.pointers import beginning
from twill.ops.row import Role
from twill.ops.table import lookup, repeatable, role, writes_global

FEW = 4
"""Registers of a thread that may keep such tiles during a loop of any length: less than the granularity of a
grant. (Scales of a matrix product in fp8: 2% faster so.)"""
MANY = 32
"""The same during a loop that is known to be `SHORT`, which takes hardly longer than a load. (Gates of 18
registers behind a loop of two iterations, on an H200: 0.0422 ms before it, 0.0451 behind it, although an SM
holds six thread blocks instead of seven.)"""
SHORT = 8
"""Iterations (as in `twill.persistence`)."""
STORES: frozenset[Role] = frozenset({"tma_store", "pointer_store"})
"""What writes, and adds to nothing that others wait for."""
_ENDS: frozenset[Role] = frozenset({"assert", "async_copy", "return", "yield", "condition"})


def loaded_early(module: Module) -> Module:
    """The module itself where no loop to be scheduled is followed by such loads."""
    edits = list[Edit]()
    for loop in loops(module):
        if loop.innermost and loop.depth == 0 and loop.tensor_ops and _stores_alone(loop.op):
            edits += _edits(module, loop.function, loop.op)
    return edited(module, edits)


def _writes(op: Op) -> bool:
    return any(writes_global(one) for one in (op, *op.inner()))


def _stores_alone(loop: Op) -> bool:
    """Whether all that a loop does to global memory is to store: it adds to nothing that others wait for."""
    return all(role(one) in STORES for one in (loop, *loop.inner()) if writes_global(one))


def _edits(module: Module, function: Function, loop: Op) -> Iterator[Edit]:
    block = next(one for one in function.blocks() if loop in one.ops)
    moved = _moved(function, block, loop)
    for op, following in pairwise(block.ops):
        if op.index in moved:
            yield Edit(loop.span.start, loop.span.start, f"{text_of(module, op)} {UNKNOWN} ")
            yield blanked(module, op.span.start, following.span.start)


def _moved(function: Function, block: Block, loop: Op) -> frozenset[int]:
    """The loads, with what they need, as far as registers keep them."""
    behind = tuple(_behind(block, loop))
    named = Counter(value.name for op in function.walk() for value in op.results)
    makers, found, left = makers_of(behind), set[int](), _room(function, loop)
    results = frozenset(value.id for value in loop.results)
    arguments = Arguments(function)
    stored = [arguments.of(op) for op in loop.inner() if writes_global(op)]
    for load in (op for op in behind if role(op) == "pointer_load" and op.index not in found):
        needed = _needed(makers, load, results)
        words = sum(_registers(op) for op in needed or () if role(op) == "pointer_load")
        simple = all(named[value.name] == 1 for op in needed or () for value in op.results)
        loaded = [arguments.of(op) for op in needed or () if role(op) == "pointer_load"]
        if needed and simple and words <= left and apart(stored, loaded):
            found |= {op.index for op in needed}
            left -= words
    return frozenset(found)


class Arguments:
    """Through which argument of a function an operation accesses memory."""

    def __init__(self, function: Function) -> None:
        self._makers = makers_of(function.walk())
        self._arguments = frozenset(value.id for value in function.args)

    def of(self, op: Op) -> int | None:
        """The argument, by id; None where that is not known."""
        value = beginning(op, lambda value: self._makers.by_value.get(value.id))
        return value.id if value is not None and value.id in self._arguments else None


def apart(stored: Sequence[int | None], loaded: Sequence[int | None]) -> bool:
    """Whether nothing is loaded through an argument that is stored through."""
    if not stored:
        return True
    return None not in (*stored, *loaded) and not set(stored) & set(loaded)


def _behind(block: Block, loop: Op) -> Iterator[Op]:
    """The operations behind a loop, up to the next one that writes, waits or has a loop in it."""
    for op in block.ops[block.ops.index(loop) + 1 :]:
        if _writes(op) or any(role(one) in (*_ENDS, *LOOPS) for one in (op, *op.inner())):
            return
        yield op


def _room(function: Function, loop: Op) -> int:
    makers = makers_of(function.walk())
    begin, end, step = (makers.number(value) for value in loop.operands[:3])
    if begin is None or end is None or not step:
        return FEW
    return MANY if (end - begin) // step < SHORT else FEW


def _needed(makers: Makers, load: Op, results: frozenset[int]) -> Sequence[Op] | None:
    """A load with all behind the loop that it needs; None where that can not come before the loop."""
    waiting, found = [load], dict[int, Op]()
    while waiting:
        op = waiting.pop()
        found[op.index] = op
        if not is_movable(op) or any(value.id in results for value in op.operands):
            return None
        made = (makers.by_value.get(value.id) for value in op.operands)
        waiting += [one for one in made if one is not None and one.index not in found]
    return tuple(found.values())


def is_movable(op: Op) -> bool:
    """A load of values that stay the same, or a formula."""
    if role(op) == "pointer_load":
        return not op.attributes.get("isVolatile") and any(
            isinstance(result.type, Tensor) for result in op.results
        )
    row = lookup(op.name)
    return row is not None and repeatable(row, op) and not op.regions


def _registers(load: Op) -> int:
    """Of a thread that keeps a tile; more than any loop leaves where its layout is not known."""
    kind = load.result.type
    found = distribution(kind.encoding, kind.shape) if isinstance(kind, Tensor) else None
    return found.per_thread if found else MANY + 1
