"""What controls a loop: instructions that warps execute in each iteration beside its operations.

A schedule charges operations. Which waits there are, and which slots their numbers are computed for, follows
from the groups that it has found: takes a lowered program, gives the instructions of its groups by the
counts of the machine file (`[control]`), for predictions and for comparisons with what the compiler makes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twill.ir.effects import effects
from twill.ir.machine import Control
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import (
    BarrierPhase,
    BarrierWait,
    Compute,
    ConsumerWait,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
    ProducerStore,
    SlotPhase,
    Statement,
    walk,
)
from twill.warp.tasks import Scheduled

_WAITS = (BarrierWait, ConsumerWait, ProducerLoad, ProducerStore)
"""Statements that begin with a wait on an mbarrier."""


@dataclass(frozen=True, slots=True)
class Controlling:
    """What the steady state of a loop needs in one group, in one iteration."""

    waits: int
    """Of every warp."""
    issuing: int
    """Of the warp alone that issues the group's MMAs."""
    slots: int
    """Channels of several slots, and sets of mbarriers, of which it waits for one or releases one."""
    updates: int
    """Tiles of tensor memory that it loads, changes and stores."""

    def instructions(self, control: Control, warps: int) -> float:
        """Of a warp, on an average of so many."""
        own = control.loop + control.wait * self.waits + control.slot * self.slots
        return own + control.update * self.updates + control.wait * self.issuing / warps


NONE = Controlling(0, 0, 0, 0)


def controlling(program: Program, group: WarpProgram, loop: Scheduled) -> Controlling:
    """Of a group in a loop; nothing where it has no steady state."""
    pipelined = (one for one in walk(group.body) if isinstance(one, Pipelined))
    steady = next((one.steady for one in pipelined if one.op == loop.loop.op.index), ())
    waits = [one for one in steady if isinstance(one, _WAITS) and not _local(program, one)]
    issuing = sum(_by_issuer(program, group, one) for one in waits)
    orders = sum(isinstance(one, OrderBarrierWait) for one in steady)
    updated = {node.id for node in loop.graph.nodes if node.kind == "tensor_update"}
    updates = {one.node for one in steady if isinstance(one, Compute) and one.node in updated}
    slots = set(_slotted(program, steady))
    return Controlling(len(waits) - issuing + orders, issuing, len(slots), len(updates))


def cycles(program: Program, loop: Scheduled, control: Control) -> float:
    """Of the unit of `control`, in an iteration of a loop, of all groups of a thread block."""
    found = ((group, controlling(program, group, loop)) for group in program.groups)
    executed = (
        made.instructions(control, group.warps) * group.warps for group, made in found if made != NONE
    )
    return sum(executed) * _LANES / control.lanes


_LANES = 32
"""Of a warp."""


def _local(program: Program, statement: Statement) -> bool:
    """A barrier of the group's threads, which has no phases, stands for waits on a channel of its own."""
    of_channel = isinstance(statement, ConsumerWait | ProducerLoad | ProducerStore)
    return of_channel and program.channel(statement.channel).local


def _by_issuer(program: Program, group: WarpProgram, statement: Statement) -> bool:
    if isinstance(statement, BarrierWait):
        return statement.issuer
    return isinstance(statement, ConsumerWait) and program.channel(statement.channel).only_mma(group.id)


def _slotted(program: Program, steady: Sequence[Statement]) -> Iterator[str]:
    depths = {one.id: one.depth for one in program.dependences}
    for statement in steady:
        done = effects(statement)
        for one in (*done.acquires, *done.releases):
            if isinstance(one, SlotPhase):
                channel = program.channel(one.channel)
                if channel.depth > 1 and not channel.local:
                    yield channel.slot_owner
            elif isinstance(one, BarrierPhase) and depths[one.barrier] > 1:
                yield one.barrier
