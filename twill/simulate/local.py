"""What one group must not do, whatever the others do: the rules of MMAs in flight, of registers and of
acquired slots.

Takes the actions of one group; raises `HazardError` at the first that breaks a rule. Shares no code with the
placement of waits.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from twill.ir.effects import effects, registers
from twill.ir.operands import OperandLocation, Register, Slot, TensorMemory
from twill.ir.program import Program
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    ConsumerWait,
    FinalizeReduction,
    MbarrierArrival,
    MmaIssue,
    MmaWait,
    Move,
    ProducerLoad,
    ProducerStore,
    SchedulingFence,
    Statement,
    StoreTile,
    StoreWait,
)
from twill.ops.values import shape_of
from twill.simulate.actions import Action
from twill.simulate.protocol import HazardError

Thing = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class _Flight:
    """An MMA in flight."""

    node: str
    reads: frozenset[Thing]
    writes: Thing


@dataclass(slots=True)
class _Group:
    in_flight: list[_Flight] = field(default_factory=list[_Flight])
    acquired: dict[tuple[str, int], bool] = field(default_factory=dict[tuple[str, int], bool])
    """Slots between ConsumerWait and ConsumerRelease, and whether they were acquired in a pipelined loop:
    those must be released."""
    assigned: set[Thing] = field(default_factory=set[Thing])
    leaving: set[str] = field(default_factory=set[str])
    """Buffers that stores may still read."""
    deferred: set[Thing] = field(default_factory=set[Thing])
    """Registers in which each thread has a reduction of its own elements, not finalized yet."""
    parts: dict[str, int] = field(default_factory=dict[str, int])
    """How far each MMA under way has been issued."""
    both: frozenset[str] = frozenset()
    """Channels whose slots threads and MMAs of the group release."""
    committed: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Slots that the completion of an MMA releases."""
    released: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Slots that threads have released."""


def check(program: Program, group: int, actions: Iterable[Action]) -> None:
    """Raises HazardError at the first action that breaks a rule of its group."""
    both = (one.id for one in program.channels if group in one.by_mma and group in one.releasing)
    state = _Group(both=frozenset(both))
    for action in actions:
        _action(program, group, state, action)
    if state.in_flight:
        raise HazardError(f"group {group} ends with {state.in_flight[-1].node} in flight")
    for (channel, number), looped in state.acquired.items():
        if looped:
            raise HazardError(f"group {group} ends without having released tile {number} of {channel}")
    if any(state.parts.values()):
        raise HazardError(f"group {group} ends with an MMA issued in part")
    if state.leaving:
        raise HazardError(f"group {group} ends while a store may still read {sorted(state.leaving)[0]}")


def _action(program: Program, group: int, state: _Group, action: Action) -> None:
    match action.statement:
        case MmaWait(pending=pending):
            state.in_flight = state.in_flight[max(0, len(state.in_flight) - pending) :]
        case MmaIssue(completion=MbarrierArrival()) as issue:
            _operands_there(group, state, action, issue)
        case MmaIssue() as issue:
            _issue(program, group, state, action, issue)
        case ConsumerWait(channel=channel, at=when):
            state.acquired[channel, action.sequence(channel, when.iteration)] = when.iteration.base != "once"
        case ConsumerRelease(channel=channel, at=when):
            if action.iteration(when.iteration) >= 0:
                _consumer_release(program, group, state, channel, action.sequence(channel, when.iteration))
        case StoreWait():
            state.leaving.clear()  # it waits for all stores of the group, as `warp.store_waits` has it
        case _:
            _synchronous(program, group, state, action)


def _synchronous(program: Program, group: int, state: _Group, action: Action) -> None:
    """A statement that reads and writes at once: its operands are there (a move before the first assignment
    moves a value that is never read), and no MMA in flight uses its registers."""
    statement, found = action.statement, effects(action.statement)
    what = _words(statement)
    if not isinstance(statement, SchedulingFence | Move):
        _read(group, state, action, what, found.reads)
    written = [_register(register) for register in registers(found.writes)]
    _use(group, state, what, _things(action, found.reads), written)
    if not isinstance(statement, SchedulingFence):
        state.assigned.update(written)
    match statement:
        case Compute():
            _defer(group, state, action, statement)
        case ProducerStore(channel=channel):
            _free(program, group, state, channel)
        case FinalizeReduction(register=register):
            state.deferred.discard(_register(register))
        case StoreTile(buffer=buffer, waits=waits):
            if state.leaving and not waits:
                raise HazardError(
                    f"group {group} stages in {buffer} while a store may still read"
                    f" {sorted(state.leaving)[0]}"
                )
            _stage(program, group, state, buffer)
        case _:
            pass


def _words(statement: Statement) -> str:
    """A statement in messages."""
    match statement:
        case Compute(node=node):
            return node
        case ProducerStore(channel=channel) | ProducerLoad(channel=channel):
            return f"the {'load' if isinstance(statement, ProducerLoad) else 'store'} to {channel}"
        case Move(variable=variable):
            return f"the move of {variable}"
        case _:
            return type(statement).__name__


def _register(register: Register) -> Thing:
    return "register", register.variable, register.age


def _thing(action: Action, location: OperandLocation) -> Thing:
    match location:
        case Register():
            return _register(location)
        case Slot(channel, _, iteration):
            return "slot", channel, action.sequence(channel, iteration)
        case TensorMemory(tile, iteration):
            return "tensor", tile, action.iteration(iteration)


def _things(action: Action, locations: Iterable[OperandLocation]) -> list[Thing]:
    return [_thing(action, location) for location in locations]


def _read(group: int, state: _Group, action: Action, what: str, reads: Iterable[OperandLocation]) -> None:
    """Everything read is there: slots between ConsumerWait and ConsumerRelease, registers assigned."""
    for kind, name, number in _things(action, reads):
        if kind == "slot" and (name, number) not in state.acquired:
            raise HazardError(
                f"group {group}: {what} reads tile {number} of {name} outside of its ConsumerWait and"
                " ConsumerRelease"
            )
        if kind == "register" and (kind, name, number) not in state.assigned:
            raise HazardError(f"group {group}: {what} reads {name} (age {number}) before it is assigned")


def _use(group: int, state: _Group, what: str, reads: Iterable[Thing], writes: Iterable[Thing]) -> None:
    """Registers are not touched while an MMA uses them."""
    written, read = (
        {flight.writes for flight in state.in_flight},
        {thing for flight in state.in_flight for thing in flight.reads},
    )
    for thing in reads:
        if thing in written:
            raise HazardError(f"group {group}: {what} reads {thing[1]}, which an MMA in flight writes")
    for thing in writes:
        if thing in written or thing in read:
            raise HazardError(f"group {group}: {what} overwrites {thing[1]}, which an MMA in flight uses")


def _defer(group: int, state: _Group, action: Action, compute: Compute) -> None:
    """What is computed from a deferred reduction is deferred too, and is not read outside of the loop before
    it is finalized."""
    deferred = compute.deferred or any(
        thing in state.deferred for thing in _things(action, effects(compute).reads)
    )
    if deferred and action.loop is None:
        raise HazardError(f"group {group}: {compute.node} reads a reduction that is not finalized")
    for write in compute.writes:
        (state.deferred.add if deferred else state.deferred.discard)(_register(write.register))


def _issue(program: Program, group: int, state: _Group, action: Action, issue: MmaIssue) -> None:
    accumulator = _thing(action, issue.accumulator)
    first = issue.accumulate == "never" or (
        issue.accumulate == "not_first" and action.iteration(issue.at.iteration) == 0
    )
    operands = [read.location for read in issue.reads if read.location != issue.accumulator]
    _read(group, state, action, issue.node, operands)
    _, k = shape_of(program.op(issue.ops[-1]).operands[0].type)
    if not first and accumulator not in state.assigned:
        raise HazardError(f"group {group}: {issue.node} adds to {accumulator[1]} before it is assigned")
    if state.parts.get(issue.node, 0) != issue.begin:
        raise HazardError(
            f"group {group}: {issue.node} is issued from {issue.begin}, but it has come to"
            f" {state.parts.get(issue.node, 0)}"
        )
    things = _things(action, operands)
    for flight in state.in_flight:
        if flight.writes in things or accumulator in flight.reads:
            raise HazardError(f"group {group}: {issue.node} is issued while {flight.node} uses its registers")
    state.parts[issue.node] = issue.end % k
    state.in_flight.append(_Flight(issue.node, frozenset(things), accumulator))
    state.assigned.add(accumulator)


def _operands_there(group: int, state: _Group, action: Action, issue: MmaIssue) -> None:
    """An MMA that arrives on mbarriers: its slots are acquired, and their release is its completion. Tensor
    memory is judged elsewhere (`races`)."""
    _read(group, state, action, issue.node, [read.location for read in issue.reads])
    assert isinstance(issue.completion, MbarrierArrival)
    for slot in issue.completion.slots:
        number = action.sequence(slot.channel, slot.iteration)
        state.committed.add((slot.channel, number))
        _acquired_no_more(state, slot.channel, number)


def _acquired_no_more(state: _Group, channel: str, number: int) -> None:
    """A slot that threads and MMAs of a group read is acquired until both have released it."""
    kinds = {(channel, number) in state.committed, (channel, number) in state.released}
    if channel not in state.both or kinds == {True}:
        state.acquired.pop((channel, number), None)


def _consumer_release(program: Program, group: int, state: _Group, channel: str, number: int) -> None:
    for flight in state.in_flight:
        if ("slot", channel, number) in flight.reads:
            raise HazardError(
                f"group {group} releases tile {number} of {channel} while {flight.node} reads it"
            )
    for buffer in program.buffers:
        if buffer.overlays == channel and buffer.id in state.leaving:
            raise HazardError(
                f"group {group} releases {channel} while a store reads {buffer.id}, which lies in it"
            )
    state.released.add((channel, number))
    _acquired_no_more(state, channel, number)


def _free(program: Program, group: int, state: _Group, channel: str) -> None:
    """No store reads a buffer in the slots that a group fills."""
    for buffer in program.buffers:
        if buffer.overlays == channel and buffer.id in state.leaving:
            raise HazardError(
                f"group {group} fills {channel} while a store reads {buffer.id}, which lies in it"
            )


def _stage(program: Program, group: int, state: _Group, name: str) -> None:
    buffer = next(buffer for buffer in program.buffers if buffer.id == name)
    for flight in state.in_flight:
        if buffer.overlays and any(thing[:2] == ("slot", buffer.overlays) for thing in flight.reads):
            raise HazardError(f"group {group} stages in {buffer.overlays} while {flight.node} reads it")
    state.leaving.add(name)
