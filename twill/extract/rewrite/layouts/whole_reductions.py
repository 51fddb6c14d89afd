"""Reductions of all elements of a tile as reductions along one dimension after the other.

Triton flattens a tile before it reduces all of it: `tt.reshape allow_reorder`, whose result has its elements
in any order, then `tt.reduce`. The reshape would need every element in another thread. Takes a module; gives
the same where each such reshape is a reduction along the last dimension, and so on down to a vector. A vector
in another layout is reduced as it is. Lines stay where they are.
"""

from collections.abc import Iterator
from itertools import pairwise

from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, renamed, text_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Function, Module, Op, Slice, Tensor
from twill.ops.table import role


def by_dimensions(module: Module) -> Module:
    """The module itself where no tile is flattened and reduced."""
    edits = list[Edit]()
    for function in module.functions:
        followed = {op.index: after for block in function.blocks() for op, after in pairwise(block.ops)}
        for flattened, reduction in _pairs(function):
            edits += _edits(module, flattened, reduction)
            edits += _as_it_is(module, flattened, reduction, followed[flattened.index])
    return edited(module, edits)


def _pairs(function: Function) -> Iterator[tuple[Op, Op]]:
    """Reshapes that only one reduction reads, with it."""
    users = function.users()
    for op in function.walk():
        if role(op) == "reshape" and "allow_reorder" in str(op.attributes.get("words")):
            match users.get(op.result.id, ()):
                case [reduction] if role(reduction) == "reduce" and len(reduction.results) == 1:
                    yield op, reduction
                case _:
                    pass


def _edits(module: Module, flattened: Op, reduction: Op) -> Iterator[Edit]:
    """Reductions of all dimensions but the first in place of the reshape, and the last one on a vector."""
    tile, flat, text = flattened.operands[0].type, flattened.result.type, text_of(module, reduction)
    if not isinstance(tile, Tensor) or not isinstance(flat, Tensor) or len(flat.shape) != 1:
        return
    types = list(_smaller(tile))
    texts = [type_text(module, one) for one in types]
    begin = module.text.find("({", reduction.span.start)
    if len(types) < 2 or None in texts or not reduction.span.start < begin < reduction.span.end:
        return
    ops = reduction.regions[0].blocks[0].ops
    head = " ".join(module.text[begin : ops[0].span.start].split())
    region = " ".join((head, *(f"{text_of(module, op)} {UNKNOWN}" for op in ops), "})"))
    names = [flattened.operands[0].name, *(f"{flattened.result.name}_{i}" for i in range(len(types) - 2))]
    names.append(flattened.result.name)
    word, axes = reduction.name, [len(one.shape) - 1 for one in types]
    steps = [
        f'{names[i + 1]} = "{word}"({names[i]}) <{{axis = {axes[i]} : i32}}> {region}'
        f" : ({texts[i]}) -> {texts[i + 1]}"
        for i in range(len(types) - 1)
    ]
    kind = f"({type_text(module, flat)})"
    start = reduction.span.start + text.rfind(kind)
    if kind in text:
        yield Edit(flattened.span.start, flattened.span.end, f" {UNKNOWN} ".join(steps))
        yield Edit(start, start + len(kind), f"({texts[-1]})")


def _as_it_is(module: Module, flattened: Op, reduction: Op, following: Op) -> Iterator[Edit]:
    """A vector, in place of the same one in another layout."""
    source = flattened.operands[0]
    tile, flat, text = source.type, flattened.result.type, text_of(module, reduction)
    if not isinstance(tile, Tensor) or not isinstance(flat, Tensor) or len(tile.shape) != 1 or tile == flat:
        return
    own, other, begin = type_text(module, tile), f"({type_text(module, flat)})", text.find("({")
    if own is not None and begin > 0 and text.count(other) == 1:
        start = reduction.span.start
        head = renamed(text[:begin], {flattened.result.name: source.name})
        at = start + text.find(other)
        yield blanked(module, flattened.span.start, following.span.start)
        yield Edit(start, start + begin, head)
        yield Edit(at, at + len(other), f"({own})")


def _smaller(tile: Tensor) -> Iterator[Tensor]:
    """The tile, then without its last dimension, down to a vector."""
    yield tile
    if len(tile.shape) > 1 and tile.encoding is not None:
        last = len(tile.shape) - 1
        yield from _smaller(Tensor(tile.shape[:-1], tile.dtype, Slice(last, tile.encoding)))
