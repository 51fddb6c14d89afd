"""TTGIR operations as expressions of Gluon.

Takes an operation and the texts of its operands; gives the text of its result. `gl` is
`triton.experimental.gluon.language`. Scalars that are literals of Python stay literals. Raises ValueError for
what Gluon does not have.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite

from twill.ir.loop import Op, Type
from twill.ops.values import element
from twill.targets.gluon.layouts import bits, dtype

Operation = Callable[[Op, Sequence[str]], str]

_TEXTS: Mapping[str, str] = {
    "addf": "{0} + {1}",
    "subf": "{0} - {1}",
    "mulf": "{0} * {1}",
    "remf": "{0} % {1}",
    "negf": "-{0}",
    "addi": "{0} + {1}",
    "subi": "{0} - {1}",
    "muli": "{0} * {1}",
    "divsi": "{0} // {1}",
    "remsi": "{0} % {1}",
    "andi": "{0} & {1}",
    "ori": "{0} | {1}",
    "xori": "{0} ^ {1}",
    "shli": "{0} << {1}",
    "shrsi": "{0} >> {1}",
    "maxnumf": "gl.maximum({0}, {1})",
    "minnumf": "gl.minimum({0}, {1})",
    "maximumf": "gl.maximum({0}, {1}, propagate_nan=PROPAGATE)",
    "minimumf": "gl.minimum({0}, {1}, propagate_nan=PROPAGATE)",
    "maxsi": "gl.maximum({0}, {1})",
    "minsi": "gl.minimum({0}, {1})",
    "select": "gl.where({0}, {1}, {2})",
    "fma": "gl.fma({0}, {1}, {2})",
    "approx_divf": "({0} / {1})",
    "precise_divf": "gl.div_rn({0}, {1})",
    "precise_sqrt": "gl.sqrt_rn({0})",
    "absf": "gl.abs({0})",
    "absi": "gl.abs({0})",
    **{
        name: f"gl.{name}({{0}})"
        for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil")
    },
}
"""By the operation's name without its dialect."""
_UNSIGNED: Mapping[str, str] = {
    "divui": "{0} // {1}",
    "remui": "{0} % {1}",
    "shrui": "{0} >> {1}",
    "maxui": "gl.maximum({0}, {1})",
    "minui": "gl.minimum({0}, {1})",
}
"""Of operands taken as unsigned."""
_ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPPOSITE = {"eq": "ne", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_CONVERSIONS = frozenset({"extsi", "trunci", "index_cast", "sitofp", "fptosi", "extf", "truncf"})
"""`x.to(type)`."""


def expression(op: Op, operands: Sequence[str]) -> str:
    """The text of an elementwise operation. Raises ValueError."""
    name = op.name.partition(".")[2]
    if name in _SPECIAL:
        return _SPECIAL[name](op, operands)
    if name in _CONVERSIONS:
        return f"{_tensor(operands[0])}.to({dtype(op.result.type)})"
    if name in _UNSIGNED:
        natural = [_natural(value.type, text) for value, text in zip(op.operands, operands, strict=True)]
        return f"({_UNSIGNED[name].format(*natural)}).to({dtype(op.result.type)}, bitcast=True)"
    if name not in _TEXTS:
        raise ValueError("has no counterpart in Gluon")
    text = _TEXTS[name].format(*operands)
    return text if _TEXTS[name].startswith("gl.") else f"({text})"


def _tensor(text: str) -> str:
    """Something that has methods: a literal becomes a scalar."""
    return f"gl.to_tensor({text})" if text.lstrip("-")[:1].isdigit() or text in ("True", "False") else text


def _natural(type: Type, text: str) -> str:
    return f"{_tensor(text)}.to(gl.uint{bits(type)}, bitcast=True)"


def _from_unsigned(op: Op, operands: Sequence[str]) -> str:
    """Widening, or conversion to a float, of an unsigned number."""
    kind = op.operands[0].type
    text = _tensor(operands[0]) if element(kind) == "i1" else _natural(kind, operands[0])
    return f"{text}.to({dtype(op.result.type)})"


def _divide(op: Op, operands: Sequence[str]) -> str:
    """The quotient of narrow floats is computed in float32."""
    text = f"({operands[0]} / {operands[1]})"
    return text if element(op.result.type) in ("f32", "f64") else f"{text}.to({dtype(op.result.type)})"


def _compare_integers(op: Op, operands: Sequence[str]) -> str:
    predicate = str(op.attributes["predicate"])
    if predicate in ("eq", "ne"):
        return f"({operands[0]} {_ORDERED[predicate]} {operands[1]})"
    if element(op.operands[0].type) == "i1":
        raise ValueError("an order of truth values has no counterpart in Gluon")
    left, right = (
        map(_natural, (value.type for value in op.operands), operands) if predicate[0] == "u" else operands
    )
    return f"({left} {_ORDERED[predicate[1:]]} {right})"


def _compare_floats(op: Op, operands: Sequence[str]) -> str:
    """`!=` is true for NaN, the others are false: what is to be true for NaN is the opposite's negation."""
    predicate, (a, b) = str(op.attributes["predicate"]), operands
    match predicate:
        case "oeq" | "olt" | "ole" | "ogt" | "oge" | "une":
            return f"({a} {_ORDERED[predicate[1:]]} {b})"
        case "one":
            return f"(({a} < {b}) | ({a} > {b}))"
        case "ult" | "ule" | "ugt" | "uge":
            return f"(({a} {_ORDERED[_OPPOSITE[predicate[1:]]]} {b}) == False)"
        case "uno":
            return f"(({a} != {a}) | ({b} != {b}))"
        case "ord":
            return f"(({a} == {a}) & ({b} == {b}))"
        case _:
            raise ValueError(f"a comparison {predicate} has no counterpart in Gluon")


def _clamp(op: Op, operands: Sequence[str]) -> str:
    propagate = ", propagate_nan=PROPAGATE" if op.attributes.get("propagateNan") == "all" else ""
    return f"gl.clamp({', '.join(operands)}{propagate})"


def _narrowed(op: Op, operands: Sequence[str]) -> str:
    """A conversion of floats with a rounding mode."""
    mode = op.attributes.get("rounding")
    rounding = f', fp_downcast_rounding="{mode}"' if mode in ("rtne", "rtz") else ""
    return f"{_tensor(operands[0])}.to({dtype(op.result.type)}{rounding})"


def _bitcast(op: Op, operands: Sequence[str]) -> str:
    return f"{_tensor(operands[0])}.to({dtype(op.result.type)}, bitcast=True)"


def _axis(op: Op) -> int:
    return "xyz".index(str(op.attributes["axis"]))


_SPECIAL: Mapping[str, Operation] = {
    "divf": _divide,
    "cmpi": _compare_integers,
    "cmpf": _compare_floats,
    "extui": _from_unsigned,
    "uitofp": _from_unsigned,
    "index_castui": _from_unsigned,
    "clampf": _clamp,
    "fp_to_fp": _narrowed,
    "bitcast": _bitcast,
    "get_program_id": lambda op, operands: f"gl.program_id({_axis(op)})",
    "get_num_programs": lambda op, operands: f"gl.num_programs({_axis(op)})",
    "addptr": lambda op, operands: f"({operands[0]} + {operands[1]})",
}
"""Operations whose text depends on attributes or types."""


def literal(op: Op) -> str:
    """The number of a constant. Raises ValueError for one of several numbers."""
    value = op.attributes.get("value")
    if not isinstance(value, bool | int | float):
        raise ValueError("a constant of several values can not be written")
    if element(op.result.type) == "i1":
        return str(bool(value))
    return repr(value) if isfinite(value) else f'float("{value}")'
