"""Trip counts of a loop, from scalar arguments alone.

Takes a function, its loop and the values of its arguments; gives the iterations that one program of the grid
executes, those of loops around it counted. Raises TwillError where that depends on memory, on a branch or on
what iterations carry, and for a step of 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Function, Op, Value
from twill.ops.table import role
from twill.ops.values import Operand
from twill.simulate.global_memory import Memory
from twill.simulate.operations import evaluate

Values = dict[int, Operand]


@dataclass(frozen=True, slots=True)
class Trips:
    """How often a loop runs."""

    total: int
    """In all iterations of the loops around it."""
    longest: int
    """In one of these, that in which it runs oftenest."""


def trips(function: Function, loop: Op, arguments: Mapping[int, Operand], program: Mapping[str, int]) -> int:
    """How often it runs in all (`counts`)."""
    return counts(function, loop, arguments, program).total


def counts(
    function: Function, loop: Op, arguments: Mapping[int, Operand], program: Mapping[str, int]
) -> Trips:
    """`arguments` by value id, without the pointers; `program` has `pid.x`, `grid.x` and so on."""
    ops = {op.index: op for op in function.walk()}
    around = [op for op in ops.values() if role(op) == "for" and any(inner is loop for inner in op.inner())]
    return _trips(ops, (*around, loop), dict(arguments), program)


def scalar(
    function: Function, value: Value, arguments: Mapping[int, Operand], program: Mapping[str, int]
) -> int | None:
    """A number that follows from the arguments alone; None for another."""
    ops = {op.index: op for op in function.walk()}
    try:
        return int(_value(ops, value, dict(arguments), program, next(iter(ops.values()))))
    except (TwillError, ZeroDivisionError, KeyError):
        return None


def _trips(ops: Mapping[int, Op], loops: Sequence[Op], values: Values, program: Mapping[str, int]) -> Trips:
    loop, *inside = loops
    begin, end, step = (int(_value(ops, operand, values, program, loop)) for operand in loop.operands[:3])
    if step == 0:
        raise TwillError("this loop's step is 0", loop.location)
    iterations = range(begin, end, step)
    if not inside:
        return Trips(len(iterations), len(iterations))
    induction = loop.regions[0].blocks[0].args[0].id
    if iterations and not any(_follows(ops, one, induction) for op in inside for one in op.operands[:3]):
        each = _trips(ops, inside, {**values, induction: np.asarray(begin, np.int32)}, program)
        return Trips(len(iterations) * each.total, each.longest)
    found = [
        _trips(ops, inside, {**values, induction: np.asarray(iteration, np.int32)}, program)
        for iteration in iterations
    ]
    return Trips(sum(one.total for one in found), max((one.longest for one in found), default=0))


def _follows(ops: Mapping[int, Op], value: Value, induction: int) -> bool:
    """Whether a value follows from an induction variable, given by its id."""
    operands = () if value.producer is None else ops[value.producer].operands
    return value.id == induction or any(_follows(ops, one, induction) for one in operands)


def _value(
    ops: Mapping[int, Op], value: Value, values: Values, program: Mapping[str, int], loop: Op
) -> Operand:
    if value.id in values:
        return values[value.id]
    if value.producer is None or ops[value.producer].regions:
        raise TwillError("the trip count of this loop is not known from the arguments alone", loop.location)
    op = ops[value.producer]
    return evaluate(
        op, [_value(ops, operand, values, program, loop) for operand in op.operands], Memory({}), program
    )[value.position]
