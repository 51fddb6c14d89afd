"""Functions of one or a few numbers: the `math` dialect, and libdevice's through `tt.extern_elementwise`.

Approximate instructions are used where Triton uses them: exp, exp2, log, log2, sqrt (PTX `ex2.approx.ftz`,
`lg2.approx.ftz`, `sqrt.approx.ftz`). Everything else calls CUDA's own functions, whose errors are in the
CUDA C++ Programming Guide.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Op
from twill.ops import inline_ptx, rules
from twill.ops.arith import larger, operation, smaller
from twill.ops.c import C_TYPES, WIDTHS, computed, floats, stored, written
from twill.ops.meaning import each, integers, unsigned
from twill.ops.row import Environment, Polynomial, Row, Syntax, Values
from twill.ops.rules import ruled
from twill.ops.values import Array, Operand, bits_of, element, of_bits, rounded, shape_of

Function = Callable[..., Operand]


def _each_number(function: Callable[[float], float]) -> Function:
    """A function of `math`, on arrays."""
    return np.vectorize(function, otypes=[np.float64])


def _rounded_half_away(a: Array) -> Array:
    whole = np.trunc(a)
    return np.where(np.abs(a - whole) >= 0.5, whole + np.copysign(1, a), whole).astype(a.dtype)


def _power_of_ten(a: Array) -> Array:
    return np.power(np.asarray(10, a.dtype), a)


def _reciprocal_root(a: Array) -> Array:
    return 1 / np.sqrt(a)


_FLOATS: Mapping[str, Function] = {
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _each_number(math.erf),
    "erfc": _each_number(math.erfc),
    "cbrt": np.cbrt,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "log10": np.log10,
    "exp10": _power_of_ten,
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": _reciprocal_root,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _rounded_half_away,
    "rint": np.rint,
    "fabs": np.abs,
    "pow": np.power,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "fmax": larger,
    "fmin": smaller,
}
"""CUDA's functions by their name for doubles, which is the same with an `f` behind it for floats."""

_POLYNOMIAL = "math.erf"
"""What a function of some thirty instructions costs as."""


def _plain(name: str, function: str = "", *, word: str = "", cost: str = "", operands: int = 1) -> Row:
    """A row of `math` whose C is CUDA's function."""
    function = function or name
    meaning = each(_FLOATS[function])
    return operation(f"math.{name}", word or name, meaning, floats(function), operands=operands, cost=cost)


def _approximate(name: str, text: str) -> Row:
    """A row whose floats use an approximate instruction."""
    return operation(
        f"math.{name}", name, each(_FLOATS[name]), {"f32": text, "f64": f"{name}({{0}})"}, operands=1
    )


def _exponential(name: str, factor: str = "") -> Row:
    """2 to the x, of which a polynomial can compute some elements; the operand is multiplied by `factor`."""
    text = f"exp2_approx({{0}} * {factor})" if factor else "exp2_approx({0})"
    other = Polynomial("math.exp2 by polynomial", "exp2_parts", "exp2_parts_pair", factor)
    return replace(_approximate(name, text), polynomial=other)


FLOATS = ruled(
    rules.FLOATS,
    _exponential("exp2"),
    _exponential("exp", "1.44269504f"),
    _approximate("log2", "log2_approx({0})"),
    _approximate("log", "(log2_approx({0}) * 0.693147181f)"),
    _approximate("sqrt", "sqrt_approx({0})"),
    *(_plain(name) for name in ("rsqrt", "tanh", "erf", "sin", "cos", "floor", "ceil", "trunc", "round")),
    _plain("roundeven", "rint"),
    _plain("absf", "fabs"),
    *(
        _plain(name, cost=_POLYNOMIAL)
        for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
    ),
    *(_plain(name, cost=_POLYNOMIAL) for name in ("erfc", "cbrt", "expm1", "log1p", "log10")),
    _plain("atan2", cost=_POLYNOMIAL, operands=2),
    _plain("copysign", cost="arith.andi", operands=2),
    _plain("exp10"),
    _plain("powf", "pow", operands=2),
    operation(
        "tt.precise_sqrt",
        "sqrt",
        each(np.sqrt),
        {"f32": "__fsqrt_rn({0})", "f64": "sqrt({0})"},
        operands=1,
        cost="math.sqrt",
    ),
)

_TESTS: Mapping[str, tuple[Function, str]] = {
    "math.isnan": (np.isnan, "isnan({0})"),
    "math.isinf": (np.isinf, "isinf({0})"),
    "math.isfinite": (np.isfinite, "isfinite({0})"),
}

# --- integers ----------------------------------------------------------------------------------------------


def _magnitude(a: Array) -> Array:
    """The least integer stays as it is."""
    return np.where(a < 0, np.negative(a), a)


def _ones(a: Array) -> Array:
    return np.unpackbits(a[..., None].view(np.uint8), axis=-1).sum(-1).astype(a.dtype)


def _leading(a: Array) -> Array:
    """Zeros above the highest one; all bits of a zero."""
    bits = 8 * a.dtype.itemsize
    above = [(a >> a.dtype.type(shift)) == 0 for shift in range(bits)]
    return np.sum(above, axis=0).astype(a.dtype)


def _trailing(a: Array) -> Array:
    """Zeros below the lowest one; all bits of a zero."""
    bits = 8 * a.dtype.itemsize
    below = [(a << a.dtype.type(bits - 1 - shift)).astype(a.dtype) == 0 for shift in range(bits)]
    return np.sum(below, axis=0).astype(a.dtype)


def _counted(name: str, function: Function, call: str) -> Row:
    return operation(
        f"math.{name}", name, unsigned(function), {"int": f"{{t}}({call}({{u}}({{0}})))"}, operands=1
    )


INTEGERS = (
    *ruled(
        rules.INTEGERS,
        operation(
            "math.absi",
            "absi",
            integers(_magnitude, np.asarray),
            {"i1": "{0}", "int": "{t}(absolute({0}))"},
            operands=1,
        ),
        _counted("ctpop", _ones, "count_ones"),
        _counted("ctlz", _leading, "count_leading_zeros"),
        _counted("cttz", _trailing, "count_trailing_zeros"),
    ),
    *ruled(
        rules.TESTS,
        *(
            operation(name, name[5:], each(f), {"f32": c, "f64": c}, operands=1, cost="arith.cmpf")
            for name, (f, c) in _TESTS.items()
        ),
    ),
)

# --- libdevice ---------------------------------------------------------------------------------------------


def _fast_power(a: Array, b: Array) -> Array:
    """NaN where a is negative (CUDA Programming Guide, intrinsic functions)."""
    return np.exp2(b * np.log2(a))


def _whole_power(a: Array, b: Array) -> Array:
    """As libdevice multiplies: squares of a for the ones of |b|, and the reciprocal for a negative b."""
    left, square, found = np.abs(b.astype(np.int64)), a, np.ones_like(a)
    while left.any():
        found = np.where(left & 1, found * square, found)
        square, left = square * square, left >> 1
    return np.where(b < 0, 1 / found, found)


def _whole_power_c(kind: str) -> str:
    """A function without a name; the compiler unrolls its loop where the exponent is known."""
    return (
        f"[]({kind} x, int32_t b) {{{{ {kind} r = 1; "
        "for (uint32_t left = b < 0 ? 0u - uint32_t(b) : b; left; left >>= 1, x *= x) if (left & 1) r *= x; "
        "return b < 0 ? 1 / r : r; }}"
    )


_FLUSHED: Mapping[str, tuple[str, Function]] = {
    "__nv_fast_expf": ("exp2_approx({0} * 1.44269504f)", np.exp),
    "__nv_fast_exp10f": ("exp2_approx({0} * 3.32192809f)", _FLOATS["exp10"]),
    "__nv_fast_logf": ("(log2_approx({0}) * 0.693147181f)", np.log),
    "__nv_fast_log2f": ("log2_approx({0})", np.log2),
    "__nv_fast_log10f": ("(log2_approx({0}) * 0.301029996f)", np.log10),
}
"""C and NumPy's function, by the symbol. Triton has libdevice flush subnormals, so that the instruction takes
no steps for them: CUDA's functions compare, scale the operand and square the result of an exponential."""
_FAST: Mapping[str, tuple[str, Function]] = {
    "__nv_fast_sinf": ("__sinf", np.sin),
    "__nv_fast_cosf": ("__cosf", np.cos),
    "__nv_fast_tanf": ("__tanf", np.tan),
    "__nv_fast_powf": ("__powf", _fast_power),
    "__nv_fast_fdividef": ("__fdividef", np.divide),
    "__nv_fdiv_rn": ("__fdiv_rn", np.divide),
    "__nv_fsqrt_rn": ("__fsqrt_rn", np.sqrt),
}
_CALLED: Mapping[str, tuple[str, Function]] = {
    **{f"__nv_{name}f": (f"{name}f", function) for name, function in _FLOATS.items()},
    **{f"__nv_{name}": (name, function) for name, function in _FLOATS.items()},
    "__nv_fabsf": ("fabsf", np.abs),
    "__nv_fabs": ("fabs", np.abs),
    "__nv_powif": (_whole_power_c("float"), _whole_power),
    "__nv_powi": (_whole_power_c("double"), _whole_power),
    **_FAST,
}
"""CUDA's function and NumPy's."""
LIBDEVICE: Mapping[str, tuple[str, Function]] = {
    **{symbol: (f"{name}({{all}})", function) for symbol, (name, function) in _CALLED.items()},
    **_FLUSHED,
}
"""C, with places for the operands, and NumPy's function, by the symbol that `tt.extern_elementwise` names."""


FAST_DIVISION = "tt.extern_elementwise of fdividef"
"""What a division without the steps for large divisors costs as."""
_ONE_SPECIAL = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt")
_ROUNDING = ("floor", "ceil", "trunc", "round", "rint")
_COSTS: Mapping[str, str] = {
    **dict.fromkeys((f"__nv_{name}f" for name in _FLOATS), "math.erf"),
    **dict.fromkeys((f"__nv_{name}f" for name in _ONE_SPECIAL), "math.exp"),
    **dict.fromkeys((f"__nv_{name}f" for name in _ROUNDING), "math.floor"),
    **dict.fromkeys((f"__nv_fast_{name}f" for name in ("exp", "exp10", "log", "log2", "log10")), "math.exp"),
    **dict.fromkeys((f"__nv_fast_{name}f" for name in ("sin", "cos")), "math.exp"),
    "__nv_fast_fdividef": FAST_DIVISION,
    "__nv_fdiv_rn": "arith.divf",
    "__nv_fsqrt_rn": "math.sqrt",
    "__nv_fabsf": "math.absf",
}
"""The operation that a function of float32 costs as, where that is known: most are polynomials."""


UNPACKING = "tt.fp_to_fp from 8 to 16 bits"
"""What a cast from float8 to float16 costs as: one instruction makes two elements, where casts to float8 take
one for each."""


def costed_as(op: Op) -> str:
    """The operation whose cost an operation has: its own, of a function of libdevice that of its like."""
    if op.name == "tt.fp_to_fp" and _unpacks(op):
        return UNPACKING
    symbol = str(op.attributes.get("symbol")) if op.name == "tt.extern_elementwise" else ""
    return _COSTS.get(symbol, op.name)


def _unpacks(op: Op) -> bool:
    source, result = element(op.operands[0].type), element(op.result.type)
    return source.startswith("f8") and result == "f16"


def _known(op: Op) -> tuple[str, Function]:
    """Raises TwillError for a function that is not in the table."""
    symbol = str(op.attributes.get("symbol"))
    if symbol not in LIBDEVICE:
        raise TwillError(f"libdevice's {symbol} is not supported", op.location, span=len(op.name))
    return LIBDEVICE[symbol]


def _called(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    return (rounded(_known(op)[1](*operands), element(op.results[0].type)),)


def _called_c(op: Op, operands: Sequence[str]) -> str | None:
    return written(_known(op)[0], op, operands)


# --- inline PTX -------------------------------------------------------------------------------------------


def _assembled(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
    """Raises TwillError for instructions that are not known, and for several elements in a register."""
    made, _ = inline_ptx.registers(str(op.attributes.get("constraints", "")))
    if op.attributes.get("packed_element", 1) != 1 or len(made) != len(op.results):
        problem = "inline PTX of several elements at once can not be simulated"
        raise TwillError(problem, op.location, span=len(op.name))
    given = [bits_of(one, element(value.type)) for one, value in zip(operands, op.operands, strict=True)]
    shape = np.broadcast_shapes(*(one.shape for one in given), shape_of(op.results[0].type))
    flat = [np.broadcast_to(one, shape).reshape(-1) for one in given]
    try:
        found = inline_ptx.run(str(op.attributes.get("asm_string")), len(op.results), flat)
    except TwillError as problem:
        raise TwillError(problem.message, op.location, span=len(op.name)) from None
    return tuple(
        _of_register(bits, element(value.type)).reshape(shape)
        for bits, value in zip(found, op.results, strict=True)
    )


def _of_register(bits: Array, name: str) -> Array:
    """Numbers of a type from the lowest bits of registers."""
    return of_bits(bits.astype(bits_of(np.zeros(0), name).dtype), name)


_SIZES: Mapping[str, int] = {**WIDTHS, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_REGISTERS = {"f": "float", "r": "uint32_t", "h": "uint16_t", "l": "uint64_t", "d": "double"}


def _assembled_c(op: Op, operands: Sequence[str]) -> str | None:
    """A call of a function without a name that holds the text; None where one register holds several
    elements, an element has another size than its register, or there is more than one result."""
    constraints = [one.strip() for one in str(op.attributes.get("constraints", "")).split(",")]
    kinds = [one.lstrip("=") for one in constraints]
    if op.attributes.get("packed_element") != 1 or len(op.results) != 1 or len(kinds) != 1 + len(operands):
        return None
    if not constraints[0].startswith("=") or any(kind not in _REGISTERS for kind in kinds):
        return None
    if any(
        _SIZES.get(element(value.type)) != inline_ptx.REGISTERS[kind]
        for kind, value in zip(kinds, (*op.results, *op.operands), strict=True)
    ):
        return None
    text = _placeholders(str(op.attributes.get("asm_string", "")))
    given = [stored(element(value.type), one) for value, one in zip(op.operands, operands, strict=True)]
    inputs = ", ".join(
        f'"{kind}"(bitcast<{_REGISTERS[kind]}>({one}))' for kind, one in zip(kinds[1:], given, strict=True)
    )
    made = f'{_REGISTERS[kinds[0]]} made_; asm volatile("{text}" : "={kinds[0]}"(made_) : {inputs});'
    result = C_TYPES[element(op.results[0].type)]
    return f"{computed(op.results[0].type)}([&] {{ {made} return bitcast<{result}>(made_); }}())"


def _placeholders(text: str) -> str:
    """`$0` of LLVM to `%0` of CUDA; `%` of registers doubled, and the text as a C string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return escaped.replace("%", "%%").replace("$$", "\0").replace("$", "%").replace("\0", "$")


def _outside(row: Row) -> Row:
    """Code from elsewhere takes any number of operands, and says itself whether it is pure."""
    return replace(row, counts=None, repeatable=False)


CALLS = (
    _outside(operation("tt.extern_elementwise", "call", _called, _called_c, operands=1)),
    _outside(
        operation(
            "tt.elementwise_inline_asm", "asm", _assembled, _assembled_c, syntax=Syntax(string="asm_string")
        )
    ),
)

ROWS = (*FLOATS, *INTEGERS, *CALLS)
