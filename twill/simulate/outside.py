"""What a thread block waits for in global memory before, between and behind its loops.

Takes a function and its scheduled loops; gives the loads, atomic operations included, that it waits for one
after the other. A thread executes in order: it waits for what is loaded where it branches, begins a loop or
writes memory, and for the address of a load; loads between two such places that do not need each other are in
flight together. What loops wait for is simulated (`timed`).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from twill.ir.loop import Block, Function, Op, Value
from twill.ops.table import lookup, role
from twill.warp.tasks import Scheduled


def arrivals(function: Function, loops: Sequence[Scheduled]) -> int:
    """How many times a thread block waits for global memory outside of its scheduled loops, where it takes
    every branch; a loop around them counts once."""
    thread = _Thread(frozenset(one.loop.op.index for one in loops))
    for block in function.body.blocks if function.body else ():
        thread.execute(block)
    return thread.now


CONTROL = ("for", "while", "if")
"""Operations that branch."""


@dataclass(slots=True)
class _Thread:
    """Times are counted in loads that were waited for."""

    loops: Collection[int]
    """The scheduled loops, by operation."""
    ready: dict[int, int] = field(default_factory=dict[int, int])
    """When values are there; those that are not in it always are."""
    now: int = 0

    def execute(self, block: Block) -> None:
        for op in block.ops:
            self._one(op)

    def _one(self, op: Op) -> None:
        row = lookup(op.name)
        access = row.access if row else "none"
        if op.index in self.loops:
            self._wait([*op.operands, *(value for inner in op.inner() for value in inner.operands)])
            return
        if role(op) in CONTROL:
            self._wait(op.operands)
            inside = [block for region in op.regions for block in region.blocks]
            for block in inside:
                self.execute(block)
            there = self._there(value for block in inside if block.ops for value in block.ops[-1].operands)
        elif access == "load" or access == "reduce":
            there = max(self.now, self._there(op.operands)) + 1
        else:
            there = self._there(op.operands)
        if access in ("store", "reduce"):
            self._wait(op.operands)
        self.ready |= {value.id: there for value in op.results if there}

    def _wait(self, values: Iterable[Value]) -> None:
        self.now = max(self.now, self._there(values))

    def _there(self, values: Iterable[Value]) -> int:
        return max((self.ready.get(value.id, 0) for value in values), default=0)
