"""Scheduling fences: a tile that is loaded from tensor memory takes the registers of one that is used up.

Takes the steady state of a group; gives it with `SchedulingFence`s. ptxas starts loads early and leaves the
sums over the tile before for later, so that both tiles are live and registers are spilled (ptxas 13.0: 188
bytes in `fa_fwd_subtiled`, 0 with the fence). So a fence in front of the waits of each load holds the vectors
computed since the last one.
"""

from collections.abc import Mapping, Sequence

from twill.ir.effects import effects, registers
from twill.ir.loop import Tensor, Type
from twill.ir.operands import Register, TensorMemory
from twill.ir.statements import BarrierWait, Compute, ConsumerWait, SchedulingFence, Statement


def fenced(statements: Sequence[Statement], types: Mapping[str, Type]) -> tuple[Statement, ...]:
    """A loop's statements with scheduling fences. `types` of the group's variables."""
    found, computed = list[Statement](), list[Register]()
    for statement in statements:
        if isinstance(statement, Compute):
            if computed and _loads(statement, types):
                fence = SchedulingFence(tuple(sorted(set(computed), key=str)), statement.at)
                found.insert(_before_waits(found), fence)
                computed = []
            computed += [one for one in registers(effects(statement).writes) if _rank(one, types) == 1]
        found.append(statement)
    return tuple(found)


def _loads(statement: Compute, types: Mapping[str, Type]) -> bool:
    """It brings a tile from tensor memory to registers."""
    return any(isinstance(read.location, TensorMemory) for read in statement.reads) and any(
        _rank(write.register, types) > 1 for write in statement.writes
    )


def _rank(register: Register, types: Mapping[str, Type]) -> int:
    kind = types.get(register.variable)
    return len(kind.shape) if isinstance(kind, Tensor) else 0


def _before_waits(found: Sequence[Statement]) -> int:
    """Where the waits at the end of some statements begin."""
    at = len(found)
    while at and isinstance(found[at - 1], BarrierWait | ConsumerWait):
        at -= 1
    return at
