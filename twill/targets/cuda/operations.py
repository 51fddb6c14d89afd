"""TTGIR operations as C: each appends its lines to the scope of its statement, or changes how a value is
seen.

Takes a `Scope` and an `Op`. Elementwise operations take their expression from the table of operations.
"""

from collections.abc import Sequence
from dataclasses import replace

from twill.ir.loop import Op, Tensor, Value
from twill.ir.program import Program
from twill.ir.statements import SLICES
from twill.ops.axis import axis_of
from twill.ops.c import c_type
from twill.ops.mma import is_plain
from twill.ops.table import named, names, role
from twill.ops.values import element
from twill.targets.cuda.expressions import plus, times
from twill.targets.cuda.global_stores import atomics
from twill.targets.cuda.global_stores.linear_stores import linear_addition, linear_store
from twill.targets.cuda.global_stores.stores import uniform, vector_load, vector_store
from twill.targets.cuda.host import device_maps, host_numbers
from twill.targets.cuda.mmas import plain_dot, tensor_memory, warp_mma
from twill.targets.cuda.registers.elements import all_of, guard, once, refuse, written
from twill.targets.cuda.registers.fragments import Fragment, holding, staged, together
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import (
    BITS,
    AnyPoint,
    Elements,
    Held,
    Point,
    as_stored,
    cast,
    declaration,
    held,
    linear_point,
    number,
    packed,
    point,
)
from twill.targets.cuda.scope import Scope, equal_comparisons
from twill.targets.cuda.shared import through_scratch
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.shared.through_shared import convert
from twill.targets.cuda.values import divisions, tuples
from twill.targets.cuda.values.arithmetic import ATOMICS, expression, expressions, indices, unrounded
from twill.targets.cuda.values.conversions import nearby
from twill.targets.cuda.values.element_pairs import paired
from twill.targets.cuda.values.exchange import (
    WHOLE,
    alone,
    each,
    exchanged,
    gathered,
    reduced,
    shared_between,
)
from twill.targets.cuda.values.packed_maxima import as_wide
from twill.targets.cuda.values.polynomial_parts import divided
from twill.targets.cuda.values.views import VIEWS

FOLDED = {"add": plus, "multiply": times}
"""Indices whose terms that change nothing are not printed."""


def execute(scope: Scope, op: Op) -> None:
    """Append one operation. Raises TwillError, with its line, for what can not be generated."""
    try:
        _execute(scope, op)
    except ValueError as problem:
        raise refuse(scope.program, op, str(problem)) from problem


def _execute(scope: Scope, op: Op) -> None:
    if role(op) == "constant":
        return  # made where it is used
    if op.index in host_numbers.products(scope.program):
        scope.named(op.result, host_numbers.name(scope.program, op.result))
    elif op.name in VIEWS:
        scope.values[op.result.id] = VIEWS[op.name](scope, op)
    else:
        _STATEMENTS.get(op.name, _elementwise)(scope, op)


def _elementwise(scope: Scope, op: Op) -> None:
    """Each result has an expression of its own. Raises TwillError where there is none."""
    probes = expressions(op, ["{}"] * len(op.operands))
    if not op.results or None in probes:
        raise refuse(scope.program, op, "can not be generated")
    index = op.index in indices(scope.program.function)
    for position, result in enumerate(op.results):
        if isinstance(result.type, Tensor):
            scope.values[result.id] = _tile_of(scope, op, position, result, result.type)
        else:
            forms = [(value, scope.form(value)) for value in op.operands]
            given = [number(value.type, form) for value, form in forms if isinstance(form, str)]
            folded = FOLDED.get(role(op)) if index else None
            text = folded(*given) if folded else expressions(op, given, index=index)[position] or ""
            scope.named(result, cast(result.type, text))


def _tile_of(scope: Scope, op: Op, position: int, result: Value, type: Tensor) -> Elements:
    """A tile of numbers is computed now; of indices and conditions, each element where it is used."""
    operands = [scope.elements(value) for value in op.operands]
    index = op.index in indices(scope.program.function)

    def elements(point: AnyPoint) -> str:
        given = [one(point) for one in operands]
        short = nearby(scope.program.function, op, given)
        return short or expressions(op, given, index=index)[position] or ""

    if not packed(type) and result.id not in scope.targets and result.id in unrounded(scope.program.function):
        return elements
    if element(type) not in BITS:
        return _of_first(elements) if result.id in equal_comparisons(scope.program.function) else elements
    if 1 in type.shape or scope.narrow:
        return lambda point: number(type, cast(type, elements(point)))
    if divisions.by_rows(scope, op):
        return _divided(scope, result, type, operands, elements)
    if parts := scope.program.parts.get(op.index):
        found = divided(op, operands[0], parts, paired=scope.float_pairs)
    else:
        found = paired(op, operands, elements, scope.fused, floats=scope.float_pairs)
    return found if result.id in scope.fused else scope.kept(result, found)


def _of_first(elements: Elements) -> Elements:
    """A tile whose elements are equal: a thread computes the first one of those that it holds."""

    def first(one: AnyPoint) -> str:
        return elements(replace(one, register="0") if isinstance(one, Point) else replace(one, step="0"))

    return first


def _divided(
    scope: Scope, result: Value, type: Tensor, operands: Sequence[Elements], elements: Elements
) -> Elements:
    """Each row by one number."""
    name = scope.name(result)
    if result.id not in scope.targets:
        scope.lines.append(declaration(type, name))
    scope.lines += divisions.divided(type, name, operands[0], operands[1], elements)
    return held(name, type)


def _reduce(scope: Scope, op: Op) -> None:
    if together(op):
        _reduce_together(scope, op)
        return
    source, result = op.operands[0].type, op.result.type
    assert isinstance(source, Tensor)
    assert isinstance(result, Tensor)
    name, elements = scope.name(op.result), scope.elements(op.operands[0])
    if op.result.id not in scope.targets:
        scope.lines.append(declaration(result, name))
    form, complete = holding(source), scope.span[1] == SLICES and not scope.deferred
    if complete and scope.span == WHOLE and (wide := as_wide(op)) is not None:
        _reduce_narrow(scope, op, wide, name)
    elif isinstance(form, Spread):
        _reduce_linear(scope, op, name, form, elements)
    else:
        votes = scope.program.several_compute
        scope.lines += gathered(op, name, form, elements, scope.span, votes=votes)
        scope.lines += exchanged(op, name, form, lambda: scope.room(op)) if complete else []
    scope.values[op.result.id] = held(name, result)


def _reduce_narrow(scope: Scope, op: Op, wide: Op, name: str) -> None:
    """Maxima or minima of 16-bit floats, as float32 until all are exchanged."""
    source, elements, own = op.operands[0].type, scope.elements(op.operands[0]), f"{name}_each"
    assert isinstance(source, Tensor)
    assert isinstance(wide.result.type, Tensor)
    form = holding(source)
    vector = holding(wide.result.type)
    scope.lines.append(declaration(wide.result.type, own))
    if isinstance(form, Spread):
        assert isinstance(vector, Spread)
        index = Held(own, vector, None).register(form.point().without(axis_of(op)))
        scope.lines += reduced(wide, own, form, index, elements, scope.span)
        scope.lines += shared_between(wide, own, form, vector, lambda: scope.room(op))
    else:
        scope.lines += gathered(wide, own, form, elements, scope.span, votes=scope.program.several_compute)
        scope.lines += exchanged(wide, own, form, lambda: scope.room(op))
    scope.lines += [UNROLL, f"{each(vector.registers)} {name}[i_] = {cast(op.result.type, f'{own}[i_]')};"]


def _reduce_linear(scope: Scope, op: Op, name: str, form: Spread, elements: Elements) -> None:
    """A tile in a linear layout. A result that is kept in pairs is reduced element by element before. Raises
    ValueError where that is divided."""
    result, complete = op.result.type, scope.span[1] == SLICES and not scope.deferred
    assert isinstance(result, Tensor)
    vector = holding(result)
    assert isinstance(vector, Spread)
    own = Held(name, vector, None)
    if packed(result):
        if not complete or scope.span != WHOLE:
            raise ValueError("a result of 16 bits of two dimensions can not be divided")
        own = Held(f"{name}_each", vector, None, halves=True)
        scope.lines.append(f"{c_type(result)} {own.name}[{vector.registers}];")
    index = own.register(form.point().without(axis_of(op)))
    scope.lines += reduced(op, own.name, form, index, elements, scope.span, paired=scope.float_pairs)
    if complete:
        scope.lines += shared_between(op, own.name, form, vector, lambda: scope.room(op))
    if packed(result):
        scope.lines += written(result, name, own)


def _reduce_together(scope: Scope, op: Op) -> None:
    """Several tiles, or by several operations."""
    source, scalar = op.operands[0].type, not isinstance(op.results[0].type, Tensor)
    if (scope.narrow and not scalar) or scope.deferred or scope.span != WHOLE:
        raise ValueError("can not be generated here")
    names = [scope.name(value) for value in op.results]
    for name, value in zip(names, op.results, strict=True):
        if value.id not in scope.targets:
            scope.lines.append(declaration(value.type, name))
    if scope.narrow:
        assert isinstance(source, Tensor)
        form, elements = scope.layout(source), scope.elements(op.operands[0])
        assert isinstance(form, Fragment)
        room = (scope.scratch, scope.group_barrier())
        scope.lines += alone(op, names[0], form, elements, guard(once(form)), *room)
        scope.values[op.result.id] = names[0]
        return
    tiles = [scope.elements(value) for value in op.operands]
    scope.lines += tuples.lines(op, names, tiles, scope.scratch, scope.group_barrier())
    for name, value in zip(names, op.results, strict=True):
        scope.values[value.id] = held(name, value.type) if isinstance(value.type, Tensor) else name


def _dot(scope: Scope, op: Op) -> None:
    """By every warp, on its part of the accumulator."""
    a, b, added = op.operands
    assert isinstance(op.result.type, Tensor)
    name = scope.name(op.result)
    if op.result.id not in scope.targets:
        scope.lines.append(declaration(op.result.type, name))
    scope.lines += written(op.result.type, name, scope.elements(added))
    if is_plain(op):
        tiles = through_scratch.operands(scope, staged(op), (a, b))
        scope.lines += plain_dot.lines(op, name, *tiles)
        scope.await_in_place(tiles, name)
    else:
        tiles, lean = (_registers(scope, a), _registers(scope, b)), scope.program.lean
        scope.lines.append(warp_mma.call(op, name, *tiles, lean))
    scope.values[op.result.id] = held(name, op.result.type)


def _registers(scope: Scope, value: Value) -> str:
    """The array that holds a tile just as its layout says."""
    assert isinstance(value.type, Tensor)
    form = scope.elements(value)
    if not (isinstance(form, Held) and form.layout == holding(value.type)):
        form = scope.kept(value, form)
    assert isinstance(form, Held)
    return form.name


def _fragment(scope: Scope, op: Op) -> None:
    """A tile in shared memory, read in the layout of registers."""
    assert isinstance(op.result.type, Tensor)
    scope.values[op.result.id] = scope.converted(op.operands[0], op.result.type)


def _atomic(scope: Scope, op: Op) -> None:
    """By one of the threads that hold an element, and with every thread before the fence if others are to
    see what came before."""
    kind, (pointers, value, *masks) = str(op.attributes["atomic_rmw_op"]), op.operands
    word = ATOMICS.get(kind)
    if word is None:
        raise refuse(scope.program, op, f"an atomic {kind} can not be generated")
    if op.result.id in _read(scope.program):
        atomics.execute(scope, op, word, (pointers, value), masks)
        return
    if not isinstance(value.type, Tensor):
        source = cast(value.type, scope.scalar(value))
        called = atomics.call(op, word, c_type(value.type), scope.scalar(pointers), [source])
        scope.lines += atomics.by_leader(scope, op, masks, called, acquires=False)
        return
    scope.lines += atomics.released(op)
    if atomics.adds_neighbours(kind, value.type) and (several := _added(scope, op)) is not None:
        scope.lines += several
        return
    form = scope.layout(value.type)
    one = point(form, "i_")
    conditions = [once(form), *(scope.elements(each)(one) for each in masks)]
    target, source = scope.elements(pointers)(one), cast(value.type, scope.elements(value)(one))
    scope.lines += [UNROLL, f"for (int i_ = 0; i_ < {form.registers}; ++i_)"]
    if kind == "fadd" and c_type(value.type) in ("__half", "__nv_bfloat16"):
        added = f"add_element<{c_type(value.type)}>({target}, {source}, {all_of(*conditions)});"
        scope.lines.append(f"    {added}")
        return
    called = atomics.call(op, word, c_type(value.type), target, [source])
    scope.lines.append(f"    {guard(*conditions)}{called};")


def _added(scope: Scope, op: Op) -> list[str] | None:
    """Several neighbours in one atomic addition, if they belong together."""
    if (several := vector_store(scope, op)) is not None:
        return several
    kind = op.operands[1].type
    assert isinstance(kind, Tensor)
    form = scope.layout(kind)
    return linear_addition(scope, op, form) if isinstance(form, Spread) else None


def _exchange(scope: Scope, op: Op) -> None:
    atomics.execute(scope, op, "atomicCAS", op.operands, ())


def _load(scope: Scope, op: Op) -> None:
    pointers, *rest = op.operands
    if not isinstance(op.result.type, Tensor):
        text, forms = f"*{scope.scalar(pointers)}", [scope.scalar(value) for value in rest]
        scope.named(
            op.result, f"({forms[0]} ? {text} : {forms[1] if len(forms) > 1 else '0'})" if forms else text
        )
        return
    address, masks = scope.elements(pointers), [scope.elements(value) for value in rest]

    def elements(one: AnyPoint) -> str:
        text, limits = number(op.result.type, f"*{address(one)}"), [mask(one) for mask in masks]
        return f"({limits[0]} ? {text} : {limits[1] if len(limits) > 1 else '0'})" if limits else text

    if not scope.narrow and (several := vector_load(scope, op, scope.name(op.result))) is not None:
        name = scope.name(op.result)
        declared = [] if op.result.id in scope.targets else [declaration(op.result.type, name)]
        scope.lines += [*declared, "{", *(f"    {line}" for line in several), "}"]
        scope.values[op.result.id] = held(name, op.result.type)
        return
    if scope.keeps(op.result) and held("", op.result.type).halves:
        scope.values[op.result.id] = _loaded_as_stored(scope, op.result, op.result.type, address, masks)
        return
    scope.values[op.result.id] = scope.kept(op.result, elements)


def _loaded_as_stored(
    scope: Scope, value: Value, kind: Tensor, address: Elements, masks: Sequence[Elements]
) -> Held:
    """Numbers of less than 32 bits in variables of their own type: converted to float32 and back, each would
    be awaited where it is loaded."""
    name, form = scope.name(value), holding(kind)
    one = point(form, "i_")
    other = cast(kind, masks[1](one) if len(masks) > 1 else "0.0f")
    text = f"*({address(one)})"
    scope.lines += [] if value.id in scope.targets else [declaration(kind, name)]
    scope.lines += [
        UNROLL,
        f"{each(form.registers, scope.span)}"
        f" {name}[i_] = {f'{masks[0](one)} ? {text} : {other}' if masks else text};",
    ]
    return held(name, kind)


def _if(scope: Scope, op: Op) -> None:
    """Both branches write the same variables."""
    for result in op.results:
        if result.id not in scope.targets:
            scope.lines.append(declaration(result.type, scope.name(result)))
    for i, (region, head) in enumerate(
        zip(op.regions, (f"if ({scope.scalar(op.operands[0])}) {{", "} else {"), strict=True)
    ):
        inner = Scope(scope.program, scope.group, dict(scope.values))
        *ops, last = region.blocks[0].ops
        for one in (*scope.in_branches.get((op.index, i), ()), *ops):
            execute(inner, one)
        for result, value in zip(op.results, last.operands, strict=True):
            inner.assigned(result, scope.name(result), inner.form(value))
        scope.lines += [head, *(f"    {line}" for line in inner.lines), *(["}"] if i else [])]
    scope.halves.forget()
    for result in op.results:
        name = scope.name(result)
        scope.values[result.id] = held(name, result.type) if isinstance(result.type, Tensor) else name


def _store(scope: Scope, op: Op) -> None:
    value = op.operands[1]
    if not isinstance(value.type, Tensor):
        scope.lines.append(f"if (thread.leader) *{scope.scalar(op.operands[0])} = {scope.scalar(value)};")
        return
    stored = vector_store(scope, op) or _stored(scope, op, value.type)
    if conditions := uniform(scope, op.operands[2:]):
        stored = [f"if ({' && '.join(conditions)}) {{", *(f"    {line}" for line in stored), "}"]
    scope.lines += stored


def _stored(scope: Scope, op: Op, kind: Tensor) -> list[str]:
    form = scope.layout(kind)
    if isinstance(form, Spread):
        return linear_store(scope, op, form)
    one = point(form, "i_")
    target, source = scope.elements(op.operands[0])(one), as_stored(kind, scope.elements(op.operands[1]), one)
    masked = [scope.elements(mask)(one) for mask in op.operands[2:]]
    loop = f"for (int i_ = 0; i_ < {form.registers}; ++i_)"
    return [UNROLL, loop, f"    {guard(once(form), *masked)}*{target} = {source};"]


def _read(program: Program) -> frozenset[int]:
    """The values that any operation reads."""
    return frozenset(value.id for op in program.function.walk() for value in op.operands)


def _split(scope: Scope, op: Op) -> None:
    source = scope.elements(op.operands[0])

    def half(which: int) -> Elements:
        def elements(one: AnyPoint) -> str:
            return source(linear_point(one).extended(which))

        return elements

    read = _read(scope.program)
    for which, result in enumerate(op.results):
        if result.id in read:
            scope.values[result.id] = scope.kept(result, half(which))


def _unpack(scope: Scope, op: Op) -> None:
    """The byte that holds an element, and which half of it."""
    source, axis = scope.elements(op.operands[0]), axis_of(op)

    def elements(point: AnyPoint) -> str:
        one = linear_point(point)
        return expression(op, [source(one.halved(axis)), one.parity(axis)]) or ""

    scope.values[op.result.id] = scope.kept(op.result, elements)


def _tensor_load(scope: Scope, op: Op) -> None:
    result = op.results[0]
    assert isinstance(result.type, Tensor)
    name, address = scope.name(result), scope.scalar(op.operands[0])
    if scope.streaming:
        stream = tensor_memory.streamed(op.operands[0].type, result.type, address, name)
        scope.streams.append(stream)
        scope.values[result.id] = stream
        return
    if result.id not in scope.targets:
        scope.lines.append(declaration(result.type, name))
    scope.lines += tensor_memory.load(op.operands[0].type, result.type, address, name)
    scope.values[result.id] = held(name, result.type)


def _tensor_store(scope: Scope, op: Op) -> None:
    _into_tensor_memory(scope, op.operands[0], op.operands[-2])


def _tensor_alloc(scope: Scope, op: Op) -> None:
    _into_tensor_memory(scope, op.results[0], op.operands[0])


def _into_tensor_memory(scope: Scope, buffer: Value, value: Value) -> None:
    """A tile rounded in the same statement is rounded where its elements are packed."""
    assert isinstance(value.type, Tensor)
    maker, elements = _maker(scope, value), scope.elements(value)
    if maker is not None and role(maker) == "round" and maker.operands[0].id in scope.values:
        elements = scope.elements(maker.operands[0])
    scope.lines += tensor_memory.store(buffer.type, value.type, scope.scalar(buffer), elements, scope.streams)


def _maker(scope: Scope, value: Value) -> Op | None:
    return scope.program.op(value.producer) if value.producer is not None else None


_STATEMENTS = {
    "tt.reduce": _reduce,
    "tt.dot": _dot,
    "tt.split": _split,
    "ttg.fp4_to_fp": _unpack,
    "tt.store": _store,
    "tt.load": _load,
    "ttg.convert_layout": convert,
    named("buffer_load"): _fragment,
    "tt.atomic_rmw": _atomic,
    named("atomic_exchange"): _exchange,
    "scf.if": _if,
    **dict.fromkeys(names("scan", "gather", "histogram", "concatenate"), through_scratch.execute),
    named("tensor_map"): device_maps.execute,
    "ttng.tmem_load": _tensor_load,
    "ttng.tmem_store": _tensor_store,
    "ttng.tmem_alloc": _tensor_alloc,
}
"""What computes by more than a formula for each element."""
