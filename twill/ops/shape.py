"""Operations that move elements or change how a tile is seen: views, changes of layout, tiles of indices,
reductions and scans."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Op, Tensor, Type
from twill.ops import rules
from twill.ops.c import form
from twill.ops.meaning import first, of_op
from twill.ops.row import Environment, Expression, Meaning, Role, Row, Rule, Syntax, Values
from twill.ops.values import Array, Operand, Pointers, dtype, element, shape_of


def view(
    name: str,
    role: Role = "view",
    meaning: Meaning | None = None,
    *,
    syntax: Syntax | None = None,
    operands: int = 1,
    repeatable: bool = True,
    rule: Rule | None = None,
) -> Row:
    """A row of an operation that moves nothing."""
    found = syntax or Syntax(operands=operands)
    return Row(
        name=name,
        kind="view",
        word="view",
        role=role,
        repeatable=repeatable,
        syntax=found,
        meaning=meaning,
        counts=(1, 1, 1) if rule else None,
        rule=rule,
    )


def _seen(function: Callable[[Op, Operand], Operand]) -> Meaning:
    """A view of a tile, of pointers too."""

    def of(op: Op, operands: Sequence[Operand]) -> Operand:
        (value,) = operands
        return (
            replace(value, offset=function(op, value.offset))
            if isinstance(value, Pointers)
            else function(op, value)
        )

    return of_op(of)


def _spread(op: Op, value: Operand) -> Operand:
    return np.broadcast_to(value, shape_of(op.result.type))


def _integer(op: Op, name: str) -> int:
    """An attribute. Raises TwillError where it is not there."""
    value = op.attributes.get(name)
    if not isinstance(value, int):
        raise TwillError(f"{op.name} lacks its {name}", op.location, span=len(op.name))
    return int(value)


def _transposed(op: Op, value: Operand) -> Operand:
    order = op.attributes.get("order")
    return np.transpose(value, [int(str(axis)) for axis in order] if isinstance(order, tuple) else None)


def _joined(op: Op, operands: Sequence[Operand]) -> Operand:
    return np.stack(operands, -1)


def _halved(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    return tuple(np.moveaxis(operands[0], -1, 0))


def _pointee(type: Type) -> Type:
    return type.dtype if isinstance(type, Tensor) else type


VIEWS = (
    view("tt.splat", "splat", _seen(_spread), rule=rules.splat),
    view(
        "tt.unsplat",
        meaning=_seen(lambda op, value: np.reshape(value, ())),
        syntax=Syntax(operands=1, results=lambda listed: (_pointee(listed[-1]),)),
    ),
    view("tt.broadcast", "broadcast", _seen(_spread), rule=rules.broadcast),
    view(
        "tt.expand_dims",
        "expand",
        _seen(lambda op, value: np.expand_dims(value, _integer(op, "axis"))),
        rule=rules.expand,
    ),
    view(
        "tt.reshape",
        "reshape",
        _seen(lambda op, value: np.reshape(value, shape_of(op.result.type))),
        rule=rules.reshape,
    ),
    view("tt.trans", "transpose", _seen(_transposed), rule=rules.trans),
    view("tt.join", "join", meaning=of_op(_joined), operands=2),
    view(
        "tt.split",
        "split",
        meaning=_halved,
        syntax=Syntax(operands=1, results=lambda listed: (listed[-1], listed[-1])),
    ),
    view(
        "tt.cat", "concatenate", meaning=of_op(lambda op, operands: np.concatenate(operands, 0)), operands=2
    ),
)

BUFFERS = (
    view("ttg.memdesc_trans", "buffer_transpose", _seen(_transposed), rule=rules.trans),
    view(
        "ttg.memdesc_reshape",
        "buffer_reshape",
        _seen(lambda op, value: np.reshape(value, shape_of(op.result.type))),
        rule=rules.reshape,
    ),
    view("ttg.memdesc_reinterpret", repeatable=False),
    view("ttg.memdesc_index", "buffer_index", repeatable=False),
    view(
        "ttg.memdesc_subslice",
        "buffer_slice",
        syntax=Syntax(operands=1, integers="offsets"),
        repeatable=False,
    ),
    view("ttng.tmem_subslice", "buffer_slice", repeatable=False),
)

# --- constants and indices ---------------------------------------------------------------------------------


def _constant(op: Op, operands: Sequence[Operand]) -> Array:
    value = op.attributes.get("value")
    if not isinstance(value, bool | int | float):
        raise TwillError("a constant of several values can not be simulated", op.location)
    name = element(op.result.type)
    if isinstance(value, int) and name.startswith("i") and name != "i1":
        return np.full(shape_of(op.result.type), value & (2**64 - 1), np.uint64).astype(dtype(name))
    return np.full(shape_of(op.result.type), value, dtype(name))


def _nothing(op: Op, operands: Sequence[Operand]) -> Array:
    return np.zeros(shape_of(op.result.type), dtype(element(op.result.type)))


def _range(op: Op, operands: Sequence[Operand]) -> Array:
    return np.arange(_integer(op, "start"), _integer(op, "end"), dtype=np.int32)


def _program(what: str) -> Meaning:
    def meaning(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
        return (np.asarray(environment.program(f"{what}.{op.attributes['axis']}"), np.int32),)

    return meaning


def _index_c(word: str) -> Expression:
    return lambda op, operands: f"int32_t({word}.{op.attributes['axis']})"


def _addptr(op: Op, operands: Sequence[Operand]) -> Pointers:
    pointers, offsets = operands
    return replace(pointers, offset=pointers.offset + np.asarray(offsets, np.int64))


CONSTANT = Row(
    name="arith.constant",
    kind="view",
    word="constant",
    role="constant",
    repeatable=True,
    syntax=Syntax(early=True),
    counts=(0, 0, 1),
    rule=rules.constant,
    meaning=of_op(_constant),
)


def _any(op: Op, operands: Sequence[str]) -> str:
    """Of a value that nothing depends on."""
    return "0"


_AXIS = Syntax(words=("axis",))
INDICES = (
    CONSTANT,
    replace(
        CONSTANT, name="ub.poison", role="poison", syntax=Syntax(), rule=None, meaning=of_op(_nothing), c=_any
    ),
    Row(
        name="tt.get_program_id",
        kind="scalar",
        word="id",
        role="program_id",
        repeatable=True,
        syntax=_AXIS,
        counts=(0, 0, 1),
        rule=rules.program,
        meaning=_program("pid"),
        c=_index_c("blockIdx"),
    ),
    Row(
        name="tt.get_num_programs",
        kind="scalar",
        word="id",
        role="num_programs",
        repeatable=True,
        syntax=_AXIS,
        counts=(0, 0, 1),
        rule=rules.program,
        meaning=_program("grid"),
        c=_index_c("gridDim"),
    ),
    Row(
        name="tt.make_range",
        kind="elementwise",
        word="range",
        role="range",
        repeatable=True,
        counts=(0, 0, 1),
        rule=rules.index_range,
        meaning=of_op(_range),
    ),
    Row(
        name="tt.addptr",
        kind="elementwise",
        word="addptr",
        role="address",
        repeatable=True,
        syntax=Syntax(operands=2, results=lambda listed: listed[:1]),
        counts=(2, 2, 1),
        rule=rules.addptr,
        meaning=of_op(_addptr),
        c=form("({0} + {1})"),
    ),
)

# --- between threads ---------------------------------------------------------------------------------------


def combined(op: Op, parts: Sequence[tuple[Operand, ...]], environment: Environment) -> Values:
    """Two tuples of tiles joined by the region of a reduction or scan."""
    block = op.regions[0].blocks[0]
    values = dict(zip((arg.id for arg in block.args), (tile for part in parts for tile in part), strict=True))
    for inner in block.ops[:-1]:
        results = environment.evaluate(inner, [values[operand.id] for operand in inner.operands])
        values.update(zip((result.id for result in inner.results), results, strict=True))
    return tuple(values[operand.id] for operand in block.ops[-1].operands)


def _reduce(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    """Halves joined until one element is left, as threads do it."""
    axis, parts = _integer(op, "axis"), tuple(operands)
    while (size := parts[0].shape[axis]) > 1:
        half = size // 2
        low = tuple(np.take(part, range(half), axis) for part in parts)
        high = tuple(np.take(part, range(half, 2 * half), axis) for part in parts)
        joined = combined(op, [low, high], environment)
        odd = [np.take(part, range(2 * half, size), axis) for part in parts]
        parts = tuple(np.concatenate([j, o], axis) for j, o in zip(joined, odd, strict=True))
    return tuple(np.squeeze(part, axis) for part in parts)


def _scan(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    """One element after the other along the axis, from the end where `reverse` is set."""
    axis = _integer(op, "axis")
    parts = [np.moveaxis(part, axis, 0)[:: -1 if op.attributes.get("reverse") else 1] for part in operands]
    rows = [tuple(part[0] for part in parts)]
    for index in range(1, parts[0].shape[0]):
        rows.append(combined(op, [rows[-1], tuple(part[index] for part in parts)], environment))
    made = [
        np.stack(column)[:: -1 if op.attributes.get("reverse") else 1] for column in zip(*rows, strict=True)
    ]
    return tuple(np.moveaxis(part, 0, axis) for part in made)


def _gather(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    """An index outside of the tile, which has no defined result, names the element of its remainder."""
    axis, index = _integer(op, "axis"), np.asarray(operands[1], np.int64)
    size = operands[0].shape[axis]
    if index.size and (index.min() < 0 or index.max() >= size):
        environment.undefined(f"an index of {op.name} is outside of the {size} elements")
    return (np.take_along_axis(operands[0], index % size, axis),)


def _histogram(op: Op, operands: Sequence[Operand]) -> Array:
    """How often each of 0, 1, ... occurs; other numbers are not counted."""
    (size,), values = shape_of(op.result.type), np.asarray(operands[0], np.int64)
    kept = values[(values >= 0) & (values < size) & (np.asarray(operands[1]) if len(operands) > 1 else True)]
    return np.bincount(kept, minlength=size).astype(dtype(element(op.result.type)))


EXCHANGES = (
    Row(
        name="ttg.convert_layout",
        kind="convert",
        word="convert",
        role="layout",
        repeatable=True,
        syntax=Syntax(operands=1),
        counts=(1, 1, 1),
        rule=rules.unchanged,
        meaning=of_op(first),
    ),
    Row(
        name="tt.gather",
        kind="convert",
        word="gather",
        role="gather",
        repeatable=True,
        syntax=Syntax(operands=2),
        meaning=_gather,
    ),
    Row(
        name="tt.reduce",
        kind="reduce",
        word="reduce",
        role="reduce",
        repeatable=True,
        syntax=Syntax(operands=1),
        counts=(1, 16, None),
        rule=rules.reduce,
        meaning=_reduce,
    ),
    Row(
        name="tt.scan",
        kind="scan",
        word="scan",
        role="scan",
        repeatable=True,
        syntax=Syntax(operands=1),
        meaning=_scan,
    ),
    Row(
        name="tt.histogram",
        kind="convert",
        word="histogram",
        role="histogram",
        repeatable=True,
        syntax=Syntax(operands=1),
        meaning=of_op(_histogram),
    ),
)

ROWS = (*VIEWS, *BUFFERS, *INDICES, *EXCHANGES)
