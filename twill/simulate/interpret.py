"""TTGIR, executed as it stands: the reference for warp programs.

Takes a function, its arguments and a program id; changes the memory as the kernel would.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Block, Function, Op, Value
from twill.ops.axis import axis_of
from twill.ops.row import Values
from twill.ops.table import implicit, role
from twill.ops.values import Operand
from twill.simulate.global_memory import Memory
from twill.simulate.operations import evaluate

MOST = 100_000
"""Iterations of a `while` loop: one that waits for another program never ends."""


class TooLongError(TwillError):
    """More operations would be executed than allowed."""


@dataclass(slots=True)
class Meter:
    """Operations that may still be executed."""

    most: int
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.most

    def spend(self, count: int = 1) -> None:
        """Raises TooLongError where there are none."""
        self.left -= count
        if self.left < 0:
            raise TooLongError(f"this program of the grid executes more than {self.most} operations")


class Scope(dict[int, Operand]):
    """Values by id; constants and descriptors are made at their first use."""

    def __init__(
        self,
        ops: Mapping[int, Op],
        arguments: Mapping[int, Operand],
        memory: Memory,
        program: Mapping[str, int],
    ) -> None:
        super().__init__(arguments)
        self._ops, self._arguments, self._memory, self._program = ops, arguments, memory, program
        self._makers = {result.id: op for op in ops.values() if implicit(op) for result in op.results}
        self.meter: Meter | None = None
        self._constants = dict[int, Operand]()
        """Those that were made, in this scope or in one that it was emptied from."""

    def emptied(self) -> "Scope":
        """A scope of the same function in which the arguments alone are known."""
        other = Scope.__new__(Scope)
        other.update(self._arguments)
        other._ops, other._arguments = self._ops, self._arguments
        other._memory, other._program = self._memory, self._program
        other._makers, other._constants = self._makers, self._constants
        other.meter = self.meter
        return other

    def __missing__(self, value: int) -> Operand:
        if value in self._constants:
            return self._constants[value]
        if value not in self._makers:
            maker = next(
                (op for op in self._ops.values() if any(result.id == value for result in op.results)), None
            )
            raise TwillError(
                f"a value of {maker.name if maker else 'an argument'} is read before it is computed",
                maker and maker.location,
            )
        op = self._makers[value]
        operands = [self._operand(operand) for operand in op.operands]
        made = evaluate(op, operands, self._memory, self._program)[0]
        (self if operands else self._constants)[value] = made
        return made

    def evaluated(self, op: Op, operands: Sequence[Operand]) -> Values:
        """The results of an operation without regions of control flow."""
        if self.meter:
            self.meter.spend()
        return evaluate(op, operands, self._memory, self._program)

    def iterations(self, op: Op, bounds: range) -> range:
        """The iterations of a counted loop that are executed."""
        return bounds

    def _operand(self, value: Value) -> Operand:
        """Of a descriptor: what follows from arguments is computed whether or not somebody has done so."""
        if value.id in self or value.id in self._makers or value.producer is None:
            return self[value.id]
        op = self._ops[value.producer]
        return evaluate(op, [self._operand(operand) for operand in op.operands], self._memory, self._program)[
            0
        ]


class _Reordered(Scope):
    """A scope in which the terms of MMAs and reductions are added in a random order."""

    def __init__(
        self,
        ops: Mapping[int, Op],
        arguments: Mapping[int, Operand],
        memory: Memory,
        program: Mapping[str, int],
        seed: int,
    ) -> None:
        super().__init__(ops, arguments, memory, program)
        self._random = np.random.default_rng(seed)

    def evaluated(self, op: Op, operands: Sequence[Operand]) -> Values:
        match role(op):
            case "reduce":
                operands = self._shuffled(operands, [axis_of(op)] * len(operands))
            case "dot" | "wgmma":
                operands = (*self._shuffled(operands[:2], (1, 0)), *operands[2:])
            case _:
                pass
        return super().evaluated(op, operands)

    def _shuffled(self, tiles: Sequence[Operand], axes: Sequence[int]) -> Sequence[Operand]:
        """Tiles with their slices along an axis in one random order."""
        arrays = [np.asarray(tile) for tile in tiles]
        order = self._random.permutation(arrays[0].shape[axes[0]])
        return [np.take(array, order, axis) for array, axis in zip(arrays, axes, strict=True)]


def interpret(
    function: Function,
    arguments: Mapping[int, Operand],
    memory: Memory,
    program: Mapping[str, int],
    order: int | None = None,
    meter: Meter | None = None,
) -> None:
    """Execute one program of the grid. `arguments` by value id; `program` has `pid.x`, `grid.x` and so on.
    Each `order` stands for another random order in which sums are added, None for that of numpy. `meter`
    limits the operations.

    Raises TwillError for an operation that is not known, and TooLongError.
    """
    ops = {op.index: op for op in function.walk()}
    if not function.body:
        return
    known = (ops, arguments, memory, program)
    scope = Scope(*known) if order is None else _Reordered(*known, order)
    scope.meter = meter
    block(function.body.blocks[0], scope)


def block(code: Block, values: Scope) -> Sequence[Operand]:
    """Execute a block; what it yields."""
    for op in code.ops:
        if role(op) in ("yield", "condition", "return"):
            return [values[operand.id] for operand in op.operands]
        execute(op, values)
    return ()


def execute(op: Op, values: Scope) -> None:
    """Execute an operation, with its regions."""
    operands = [values[operand.id] for operand in op.operands]
    match role(op):
        case "for":
            results = _for(op, operands, values)
        case "if":
            taken = next(iter(op.regions[0 if operands[0] else 1 :]), None)
            results = block(taken.blocks[0], values) if taken and taken.blocks else ()
        case "while":
            results = _while(op, operands, values)
        case _:
            results = values.evaluated(op, operands)
    values.update(zip((result.id for result in op.results), results, strict=True))


def _for(op: Op, operands: Sequence[Operand], values: Scope) -> Sequence[Operand]:
    lower, upper, step, *carried = operands
    body = op.regions[0].blocks[0]
    for index in values.iterations(op, range(int(lower), int(upper), int(step))):
        values.update(
            zip((arg.id for arg in body.args), [np.asarray(index, lower.dtype), *carried], strict=True)
        )
        carried = list(block(body, values))
    return carried


def _while(op: Op, carried: Sequence[Operand], values: Scope) -> Sequence[Operand]:
    before, after = (region.blocks[0] for region in op.regions)
    for _ in range(MOST):
        values.update(zip((arg.id for arg in before.args), carried, strict=True))
        holds, *passed = block(before, values)
        if not holds:
            return passed
        values.update(zip((arg.id for arg in after.args), passed, strict=True))
        carried = block(after, values)
    raise TwillError(f"this loop does not end within {MOST} iterations", op.location)
