"""Arithmetic and logic: the `arith` dialect but comparisons and conversions, and Triton's own.

Sources: MLIR's definition of the dialect; PTX ISA for what MLIR leaves open (shifts by the width or more
clamp).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from twill.ir.loop import Op
from twill.ops import rules
from twill.ops.c import WIDTHS, floats, form, written
from twill.ops.meaning import as_unsigned, each, integers, of_op, unsigned
from twill.ops.row import Environment, Expression, Meaning, Role, Row, Rule, Syntax, Values
from twill.ops.rules import ruled
from twill.ops.values import Array, Operand, element, rounded


def operation(
    name: str,
    word: str,
    meaning: Meaning | None,
    c: Expression | Mapping[str, str] | str | None,
    *,
    operands: int = 2,
    cost: str = "",
    identity: Mapping[str, str] | str | None = None,
    syntax: Syntax | None = None,
    role: Role = "value",
    rule: Rule | None = None,
    index_c: str | None = None,
) -> Row:
    """A row of an elementwise operation without effects."""
    return Row(
        name=name,
        kind="elementwise",
        word=word,
        role=role,
        rule=rule,
        repeatable=True,
        cost=cost,
        syntax=syntax or Syntax(operands=operands),
        counts=(operands, operands, 1),
        meaning=meaning,
        c=c if c is None or callable(c) else form(c),
        index_c=None if index_c is None else form({"i32": index_c, "i64": index_c, "index": index_c}),
        identity=identity,
    )


def _wrapped(sign: str) -> Mapping[str, str]:
    """Integer arithmetic in the type of the operands: C would widen short ones to int, and has no overflow of
    others."""
    call = {"+": "wrap_add", "-": "wrap_sub", "*": "wrap_mul"}.get(sign)
    return {
        "short": f"{{t}}({{0}} {sign} {{1}})",
        "int": f"{call}({{0}}, {{1}})" if call else f"({{0}} {sign} {{1}})",
    }


# --- numbers ----------------------------------------------------------------------------------------------


def larger(a: Array, b: Array) -> Array:
    """The larger number, NaN only where both are; +0 is larger than -0 (PTX max)."""
    return np.where(np.equal(a, b), np.where(np.signbit(a), b, a), np.fmax(a, b))


def smaller(a: Array, b: Array) -> Array:
    """The smaller number, NaN only where both are; -0 is smaller than +0 (PTX min)."""
    return np.where(np.equal(a, b), np.where(np.signbit(a), a, b), np.fmin(a, b))


def or_nan(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """`function`, but NaN where an operand is (PTX max.NaN, min.NaN)."""
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, function(a, b)).astype(
        np.result_type(a, b)
    )


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once. Floats of up to 32 bits: the product is exact in float64, and the sum is
    rounded to odd there, which makes the second rounding right (Boldo and Melquiond, 2008). float64: through
    exact fractions."""
    if np.result_type(a, b, c) == np.float64:
        return np.vectorize(_exact, otypes=[np.float64])(a, b, c)
    product, c = np.asarray(a, np.float64) * b, np.asarray(c, np.float64)
    total = np.asarray(product + c)
    back = total - product
    error = (product - (total - back)) + (c - back)
    even = (total.view(np.int64) & 1) == 0
    nudged = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(np.isfinite(total) & (error != 0) & even, nudged, total)


def _exact(a: float, b: float, c: float) -> float:
    if not all(map(np.isfinite, (a, b, c))):
        return c if np.isfinite(a * 0 * b) else a * b + c
    found = Fraction(a) * Fraction(b) + Fraction(c)
    if found == 0:
        return a * b + c
    try:
        return float(found)
    except OverflowError:
        return float("inf") if found > 0 else float("-inf")


def _fused(op: Op, operands: Sequence[str]) -> str | None:
    """Half precision has an instruction of its own, which rounds once."""
    half = {"f16": "__half", "bf16": "__nv_bfloat16"}.get(element(op.operands[0].type))
    if half:
        return f"float(__hfma({', '.join(f'{half}({text})' for text in operands)}))"
    return written(
        {"f32": "fmaf({all})", "f64": "fma({all})"}.get(element(op.operands[0].type)), op, operands
    )


EXTREMES = {"arith.maxnumf": "max", "arith.minnumf": "min"}
"""The word of the operations that give one of both numbers, and of a number and NaN the number."""
_LOWEST = {"f32": "-INFINITY", "f64": "-INFINITY"}
_HIGHEST = {"f32": "INFINITY", "f64": "INFINITY"}

FLOATS = ruled(
    rules.FLOATS,
    operation(
        "arith.addf", "add", each(np.add), {"f32": "({0} + {1})", "f64": "({0} + {1})"}, identity="0.0f"
    ),
    operation("arith.subf", "sub", each(np.subtract), {"f32": "({0} - {1})", "f64": "({0} - {1})"}),
    operation(
        "arith.mulf", "mul", each(np.multiply), {"f32": "({0} * {1})", "f64": "({0} * {1})"}, identity="1.0f"
    ),
    operation("arith.divf", "div", each(np.divide), {"f32": "divide({0}, {1})", "f64": "({0} / {1})"}),
    operation(
        "tt.approx_divf",
        "div",
        each(np.divide),
        {"f32": "divide({0}, {1})", "f64": "({0} / {1})"},
        cost="arith.divf",
    ),
    operation(
        "tt.precise_divf",
        "div",
        each(np.divide),
        {"f32": "__fdiv_rn({0}, {1})", "f64": "({0} / {1})"},
        cost="arith.divf",
    ),
    operation("arith.remf", "remf", each(np.fmod), floats("fmod")),
    operation("arith.negf", "neg", each(np.negative), {"f32": "(-{0})", "f64": "(-{0})"}, operands=1),
    operation("arith.maxnumf", "max", each(larger), floats("fmax"), identity=_LOWEST),
    operation("arith.minnumf", "min", each(smaller), floats("fmin"), identity=_HIGHEST),
    operation("arith.maximumf", "max", each(or_nan(larger)), floats("max_nan", "max_nan"), identity=_LOWEST),
    operation(
        "arith.minimumf", "min", each(or_nan(smaller)), floats("min_nan", "min_nan"), identity=_HIGHEST
    ),
    operation("math.fma", "fma", each(fused), _fused, operands=3),
)


def _clamp(op: Op, operands: Sequence[Operand]) -> Array:
    value, low, high = operands
    if propagates(op):
        return rounded(or_nan(smaller)(or_nan(larger)(value, low), high), element(op.result.type))
    return rounded(smaller(larger(value, low), high), element(op.result.type))


def propagates(op: Op) -> bool:
    """Whether an operation with `propagateNan` gives NaN for NaN."""
    return op.attributes.get("propagateNan") == "all"


def _clamped(op: Op, operands: Sequence[str]) -> str | None:
    """Between two numbers of one magnitude by a single instruction, where NaN may become either of them."""
    _, low, high = operands
    if element(op.result.type) == "f32" and not propagates(op) and low == f"-{high}":
        return written("clamp_magnitude({0}, {2})", op, operands)
    texts = {"f32": "fminf(fmaxf({0}, {1}), {2})", "f64": "fmin(fmax({0}, {1}), {2})"}
    strict = {"f32": "min_nanf(max_nanf({0}, {1}), {2})", "f64": "min_nan(max_nan({0}, {1}), {2})"}
    return form(strict if propagates(op) else texts)(op, operands)


CLAMP = operation("tt.clampf", "clamp", of_op(_clamp), _clamped, operands=3, rule=rules.FLOATS)

# --- integers ----------------------------------------------------------------------------------------------


def _quotient(a: Array, b: Array) -> Array:
    floor = np.floor_divide(a, b)
    return floor + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)))


def _ceiling(a: Array, b: Array) -> Array:
    return np.floor_divide(a, b) + (np.remainder(a, b) != 0)


def _bitwise(sign: str) -> Mapping[str, str]:
    return {"i1": f"({{0}} {sign} {{1}})", **_wrapped(sign)}


def _extreme(side: str) -> Mapping[str, str]:
    return {name: f"{name.replace('i', 'INT')}_{side}" for name in ("i8", "i16", "i32", "i64")}


def _ordered(call: str, bit: str) -> Mapping[str, str]:
    """max or min of signed integers; of `i1`, whose true is -1, the other one of the logical operations."""
    return {
        "i1": f"({{0}} {bit} {{1}})",
        "short": f"{{t}}({call}({{0}}, {{1}}))",
        "int": f"{call}({{0}}, {{1}})",
    }


def _natural(text: str, bit: str | None = None) -> Mapping[str, str]:
    """Of operands taken as unsigned."""
    bits = {"i1": f"({{0}} {bit} {{1}})"} if bit else {}
    return {**bits, "int": f"{{t}}({text.replace('{0}', '{u}({0})').replace('{1}', '{u}({1})')})"}


_ADD, _SUB, _MUL = (
    {"i1": f"({{0}} {bit} {{1}})", **_wrapped(sign)} for sign, bit in (("+", "!="), ("-", "!="), ("*", "&"))
)

INTEGERS = ruled(
    rules.INTEGERS,
    operation(
        "arith.addi",
        "addi",
        integers(np.add, np.logical_xor),
        _ADD,
        identity="0",
        role="add",
        index_c="({0} + {1})",
    ),
    operation(
        "arith.subi",
        "subi",
        integers(np.subtract, np.logical_xor),
        _SUB,
        role="subtract",
        index_c="({0} - {1})",
    ),
    operation(
        "arith.muli",
        "muli",
        integers(np.multiply, np.logical_and),
        _MUL,
        identity="1",
        role="multiply",
        index_c="({0} * {1})",
    ),
    operation("arith.divsi", "divsi", integers(_quotient), _wrapped("/"), role="divide"),
    operation("arith.remsi", "remsi", integers(np.fmod), _wrapped("%"), role="remainder"),
    operation(
        "arith.floordivsi",
        "floordivsi",
        integers(np.floor_divide),
        {"int": "{t}(divide_floor({0}, {1}))"},
        role="divide",
    ),
    operation(
        "arith.ceildivsi",
        "ceildivsi",
        integers(_ceiling),
        {"int": "{t}(divide_ceiling({0}, {1}))"},
        role="divide_up",
    ),
    operation("arith.divui", "divui", unsigned(np.floor_divide), _natural("{0} / {1}"), role="divide"),
    operation("arith.remui", "remui", unsigned(np.remainder), _natural("{0} % {1}"), role="remainder"),
    operation(
        "arith.maxsi",
        "maxsi",
        integers(np.maximum, np.logical_and),
        _ordered("max", "&"),
        identity=_extreme("MIN"),
        role="extreme",
    ),
    operation(
        "arith.minsi",
        "minsi",
        integers(np.minimum, np.logical_or),
        _ordered("min", "|"),
        identity=_extreme("MAX"),
        role="extreme",
    ),
    operation(
        "arith.maxui",
        "maxui",
        unsigned(np.maximum),
        _natural("max({0}, {1})", "|"),
        identity="0",
        role="extreme",
    ),
    operation(
        "arith.minui",
        "minui",
        unsigned(np.minimum),
        _natural("min({0}, {1})", "&"),
        identity="-1",
        role="extreme",
    ),
    operation("arith.andi", "andi", each(np.bitwise_and), _bitwise("&"), identity="-1"),
    operation("arith.ori", "ori", each(np.bitwise_or), _bitwise("|"), identity="0"),
    operation("arith.xori", "xori", each(np.bitwise_xor), _bitwise("^"), identity="0"),
)

# --- shifts ------------------------------------------------------------------------------------------------


def _left(a: Array, count: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    return np.where(count < bits, np.left_shift(a, np.minimum(count, bits - 1)), a.dtype.type(0))


def _right(a: Array, count: Array) -> Array:
    """By the width or more: every bit is the sign, which unsigned numbers do not have."""
    bits = 8 * a.dtype.itemsize
    kept = np.right_shift(a, np.minimum(count, bits - 1).astype(a.dtype))
    return kept if a.dtype.kind == "i" else np.where(count < bits, kept, a.dtype.type(0))


def _arithmetic(a: Array, count: Array) -> Array:
    return _right(a, as_unsigned(count))


def _shifted(plain: str, clamped: str) -> Expression:
    """A plain shift where its count is a literal below the width; otherwise one that clamps, as PTX does."""

    def expression(op: Op, operands: Sequence[str]) -> str | None:
        bits = WIDTHS.get(element(op.operands[0].type), 1)
        small = operands[1].isdecimal() and int(operands[1]) < bits
        return written(None if bits == 1 else plain if small else clamped, op, operands)

    return expression


def _signed_shift(op: Op, operands: Sequence[str]) -> str | None:
    """An arithmetic shift to the right. 8 bits are first moved to the top of 32: nvcc computes a plain shift
    of them in 16 bits, and converts back and forth (five instructions in place of two, CUDA 13.0)."""
    if element(op.operands[0].type) == "i8" and operands[1].isdecimal() and int(operands[1]) < 8:
        return f"int8_t(int32_t(uint32_t({operands[0]}) << 24) >> {24 + int(operands[1])})"
    return _shifted("({0} >> {1})", "shift_right({0}, {1})")(op, operands)


SHIFTS = ruled(
    rules.INTEGERS,
    operation(
        "arith.shli",
        "shli",
        unsigned(_left),
        _shifted("{t}({u}({0}) << {1})", "shift_left({0}, {1})"),
        role="shift_left",
    ),
    operation(
        "arith.shrui",
        "shrui",
        unsigned(_right),
        _shifted("{t}({u}({0}) >> {1})", "{t}(shift_right({u}({0}), {1}))"),
    ),
    operation("arith.shrsi", "shrsi", integers(_arithmetic), _signed_shift),
)

# --- wide products -----------------------------------------------------------------------------------------


def _high(a: Array, b: Array) -> Array:
    """The upper half of a product, signed or unsigned as the operands are."""
    exact = np.asarray(a).astype(object) * np.asarray(b).astype(object)
    return np.asarray(exact >> 8 * a.dtype.itemsize, object).astype(a.dtype)


def _extended(high: Meaning) -> Meaning:
    """The lower and the upper half of a product."""

    def meaning(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
        return (np.multiply(*operands), *high(op, operands, environment))

    return meaning


_MULHIUI = {"i32": "int32_t(__umulhi({0}, {1}))", "i64": "int64_t(__umul64hi({0}, {1}))"}
_MULHISI = {"i32": "__mulhi({0}, {1})", "i64": "int64_t(__mul64hi({0}, {1}))"}
_BOTH = Syntax(operands=2, results=lambda listed: (listed[-1], listed[-1]))


def _halves(name: str, high: Meaning, text: Mapping[str, str]) -> Row:
    row = operation(name, "mul", _extended(high), _wrapped("*"), cost="tt.mulhiui", syntax=_BOTH)
    return replace(row, further=(form(text),), counts=(2, 2, 2), rule=rules.INTEGERS)


PRODUCTS = (
    operation("tt.mulhiui", "mulhi", unsigned(_high), _MULHIUI, rule=rules.INTEGERS),
    _halves("arith.mului_extended", unsigned(_high), _MULHIUI),
    _halves("arith.mulsi_extended", integers(_high), _MULHISI),
)

ROWS = (*FLOATS, CLAMP, *INTEGERS, *SHIFTS, *PRODUCTS)
