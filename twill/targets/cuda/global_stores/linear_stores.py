"""Stores through pointers of tiles in a linear layout, and atomic additions.

Takes a store or addition and the layout of its tile; gives C. Neighbours that a thread holds in consecutive
registers go together where their pointers and masks belong together. Where comparisons with bounds hold for
the whole tile, which one comparison of scalars says, no store looks at them.
"""

from collections.abc import Sequence

from twill.ir.loop import Op, Tensor, Value
from twill.ops.axis_info import moved_together
from twill.targets.cuda.global_stores.stores import pointer_analysis
from twill.targets.cuda.loads.address_analysis import Analysis
from twill.targets.cuda.loads.tile_copies import joined
from twill.targets.cuda.registers.elements import all_of, guard, once
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import OF_WORD, Held, as_stored
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.warp.slot_tensors import bits

TWICE = range(9, 65)
"""Numbers of accesses of a thread that are written out twice, with and without comparisons: fewer cost less
than the branch, more would fill the instruction cache (estimates)."""


def linear_store(scope: Scope, op: Op, form: Spread) -> list[str]:
    """The store of a tile that lies as `form` says. Raises ValueError where that can not be generated."""
    many, stored = _access(scope, op, form)
    count, owner = form.registers // many, once(form)
    one = form.point(f"(i_ * {many})" if many > 1 else "i_")
    masked = _loop(count, stored, owner, *(scope.elements(mask)(one) for mask in op.operands[2:]))
    whole = _whole(scope, op.operands[2:])
    if not whole or count not in TWICE:
        return masked
    fast = _loop(count, stored, owner)
    inner = (*(f"    {line}" for line in fast), "} else {", *(f"    {line}" for line in masked))
    return [f"if ({joined(whole)}) {{", *inner, "}"]


def linear_addition(scope: Scope, op: Op, form: Spread) -> list[str] | None:
    """The atomic addition of a tile that lies so, neighbours together; None where they do not belong
    together. Their conditions are part of the operations, which overlap."""
    many, source = _in_registers(scope, op, form)
    if source is None:
        return None
    one = form.point(f"(i_ * {many})")
    condition = all_of(once(form), *(scope.elements(mask)(one) for mask in op.operands[2:]))
    words = many // 2 if source.pack else many
    target = scope.elements(op.operands[0])(one)
    added = f"add_neighbours<{words}>({target}, {source.name}, i_ * {words}, {condition});"
    return [UNROLL, f"for (int i_ = 0; i_ < {form.registers // many}; ++i_) {added}"]


def _loop(count: int, stored: str, *conditions: str) -> list[str]:
    """All accesses, each under these conditions."""
    return [UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_)", f"    {guard(*conditions)}{stored}"]


def _whole(scope: Scope, masks: Sequence[Value]) -> list[str]:
    """Conditions on scalars under which masks hold for every element; empty where some of what they join has
    none."""
    every = frozenset(each.index for each in scope.program.function.walk())
    found = [one.whole for mask in masks for one in Analysis(scope, every).conditions(mask)]
    known = [one for one in found if one]
    return known if len(known) == len(found) else []


def _access(scope: Scope, op: Op, form: Spread) -> tuple[int, str]:
    """The neighbours that one access stores, and the statement of access `i_`."""
    pointers, value = op.operands[:2]
    many, source = _in_registers(scope, op, form)
    if source is None:
        one = form.point("i_")
        stored = as_stored(value.type, scope.elements(value), one)
        return 1, f"*{scope.elements(pointers)(one)} = {stored};"
    words = many // 2 if source.pack else many
    target = scope.elements(pointers)(form.point(f"(i_ * {many})"))
    return many, f"store_neighbours<{words}>({target}, {source.name}, i_ * {words});"


def _in_registers(scope: Scope, op: Op, form: Spread) -> tuple[int, Held | None]:
    """The neighbours that one access moves, and the registers that hold them side by side; none where they
    are moved one by one."""
    value = op.operands[1]
    many, source = _together(scope, op, form), scope.elements(value)
    if many > 1 and not _in_place(source, form):
        source = scope.kept(value, source)
    if many == 1 or not isinstance(source, Held) or not _in_place(source, form):
        return 1, None
    return many, source


def _together(scope: Scope, op: Op, form: Spread) -> int:
    """Neighbours along the last dimension that one access stores."""
    pointers, value, *masks = op.operands
    assert isinstance(value.type, Tensor)
    size, axis = bits(value.type.dtype) // 8, len(form.shape) - 1
    if size not in (2, 4, 8):
        return 1
    together = moved_together(pointer_analysis(scope.program.function), pointers, masks, axis)
    return form.neighbours(axis, together // size) if together > size else 1


def _in_place(source: object, form: Spread) -> bool:
    """Whether consecutive registers hold the elements just as they are stored."""
    if not isinstance(source, Held) or source.layout != form:
        return False
    return source.pack is None or source.pack in OF_WORD
