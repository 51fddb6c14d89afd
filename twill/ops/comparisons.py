"""Comparisons and choice: `arith.cmpi`, `arith.cmpf`, `arith.select`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Op, Scalar, Tensor, Type
from twill.ops import rules
from twill.ops.arith import operation
from twill.ops.c import written
from twill.ops.meaning import as_unsigned, of_op
from twill.ops.row import Syntax
from twill.ops.values import Array, Operand, Pointers, element, rounded

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

_NUMPY: Mapping[str, Callable[[Operand, Operand], Operand]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Signed order of `i1`, whose true is -1."""


def _integer_predicate(op: Op) -> tuple[str, bool]:
    """The comparison, and whether it takes its operands as unsigned."""
    name = str(op.attributes["predicate"])
    sign = name if name in ("eq", "ne") else name[1:]
    if element(op.operands[0].type) == "i1":
        return (_SWAPPED[sign] if name.startswith("s") else sign), False
    return sign, name.startswith("u")


def _cmpi(op: Op, operands: Sequence[Operand]) -> Array:
    sign, natural = _integer_predicate(op)
    return _NUMPY[sign](*(map(as_unsigned, operands) if natural else operands))


def _cmpi_c(op: Op, operands: Sequence[str]) -> str | None:
    sign, natural = _integer_predicate(op)
    text = f"({{u}}({{0}}) {_SIGNS[sign]} {{u}}({{1}}))" if natural else f"({{0}} {_SIGNS[sign]} {{1}})"
    return written(text, op, operands)


def _cmpf(op: Op, operands: Sequence[Operand]) -> Array:
    """`o...` is false and `u...` is true where an operand is NaN."""
    name, (a, b) = str(op.attributes["predicate"]), operands
    unordered = np.isnan(a) | np.isnan(b)
    match name:
        case "true" | "false":
            return np.full(np.shape(unordered), name == "true")
        case "ord" | "uno":
            return unordered if name == "uno" else ~unordered
        case _:
            found = _NUMPY[name[1:]](a, b)
            return (found | unordered) if name.startswith("u") else (found & ~unordered)


_COMPARE_C = {
    "true": "true",
    "false": "false",
    "ord": "!unordered({0}, {1})",
    "uno": "unordered({0}, {1})",
    "one": "ordered_not_equal({0}, {1})",
    "ueq": "!ordered_not_equal({0}, {1})",
    "oeq": "({0} == {1})",
    "une": "({0} != {1})",
    **{f"o{name}": f"({{0}} {_SIGNS[name]} {{1}})" for name in _OPPOSITE},
    **{f"u{name}": f"!({{0}} {_SIGNS[other]} {{1}})" for name, other in _OPPOSITE.items()},
}


def _cmpf_c(op: Op, operands: Sequence[str]) -> str | None:
    return written(_COMPARE_C.get(str(op.attributes["predicate"])), op, operands)


def truth(type: Type) -> Type:
    """The type of a comparison of two values of `type`."""
    bit = Scalar("i1")
    return replace(type, dtype=bit) if isinstance(type, Tensor) else bit


_COMPARISON = Syntax(words=("predicate",), operands=2, results=lambda listed: (truth(listed[-1]),))


def _selected(op: Op, condition: Array, then: Pointers, otherwise: Pointers) -> Pointers:
    """Raises TwillError for a tile of pointers to several arrays."""
    offset = np.where(condition, then.offset, otherwise.offset)
    alike = (then.argument, then.seen_as) == (otherwise.argument, otherwise.seen_as)
    if alike or condition.all():
        return replace(then, offset=offset)
    if condition.any():
        raise TwillError(
            f"{op.name} of pointers to {then.argument} and to {otherwise.argument} can not be simulated",
            op.location,
            span=len(op.name),
        )
    return replace(otherwise, offset=offset)


def _select(op: Op, operands: Sequence[Operand]) -> Operand:
    condition, then, otherwise = operands
    if isinstance(then, Pointers):
        return _selected(op, np.asarray(condition, bool), then, otherwise)
    return rounded(np.where(condition, np.asarray(then), np.asarray(otherwise)), element(op.result.type))


_COMPARE_INTEGERS = rules.comparison(rules.is_integer, "integers")

_COMPARE_FLOATS = rules.comparison(rules.is_float, "floating point")

ROWS = (
    operation(
        "arith.cmpi", "cmp", of_op(_cmpi), _cmpi_c, syntax=_COMPARISON, role="compare", rule=_COMPARE_INTEGERS
    ),
    operation("arith.cmpf", "cmp", of_op(_cmpf), _cmpf_c, syntax=_COMPARISON, rule=_COMPARE_FLOATS),
    operation(
        "arith.select",
        "select",
        of_op(_select),
        "({0} ? {1} : {2})",
        operands=3,
        role="select",
        rule=rules.select,
    ),
)
