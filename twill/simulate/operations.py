"""TTGIR operations executed by their rows in the table of operations: the one place that both the direct
execution and the warp programs use.

Takes an operation with the values of its operands; gives the values of its results, as `twill.ops.row.Values`
has them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Op
from twill.ops.row import Values
from twill.ops.table import lookup
from twill.ops.values import Array, Operand, Pointers
from twill.simulate.global_memory import Memory


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What operations act on besides their operands: a `twill.ops.row.Environment`."""

    memory: Memory
    indices: Mapping[str, int]
    """`pid.x`, `grid.x`, ..."""

    def program(self, name: str) -> int:
        return self.indices[name]

    def evaluate(self, op: Op, operands: Sequence[Operand]) -> Values:
        return evaluate(op, operands, self.memory, self.indices)

    def pointed(self, number: int, type: str) -> Pointers:
        return self.memory.pointed(number, type)

    def undefined(self, what: str) -> None:
        self.memory.undefined.add(what)

    def read(self, pointers: Pointers, offsets: Array, mask: Array | None, other: Operand = 0) -> Array:
        return self.memory.read(pointers, offsets, mask, other)

    def write(
        self, pointers: Pointers, offsets: Array, values: Array, mask: Array | None, *, add: bool = False
    ) -> None:
        self.memory.write(pointers, offsets, values, mask, add=add)


class NotSimulatedError(TwillError):
    """The simulator lacks an operation."""


def evaluate(op: Op, operands: Sequence[Operand], memory: Memory, program: Mapping[str, int]) -> Values:
    """The results of one operation. `program` has `pid.x`, `grid.x`, ...

    Raises NotSimulatedError for an operation that can not be simulated.
    """
    row = lookup(op.name)
    if row is None or row.meaning is None:
        raise NotSimulatedError(f"{op.name} can not be simulated", op.location, span=len(op.name))
    with np.errstate(all="ignore"):
        return row.meaning(op, operands, Surroundings(memory, program))


def run(ops: Sequence[Op], values: dict[int, Operand], memory: Memory, program: Mapping[str, int]) -> Values:
    """A straight line of operations; the operands of the last one, which returns."""
    for op in ops[:-1]:
        results = evaluate(op, [values[operand.id] for operand in op.operands], memory, program)
        values.update(zip((result.id for result in op.results), results, strict=True))
    return tuple(values[operand.id] for operand in ops[-1].operands)
