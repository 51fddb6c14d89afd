"""Tiles that go through a buffer in shared memory only to be read in another layout: kept in registers.

Triton transposes a float32 operand of mma.sync so: `ttg.local_alloc`, `ttg.memdesc_trans`, `ttg.local_load`.
Takes a module; gives the same in which a buffer that is read once, whole, is a `tt.trans` of the tile, if it
is transposed, and a change of layout. What is kept in shared memory, and how, is up to lowering then. Lines
stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.distribution import distribution
from twill.ir.loop import Bases, Block, Function, Module, Op, Tensor, Type
from twill.ops.table import named, role


@dataclass(frozen=True, slots=True)
class _Read:
    """`load` reads all of the buffer that `alloc` fills, through `turn` if that is there."""

    alloc: Op
    turn: Op | None
    load: Op


def in_registers(module: Module) -> Module:
    """The module itself where there are no such buffers."""
    return edited(module, (edit for function in module.functions for edit in _edits(module, function)))


def _edits(module: Module, function: Function) -> Iterator[Edit]:
    makers, users = makers_of(function.walk()), function.users()
    for block in function.blocks():
        for op in block.ops:
            found = _read(makers, users, op) if role(op) == "buffer_load" else None
            text = None if found is None else _text(module, found)
            if found is None or text is None:
                continue
            yield Edit(op.span.start, op.span.end, text)
            yield from _removed(module, function.blocks(), found)


def _read(makers: Makers, users: Mapping[int, Sequence[Op]], load: Op) -> _Read | None:
    turn = makers.of(load.operands[0], "buffer_transpose")
    alloc = makers.of((turn or load).operands[0], "alloc")
    if alloc is None or not alloc.operands or len(load.operands) > 1:
        return None
    chain = [alloc, *([turn] if turn else []), load]
    alone = all(list(users.get(op.result.id, ())) == [reader] for op, reader in pairwise(chain))
    return _Read(alloc, turn, load) if alone else None


def _text(module: Module, it: _Read) -> str | None:
    """The load, written with registers only; None for types that have no text."""
    tile, result = it.alloc.operands[0], it.load.result
    held, wanted = type_text(module, tile.type), type_text(module, result.type)
    if held is None or wanted is None:
        return None
    change = f"{result.name} = {named('layout')}"
    if it.turn is None:
        return f"{change} {tile.name} : {held} -> {wanted}"
    turned = _turned(module, tile.type)
    if turned is None:
        return None
    name, order = f"{result.name}_turned", "{order = array<i32: 1, 0>}"
    text = f"{name} = {named('transpose')} {tile.name} {order} : {held} -> {turned} {UNKNOWN} "
    return f"{text}{change} {name} : {turned} -> {wanted}"


def _turned(module: Module, type: Type) -> str | None:
    """The type of a transposed tile of two dimensions whose elements stay in their registers."""
    layout = distribution(type.encoding, type.shape) if isinstance(type, Tensor) else None
    if not isinstance(type, Tensor) or layout is None or layout.repeats or len(type.shape) != 2:
        return None
    element = type_text(module, type.dtype)
    bits = (("register", layout.register), ("lane", layout.lane), ("warp", layout.warp))
    parts = ", ".join(f"{name} = {_swapped(vectors)}" for name, vectors in bits)
    encoding = f"#ttg.linear<{{{parts}, block = [], exact = true}}>"
    return f"tensor<{type.shape[1]}x{type.shape[0]}x{element}, {encoding}>"


def _swapped(vectors: Bases) -> str:
    return str([[column, row] for row, column in vectors])


def _removed(module: Module, blocks: Iterator[Block], it: _Read) -> Iterator[Edit]:
    gone = [op.index for op in (it.alloc, it.turn) if op is not None]
    for block in blocks:
        for op, following in pairwise(block.ops):
            if op.index in gone:
                yield blanked(module, op.span.start, following.span.start)
