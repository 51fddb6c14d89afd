"""Which arrays hold numbers of a kind of their own, with which a kernel gives finite results.

Takes a function; gives the kind (`global_memory.Kind`) of the arrays behind its arguments. Found are operands
of block-scaled MMAs; integers that become the exponent of a float, by a shift over its fraction or as 2**x
less 127; and bytes that are also read as floats of four.
"""

from collections.abc import Iterator, Mapping, Sequence

from twill.ir.loop import Function, Op, Pointer, Tensor, TensorDesc, Type, Value
from twill.ops.mma import inputs, packed
from twill.ops.row import Role
from twill.ops.table import lookup, role, word
from twill.ops.values import element
from twill.simulate.global_memory import EXPONENT, Kind
from twill.simulate.index_arrays import closure, sources_of

_FRACTION: Mapping[str, int] = {"bf16": 7, "f32": 23}
"""Bits of the fraction of floats whose exponents have the bias of e8m0."""
_LOADS: tuple[Role, ...] = ("pointer_load", "tma_load")
_KEEPING: tuple[Role, ...] = ("integer_cast", "extreme", "select", "layout")
"""Operations on an integer that leave it what it is, or nearly so; besides views."""


def kinds(function: Function) -> dict[str, Kind]:
    """By the name of the argument."""
    makers = {value.id: op for op in function.walk() for value in op.results}
    found = dict[str, Kind]()
    if any(role(op) in ("bitcast", "value", "tensor_memory_mma") for op in makers.values()):
        sources = sources_of(function)
        for value, kind in _roots(function, makers, sources):
            names = closure([value], sources, lambda one: _address(one.type))
            found |= {
                _name(arg): kind for arg in function.args if arg.id in names and isinstance(arg.type, Pointer)
            }
    return {**found, **dict(_block_scaled(function, makers))}


def _roots(
    function: Function, makers: Mapping[int, Op], sources: Mapping[int, Sequence[Value]]
) -> Iterator[tuple[Value, Kind]]:
    """Addresses, with what is there."""
    for op in function.walk():
        if role(op) == "bitcast" and _bytes_as_floats(op):
            yield op.operands[0], "floats"
        exponent = _exponent(op, makers)
        for load in _loads(exponent, makers, sources) if exponent else ():
            yield load.operands[0], "scales"


def _exponent(op: Op, makers: Mapping[int, Op]) -> Value | None:
    """The integer that an operation makes the exponent of a float, with a bias of 127."""
    if role(op) == "bitcast" and element(op.operands[0].type)[:1] == "i":
        wanted = _FRACTION.get(element(op.result.type))
        shift = _made(op.operands[0], makers)
        if shift is not None and role(shift) == "shift_left" and wanted is not None:
            return shift.operands[0] if _constant(shift.operands[1], makers) == wanted else None
    if op.name == "math.exp2":
        less = makers.get(op.operands[0].id)
        if less is not None and word(less) == "sub" and _constant(less.operands[1], makers) == EXPONENT:
            number = makers.get(less.operands[0].id)
            if number is not None and number.name in ("arith.uitofp", "arith.sitofp"):
                return number.operands[0]
    return None


def _made(value: Value, makers: Mapping[int, Op]) -> Op | None:
    """The operation that a value is from, before views and limits."""
    op = makers.get(value.id)
    while op is not None and _keeps(op) and op.operands[0].id in makers:
        op = makers[op.operands[0].id]
    return op


def _loads(value: Value, makers: Mapping[int, Op], sources: Mapping[int, Sequence[Value]]) -> list[Op]:
    """The loads of the integers that a value is, but for their width and limits."""
    own = {key: given for key, given in sources.items() if key not in makers or _keeps(makers[key])}
    seen = closure([value], own, lambda one: element(one.type)[:1] == "i")
    return [makers[key] for key in sorted(seen) if key in makers and role(makers[key]) in _LOADS]


def _keeps(op: Op) -> bool:
    row = lookup(op.name)
    view = row is not None and row.kind == "view" and role(op) not in ("constant", "bitcast")
    return bool(op.operands) and (view or role(op) in (*_KEEPING, "for", "while", "if"))


def _constant(value: Value, makers: Mapping[int, Op]) -> float | None:
    op = makers.get(value.id)
    while op is not None and op.operands and lookup(op.name) and role(op) in ("splat", "broadcast", "layout"):
        op = makers.get(op.operands[0].id)
    number = op.attributes.get("value") if op is not None and role(op) == "constant" else None
    return number if isinstance(number, int | float) else None


def _bytes_as_floats(op: Op) -> bool:
    """Pointers to bytes become pointers to f32."""
    source, result = _pointee(op.operands[0].type), _pointee(op.result.type)
    return source in ("i8", "f8E4M3FN", "f8E5M2") and result == "f32"


def _pointee(kind: Type) -> str:
    pointer = kind.dtype if isinstance(kind, Tensor) else kind
    return element(pointer.pointee) if isinstance(pointer, Pointer) else ""


def _address(kind: Type) -> bool:
    return element(kind) == "ptr" or isinstance(kind, TensorDesc)


def _block_scaled(function: Function, makers: Mapping[int, Op]) -> Iterator[tuple[str, Kind]]:
    """The pointer arguments behind the 4-bit operands, and the scale factors, of block-scaled MMAs."""
    for op in function.walk():
        read = inputs(op) if role(op) == "tensor_memory_mma" else ()
        for position, value in enumerate(read):
            while value.id in makers and makers[value.id].operands:
                value = makers[value.id].operands[0]
            if isinstance(value.type, Pointer) and (position > 1 or packed(op, position)):
                yield _name(value), "scales" if position > 1 else "codes"


def _name(value: Value) -> str:
    return value.name.lstrip("%")
