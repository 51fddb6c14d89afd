"""What each statement of a warp program reads, writes, acquires and releases: one table for lowering and
simulation.

Takes a `Statement`; gives its `Effects` and the `At` that it stands at. Statements with others inside them
have the effects of their own bounds and conditions alone: `ir.statements.walk` visits what is inside.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from twill.ir.operands import At, OperandLocation, Read, Register, Slot
from twill.ir.statements import (
    Advance,
    Alternate,
    BarrierArrive,
    BarrierPhase,
    BarrierWait,
    CommitGroup,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    FinalizeReduction,
    For,
    If,
    InitializeCarried,
    LocalLoad,
    MbarrierArrival,
    MmaCompletion,
    MmaIssue,
    MmaWait,
    Move,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
    ProducerStore,
    SchedulingFence,
    SlotPhase,
    Statement,
    StoreTile,
    StoreWait,
    TensorMemorySync,
    While,
)


@dataclass(frozen=True, slots=True)
class OrderSignal:
    """The signal of an ordering barrier."""

    order: str


@dataclass(frozen=True, slots=True)
class StagingBuffer:
    """A buffer that no store reads any more."""

    buffer: str


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """Where all groups that use tensor memory synchronize."""


Resource: TypeAlias = SlotPhase | OrderSignal | StagingBuffer | BarrierPhase | SyncPoint


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of one statement, in program order of its group."""

    reads: tuple[OperandLocation, ...] = ()
    writes: tuple[OperandLocation, ...] = ()
    acquires: tuple[Resource, ...] = ()
    """What the statement waits for."""
    releases: tuple[Resource, ...] = ()
    """What it makes available, at once or when its asynchronous part completes."""
    asynchronous: bool = False
    """It goes on reading and writing until a later statement waits for it: `MmaWait` for an `MmaIssue`, the
    full barrier for a `ProducerLoad`, `StoreWait` for a `StoreTile`."""

    @property
    def shared(self) -> bool:
        """Whether the statement synchronizes its group with others."""
        return any(not isinstance(one, StagingBuffer) for one in (*self.acquires, *self.releases))


def effects(statement: Statement) -> Effects:
    """The effects of one statement."""
    match statement:
        case Compute(reads=reads, writes=writes, stores=stores):
            return Effects(_locations(reads), (*(write.register for write in writes), *stores))
        case InitializeCarried(source=source, register=register):
            return Effects((source,) if source else (), (register,))
        case LocalLoad(source=source, register=register):
            return Effects((source,), (register,))
        case Move(variable=variable, age=age):
            return Effects((Register(variable, age - 1),), (Register(variable, age),))
        case FinalizeReduction(register=register):
            return Effects((register,), (register,))
        case SchedulingFence(registers=registers):
            return Effects(registers, registers)
        case MmaIssue(reads=reads, accumulator=accumulator, completion=completion):
            return Effects(
                _locations(reads), (accumulator,), releases=_arrivals(completion), asynchronous=True
            )
        case Pipelined(bounds=reads) | For(bounds=reads):
            return Effects(_locations(reads))
        case If(condition=condition) | While(condition=condition):
            return Effects((condition.location,) if condition else ())
        case MmaWait() | Advance() | Alternate():
            return Effects()
        case _:
            return _synchronizing(statement)


_Synchronizing: TypeAlias = (
    ProducerLoad
    | ProducerStore
    | ConsumerWait
    | ConsumerRelease
    | OrderBarrierWait
    | OrderBarrierArrive
    | BarrierArrive
    | BarrierWait
    | TensorMemorySync
    | StoreTile
    | StoreWait
)


def _synchronizing(statement: _Synchronizing) -> Effects:
    match statement:
        case ProducerLoad(channel=channel, loads=loads, at=at):
            reads = tuple(location for load in loads for location in _locations(load.reads))
            written = tuple(Slot(channel, load.tensor, at.iteration) for load in loads)
            return Effects(reads, written, *_fill(channel, at), asynchronous=True)
        case ProducerStore(channel=channel, reads=reads, values=values, at=at):
            written = tuple(Slot(channel, i, at.iteration) for i, _ in enumerate(values))
            return Effects(_locations(reads), written, *_fill(channel, at))
        case ConsumerWait(channel=channel, at=at):
            return Effects(acquires=(SlotPhase(channel, at.iteration, "full"),))
        case ConsumerRelease(channel=channel, at=at):
            return Effects(releases=(SlotPhase(channel, at.iteration, "empty"),))
        case OrderBarrierWait(order=order):
            return Effects(acquires=(OrderSignal(order),))
        case OrderBarrierArrive(order=order):
            return Effects(releases=(OrderSignal(order),))
        case BarrierArrive(barrier=barrier, at=at):
            return Effects(releases=(BarrierPhase(barrier, at.iteration),))
        case BarrierWait(barrier=barrier, awaited=awaited):
            return Effects(acquires=(BarrierPhase(barrier, awaited),))
        case TensorMemorySync(half=half):
            waits, arrives = half != "arrive", half != "wait"
            return Effects(acquires=(SyncPoint(),) * waits, releases=(SyncPoint(),) * arrives)
        case StoreTile(reads=reads, buffer=buffer):
            staging = (StagingBuffer(buffer),)
            return Effects(_locations(reads), acquires=staging, releases=staging, asynchronous=True)
        case StoreWait(buffer=buffer):
            return Effects(acquires=(StagingBuffer(buffer),))
        case _:
            assert_never(statement)


def _arrivals(completion: MmaCompletion) -> tuple[Resource, ...]:
    match completion:
        case CommitGroup():
            return ()
        case MbarrierArrival(slots, barriers):
            return (*slots, *barriers)


def _fill(channel: str, at: At) -> tuple[tuple[Resource, ...], tuple[Resource, ...]]:
    """What a producer acquires and releases."""
    return (SlotPhase(channel, at.iteration, "empty"),), (SlotPhase(channel, at.iteration, "full"),)


def _locations(reads: Iterable[Read]) -> tuple[OperandLocation, ...]:
    return tuple(read.location for read in reads)


def registers(locations: Iterable[OperandLocation]) -> tuple[Register, ...]:
    """Those of some locations that are registers."""
    return tuple(location for location in locations if isinstance(location, Register))


def at(statement: Statement) -> At:
    """When a statement stands in the schedule; outside of pipelined loops for statements without a time of
    their own."""
    match statement:
        case Advance() | Pipelined() | For() | While() | If() | Alternate():
            return At()
        case _:
            return statement.at


def drained_after(loop: Pipelined) -> int:
    """How many times more than N iterations `short` is executed where it is predicated: until its latest
    statement has been. Releases may be later than all that the stages count."""
    offsets = (at(one).iteration.offset for one in loop.short if not isinstance(one, Move))
    return max(loop.stages - 1, *offsets, 0)
