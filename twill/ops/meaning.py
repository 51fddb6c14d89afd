"""How rows say what an operation computes: plain NumPy functions, made into the `Meaning` of a row."""

from collections.abc import Callable, Sequence

import numpy as np

from twill.ir.loop import Op
from twill.ops.row import Environment, Meaning, Values
from twill.ops.values import Array, Operand, element, rounded

Function = Callable[..., Operand]


def each(function: Function) -> Meaning:
    """`function` of the operands, element by element, rounded to the type of the result."""

    def meaning(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
        return (rounded(function(*operands), element(op.results[0].type)),)

    return meaning


def of_op(function: Callable[[Op, Sequence[Operand]], Operand]) -> Meaning:
    """`function` of the operation and its operands, as it is: it gives the only result."""

    def meaning(op: Op, operands: Sequence[Operand], environment: Environment) -> Values:
        return (function(op, operands),)

    return meaning


def integers(function: Function, bits: Function | None = None) -> Meaning:
    """`function` of signed integers; `bits` of `i1`, which NumPy has no arithmetic for."""
    return each(lambda *given: bits(*given) if bits and given[0].dtype == np.bool_ else function(*given))


def unsigned(function: Function) -> Meaning:
    """`function` of the operands taken as unsigned."""
    return each(lambda *given: function(*map(as_unsigned, given)))


def as_unsigned(values: Array) -> Array:
    """The same bits as unsigned integers; `i1` stays as it is."""
    values = np.asarray(values)
    return values if values.dtype == np.bool_ else values.view(f"uint{8 * values.dtype.itemsize}")


def first(op: Op, operands: Sequence[Operand]) -> Operand:
    """The first operand as it is."""
    return operands[0]
