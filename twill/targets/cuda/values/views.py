"""Operations that only change how a value is seen: no line of C is written for them.

Takes a `Scope` and an `Op`; gives the form of its result. Raises ValueError or TwillError for a view whose
elements lie in other threads.
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from twill.ir.loop import Attribute, MemDesc, Op, Tensor
from twill.ops.axis import axis_of
from twill.targets.cuda.expressions import atom, plus
from twill.targets.cuda.registers import linear_tiles
from twill.targets.cuda.registers.elements import refuse
from twill.targets.cuda.registers.fragments import axes, lies_along
from twill.targets.cuda.registers.linear_tiles import literal
from twill.targets.cuda.registers.register_tiles import (
    AnyPoint,
    Elements,
    Held,
    Transposed,
    laid,
    linear_point,
    number,
    point,
    turned,
)
from twill.targets.cuda.scope import Form, Scope
from twill.targets.cuda.shared.shared_tiles import Shared


def _same(scope: Scope, op: Op) -> Form:
    return scope.form(op.operands[0])


def _map(
    scope: Scope,
    op: Op,
    source: Callable[[linear_tiles.Point], linear_tiles.Point],
    otherwise: Form | None = None,
) -> Form:
    """A view of a tile in a linear layout, by which element of the operand each of its elements is."""
    form = scope.form(op.operands[0])
    known = any(literal(value.type) for value in (op.operands[0], op.result))
    # a formula is also evaluated in coordinates of an exact layout, behind a conversion
    if (
        not callable(form)
        or isinstance(form, Transposed)
        or not (known or (otherwise is None and not isinstance(form, Held)))
    ):
        return form if otherwise is None else otherwise
    elements, result = form, op.result.type
    assert isinstance(result, Tensor)

    def seen(one: AnyPoint) -> str:
        if not known and len(one.shape if isinstance(one, linear_tiles.Point) else ()) != len(result.shape):
            return elements(one)
        if isinstance(one, linear_tiles.Point) or otherwise is _nowhere:
            return elements(source(linear_point(one)))
        if otherwise is None:
            return elements(one)
        assert callable(otherwise)
        return otherwise(one)

    return seen


def _expand(scope: Scope, op: Op) -> Form:
    axis = axis_of(op)
    return _map(scope, op, lambda one: one.without(axis))


def _broadcast(scope: Scope, op: Op) -> Form:
    source, form = op.operands[0].type, scope.form(op.operands[0])
    assert isinstance(source, Tensor)
    if prod(source.shape) == 1 and callable(form) and not isinstance(form, Transposed):
        only = form(point(scope.layout(source), "0"))  # every thread holds it, whatever the layouts
        return lambda one: only
    assert isinstance(op.result.type, Tensor)
    seen = _map(scope, op, lambda one: one.collapsed(source.shape))
    there = lies_along(source, op.result.type)
    return seen if there is None or not callable(seen) else laid(seen, source, there)


def _join(scope: Scope, op: Op) -> Form:
    """The last coordinate chooses."""
    first, second = (scope.elements(value) for value in op.operands)

    def elements(point: AnyPoint) -> str:
        one = linear_point(point)
        last = len(one.shape) - 1
        return f"({one.coordinate(last)} ? {second(one.without(last))} : {first(one.without(last))})"

    return elements


def _splat(scope: Scope, op: Op) -> Form:
    text = number(op.operands[0].type, scope.scalar(op.operands[0]))
    return lambda point: text


def _range(scope: Scope, op: Op) -> Form:
    assert isinstance(op.result.type, Tensor)
    start, along = op.attributes["start"], axes(op.result.type)

    def elements(one: AnyPoint) -> str:
        if not isinstance(one, linear_tiles.Point):
            return atom(plus(str(start), one.along(along).coordinate()))
        place = one.coordinate(0)  # unsigned where it depends on the thread; TTGIR compares signed numbers
        return atom(plus(str(start), f"int32_t{place}" if "thread." in place else place))

    return elements


def _transpose(scope: Scope, op: Op) -> Form:
    tile = scope.form(op.operands[0])
    if not isinstance(tile, Shared):
        raise refuse(scope.program, op, "only a tile in shared memory can be transposed")
    return replace(tile, transposed=not tile.transposed)


def _reshape_buffer(scope: Scope, op: Op) -> Form:
    """Of a tile in shared memory, where all dimensions but the last are rows."""
    tile, source, result = scope.form(op.operands[0]), op.operands[0].type, op.result.type
    assert isinstance(source, MemDesc)
    assert isinstance(result, MemDesc)
    if not isinstance(tile, Shared) or tile.transposed or source.shape[-1] != result.shape[-1]:
        raise refuse(scope.program, op, "only rows of a tile in shared memory can be counted otherwise")
    return tile


def _reshape(scope: Scope, op: Op) -> Form:
    source, result = op.operands[0].type, op.result.type
    assert isinstance(source, Tensor)
    assert isinstance(result, Tensor)
    if tuple(n for n in source.shape if n > 1) == tuple(n for n in result.shape if n > 1):
        form = scope.form(op.operands[0])
        return _map(scope, op, lambda one: one.reshaped(source.shape), _along(form, source, result))
    return _map(scope, op, lambda one: one.reshaped(source.shape), _nowhere)


def _along(form: Form, source: Tensor, result: Tensor) -> Form:
    """A vector along rows that becomes one along columns, or the other way round: what each thread computes
    is found by its number, what it holds is in other threads."""
    vectors = max(len(source.shape), len(result.shape)) <= 2 and sum(size > 1 for size in source.shape) == 1
    if not vectors or axes(source) == axes(result) or not callable(form) or isinstance(form, Transposed):
        return form
    return _nowhere if isinstance(form, Held) else turned(form, source, result)


def _nowhere(one: AnyPoint) -> str:
    raise ValueError("its elements lie in other threads")


def _transpose_registers(scope: Scope, op: Op) -> Form:
    form, source = scope.form(op.operands[0]), op.operands[0].type
    if isinstance(form, Shared | str):
        raise refuse(scope.program, op, "can not be generated")
    assert isinstance(source, Tensor)
    if literal(source) and not isinstance(form, Transposed) and sum(size > 1 for size in source.shape) < 2:
        return _turned_vector(op, form)
    if literal(op.result.type):
        order = tuple(int(str(axis)) for axis in _order(op))
        return _map(scope, op, lambda one: one.permuted(order), _nowhere)
    return form.source if isinstance(form, Transposed) else Transposed(form, literal(source))


def _turned_vector(op: Op, form: Elements) -> Form:
    """A row for a column in a linear layout, or the other way round: its elements stay in order."""
    source, result = op.operands[0].type, op.result.type
    assert isinstance(source, Tensor)
    assert isinstance(result, Tensor)
    kept, shape = axes(result), source.shape

    def elements(one: AnyPoint) -> str:
        place = one if isinstance(one, linear_tiles.Point) else one.along(kept)
        return form(linear_point(place).reshaped(shape))

    return elements


def _order(op: Op) -> tuple[Attribute, ...]:
    """Of `tt.trans`; the dimensions exchanged where it names none."""
    order = op.attributes.get("order")
    return order if isinstance(order, tuple) else (1, 0)


VIEWS = {
    "tt.reshape": _reshape,
    "tt.trans": _transpose_registers,
    "ttg.local_alloc": _same,
    "tt.broadcast": _broadcast,
    "tt.splat": _splat,
    "tt.make_range": _range,
    "tt.expand_dims": _expand,
    "tt.join": _join,
    "ttg.memdesc_trans": _transpose,
    "ttg.memdesc_reshape": _reshape_buffer,
}
"""By the name of the operation."""
