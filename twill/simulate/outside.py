"""What a thread block waits for in global memory before it can issue the first load of a loop.

Takes a program and its scheduled loops; gives the loads, atomic operations included, that follow from each
other until the addresses of the first loop's tiles are known: the number of pages of a sequence, say, then
the page. A thread waits for what is loaded where it branches, and for the address of a load; loads between
two such places that do not need each other are in flight together. What loops wait for is simulated
(`timed`), and tiles that are on their way hide what else is loaded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from twill.ir.loop import Block, Op, Value
from twill.ir.program import Program
from twill.ops.table import lookup, role
from twill.warp.dataflow import Code, read
from twill.warp.non_loop_code import closed
from twill.warp.tasks import Scheduled

BRANCHES = ("for", "while", "if")
"""Roles of operations that a thread decides about before it executes what is inside."""


def arrivals(program: Program, loops: Sequence[Scheduled]) -> int:
    """How many loads, one after the other, the addresses of the first loop's tiles and its bounds follow
    from, where a thread block takes every branch."""
    code = read(program.module, program.function)
    thread = _Thread(code, {one.loop.op.index: one for one in loops})
    any(map(thread.reaches_loop, program.function.body.blocks if program.function.body else ()))
    return thread.now


@dataclass(slots=True)
class _Thread:
    """Times are counted in loads that were waited for."""

    code: Code
    loops: dict[int, Scheduled]
    """By operation."""
    ready: dict[int, int] = field(default_factory=dict[int, int])
    """When values are there; those that are not in it always are."""
    now: int = 0

    def reaches_loop(self, block: Block) -> bool:
        """Executes a block, up to the first of the loops; whether it is there."""
        return any(map(self._is_loop, block.ops))

    def _is_loop(self, op: Op) -> bool:
        if op.index in self.loops:
            self._wait(closed(self.code, _addresses(op), ()))
            return True
        if role(op) in BRANCHES:
            self._wait(value.id for value in op.operands)
            inside = [block for region in op.regions for block in region.blocks]
            if any(map(self.reaches_loop, inside)):
                return True
            there = self._there(value.id for block in inside if block.ops for value in block.ops[-1].operands)
        else:
            there = self._there(value.id for value in op.operands)
        if _reads(op):
            there = max(self.now, there) + 1
        self.ready |= {value.id: there for value in op.results if there}
        return False

    def _wait(self, values: Iterable[int]) -> None:
        self.now = max(self.now, self._there(values))

    def _there(self, values: Iterable[int]) -> int:
        return max((self.ready.get(value, 0) for value in values), default=0)


def _addresses(loop: Op) -> list[Value]:
    """What says which tiles a loop loads, and how many."""
    loads = (value for inner in loop.inner() if _reads(inner) for value in inner.operands)
    return [*(loop.operands[:3] if role(loop) == "for" else loop.operands), *loads]


def _reads(op: Op) -> bool:
    """Whether its results are loaded from global memory."""
    row = lookup(op.name)
    return row is not None and row.access in ("load", "reduce")
