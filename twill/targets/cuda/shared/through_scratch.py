"""Scans, gathers, histograms and concatenations: threads exchange whole tiles through the scratch buffer of
their group.

Takes an operation with its operands in registers; gives C. A tile lies row by row in shared memory. Two group
barriers enclose its use, as in `exchange`.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from twill.ir.loop import Op, Tensor, Value
from twill.ops.axis import axis_of
from twill.ops.c import c_type
from twill.ops.row import Role
from twill.ops.table import role
from twill.targets.cuda.expressions import plus
from twill.targets.cuda.registers import moving_vectors
from twill.targets.cuda.registers.elements import guard, once, plain, written
from twill.targets.cuda.registers.fragments import Fragment, scan_layout, tile_room
from twill.targets.cuda.registers.linear_tiles import Point, Spread
from twill.targets.cuda.registers.register_tiles import (
    AnyPoint,
    Elements,
    as_stored,
    declaration,
    number,
    point,
)
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.in_shared import InShared
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values import scans, tuples
from twill.targets.cuda.values.scans import Scan
from twill.warp.slot_tensors import tile_bytes


def _tile(value: Value) -> Tensor:
    """Raises ValueError for something else than a tile."""
    if not isinstance(value.type, Tensor):
        raise ValueError("of a scalar can not be generated")
    return value.type


def execute(scope: Scope, op: Op) -> None:
    """Appends the operation. Raises ValueError where it can not be generated."""
    if scope.narrow and not (role(op) == "scan" and all(len(_tile(one).shape) == 1 for one in op.operands)):
        raise ValueError("can not be generated in a group that only moves data")
    if role(op) == "scan" and not scope.narrow and (form := scan_layout(op)):
        _scan_in_registers(scope, op, form)
        return
    scope.lines.append(scope.group_barrier())
    _EXECUTE[role(op)](scope, op)


def _put(scope: Scope, value: Value, address: str) -> None:
    """Copies a tile to shared memory."""
    tile = _tile(value)
    form = scope.layout(tile)
    one = point(form, "i_")
    stored = f"{plain(tile, address, one)} = {as_stored(tile, scope.elements(value), one)};"
    scope.lines += [UNROLL, f"for (int i_ = 0; i_ < {form.registers}; ++i_) {guard(once(form))}{stored}"]


def _take(scope: Scope, value: Value, element: Callable[[AnyPoint], str]) -> None:
    """The tile whose elements lie in shared memory, in registers."""
    tile, name = _tile(value), scope.name(value)
    form, kept = scope.layout(tile), value.id in scope.targets

    def elements(one: AnyPoint) -> str:
        return number(tile, element(one))

    if scope.narrow and isinstance(form, Fragment):
        scope.lines += [] if kept else [moving_vectors.declaration(tile, name, form)]
        scope.lines += moving_vectors.assigned(tile, name, form, elements)
    else:
        scope.lines += [] if kept else [declaration(tile, name)]
        scope.lines += written(tile, name, elements)
    scope.values[value.id] = scope.held(name, tile)


def operands(scope: Scope, staged: Sequence[Value], tiles: Sequence[Value]) -> list[Elements]:
    """The elements of tiles: of those in `staged` in shared memory, where they are put first."""
    places, used = dict[int, str](), 0
    for value in {one.id: one for one in staged}.values():
        scope.lines += [] if places else [scope.group_barrier()]
        places[value.id] = plus(scope.scratch, used)
        _put(scope, value, places[value.id])
        used += tile_room(value)
    scope.lines += [scope.group_barrier()] if places else []
    return [
        InShared(_tile(one), places[one.id]) if one.id in places else scope.elements(one) for one in tiles
    ]


def _strides(shape: Sequence[int]) -> list[int]:
    """Elements from one coordinate to the next, row by row."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


# --- scans ------------------------------------------------------------------------------------------------


def _scan(scope: Scope, op: Op) -> None:
    """Each thread goes along whole lines of the axis, one after the other."""
    tiles, places, used = [_tile(value) for value in op.operands], list[str](), 0
    for value in op.operands:
        places.append(plus(scope.scratch, used))
        _put(scope, value, places[-1])
        used += tile_room(value)
    scope.lines += [scope.group_barrier(), *_along_lines(scope, op, tiles, places), scope.group_barrier()]
    for result, tile, place in zip(op.results, tiles, places, strict=True):
        _take(scope, result, lambda one, tile=tile, place=place: plain(tile, place, one))


def _scan_in_registers(scope: Scope, op: Op, form: Spread) -> None:
    """Each thread goes along what it holds, lanes and warps exchange totals."""
    names = tuple(map(scope.name, op.results))
    for value, name in zip(op.results, names, strict=True):
        scope.lines += [] if value.id in scope.targets else [declaration(value.type, name)]
    held_as = point(scope.layout(_tile(op.operands[0])), "i_")
    elements = [scope.elements(value)(held_as) for value in op.operands]
    scope.lines += scans.lines(Scan(op, form, names, scope.scratch, scope.group_barrier()), elements)
    for value, name in zip(op.results, names, strict=True):
        scope.values[value.id] = scope.held(name, _tile(value))


def _along_lines(scope: Scope, op: Op, tiles: Sequence[Tensor], places: Sequence[str]) -> list[str]:
    shape, axis = tiles[0].shape, axis_of(op)
    size, stride = shape[axis], _strides(shape)[axis]
    first = f"line_ / {stride} * {stride * size} + line_ % {stride}" if stride > 1 else f"line_ * {size}"
    step = -stride if op.attributes.get("reverse") else stride
    begin = f"{first} + {(size - 1) * stride}" if step < 0 else first
    kinds = [c_type(tile) for tile in tiles]
    at = [
        f"shared_at<{kind}>({place} + at_ * sizeof({kind}))"
        for kind, place in zip(kinds, places, strict=True)
    ]
    sums = [f"scan{k}_" for k in range(len(tiles))]
    before = [number(tile, one) for tile, one in zip(tiles, sums, strict=True)]
    here = [number(tile, one) for tile, one in zip(tiles, at, strict=True)]
    kept = [f"{place} = {one};" for place, one in zip(at, sums, strict=True)]
    lines, threads = prod(shape) // size, 32 * scope.group.warps
    return [
        f"for (int line_ = thread.index; line_ < {lines}; line_ += {threads}) {{",
        f"    int at_ = {begin};",
        *(f"    {kind} {one} = {place};" for kind, one, place in zip(kinds, sums, at, strict=True)),
        f"    for (int step_ = 1; step_ < {size}; ++step_) {{",
        f"        at_ += {step};",
        *(f"        {line}" for line in tuples.combined(op, sums, before, here)),
        *(f"        {line}" for line in kept),
        "    }",
        "}",
    ]


# --- gathers, histograms, concatenations ------------------------------------------------------------------


def _gather(scope: Scope, op: Op) -> None:
    source, axis = _tile(op.operands[0]), axis_of(op)
    indices, kind = scope.elements(op.operands[1]), c_type(source)
    _put(scope, op.operands[0], scope.scratch)
    scope.lines.append(scope.group_barrier())

    def element(one: AnyPoint) -> str:
        places = [indices(one) if d == axis else text for d, text in enumerate(_coordinates(one))]
        terms = [f"({text}) * {stride}" for text, stride in zip(places, _strides(source.shape), strict=True)]
        return f"shared_at<{kind}>({scope.scratch} + ({' + '.join(terms)}) * sizeof({kind}))"

    _take(scope, op.result, element)


def _coordinates(one: AnyPoint) -> list[str]:
    if isinstance(one, Point):
        return [one.coordinate(axis) for axis in range(len(one.shape))]
    if one.layout.axes != (0, 1):
        return [one.coordinate()]
    return [one.along((axis,)).coordinate() for axis in (0, 1)]


def _histogram(scope: Scope, op: Op) -> None:
    """Threads add to the bins by atomics."""
    result, (value, *masks) = _tile(op.result), op.operands
    kind, form, bins = c_type(result), scope.layout(_tile(value)), result.shape[0]
    one = point(form, "i_")
    found = scope.elements(value)(one)
    counted = guard(once(form), *(scope.elements(mask)(one) for mask in masks), f"unsigned({found}) < {bins}")
    at = f"shared_at<{kind}>({scope.scratch} + INDEX * sizeof({kind}))"
    loop = f"for (int i_ = thread.index; i_ < {bins}; i_ += {32 * scope.group.warps})"
    scope.lines += [
        f"{loop} {at.replace('INDEX', 'i_')} = 0;",
        scope.group_barrier(),
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers}; ++i_)",
        f"    {counted}atomicAdd(&{at.replace('INDEX', f'({found})')}, 1);",
        scope.group_barrier(),
    ]
    _take(scope, op.result, lambda one: plain(result, scope.scratch, one))


def _concatenate(scope: Scope, op: Op) -> None:
    """The first tile, behind it the second."""
    first, result = _tile(op.operands[0]), _tile(op.result)
    _put(scope, op.operands[0], scope.scratch)
    _put(scope, op.operands[1], plus(scope.scratch, tile_bytes(first.shape, first.dtype)))
    scope.lines.append(scope.group_barrier())
    _take(scope, op.result, lambda one: plain(result, scope.scratch, one))


_EXECUTE: Mapping[Role, Callable[[Scope, Op], None]] = {
    "scan": _scan,
    "gather": _gather,
    "histogram": _histogram,
    "concatenate": _concatenate,
}
