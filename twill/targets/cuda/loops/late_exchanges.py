"""Vectors that threads exchange before an MMA, and read behind it.

A vector of scales changes its layout through shared memory between two barriers, and then its elements are in
registers while the MMA runs whose results they multiply. Where a barrier of the group follows anyway, before
the MMA, that barrier is the second one; and threads read the vector where it is first used. Takes statements
in order; gives which of them exchange so, and before which these read.
"""

from collections.abc import Mapping, Sequence

from twill.ir.effects import effects
from twill.ir.loop import Tensor
from twill.ir.operands import Register
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    ProducerLoad,
    SchedulingFence,
    Statement,
)
from twill.ops.row import Role
from twill.ops.table import is_elementwise, role
from twill.targets.cuda.emitter import Emitter

_PLAIN = (ConsumerWait, ConsumerRelease, MmaIssue, MmaWait, ProducerLoad, SchedulingFence)
"""What exchanges nothing."""
_VIEWS: tuple[Role, ...] = ("expand", "broadcast", "splat", "bitcast", "constant")


def late_exchanges(emitter: Emitter, statements: Sequence[Statement]) -> Mapping[int, int]:
    """By position."""
    found = dict[int, int]()
    for position, one in enumerate(statements):
        if isinstance(one, Compute) and (vector := _vector(emitter, one)) is not None:
            reader = _reader(emitter, statements, position, vector)
            if reader is not None:
                found[position] = reader
    return found


def _vector(emitter: Emitter, one: Compute) -> Register | None:
    """Where a vector is that a statement changes to another layout, last of all."""
    op = emitter.program.op(one.ops[-1])
    if role(op) != "layout" or not isinstance(op.result.type, Tensor) or len(op.result.type.shape) != 1:
        return None
    written = [write.register for write in one.writes if write.value == op.result.id]
    return written[0] if len(written) == len(one.writes) == 1 else None


def _reader(emitter: Emitter, statements: Sequence[Statement], position: int, vector: Register) -> int | None:
    """The first statement that reads a vector, behind the barrier that follows the exchange and behind an
    MMA; None where that is not the next one, or others exchange something before."""
    following = statements[position + 1] if position + 1 < len(statements) else None
    if not isinstance(following, ConsumerWait) or not emitter.program.channel(following.channel).local:
        return None
    issued = False
    for later, one in enumerate(statements[position + 2 :], position + 2):
        if vector in effects(one).reads:
            return later if issued else None
        if vector in effects(one).writes or not (isinstance(one, _PLAIN) or _elementwise(emitter, one)):
            return None
        issued |= isinstance(one, MmaIssue)
    return None


def _elementwise(emitter: Emitter, one: Statement) -> bool:
    if not isinstance(one, Compute) or one.slots:
        return False
    ops = [emitter.program.op(index) for index in one.ops]
    return all(is_elementwise(op) or role(op) in _VIEWS for op in ops)
