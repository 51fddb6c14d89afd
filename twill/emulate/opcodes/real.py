"""Floating-point arithmetic (PTX ISA, "Floating Point", "Half Precision", "Mixed Precision").

Results are those of IEEE 754 in the rounding that the modifiers name. A NaN result is some NaN.
Approximations (.approx) are computed more exactly than a GPU does. `add`, `mul` and the like without a
rounding modifier round to nearest and are not fused, as if ptxas contracted nothing.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from twill.emulate.decode import Decoder, Step, step
from twill.emulate.memory.clocks import Array
from twill.emulate.numeric.formats import bf16_codes, bf16_values
from twill.emulate.numeric.rounding import add32, flushed, fma32, fma64, mul32
from twill.emulate.opcodes.integer import INTEGERS, Made, apply, integer, type_of
from twill.emulate.opcodes.lift import Pure
from twill.emulate.ptx.syntax import Instruction

REALS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")
_MODES = ("rn", "rz", "rm", "rp")

Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
Ternary: TypeAlias = Callable[[Array, Array, Array], Array]


def _mode(one: Instruction) -> str:
    return next((mode for mode in one.modifiers if mode in _MODES), "rn")


def _bf16(fn: Pure) -> Pure:
    """A function on float32, made one on codes of bf16."""
    return lambda *args: bf16_codes(fn(*(bf16_values(arg) for arg in args)).astype(np.float32))


def _clamped(fn: Pure) -> Pure:
    """.sat: within 0 and 1, NaN is 0."""

    def run(*args: Array) -> Array:
        found: Array = fn(*args)
        return np.where(np.isnan(found), found.dtype.type(0), np.clip(found, 0, 1))

    return run


def _ftz(fn: Pure) -> Pure:
    return lambda *args: flushed(fn(*(flushed(arg) for arg in args)))


def _relu(fn: Pure) -> Pure:
    """.relu: NaN stays, what is below 0 is 0."""

    def run(*args: Array) -> Array:
        found: Array = fn(*args)
        return np.where(found < 0, found.dtype.type(0), found)

    return run


def shaped(fn: Pure, one: Instruction, dtype: str, ftz: bool = True) -> Pure:
    """A function on values with what the modifiers add: .ftz, .sat, .relu, and bf16's codes."""
    modifiers = one.modifiers
    if ftz and "ftz" in modifiers and dtype in ("f32", "f32x2"):
        fn = _ftz(fn)
    if "sat" in modifiers:
        fn = _clamped(fn)
    if "relu" in modifiers:
        fn = _relu(fn)
    return _bf16(fn) if dtype.startswith("bf16") else fn


# --- sums and products ------------------------------------------------------------------------------------


def _add(mode: str, dtype: str) -> Binary:
    return np.add if mode == "rn" or dtype == "f64" else lambda a, b: add32(a, b, mode)


def _sub(mode: str, dtype: str) -> Binary:
    return np.subtract if mode == "rn" or dtype == "f64" else lambda a, b: add32(a, -b, mode)


def _mul(mode: str, dtype: str) -> Binary:
    return np.multiply if mode == "rn" or dtype == "f64" else lambda a, b: mul32(a, b, mode)


def fma(mode: str, dtype: str) -> Ternary:
    if dtype == "f64":
        return fma64
    kind = "float16" if dtype.startswith("f16") else "float32"
    if dtype.startswith("bf16"):
        return _fma_bf16
    return lambda a, b, c: fma32(a, b, c, mode, kind)


def _fma_bf16(a: Array, b: Array, c: Array) -> Array:
    """With the sum rounded to odd in float32, so that bf16 rounds it once."""
    from twill.emulate.numeric.rounding import odd, two_sum

    exact = odd(*two_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)))
    near = exact.astype(np.float32)
    wide = near.astype(np.float64)
    code = np.array(near).view(np.int32)
    inexact = (wide != exact) & np.isfinite(wide)
    code[inexact & (np.abs(wide) > np.abs(exact))] -= 1
    code[inexact] |= 1
    return code.view(np.float32)


_SUMS: Mapping[str, Callable[[str, str], Pure]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "fma": fma,
    "mad": fma,
}


@step("add", "sub", "mul", "fma", "mad")
def _arithmetic(one: Instruction, decoder: Decoder) -> Step:
    dtype = type_of(one)
    if dtype not in REALS:
        return apply(one, decoder, integer(one.name, one))
    if len([modifier for modifier in one.modifiers if modifier in REALS]) > 1:
        return _mixed(one, decoder)
    fn = shaped(_SUMS[one.name](_mode(one), dtype), one, dtype)
    return apply(one, decoder, (fn, dtype, (dtype,) * (len(one.operands) - 1)))


def _mixed(one: Instruction, decoder: Decoder) -> Step:
    """add, sub, fma with a result of f32 and operands of 16 bits (.f32.f16): the last operand is f32."""
    wide, narrow = [modifier for modifier in one.modifiers if modifier in REALS]
    inner = _SUMS[one.name](_mode(one), wide)
    count = len(one.operands) - 1

    def run(*args: Array) -> Array:
        values = [bf16_values(arg) if narrow == "bf16" else arg.astype(np.float32) for arg in args[:-1]]
        return inner(*values, args[-1])

    return apply(one, decoder, (shaped(run, one, wide), wide, (narrow,) * (count - 1) + (wide,)))


# --- quotients and functions ------------------------------------------------------------------------------


@step("div")
def _div(one: Instruction, decoder: Decoder) -> Step:
    dtype = type_of(one)
    if dtype in INTEGERS:
        return apply(one, decoder, integer("div", one))
    return apply(one, decoder, (shaped(np.divide, one, dtype), dtype, (dtype, dtype)))


def _through64(fn: Unary) -> Unary:
    """Computed in float64, and rounded once to the operand's type."""
    return lambda a: fn(a.astype(np.float64)).astype(a.dtype)


_FUNCTIONS: Mapping[str, Unary] = {
    "rcp": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


@step(*_FUNCTIONS)
def _function(one: Instruction, decoder: Decoder) -> Step:
    dtype = type_of(one)
    return apply(one, decoder, (shaped(_through64(_FUNCTIONS[one.name]), one, dtype), dtype, (dtype,)))


# --- signs, minima, classes -------------------------------------------------------------------------------


def signed(fn: Pure, dtype: str) -> Callable[[Array], Array]:
    """A change of the sign bit alone, which NaN keeps."""
    kind = {"f64": np.uint64, "f32": np.uint32, "f32x2": np.uint32}.get(dtype, np.uint16)
    top = kind(1 << np.dtype(kind).itemsize * 8 - 1)
    return lambda a: fn(a.view(kind), top)


@step("neg")
def _neg(one: Instruction, decoder: Decoder) -> Step:
    dtype = type_of(one)
    if dtype not in REALS:
        return apply(one, decoder, integer("neg", one))
    return _by_bits(one, decoder, dtype, lambda word, top: word ^ top)


@step("abs")
def _abs(one: Instruction, decoder: Decoder) -> Step:
    dtype = type_of(one)
    if dtype not in REALS:
        return apply(one, decoder, integer("abs", one))
    return _by_bits(one, decoder, dtype, lambda word, top: word & ~top)


def _by_bits(one: Instruction, decoder: Decoder, dtype: str, fn: Binary) -> Step:
    change = signed(fn, dtype)
    ftz = "ftz" in one.modifiers

    def run(a: Array) -> Array:
        return change(flushed(a) if ftz else a).view(a.dtype)

    return apply(one, decoder, (run, dtype, (dtype,)))


def _signed_by(a: Array, b: Array) -> Array:
    return np.copysign(b, a)


@step("copysign")
def _copysign(one: Instruction, decoder: Decoder) -> Step:
    dtype = type_of(one)
    return apply(one, decoder, (_signed_by, dtype, (dtype, dtype)))


def extreme(least: bool, nan: bool, xorsign: bool, magnitude: bool) -> Pure:
    """min or max: of a number and NaN the number, with .NaN NaN; -0 is less than +0 (PTX ISA, min, max)."""

    def pair(a: Array, b: Array) -> Array:
        x, y = (np.abs(a), np.abs(b)) if magnitude else (a, b)
        first = (
            np.where(x == y, np.signbit(x) >= np.signbit(y), x < y)
            if least
            else np.where(x == y, np.signbit(x) <= np.signbit(y), x > y)
        )
        found: Array = np.where(first, x, y)
        found = np.where(np.isnan(x), y, np.where(np.isnan(y), x, found))
        if nan:
            found = np.where(np.isnan(x) | np.isnan(y), np.nan, found).astype(a.dtype)
        if xorsign:
            sign = np.where(np.signbit(a) != np.signbit(b), -1.0, 1.0)
            found = np.copysign(found, sign).astype(a.dtype)
        return found

    def run(a: Array, b: Array, *more: Array) -> Array:
        return pair(pair(a, b), more[0]) if more else pair(a, b)

    return run


def _least(a: Array, b: Array) -> Array:
    return np.where((a == 0) & (b == 0), -(-a - b), np.fmin(a, b))


def _most(a: Array, b: Array) -> Array:
    return np.where((a == 0) & (b == 0), a + b, np.fmax(a, b))


@step("min", "max")
def _extreme(one: Instruction, decoder: Decoder) -> Step:
    dtype, modifiers = type_of(one), one.modifiers
    if dtype not in REALS:
        return apply(one, decoder, integer(one.name, one))
    plain = (
        not {"NaN", "xorsign", "abs"} & set(modifiers)
        and dtype in ("f32", "f64", "f16", "f16x2")
        and len(one.operands) == 3
    )
    if plain:
        fn: Pure = _least if one.name == "min" else _most
    else:
        fn = extreme(one.name == "min", "NaN" in modifiers, "xorsign" in modifiers, "abs" in modifiers)
    return apply(one, decoder, (shaped(fn, one, dtype), dtype, (dtype,) * (len(one.operands) - 1)))


_CLASSES: Mapping[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
}


@step("testp")
def _testp(one: Instruction, decoder: Decoder) -> Step:
    made: Made = (_CLASSES[one.modifiers[0]], "pred", (type_of(one),))
    return apply(one, decoder, made)
