"""Conversions between element types.

Sources: MLIR's `arith` dialect; PTX ISA, `cvt`: rounding, saturation and NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from re import findall
from zlib import crc32

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Op, Pointer, Tensor, Type
from twill.ops import rules
from twill.ops.arith import operation
from twill.ops.c import C_TYPES, NARROW, WIDTHS, form, stored, written
from twill.ops.meaning import as_unsigned, each, of_op
from twill.ops.row import Environment, Expression, Row, Syntax, Values
from twill.ops.rules import ruled
from twill.ops.values import (
    Array,
    Operand,
    Pointers,
    bits_of,
    dtype,
    element,
    of_bits,
    rounded,
    truncated,
)

# --- integers ----------------------------------------------------------------------------------------------


def _signed(a: Array) -> Array:
    """Integers as they are; true is -1."""
    return -a.astype(np.int8) if a.dtype == np.bool_ else a


def _narrowed(op: Op, operands: Sequence[Operand]) -> Array:
    """The low bits."""
    name = element(op.result.type)
    return (operands[0] & 1).astype(np.bool_) if name == "i1" else rounded(operands[0], name)


def _to(bit: str, others: str) -> Mapping[str, str]:
    """By the type that is converted from: `i1`, or wider integers."""
    return {"i1": bit, "int": others}


def _by_result(bit: str, others: str) -> Expression:
    """By the type that is converted to."""
    return lambda op, operands: written(bit if element(op.result.type) == "i1" else others, op, operands)


INTEGERS = ruled(
    rules.BETWEEN_INTEGERS,
    operation(
        "arith.extsi",
        "extsi",
        each(_signed),
        _to("(-{r}({0}))", "({r})({0})"),
        operands=1,
        role="integer_cast",
    ),
    operation(
        "arith.extui",
        "extui",
        each(as_unsigned),
        _to("{r}({0})", "{r}({u}({0}))"),
        operands=1,
        role="integer_cast",
    ),
    operation(
        "arith.trunci",
        "trunci",
        of_op(_narrowed),
        _by_result("bool({0} & 1)", "({r})({0})"),
        operands=1,
        role="integer_cast",
    ),
    operation(
        "arith.index_cast",
        "index_cast",
        each(_signed),
        _to("(-{r}({0}))", "({r})({0})"),
        operands=1,
        role="integer_cast",
    ),
    operation(
        "arith.index_castui",
        "index_castui",
        each(as_unsigned),
        _to("{r}({0})", "{r}({u}({0}))"),
        operands=1,
        role="integer_cast",
        cost="arith.index_cast",
    ),
)

# --- integers and floats -----------------------------------------------------------------------------------


def _float(values: Array, name: str) -> Array:
    """To a narrow float by way of f32, as GPUs convert integers."""
    return rounded(values.astype(np.float32), name) if name in NARROW else values.astype(dtype(name))


def _from_signed(op: Op, operands: Sequence[Operand]) -> Array:
    return _float(_signed(operands[0]), element(op.result.type))


def _from_unsigned(op: Op, operands: Sequence[Operand]) -> Array:
    return _float(as_unsigned(operands[0]), element(op.result.type))


def _limits(bits: int, *, natural: bool) -> tuple[int, int]:
    return (0, 2**bits - 1) if natural else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def saturated(values: Array, bits: int, *, natural: bool, double: bool) -> Array:
    """Floats towards zero to an integer of `bits` bits, to the nearest that there is (PTX `cvt.rzi`). NaN
    gives 0, but the highest bit alone where the source is f64 or the result has 64 bits. Shorter integers are
    clamped from 32 bits."""
    wide = max(bits, 32)
    low, high = _limits(wide, natural=natural)
    exact = np.trunc(np.where(np.isnan(values), 0, np.asarray(values, np.float64)))
    kind = np.uint64 if natural else np.int64
    inside = (exact > low) & (exact < high)
    found = np.where(
        inside, np.where(inside, exact, 0).astype(kind), np.where(exact >= high, kind(high), kind(low))
    )
    if double or wide == 64:
        found = np.where(np.isnan(values), kind(2 ** (wide - 1) if natural else low), found)
    short = _limits(bits, natural=natural)
    return (
        np.clip(found, kind(short[0]), kind(short[1]))
        .astype(f"{'u' if natural else ''}int{bits}")
        .view(f"int{bits}")
    )


def _to_integer(*, natural: bool) -> Callable[[Op, Sequence[Operand]], Array]:
    def function(op: Op, operands: Sequence[Operand]) -> Array:
        name = element(op.result.type)
        if name == "i1":
            raise TwillError("a float cannot be converted to i1", op.location, span=len(op.name))
        return saturated(
            operands[0], WIDTHS[name], natural=natural, double=element(op.operands[0].type) == "f64"
        )

    return function


def _integer_c(*, natural: bool) -> Expression:
    """CUDA's intrinsics, which are `cvt.rzi`: a C++ cast is undefined out of range."""

    def expression(op: Op, operands: Sequence[str]) -> str | None:
        bits = WIDTHS.get(element(op.result.type), 1)
        source = "double" if element(op.operands[0].type) == "f64" else "float"
        word = ("u" if natural else "") + ("ll" if bits == 64 else "int")
        call = f"__{source}2{word}_rz({{0}})"
        short = call if bits >= 32 else f"saturate<{'u' if natural else ''}int{bits}_t>({call})"
        return written(
            None if bits == 1 else f"{{r}}({short})" if natural or bits == 64 else short, op, operands
        )

    return expression


MIXED = (
    *ruled(
        rules.TO_FLOAT,
        operation(
            "arith.sitofp",
            "sitofp",
            of_op(_from_signed),
            _to("({0} ? {r}(-1) : {r}(0))", "{r}({0})"),
            operands=1,
        ),
        operation(
            "arith.uitofp", "uitofp", of_op(_from_unsigned), _to("{r}({0})", "{r}({u}({0}))"), operands=1
        ),
    ),
    *ruled(
        rules.TO_INTEGER,
        operation(
            "arith.fptosi", "fptosi", of_op(_to_integer(natural=False)), _integer_c(natural=False), operands=1
        ),
        operation(
            "arith.fptoui", "fptoui", of_op(_to_integer(natural=True)), _integer_c(natural=True), operands=1
        ),
    ),
)

# --- floats ------------------------------------------------------------------------------------------------

_FROM_DOUBLE = {
    "f32": "float({0})",
    "f16": "__half2float(__double2half({0}))",
    "bf16": "__bfloat162float(__double2bfloat16({0}))",
}


def float_c(op: Op, operands: Sequence[str]) -> str | None:
    """Between floats of up to 32 bits nothing is to do: a narrow result is rounded where it is kept."""
    source, result = (element(values[0].type) for values in (op.operands, op.results))
    if source == "f64":
        return written("{0}" if result == "f64" else _FROM_DOUBLE.get(result), op, operands)
    return written("double({0})" if result == "f64" else "{0}", op, operands)


_TOWARDS_ZERO = {
    "f16": "__half2float(__float2half_rz({0}))",
    "bf16": "__bfloat162float(__float2bfloat16_rz({0}))",
    "f8E5M2": "truncate_e5m2({0})",
}


def _rounding(op: Op) -> str:
    """`rtne` or `rtz`, by default the first. Raises TwillError for a rounding that is not known."""
    given = str(op.attributes.get("rounding", "rtne"))
    if given not in ("rtne", "rtz"):
        raise TwillError(f"{op.name}: rounding {given} is not supported", op.location, span=len(op.name))
    return given


def _wider(source: str, result: str) -> bool:
    """Every number of `source` is one of `result`."""
    order = [("f8E4M3FN", "f8E5M2"), ("f16", "bf16"), ("f32",), ("f64",)]
    rank = {name: rank for rank, names in enumerate(order) for name in names}
    return rank.get(result, 0) > rank.get(source, 0)


def _fp_to_fp(op: Op, operands: Sequence[Operand]) -> Array:
    source, result = element(op.operands[0].type), element(op.result.type)
    if _rounding(op) == "rtne" or _wider(source, result):
        return rounded(operands[0], result)
    if result not in _TOWARDS_ZERO or source == "f64":
        raise TwillError(f"{op.name}: {source} to {result} with rounding rtz is not supported", op.location)
    return truncated(operands[0], result)


def _fp_to_fp_c(op: Op, operands: Sequence[str]) -> str | None:
    source, result = element(op.operands[0].type), element(op.result.type)
    if len(operands) > 1:
        return None
    if _rounding(op) == "rtne" or _wider(source, result):
        return float_c(op, operands)
    return written(_TOWARDS_ZERO.get(result) if source != "f64" else None, op, operands)


FLOATS = ruled(
    rules.BETWEEN_FLOATS,
    operation("arith.extf", "ext", each(np.asarray), float_c, operands=1),
    operation("arith.truncf", "trunc", each(np.asarray), float_c, operands=1, role="round"),
    replace(
        operation(
            "tt.fp_to_fp",
            "cast",
            of_op(_fp_to_fp),
            _fp_to_fp_c,
            operands=1,
            syntax=Syntax(operands=1, behind_operands=True),
        ),
        counts=(1, 2, 1),
    ),
)

# --- bits as they are --------------------------------------------------------------------------------------


def _bitcast(op: Op, operands: Sequence[Operand]) -> Operand:
    if isinstance(operands[0], Pointers):
        return _pointers_cast(op, operands[0])
    source, result = element(op.operands[0].type), element(op.result.type)
    if {source, result} & {"i1"}:
        return operands[0]
    return of_bits(bits_of(operands[0], source), result)


def _pointers_cast(op: Op, pointers: Pointers) -> Pointers:
    """Pointers to the same memory as numbers of another type. Raises TwillError for numbers that are wider
    and do not begin at multiples of their size."""
    source, result = _pointee(op.operands[0].type), _pointee(op.result.type)
    if source == result:
        return pointers
    problem = f"{op.name} of {source or 'no'} pointers to {result or 'no'} pointers can not be simulated"
    if not source or not result:
        raise TwillError(problem, op.location, span=len(op.name))
    bits = np.asarray(pointers.offset, np.int64) * _width(source)
    if np.any(bits % _width(result)):
        raise TwillError(f"{problem}: an address is no multiple", op.location, span=len(op.name))
    return replace(pointers, offset=bits // _width(result), seen_as=result)


def _width(name: str) -> int:
    """Bits that an element takes in memory; a truth value takes a byte."""
    return 8 if name == "i1" else int(findall(r"\d+", name)[0])


def _pointee(type: Type) -> str:
    """The element type that pointers point to."""
    pointer = type.dtype if isinstance(type, Tensor) else type
    return element(pointer.pointee) if isinstance(pointer, Pointer) else ""


def _bitcast_c(op: Op, operands: Sequence[str]) -> str | None:
    source, result = element(op.operands[0].type), element(op.result.type)
    if source == result == "ptr":
        same = _pointee(op.operands[0].type) == _pointee(op.result.type)
        return operands[0] if same else written("({r})({0})", op, operands)
    if source == result:
        return operands[0]
    if source not in C_TYPES or result not in C_TYPES:
        return None
    bits = f"bitcast<{C_TYPES[result]}>({stored(source, operands[0])})"
    return f"float({bits})" if result in NARROW else bits


def _bits(name: str) -> Row:
    return Row(
        name=name,
        kind="view",
        word="view",
        role="bitcast",
        repeatable=True,
        syntax=Syntax(operands=1),
        meaning=of_op(_bitcast),
        c=_bitcast_c,
    )


def _pointed(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    """Of one address: a pointer to memory of its own."""
    kind = op.result.type
    if not isinstance(kind, Pointer) or np.ndim(operands[0]):
        raise TwillError(f"{op.name} of a tile can not be simulated", op.location, span=len(op.name))
    return (environment.pointed(int(operands[0]), element(kind.pointee)),)


_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
"""The numbers of e2m1 without a sign, by their bits (OCP Microscaling Formats, FP4)."""


def _unpacked(op: Op, operands: Sequence[Operand]) -> Array:
    """Two e2m1 numbers from each byte, the low half first, along an axis. Raises TwillError without one."""
    axis, kind = op.attributes.get("axis"), op.result.type
    if not isinstance(axis, int) or not isinstance(kind, Tensor):
        raise TwillError(f"{op.name} has no axis", op.location, span=len(op.name))
    halves = as_unsigned(operands[0])[..., None] >> np.array([0, 4], np.uint8) & 15
    both = np.moveaxis(halves, -1, axis + 1).reshape(kind.shape)
    return rounded(np.where(both & 8, -1.0, 1.0) * _E2M1[both & 7], element(kind))


def _address(op: Op, operands: Sequence[Operand]) -> Array:
    """A number that no other array has, a multiple of a page where the array begins."""
    (pointers,), source = operands, op.operands[0].type
    kind = source.dtype if isinstance(source, Tensor) else source
    assert isinstance(pointers, Pointers)
    assert isinstance(kind, Pointer)
    begin = (1 << 44) + (crc32(pointers.argument.encode()) << 12)
    return np.asarray(begin + pointers.offset * max(1, _width(element(kind.pointee)) // 8), np.int64)


BITS = (
    _bits("arith.bitcast"),
    _bits("tt.bitcast"),
    operation("tt.int_to_ptr", "cast", _pointed, form("({r})({0})"), operands=1, role="int_to_ptr"),
    operation("tt.ptr_to_int", "cast", of_op(_address), form("({r})({0})"), operands=1),
    replace(
        operation(
            "ttg.fp4_to_fp",
            "cast",
            of_op(_unpacked),
            lambda op, operands: f"unpack_e2m1({', '.join(operands)})",
            operands=1,
            role="unpack",
        ),
        rule=rules.unpack,
    ),
)

ROWS = (*INTEGERS, *MIXED, *FLOATS, *BITS)
