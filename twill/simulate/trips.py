"""Trip counts of a loop, from scalar arguments alone.

Takes a function, its loop and the values of its arguments; gives the iterations that one program of the grid
executes, those of loops around it counted. Raises TwillError where that depends on memory, on a branch or on
what iterations carry, and for a step of 0.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Function, Op, Value
from twill.ops.table import role
from twill.ops.values import Operand
from twill.simulate.global_memory import Memory
from twill.simulate.operations import evaluate

Values = dict[int, Operand]


def trips(function: Function, loop: Op, arguments: Mapping[int, Operand], program: Mapping[str, int]) -> int:
    """`arguments` by value id, without the pointers; `program` has `pid.x`, `grid.x` and so on."""
    return _trips(*_around(function, loop), dict(arguments), program, sum)


def longest(
    function: Function, loop: Op, arguments: Mapping[int, Operand], program: Mapping[str, int]
) -> int:
    """The same of one iteration of the loops around it, one in which it runs oftenest."""
    return _trips(*_around(function, loop), dict(arguments), program, max)


def _around(function: Function, loop: Op) -> tuple[Mapping[int, Op], Sequence[Op]]:
    """All operations, and the loops around one, this last."""
    ops = {op.index: op for op in function.walk()}
    around = [op for op in ops.values() if role(op) == "for" and any(inner is loop for inner in op.inner())]
    return ops, (*around, loop)


def _trips(
    ops: Mapping[int, Op],
    loops: Sequence[Op],
    values: Values,
    program: Mapping[str, int],
    together: Callable[[Iterable[int]], int],
) -> int:
    """The trip counts of all iterations of the first loop `together`."""
    loop, *inside = loops
    begin, end, step = (int(_value(ops, operand, values, program, loop)) for operand in loop.operands[:3])
    if step == 0:
        raise TwillError("this loop's step is 0", loop.location)
    iterations = range(begin, end, step)
    if not inside:
        return len(iterations)
    induction = loop.regions[0].blocks[0].args[0].id
    if iterations and not any(_follows(ops, one, induction) for op in inside for one in op.operands[:3]):
        first = {**values, induction: np.asarray(begin, np.int32)}
        return together([_trips(ops, inside, first, program, together)] * len(iterations))
    return together(
        [
            0,
            *(
                _trips(ops, inside, {**values, induction: np.asarray(iteration, np.int32)}, program, together)
                for iteration in iterations
            ),
        ]
    )


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
