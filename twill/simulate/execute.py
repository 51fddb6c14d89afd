"""Warp programs, executed on arrays.

Takes a program, its arguments and a program id; changes the memory as the thread block would. Whatever is
asynchronous happens as late as it may: tiles arrive when a consumer waits for them, MMAs are computed when
their group waits for them, and until then slot and accumulator hold NaN; so a statement that does not wait
computes with NaN.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

import numpy as np

from twill.ir.channels import SlotTensor
from twill.ir.loop import Op, Token, Value
from twill.ir.operands import (
    ONCE,
    Accumulator,
    At,
    Iteration,
    OperandLocation,
    Read,
    Register,
    Slot,
    TensorMemory,
)
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import (
    SLICES,
    Advance,
    Alternate,
    BarrierArrive,
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    FinalizeReduction,
    For,
    If,
    InitializeCarried,
    LocalLoad,
    MbarrierArrival,
    MmaIssue,
    MmaWait,
    Move,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
    ProducerStore,
    SchedulingFence,
    StoreTile,
    StoreWait,
    TensorMemorySync,
    TileLoad,
    While,
    walk,
)
from twill.ops.mma import factors, inputs, product
from twill.ops.table import role
from twill.ops.values import Operand, TensorBuffer, element, rounded, shape_of
from twill.simulate.actions import Action, Outer, unfold_by_values
from twill.simulate.explore import describe
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import Scope, execute
from twill.simulate.operations import run as combined
from twill.simulate.protocol import HazardError, Protocol, State
from twill.simulate.warpgroups import by_warpgroup

Slots = dict[tuple[str, int, int], Operand]
"""What lies in shared memory, by channel, slot and tensor: an array, or a function that gives it when it
arrives."""


Cell = Register | tuple[str, int]
"""An instance of a variable, or a tile of tensor memory with the number of its buffer."""


@dataclass(slots=True)
class _Block:
    """The thread block."""

    program: Program
    scope: Scope
    """The arguments alone."""
    memory: Memory
    grid: Mapping[str, int]
    slots: Slots = field(default_factory=Slots)
    tensor_memory: dict[Cell, TensorBuffer] = field(default_factory=dict[Cell, TensorBuffer])
    arrivals: dict[tuple[str, int], list[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, int], list[tuple[int, int]]]
    )
    """The group, and the number of its MMAs, whose completion arrives on a barrier, by barrier or channel and
    sequence number."""
    groups: "dict[int, _Group]" = field(default_factory=dict[int, "_Group"])


@dataclass(slots=True)
class _Group:
    """One group at work."""

    block: _Block
    warps: WarpProgram
    registers: dict[Cell, Operand] = field(default_factory=dict[Cell, Operand])
    in_flight: list[tuple[Action, MmaIssue]] = field(default_factory=list[tuple[Action, MmaIssue]])
    hidden: dict[Cell, Operand] = field(default_factory=dict[Cell, Operand])
    """Accumulators of MMAs in flight, as they were."""
    issued: int = 0
    """MMAs so far."""
    bounds: dict[tuple[int, int], Register] = field(init=False)
    """Where bounds of loops are kept, by operation and value."""

    def __post_init__(self) -> None:
        loops = (one for one in walk(self.warps.body) if isinstance(one, Pipelined | For))
        reads = [(loop.op, read.value, read.location) for loop in loops for read in loop.bounds]
        self.bounds = {(op, value): kept for op, value, kept in reversed(reads) if isinstance(kept, Register)}


def run(
    program: Program,
    arguments: Mapping[int, Operand],
    memory: Memory,
    grid: Mapping[str, int],
    prefer: tuple[int, ...] = (),
) -> None:
    """Execute one thread block; of the groups that can go on, the first in `prefer` does. Raises HazardError
    and TwillError."""
    program = by_warpgroup(program)
    ops = {op.index: op for op in program.function.walk()}
    block = _Block(program, Scope(ops, arguments, memory, grid), memory, grid)
    protocol = Protocol.of(program)
    groups = block.groups
    groups |= {warps.id: _Group(block, warps) for warps in program.groups}
    streams = {key: _stream(group) for key, group in groups.items()}
    pending = {key: next(stream, None) for key, stream in streams.items()}
    order = [*(key for key in prefer if key in groups), *(key for key in groups if key not in prefer)]
    state = protocol.initial()
    while any(pending.values()):
        key = _next(protocol, state, pending, order)
        action = pending[key]
        assert action is not None
        if protocol.concerns(action):
            state = protocol.after(state, key, action)
        _act(groups[key], action)
        pending[key] = next(streams[key], None)


def _next(protocol: Protocol, state: State, pending: Mapping[int, Action | None], order: list[int]) -> int:
    for key in order:
        action = pending[key]
        if action is not None and (not protocol.concerns(action) or protocol.ready(state, key, action)):
            return key
    waits = "; ".join(f"group {key} at {describe(action)}" for key, action in pending.items() if action)
    raise HazardError(f"deadlock: {waits}")


def _stream(group: _Group) -> Iterator[Action]:
    return unfold_by_values(group.warps.body, partial(_trips, group), lambda branch: _taken(group, branch))


def _trips(group: _Group, loop: Pipelined | For | While, outer: Outer) -> int | None:
    if isinstance(loop, While):
        return None
    values = _scope(group, None, loop.bounds, outer)
    lower, upper, step = (int(values[value.id]) for value in group.block.program.op(loop.op).operands[:3])
    return max(0, -(-(upper - lower) // step))


def _taken(group: _Group, branch: If | While) -> bool:
    values, op = _scope(group, None, [branch.condition] if branch.condition else []), branch.op
    decision = group.block.program.op(op)
    if isinstance(branch, While):
        decision = decision.regions[0].blocks[0].ops[-1]
    return bool(values[decision.operands[0].id])


# --- statements -------------------------------------------------------------------------------------------


def _fill(group: _Group, action: Action, channel: str, iteration: Iteration) -> tuple[str, int]:
    """Whose slots a channel fills, and the number of a fill of it among all fills of these."""
    one = group.block.program.channel(channel)
    return one.slot_owner, one.fill(action.sequence(channel, iteration))


def _slot(group: _Group, action: Action, channel: str, iteration: Iteration) -> tuple[str, int]:
    """Whose slot it is, and which."""
    owner, number = _fill(group, action, channel, iteration)
    return owner, number % group.block.program.channel(channel).depth


def _producer_store(group: _Group, action: Action, it: ProducerStore) -> None:
    slot = _slot(group, action, it.channel, it.at.iteration)
    _acquire(group, action, it.channel, it.at)
    values = _computed(group, action, it.ops, it.reads)
    tensors = group.block.program.channel(it.channel).tensors
    group.block.slots.update(
        {(*slot, i): _rows(tensors[i], values[value]) for i, value in enumerate(it.values)}
    )


def _rows(tensor: SlotTensor, tile: Operand) -> Operand:
    """What a slot holds of a tile."""
    if tensor.first_row is None:
        return tile
    return tile[..., tensor.first_row : tensor.first_row + tensor.shape[-2], :]


def _store_tile(group: _Group, action: Action, it: StoreTile) -> None:
    """A whole tile; or the rows of it that a slot holds."""
    slots = [read.location for read in it.reads if isinstance(read.location, Slot)]
    tensors = [group.block.program.channel(one.channel).tensors[one.tensor] for one in slots]
    tensor = next((one for one in tensors if one.first_row is not None), None)
    if tensor is None:
        _computed(group, action, it.ops, it.reads)
        return
    op, values = group.block.program.op(it.ops[-1]), _computed(group, action, it.ops[:-1], it.reads)
    descriptor, tile, *corner = (values[operand.id] for operand in op.operands)
    corner[-2] = corner[-2] + tensor.first_row
    box = replace(descriptor, block=(*descriptor.block[:-2], *tensor.shape[-2:]))
    values.evaluated(op, [box, tile, *corner])


def _await(group: _Group, pending: int) -> None:
    """Complete MMAs in order until at most `pending` are in flight."""
    while len(group.in_flight) > pending:
        _complete(group, *group.in_flight.pop(0))


def _act(group: _Group, action: Action) -> None:
    match action.statement:
        case Compute() as compute if compute.end - compute.begin < SLICES:
            _slice(group, action, compute)
        case Compute(ops=ops, reads=reads, writes=writes):
            values = _computed(group, action, ops, reads)
            group.registers.update((write.register, values[write.value]) for write in writes)
        case StoreTile() as store:
            _store_tile(group, action, store)
        case InitializeCarried(value=value, source=source, register=register):
            group.registers[register] = _scope(group, action, [Read(value, source)] if source else [])[value]
        case LocalLoad(value=value, source=source, register=register):
            group.registers[register] = _scope(group, action, [Read(value, source)])[value]
        case Move(variable=variable, age=age):
            group.registers[Register(variable, age)] = group.registers.get(Register(variable, age - 1))
        case ProducerLoad() as fill:
            _acquire(group, action, fill.channel, fill.at)
            _producer_load(group, action, fill)
        case ProducerStore() as fill:
            _producer_store(group, action, fill)
        case ConsumerWait(channel=channel, at=at):
            _arrive(group, *_slot(group, action, channel, at.iteration))
        case MmaIssue() as issue:
            _issue(group, action, issue)
        case MmaWait(pending=pending):
            _await(group, pending)
        case BarrierArrive(barrier=name, at=at):
            if any(one.id == name and one.by == "mma" for one in group.block.program.dependences):
                phase = name, action.sequence(name, at.iteration)
                group.block.arrivals.setdefault(phase, []).append((group.warps.id, group.issued))
        case BarrierWait(barrier=barrier) as wait:
            _completed(group, barrier, action.awaited(wait))
        case TensorMemorySync():
            _await(group, 0)
        case (
            FinalizeReduction()
            | SchedulingFence()
            | ConsumerRelease()
            | OrderBarrierWait()
            | OrderBarrierArrive()
            | StoreWait()
        ):
            pass
        case Advance() | Pipelined() | For() | While() | If() | Alternate() as structure:
            raise AssertionError(f"{type(structure).__name__} is unfolded, not executed")
        case _:
            assert_never(action.statement)


def _acquire(group: _Group, action: Action, channel: str, at: At) -> None:
    """MMAs that read what a slot held are complete before it is filled again."""
    owner, number = _fill(group, action, channel, at.iteration)
    _completed(group, owner, number - group.block.program.channel(channel).depth)


def _completed(group: _Group, name: str, number: int) -> None:
    """Compute the MMAs that a wait is for, which come no later than now."""
    for other, count in group.block.arrivals.get((name, number), ()):
        signaller = group.block.groups[other]
        while signaller.in_flight and signaller.issued - len(signaller.in_flight) < count:
            _complete(signaller, *signaller.in_flight.pop(0))


def _scope(group: _Group, action: Action | None, reads: Iterable[Read], outer: Outer = ()) -> Scope:
    """What a statement finds: its reads, the arguments and the induction variables; without an action, those
    of the loops `outer`."""
    values = group.block.scope.emptied()
    for read in reads:
        values[read.value] = _found(group, action, read.location)
    own = ((action.loop, action.number),) if action is not None and action.loop is not None else ()
    for op, count in (*(action.outer if action is not None else outer), *own):
        _induct(group, values, op, count)
    return values


def _induct(group: _Group, values: Scope, index: int, count: int) -> None:
    """The induction variable of a loop in its iteration `count`. Its bounds may be those of the loops around
    it, which are known."""
    op = group.block.program.op(index)
    bounds = group.block.scope.emptied()
    for operand in op.operands[:3]:
        if register := group.bounds.get((index, operand.id)):
            bounds[operand.id] = group.registers[register]
        elif operand.id in values:
            bounds[operand.id] = values[operand.id]
    lower, step = bounds[op.operands[0].id], bounds[op.operands[2].id]
    values[op.regions[0].blocks[0].args[0].id] = np.asarray(
        int(lower) + count * int(step), np.asarray(lower).dtype
    )


def _found(group: _Group, action: Action | None, location: OperandLocation) -> Operand:
    if isinstance(location, TensorMemory):
        return _buffer(group, action, location)
    if isinstance(location, Register):
        if group.registers.get(location) is None:
            name = f"{location.variable} (age {location.age})"
            raise HazardError(f"group {group.warps.id} reads {name} before it is assigned")
        return group.registers[location]
    assert action is not None
    return _value(group, *_slot(group, action, location.channel, location.iteration), location.tensor)


def _cell(group: _Group, action: Action | None, location: Accumulator) -> Cell:
    """A register, or a tile of tensor memory with the number of its buffer."""
    if isinstance(location, Register):
        return location
    tile = next(tile for tile in group.block.program.tensor_memory if tile.id == location.tile)
    number = action.iteration(location.iteration) if action else 0
    if tile.counter and action:
        number = action.sequence(tile.counter, ONCE)
    return tile.id, number % tile.buffers


def _buffer(group: _Group, action: Action | None, location: TensorMemory) -> TensorBuffer:
    return group.block.tensor_memory.setdefault(_cell(group, action, location), TensorBuffer())


def _contents(group: _Group, action: Action, location: Accumulator) -> Operand:
    """What an accumulator holds; None before it is assigned."""
    if isinstance(location, Register):
        return group.registers.get(location)
    return _buffer(group, action, location).contents


def _set_contents(group: _Group, action: Action, location: Accumulator, made: Operand) -> None:
    if isinstance(location, Register):
        group.registers[location] = made
    else:
        _buffer(group, action, location).contents = made


def _value(group: _Group, channel: str, slot: int, tensor: int) -> Operand:
    """What lies in shared memory; NaN where it has not arrived."""
    held = group.block.slots.get((channel, slot, tensor))
    shape = group.block.program.channel(channel).tensors[tensor].shape
    return np.full(shape, np.nan, np.float32) if held is None or callable(held) else held


def _computed(group: _Group, action: Action, ops: tuple[int, ...], reads: Iterable[Read]) -> Scope:
    values = _scope(group, action, reads)
    for index in ops:
        op = group.block.program.op(index)
        values.update((v.id, None) for v in op.operands if isinstance(v.type, Token))
        if role(op) == "tensor_memory_alloc":
            values[op.results[0].id].contents = np.array(values[op.operands[0].id])
        else:
            execute(op, values)
    return values


def _slice(group: _Group, action: Action, compute: Compute) -> None:
    """Some slices of the columns of each result; a reduction combines them with its result so far."""
    values = _scope(group, action, compute.reads)
    for index in compute.ops:
        op = group.block.program.op(index)
        if role(op) == "reduce":
            (source,) = op.operands
            values[source.id] = _columns(values[source.id], compute)
        execute(op, values)
    for write in compute.writes:
        kept = compute.begin or any(read.location == write.register for read in compute.reads)
        new, old = values[write.value], group.registers.get(write.register) if kept else None
        if np.ndim(new) == 1:
            op = group.block.program.op(compute.ops[-1])
            block = op.regions[0].blocks[0]
            operands = {arg.id: value for arg, value in zip(block.args, (old, new), strict=True)}
            group.registers[write.register] = (
                new if old is None else combined(block.ops, operands, group.block.memory, group.block.grid)[0]
            )
        else:
            unset = 0 if new.dtype.kind in "iub" else np.nan
            made = np.full_like(new, unset) if old is None else np.array(old)
            _columns(made, compute)[...] = _columns(new, compute)
            group.registers[write.register] = made


def _columns(tile: Operand, compute: Compute) -> Operand:
    """The slices of a tile that a statement works on."""
    count = tile.shape[1]
    return tile[:, count * compute.begin // SLICES : count * compute.end // SLICES]


def _producer_load(group: _Group, action: Action, fill: ProducerLoad) -> None:
    slot = _slot(group, action, fill.channel, fill.at.iteration)

    def tile(load: TileLoad) -> Callable[[], Operand]:
        result = group.block.program.op(load.ops[-1]).result.id
        values = _computed(group, action, load.ops, load.reads)
        return lambda: values[result]

    group.block.slots.update({(*slot, load.tensor): tile(load) for load in fill.loads})


def _arrive(group: _Group, channel: str, slot: int) -> None:
    for tensor in range(len(group.block.program.channel(channel).tensors)):
        held = group.block.slots.get((channel, slot, tensor))
        if callable(held):
            group.block.slots[channel, slot, tensor] = held()


# --- MMAs -------------------------------------------------------------------------------------------------


def _issue(group: _Group, action: Action, issue: MmaIssue) -> None:
    cell, dot = _cell(group, action, issue.accumulator), group.block.program.op(issue.ops[-1])
    if not _updated(group, cell):
        group.hidden[cell] = _contents(group, action, issue.accumulator)
    shape = shape_of(_accumulated(dot, issue).type)
    _set_contents(group, action, issue.accumulator, np.full(shape, np.nan, np.float32))
    group.in_flight.append((action, issue))
    group.issued += 1
    if isinstance(issue.completion, MbarrierArrival):
        slots = [_fill(group, action, slot.channel, slot.iteration) for slot in issue.completion.slots]
        phases = [
            (phase.barrier, action.sequence(phase.barrier, phase.iteration))
            for phase in issue.completion.barriers
        ]
        for phase in (*slots, *phases):
            group.block.arrivals.setdefault(phase, []).append((group.warps.id, group.issued))


def _accumulated(dot: Op, issue: MmaIssue) -> Value:
    """The accumulator: a buffer, or the result."""
    return dot.operands[2] if isinstance(issue.accumulator, TensorMemory) else dot.result


def _complete(group: _Group, action: Action, issue: MmaIssue) -> None:
    """Compute a part of an MMA from what its operands are now."""
    dot = group.block.program.op(issue.ops[-1])
    values = _scope(group, action, [read for read in issue.reads if read.location != issue.accumulator])
    for index in issue.ops[:-1]:
        execute(group.block.program.op(index), values)
    read = inputs(dot) if isinstance(issue.accumulator, TensorMemory) else dot.operands[:2]
    a, b = factors(dot, [values[operand.id] for operand in read])
    fresh = issue.begin == 0 and (
        issue.accumulate == "never" or (issue.accumulate == "not_first" and action.number == 0)
    )
    part = product(a[:, issue.begin : issue.end], b[issue.begin : issue.end])
    cell = _cell(group, action, issue.accumulator)
    old = np.zeros_like(part) if fresh else group.hidden[cell]
    kind = element(_accumulated(dot, issue).type)
    group.hidden[cell] = part + np.nan if old is None else rounded(part + np.asarray(old, part.dtype), kind)
    if not _updated(group, cell):
        _set_contents(group, action, issue.accumulator, group.hidden[cell])


def _updated(group: _Group, cell: Cell) -> bool:
    """Whether an MMA in flight updates an accumulator."""
    return any(_cell(group, action, issue.accumulator) == cell for action, issue in group.in_flight)
