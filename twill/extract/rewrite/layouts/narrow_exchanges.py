"""Tiles that are rounded to a narrower type after their threads exchange elements: rounded before.

A change of layout goes through shared memory, where a tile of float32 takes twice the room and the time of
one of 16 bits (an epilogue that splits its accumulator into halves, for instance). Takes a module; gives the
same with the rounding in front of such a change, where nothing reads the wider elements behind it: of the
whole tile, or of both halves that `tt.split` makes of it. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Block, Module, Op, Tensor, Type, Value
from twill.ops.table import role


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A change of layout, the split of its result if there is one, and the operations that round."""

    layout: Op
    split: Op | None
    rounded: tuple[Op, ...]


def narrowed(module: Module) -> Module:
    """The module itself where there are no such tiles."""
    edits = list[Edit]()
    for function in module.functions:
        users, whole = function.users(), function.body.blocks if function.body else ()
        for block in function.blocks():
            for op in block.ops:
                found = _exchange(module, users, whole, block, op)
                edits += () if found is None else _edits(module, block, found)
    return edited(module, edits)


def _exchange(
    module: Module, users: Mapping[int, Sequence[Op]], whole: Sequence[Block], block: Block, layout: Op
) -> _Exchange | None:
    """With a change of layout that can come behind the rounding of its result. What a loop loads for
    this change alone is read from its slot in any layout: nothing is exchanged."""
    source = layout.operands[0] if role(layout) == "layout" else None
    if source is None or (block not in whole and _loaded(block, users, source)):
        return None
    read = users.get(layout.result.id, ())
    split = read[0] if [role(op) for op in read] == ["split"] else None
    results = layout.results if split is None else split.results
    rounded = [_only(users, value) for value in results]
    if any(op is None or op not in block.ops for op in rounded) or (split and split not in block.ops):
        return None
    ops = tuple(op for op in rounded if op is not None)
    kinds = {op.result.type.dtype for op in ops if isinstance(op.result.type, Tensor)}
    named = [type_text(module, value.type) for op in (layout, *ops) for value in (*op.operands, *op.results)]
    simple = len(kinds) == 1 and None not in named and "#" not in "".join(op.result.name for op in ops)
    return _Exchange(layout, split, ops) if simple else None


def _loaded(block: Block, users: Mapping[int, Sequence[Op]], value: Value) -> bool:
    """Whether a load of this block makes a value, for one reader."""
    made = any(role(op) == "pointer_load" and op.result is value for op in block.ops)
    return made and len(users[value.id]) == 1


def _only(users: Mapping[int, Sequence[Op]], value: Value) -> Op | None:
    """The operation that alone reads a value, if that rounds it."""
    read = users.get(value.id, ())
    return read[0] if [role(op) for op in read] == ["round"] else None


def _edits(module: Module, block: Block, it: _Exchange) -> Iterator[Edit]:
    """What follows the rounding keeps its names, so that no reader changes."""
    kind = it.rounded[0].result.type
    assert isinstance(kind, Tensor)
    source, last = it.layout.operands[0], it.split or it.layout
    low, names = f"{it.layout.result.name}_narrow", ", ".join(op.result.name for op in it.rounded)
    moved = it.layout.result.name if it.split else names
    types = [_text(module, one, kind) for one in (source.type, it.layout.result.type)]
    text = f"{low} = {it.rounded[0].name} {source.name} : {type_text(module, source.type)} to {types[0]}"
    text += f" {UNKNOWN} {moved} = {it.layout.name} {low} : {types[0]} -> {types[1]}"
    yield Edit(it.layout.span.start, it.layout.span.end, text)
    if it.split is not None:
        result = _text(module, last.results[0].type, kind)
        text = f"{names} = {it.split.name} {moved} : {types[1]} -> {result}"
        yield Edit(it.split.span.start, it.split.span.end, text)
    yield from _removed(module, block.ops, it.rounded)


def _text(module: Module, type: Type, kind: Tensor) -> str:
    """A tile's type with other elements."""
    assert isinstance(type, Tensor)
    text = type_text(module, replace(type, dtype=kind.dtype))
    assert text is not None
    return text


def _removed(module: Module, ops: Sequence[Op], gone: Sequence[Op]) -> Iterator[Edit]:
    for op, following in pairwise(ops):
        if op in gone:
            yield blanked(module, op.span.start, following.span.start)
