"""First operands of mma.sync that do not change in a loop and that a thread has no registers for.

Every warp whose columns of the result others have beside it holds all of K of such an operand. Takes a
module; gives the same in which it is copied to a buffer in shared memory before the loop, and read from there
in every iteration. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.dependence.tiles import registers_of
from twill.extract.rewrite.loads.staged_loads import AROUND
from twill.extract.rewrite.mma.shared_operands import buffer_text
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, mentions
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Block, DotOperand, Function, Loop, Module, Op, Scalar, Tensor, Value
from twill.ir.problem import Limits
from twill.ops.mma import is_plain
from twill.ops.table import named, role

BITS = {"f16": 16, "bf16": 16, "f8E4M3FN": 8, "f8E5M2": 8, "i8": 8}
"""The element types that rows of matrices are read of at once (PTX ISA, ldmatrix)."""


def staged_fragments(module: Module) -> Module:
    """The module itself where registers suffice."""
    inner = [one for one in loops(module) if one.innermost]
    return edited(module, (edit for function in module.functions for edit in _edits(module, function, inner)))


@dataclass(frozen=True, slots=True)
class _Read:
    """`dot`, in a loop, takes what `change` makes before it."""

    dot: Op
    change: Op


def _edits(module: Module, function: Function, inner: Sequence[Loop]) -> Iterator[Edit]:
    changes = {op.result.id: op for op in function.walk() if role(op) == "layout"}
    own = [one for one in inner if one.function is function]
    found = [read for loop in own for read in _reads(module, changes, loop)]
    if not found:
        return
    buffers = dict[int, tuple[str, str]]()
    for block in function.blocks():
        for edit, made in _allocated(module, block, {read.change.index for read in found}):
            yield edit
            buffers |= made
    for read in found:
        yield from _loaded(module, read, *buffers[read.change.index])
    yield from _removed(module, function, found)


def _reads(module: Module, changes: Mapping[int, Op], loop: Loop) -> list[_Read]:
    """Of a loop in which these operands and what is computed around accumulators take more registers than a
    thread has: the largest ones without which they do not. None where they do without all of them."""
    inside = {op.index for op in loop.op.inner()}
    dots = [op for op in loop.op.inner() if role(op) == "dot" and not is_plain(op)]
    found = [_Read(dot, changes[dot.operands[0].id]) for dot in dots if dot.operands[0].id in changes]
    outer = {read.change.index: read.change for read in found if read.change.index not in inside}
    room = Limits().registers_per_thread - AROUND * sum(registers_of(dot.result) for dot in dots)
    kept, staged = sum(registers_of(one.result) for one in outer.values()), set[int]()
    for one in sorted(
        filter(partial(_fits, module), outer.values()), key=lambda op: -registers_of(op.result)
    ):
        if kept > room:
            staged.add(one.index)
            kept -= registers_of(one.result)
    return [read for read in found if read.change.index in staged] if kept <= room else []


def _fits(module: Module, change: Op) -> bool:
    """Whether a buffer holds what a change of layout reads, in elements that matrices are read of."""
    tile, source = change.result.type, change.operands[0].type
    if not isinstance(tile, Tensor) or not isinstance(tile.encoding, DotOperand) or len(tile.shape) != 2:
        return False
    known = isinstance(tile.dtype, Scalar) and tile.dtype.name in BITS
    return known and None not in (type_text(module, tile), type_text(module, source))


def _allocated(
    module: Module, block: Block, changes: Set[int]
) -> Iterator[tuple[Edit, dict[int, tuple[str, str]]]]:
    """The buffers of a block: by the change of layout in whose place one is read, its name and type. One for
    all that change the layout of the same tile."""
    known = dict[int, tuple[str, str]]()
    for op in (one for one in block.ops if one.index in changes):
        source, tile = op.operands[0], op.result.type
        assert isinstance(tile, Tensor)
        assert isinstance(tile.dtype, Scalar)
        text = ""
        if source.id not in known:
            kind = buffer_text(tile, tile.dtype.name, BITS[tile.dtype.name])
            known[source.id] = name, _ = f"%twill_fragment{op.index}", kind
            held = type_text(module, source.type)
            text = f"{name} = {named('alloc')} {source.name} : ({held}) -> {kind} {UNKNOWN} "
        yield Edit(op.span.start, op.span.start, text), {op.index: known[source.id]}


def _loaded(module: Module, read: _Read, buffer: str, kind: str) -> Iterator[Edit]:
    """The dot reads the buffer, whose type is `kind`."""
    tile, dot = read.change.result, read.dot
    name = mentions(tile.name).search(module.text, dot.span.start, dot.span.end)
    if name is None:
        raise ValueError(f"the operands of {dot.name} are not written as expected")
    own = f"{buffer}_{dot.index}"
    text = f"{own} = {named('buffer_load')} {buffer} : {kind} -> {type_text(module, tile.type)} {UNKNOWN} "
    yield Edit(dot.span.start, dot.span.start, text)
    yield Edit(name.start(), name.end(), own)


def _removed(module: Module, function: Function, found: Sequence[_Read]) -> Iterator[Edit]:
    """Changes of layout that nothing else reads."""
    users, dots = function.users(), {read.dot.index for read in found}

    def unread(value: Value) -> bool:
        return all(op.index in dots and value not in op.operands[1:] for op in users.get(value.id, ()))

    gone = {read.change.index for read in found if unread(read.change.result)}
    for block in function.blocks():
        for op, following in pairwise(block.ops):
            if op.index in gone:
                yield blanked(module, op.span.start, following.span.start)
