"""What one group must not do, whatever the others do: the rules of products in flight, of registers and of borrowed slots.

Takes the actions of one group; raises `HazardError` at the first that breaks a rule. Shares nothing with the code that places the waits.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from twill.ir.program import (
    Compute,
    ConsumerRelease,
    ConsumerWait,
    FinalizeReduction,
    InitializeCarried,
    MmaIssue,
    MmaWait,
    Move,
    OperandLocation,
    ProducerLoad,
    ProducerStore,
    Program,
    Read,
    Register,
    SchedulingFence,
    Slot,
    StoreTile,
    StoreWait,
)
from twill.simulate.actions import Action
from twill.simulate.operations import shape_of
from twill.simulate.protocol import HazardError

Thing = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class _Flight:
    """A product in flight."""

    node: str
    reads: frozenset[Thing]
    writes: Thing


@dataclass(slots=True)
class _Group:
    flying: list[_Flight] = field(default_factory=list[_Flight])
    borrowed: dict[tuple[str, int], bool] = field(default_factory=dict[tuple[str, int], bool])
    """Slots between ConsumerWait and ConsumerRelease, and whether they were got in a pipelined loop: those must be given back."""
    assigned: set[Thing] = field(default_factory=set[Thing])
    leaving: set[str] = field(default_factory=set[str])
    """Buffers that stores may still read."""
    partial: set[Thing] = field(default_factory=set[Thing])
    """Registers in which each thread has its own part of a sum."""
    parts: dict[str, int] = field(default_factory=dict[str, int])
    """How far each product under way has been issued."""


def check(program: Program, group: int, actions: Iterable[Action]) -> None:
    """Raises HazardError at the first action that breaks a rule of its group."""
    state = _Group()
    for action in actions:
        _action(program, group, state, action)
    if state.flying:
        raise HazardError(f"group {group} ends with {state.flying[-1].node} in flight")
    for (channel, number), looped in state.borrowed.items():
        if looped:
            raise HazardError(f"group {group} ends without having released tile {number} of {channel}")
    if any(state.parts.values()):
        raise HazardError(f"group {group} ends with a product issued in part")
    if state.leaving:
        raise HazardError(f"group {group} ends while a store may still read {sorted(state.leaving)[0]}")


def _action(program: Program, group: int, state: _Group, action: Action) -> None:
    match action.statement:
        case MmaWait(pending=pending):
            state.flying = state.flying[len(state.flying) - pending :] if pending < len(state.flying) else state.flying
            state.flying = state.flying if pending else []
        case MmaIssue() as issue:
            _issue(program, group, state, action, issue)
        case ConsumerWait(channel=channel, at=at):
            state.borrowed[channel, action.sequence(channel, at.iteration)] = at.iteration.base != "once"
        case ConsumerRelease(channel=channel, at=at):
            if action.iteration(at.iteration) >= 0:
                _consumed(program, group, state, channel, action.sequence(channel, at.iteration))
        case Move(variable=variable, age=age):
            _use(group, state, f"the move of {variable}", [("register", variable, age - 1)], [("register", variable, age)])
        case FinalizeReduction(register=register):
            _use(group, state, "a join", [_register(register)], [_register(register)])
            state.partial.discard(_register(register))
        case SchedulingFence(registers=registers):
            _use(group, state, "a pin", [_register(register) for register in registers], [_register(register) for register in registers])
        case Compute(node=node, reads=reads, writes=writes):
            _read(group, state, action, node, reads)
            _use(group, state, node, _things(action, reads), [_register(write.register) for write in writes])
            _spread(group, state, action, action.statement)
        case InitializeCarried(register=register, source=source):
            _read(group, state, action, "a copy", [Read(0, source)] if source else [])
            _use(group, state, "a copy", [], [_register(register)])
        case ProducerStore(channel=channel, reads=reads):
            _read(group, state, action, f"the put of {channel}", reads)
            _use(group, state, f"the put of {channel}", _things(action, reads), [])
        case ProducerLoad(loads=loads):
            for load in loads:
                _read(group, state, action, "the address of a load", load.reads)
        case StoreTile(reads=reads, buffer=buffer):
            _read(group, state, action, "a store", reads)
            _use(group, state, "a store", _things(action, reads), [])
            _stage(program, group, state, buffer)
        case StoreWait(buffer=buffer):
            state.leaving.discard(buffer)
        case _:
            pass


def _register(register: Register) -> Thing:
    return "register", register.variable, register.age


def _thing(action: Action, place: OperandLocation) -> Thing:
    match place:
        case Register():
            return _register(place)
        case Slot(channel, _, iteration):
            return "slot", channel, action.sequence(channel, iteration)


def _things(action: Action, reads: Iterable[Read]) -> list[Thing]:
    return [_thing(action, read.place) for read in reads]


def _read(group: int, state: _Group, action: Action, what: str, reads: Iterable[Read]) -> None:
    """Everything read is there: slots between ConsumerWait and ConsumerRelease, registers assigned."""
    for kind, name, number in _things(action, reads):
        if kind == "slot" and (name, number) not in state.borrowed:
            raise HazardError(f"group {group}: {what} reads tile {number} of {name} outside of its ConsumerWait and ConsumerRelease")
        if kind == "register" and (kind, name, number) not in state.assigned:
            raise HazardError(f"group {group}: {what} reads {name} (age {number}) before it is assigned")


def _use(group: int, state: _Group, what: str, reads: Iterable[Thing], writes: Iterable[Thing]) -> None:
    """Registers are not touched while a product uses them."""
    written, read = {flight.writes for flight in state.flying}, {thing for flight in state.flying for thing in flight.reads}
    for thing in reads:
        if thing in written:
            raise HazardError(f"group {group}: {what} reads {thing[1]}, which a product in flight writes")
    for thing in writes:
        if thing in written or thing in read:
            raise HazardError(f"group {group}: {what} overwrites {thing[1]}, which a product in flight uses")
        state.assigned.add(thing)


def _spread(group: int, state: _Group, action: Action, compute: Compute) -> None:
    """What is computed from partial sums is one, and is not read outside of the loop before it is joined."""
    spread = compute.partial or any(thing in state.partial for thing in _things(action, compute.reads))
    if spread and action.loop is None:
        raise HazardError(f"group {group}: {compute.node} reads a sum that the threads have not joined")
    for write in compute.writes:
        (state.partial.add if spread else state.partial.discard)(_register(write.register))


def _issue(program: Program, group: int, state: _Group, action: Action, issue: MmaIssue) -> None:
    accumulator = _register(issue.accumulator)
    first = issue.accumulate == "never" or (issue.accumulate == "not_first" and action.iteration(issue.at.iteration) == 0)
    operands = [read for read in issue.reads if read.place != issue.accumulator]
    _read(group, state, action, issue.node, operands)
    _, k = shape_of(program.op(issue.ops[-1]).operands[0].type)
    if not first and accumulator not in state.assigned:
        raise HazardError(f"group {group}: {issue.node} adds to {issue.accumulator.variable} before it is assigned")
    if state.parts.get(issue.node, 0) != issue.begin:
        raise HazardError(f"group {group}: {issue.node} is issued from {issue.begin}, but it has come to {state.parts.get(issue.node, 0)}")
    things = _things(action, operands)
    for flight in state.flying:
        if flight.writes in things or accumulator in flight.reads:
            raise HazardError(f"group {group}: {issue.node} is issued while {flight.node} uses its registers")
    state.parts[issue.node] = issue.end % k
    state.flying.append(_Flight(issue.node, frozenset(things), accumulator))
    state.assigned.add(accumulator)


def _consumed(program: Program, group: int, state: _Group, channel: str, number: int) -> None:
    for flight in state.flying:
        if ("slot", channel, number) in flight.reads:
            raise HazardError(f"group {group} releases tile {number} of {channel} while {flight.node} reads it")
    for buffer in program.buffers:
        if buffer.overlays == channel and buffer.id in state.leaving:
            raise HazardError(f"group {group} releases {channel} while a store reads {buffer.id}, which lies in it")
    state.borrowed.pop((channel, number), None)


def _stage(program: Program, group: int, state: _Group, name: str) -> None:
    buffer = next(buffer for buffer in program.buffers if buffer.id == name)
    for flight in state.flying:
        if buffer.overlays and any(thing[:2] == ("slot", buffer.overlays) for thing in flight.reads):
            raise HazardError(f"group {group} stages in {buffer.overlays} while {flight.node} reads it")
    state.leaving.add(name)
