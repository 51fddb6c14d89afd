"""Loads, stores and atomics of global memory, and buffers in shared and tensor memory."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.graph import Kind
from twill.ir.loop import Op, Pointer, Tensor, Type
from twill.ops import rules
from twill.ops.arith import larger, smaller
from twill.ops.meaning import as_unsigned, of_op
from twill.ops.row import Access, Environment, Meaning, Operands, Role, Row, Rule, Syntax, Values
from twill.ops.values import Array, Descriptor, Operand, TensorBuffer, element, rounded, shape_of

# --- order of operands -------------------------------------------------------------------------------------


def value_second(operands: Operands) -> Operands:
    """`descriptor[indices], value` is declared as descriptor, value, indices."""
    return (operands[0], operands[-1], *operands[1:-1])


def value_behind_buffer(operands: Operands) -> Operands:
    """`value, buffer[token], predicate` is declared as buffer, token, value, predicate."""
    return (*operands[1:-1], operands[0], operands[-1])


def barrier_first(operands: Operands) -> Operands:
    """`descriptor[indices] buffer, barrier, predicate` is declared with the barrier before the buffer."""
    return (*operands[:-3], operands[-2], operands[-3], operands[-1])


def pointee(type: Type) -> Type:
    """What is loaded from a pointer, or from a tensor of pointers."""
    match type:
        case Pointer():
            return type.pointee
        case Tensor(dtype=Pointer(pointee=inner)):
            return Tensor(type.shape, inner, type.encoding)
        case _:
            return type


# --- what they do -----------------------------------------------------------------------------------------


def _descriptor(op: Op, operands: Sequence[Operand]) -> Descriptor:
    rank = len(shape_of(op.result.type))
    sizes = [int(value) for value in operands[1 : 1 + 2 * rank]]
    return Descriptor(operands[0], tuple(sizes[:rank]), tuple(sizes[rank:]), shape_of(op.result.type))


def _load_block(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    descriptor: Descriptor = operands[0]
    offsets, inside = descriptor.offsets(tuple(int(index) for index in operands[1:]))
    return (environment.read(descriptor.pointers, offsets, inside).reshape(shape_of(op.result.type)),)


def _store_block(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    if op.attributes.get("kind", "add") != "add":
        raise TwillError(f"a {op.attributes['kind']} reduction can not be simulated", op.location)
    descriptor, tile, *corner = operands
    offsets, inside = descriptor.offsets(tuple(int(index) for index in corner))
    environment.write(descriptor.pointers, offsets, tile, inside, add="kind" in op.attributes)
    return ()


def _load(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    pointers, *rest = operands
    mask, other = rest[0] if rest else None, rest[1] if len(rest) > 1 else 0
    return (environment.read(pointers, pointers.offset, mask, other),)


def _store(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    pointers, value, *masks = operands
    environment.write(pointers, pointers.offset, value, masks[0] if masks else None)
    return ()


def _naturally(function: Callable[[Operand, Operand], Operand]) -> Callable[[Operand, Operand], Operand]:
    return lambda a, b: function(as_unsigned(a), as_unsigned(b))


_ATOMICS: Mapping[str, Callable[[Operand, Operand], Operand]] = {
    "add": np.add,
    "fadd": np.add,
    "max": lambda a, b: larger(a, b) if a.dtype.kind == "f" else np.maximum(a, b),
    "min": lambda a, b: smaller(a, b) if a.dtype.kind == "f" else np.minimum(a, b),
    "umax": _naturally(np.maximum),
    "umin": _naturally(np.minimum),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda a, b: b,
}
"""What is kept, from what was there and what is given, by the kind of `tt.atomic_rmw`."""


def _atomic(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    """Elements one after the other, since several may have the same address."""
    pointers, value, *masks = operands
    function = _ATOMICS.get(str(op.attributes["atomic_rmw_op"]))
    if function is None:
        raise TwillError(f"an atomic {op.attributes['atomic_rmw_op']} can not be simulated", op.location)
    return (_one_by_one(op, pointers, (value,), masks[0] if masks else True, function, environment),)


def _swapped(before: Array, expected: Array, value: Array) -> Array:
    return np.where(before == expected, value, before)


def _exchange(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    pointers, expected, value = operands
    return (_one_by_one(op, pointers, (expected, value), True, _swapped, environment),)


def _one_by_one(
    op: Op,
    pointers: Operand,
    given: tuple[Operand, ...],
    mask: Operand,
    function: Callable[..., Operand],
    environment: Environment,
) -> Array:
    """What was there before each element was replaced."""
    offsets = np.asarray(pointers.offset)
    tiles, valid = (
        [np.broadcast_to(tile, offsets.shape) for tile in given],
        np.broadcast_to(mask, offsets.shape),
    )
    before = environment.read(pointers, offsets, valid).copy()
    for place in np.ndindex(offsets.shape):
        if valid[place]:
            before[place] = environment.read(pointers, offsets[place], None)
            kept = function(np.asarray(before[place]), *(np.asarray(tile[place]) for tile in tiles))
            environment.write(
                pointers, offsets[place], rounded(np.asarray(kept), element(op.operands[1].type)), None
            )
    return before


# --- tensor memory ----------------------------------------------------------------------------------------


def _with_token(op: Op, *results: Operand) -> Values:
    """The results of an operation, and the token where it has one."""
    return (*results, *[None] * (len(op.results) - len(results)))


def _tensor_alloc(op: Op, operands: Sequence[Operand]) -> Values:
    return _with_token(op, TensorBuffer(np.array(operands[0]) if operands else None))


def _tensor_store(op: Op, operands: Sequence[Operand]) -> Values:
    buffer, *_, value, predicate = operands
    if predicate:
        buffer.contents = np.array(np.broadcast_to(value, shape_of(op.operands[0].type)))
    return _with_token(op)


def _tensor_load(op: Op, operands: Sequence[Operand]) -> Values:
    if operands[0].contents is None:
        raise TwillError("tensor memory is read before it is written", op.location)
    return _with_token(op, np.array(operands[0].contents))


def _all_results(function: Callable[[Op, Sequence[Operand]], Values]) -> Meaning:
    return lambda op, operands, environment: function(op, operands)


# --- rows -------------------------------------------------------------------------------------------------


def _row(
    name: str,
    kind: Kind,
    word: str,
    access: Access,
    meaning: Meaning | None = None,
    *,
    role: Role = "value",
    syntax: Syntax | None = None,
    repeatable: bool = False,
    counts: tuple[int, int, int | None] | None = None,
    rule: Rule | None = None,
) -> Row:
    return Row(
        name=name,
        kind=kind,
        word=word,
        access=access,
        meaning=meaning,
        role=role,
        syntax=syntax or Syntax(),
        repeatable=repeatable,
        counts=counts,
        rule=rule,
    )


_INTO = Syntax(operands=3, order=value_second)
_POINTED = Syntax(operands=1, results=lambda listed: (pointee(listed[0]),))
_RMW = Syntax(words=("atomic_rmw_op", "sem", "scope"))
_SAME = of_op(lambda op, operands: operands[0])

GLOBAL = (
    _row(
        "tt.make_tensor_descriptor",
        "scalar",
        "descriptor",
        "none",
        of_op(_descriptor),
        role="descriptor",
        counts=(3, 16, 1),
        rule=rules.descriptor,
    ),
    _row(
        "twill.tensor_map",
        "scalar",
        "tensor_map",
        "none",
        of_op(_descriptor),
        role="tensor_map",
        counts=(3, 16, 1),
        rule=rules.descriptor,
    ),
    _row(
        "tt.load",
        "load",
        "load",
        "load",
        _load,
        role="pointer_load",
        syntax=_POINTED,
        repeatable=True,
        counts=(1, 3, 1),
        rule=rules.load,
    ),
    _row(
        "tt.descriptor_load",
        "load",
        "load",
        "load",
        _load_block,
        role="tma_load",
        syntax=Syntax(operands=2),
        counts=(2, 6, 1),
        rule=rules.descriptor_load,
    ),
    _row("tt.descriptor_gather", "load", "gather", "load", syntax=Syntax(operands=2)),
    _row(
        "tt.store",
        "store",
        "store",
        "store",
        _store,
        role="pointer_store",
        syntax=Syntax(operands=2),
        counts=(2, 3, 0),
        rule=rules.store,
    ),
    _row(
        "tt.descriptor_store",
        "store",
        "store",
        "store",
        _store_block,
        role="tma_store",
        syntax=_INTO,
        counts=(3, 7, 0),
        rule=rules.descriptor_store,
    ),
    _row("tt.descriptor_scatter", "store", "scatter", "store"),
    _row(
        "tt.descriptor_reduce",
        "store",
        "reduce",
        "reduce",
        _store_block,
        role="tma_reduce",
        syntax=Syntax(operands=3, order=value_second, words=("kind",)),
        counts=(3, 7, 0),
        rule=rules.descriptor_store,
    ),
    _row(
        "tt.atomic_rmw",
        "atomic",
        "atomic",
        "reduce",
        _atomic,
        role="atomic",
        syntax=_RMW,
        counts=(2, 3, 1),
        rule=rules.atomic,
    ),
    _row(
        "tt.atomic_cas",
        "atomic",
        "atomic",
        "reduce",
        _exchange,
        role="atomic_exchange",
        syntax=Syntax(words=("sem", "scope")),
    ),
)

BUFFERS = (
    _row(
        "ttg.local_alloc",
        "shared_store",
        "stage",
        "alloc",
        _SAME,
        role="alloc",
        repeatable=True,
        counts=(0, 1, 1),
        rule=rules.unchanged,
    ),
    _row("ttg.local_store", "shared_store", "stage", "store_buffer", syntax=Syntax(operands=2)),
    _row(
        "ttg.local_load",
        "shared_load",
        "fetch",
        "load_buffer",
        _SAME,
        role="buffer_load",
        repeatable=True,
        syntax=Syntax(operands=1),
        counts=(1, 2, 1),
        rule=rules.unchanged,
    ),
    _row(
        "ttng.tmem_alloc",
        "tensor_store",
        "put",
        "alloc",
        _all_results(_tensor_alloc),
        role="tensor_memory_alloc",
    ),
    _row(
        "ttng.tmem_store",
        "tensor_store",
        "put",
        "store_buffer",
        _all_results(_tensor_store),
        role="tensor_memory_store",
        syntax=Syntax(operands=3, order=value_behind_buffer, token=True),
    ),
    _row("ttng.tmem_copy", "tensor_store", "put", "store_buffer"),
    _row(
        "ttng.tmem_load",
        "tensor_load",
        "get",
        "load_buffer",
        _all_results(_tensor_load),
        role="tensor_memory_load",
        syntax=Syntax(operands=1),
    ),
)

ROWS = (*GLOBAL, *BUFFERS)
