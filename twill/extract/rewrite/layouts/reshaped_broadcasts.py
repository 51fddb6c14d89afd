"""Broadcasts whose result is counted in other dimensions: broadcast in those.

A scale of a group of elements is often spread as `expand_dims`, `broadcast` along one more dimension and
`reshape` (block-scaled operands). Takes a module; gives the same in which such a tile is broadcast in its
last form, so that no tile of more dimensions is left. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Function, Module, Op, Tensor, Value
from twill.ops.table import named, role


@dataclass(frozen=True, slots=True)
class _Spread:
    """A tile that `reshape` makes: `origin`, broadcast from `shape`."""

    reshape: Op
    origin: Value
    shape: tuple[int, ...]
    between: tuple[Op, ...]
    """The operations from the reshape back to the origin, both excluded."""


def broadcast_last(module: Module) -> Module:
    """The module itself where there are no such tiles."""
    return edited(module, (edit for function in module.functions for edit in _edits(module, function)))


def _edits(module: Module, function: Function) -> Iterator[Edit]:
    makers, users, gone = makers_of(function.walk()), function.users(), set[int]()
    for op in function.walk():
        found = _spread(makers, op) if role(op) == "reshape" else None
        text = None if found is None else _written(module, found)
        if found is None or text is None:
            continue
        yield Edit(op.span.start, op.span.end, text)
        gone |= set(_unread(users, found))
    for block in function.blocks():
        for op, following in pairwise(block.ops):
            if op.index in gone:
                yield blanked(module, op.span.start, following.span.start)


def _spread(makers: Makers, reshape: Op) -> _Spread | None:
    broadcast, result = makers.of(reshape.operands[0], "broadcast"), reshape.result.type
    if broadcast is None or not isinstance(result, Tensor):
        return None
    value, wide, between = broadcast.operands[0], broadcast.result.type, [broadcast]
    assert isinstance(value.type, Tensor)
    assert isinstance(wide, Tensor)
    shape = kept_shape(value.type.shape, wide.shape, result.shape)
    while shape is not None and (op := makers.of(value, "expand", "layout")) is not None:
        if isinstance(value.type, Tensor) and value.type.shape == shape and role(op) == "expand":
            break
        value = op.operands[0]
        between.append(op)
    fits = isinstance(value.type, Tensor) and value.type.shape == shape
    return _Spread(reshape, value, shape, tuple(between)) if shape is not None and fits else None


def kept_shape(source: Sequence[int], wide: Sequence[int], result: Sequence[int]) -> tuple[int, ...] | None:
    """The shape whose broadcast is a result: 1 where only repeated dimensions make up a dimension of it. None
    where repeated and other dimensions make up one together, or parts of one."""
    kept, axis = list[int](), 0
    for size in result:
        begin = axis
        while axis < len(wide) and prod(wide[begin : axis + 1]) <= size:
            axis += 1
        own = prod(source[begin:axis])
        if prod(wide[begin:axis]) != size or own not in (1, size):
            return None
        kept.append(own)
    return tuple(kept) if axis == len(wide) else None


def _written(module: Module, it: _Spread) -> str | None:
    """The reshape as a change of layout and a broadcast; None for types that have no text."""
    result, name = it.reshape.result, f"{it.reshape.result.name}_kept"
    assert isinstance(result.type, Tensor)
    types = (it.origin.type, replace(result.type, shape=it.shape), result.type)
    origin, narrow, wide = (type_text(module, one) for one in types)
    if origin is None or narrow is None or wide is None:
        return None
    text = f"{name} = {named('layout')} {it.origin.name} : {origin} -> {narrow} {UNKNOWN} "
    return text + f"{result.name} = {named('broadcast')} {name} : {narrow} -> {wide}"


def _unread(users: Mapping[int, Sequence[Op]], it: _Spread) -> Iterator[int]:
    """The operations in between that nothing else reads, by index."""
    reader = it.reshape
    for op in it.between:
        if list(users.get(op.result.id, ())) != [reader]:
            return
        yield op.index
        reader = op
