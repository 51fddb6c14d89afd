"""Loaded tiles that a loop hands on, as copies that a group which computes makes.

What a loop carries stays in the group that makes it, with all that is computed from it behind the loop or in
the next iteration. A load is of the loading group, which computes nothing, so that no partition would do.
Takes a module; gives the same in which such a tile of floats is copied before it is handed on. Index tiles
stay as they are: loads may take addresses from them. Lines stay where they are.
"""

from collections.abc import Iterator

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.induction import yielding
from twill.extract.rewrite.control.predication import truths
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, constant, edited
from twill.extract.rewrite.text.makers import makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Loop, Module, Scalar, Tensor, Value
from twill.ops.row import Role
from twill.ops.table import lookup, named, role

_LOADS: frozenset[Role] = frozenset({"pointer_load", "tma_load"})


def copied_loads(module: Module) -> Module:
    """The module itself where no loop to be scheduled hands on such a tile."""
    found = (loop for loop in loops(module) if loop.innermost and loop.tensor_ops)
    return edited(module, [edit for i, loop in enumerate(found) for edit in _edits(module, loop, i)])


def _edits(module: Module, loop: Loop, number: int) -> Iterator[Edit]:
    tiles = list({one.yielded.id: one.yielded for one in loop.carried if _loaded(loop, one.yielded)}.values())
    last, names, text = loop.body.ops[-1], dict[str, str](), ""
    for i, tile in enumerate(tiles):
        kind, name = type_text(module, tile.type), f"%twill_copy{number}_{i}"
        if kind is None:
            continue
        every = truths(module, tile.type)
        text += f"{name}_all = {constant('dense<true>', every)} {UNKNOWN} "
        text += (
            f"{name} = {named('select')} {name}_all, {tile.name}, {tile.name} : {every}, {kind} {UNKNOWN} "
        )
        names[tile.name] = name
    if names:
        yield Edit(last.span.start, last.span.start, text)
        yield yielding(module, loop, frozenset(), names)


def _loaded(loop: Loop, value: Value) -> bool:
    """A tile of floats that the loop loads, in whatever layout."""
    makers = makers_of(loop.body.ops).by_value
    dtype = value.type.dtype if isinstance(value.type, Tensor) else None
    if not isinstance(dtype, Scalar) or dtype.name.startswith("i"):
        return False
    while (op := makers.get(value.id)) is not None and role(op) not in _LOADS:
        known = lookup(op.name)
        if known is None or not (known.kind == "view" or role(op) == "layout"):
            return False
        value = op.operands[0]
    return op is not None
