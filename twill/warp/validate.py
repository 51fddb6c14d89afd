"""Whether a program keeps to the rules that hold for all of its statements together: shared memory, barriers,
warps, registers, roles.

Takes a `Program` and the limits of its machine; gives every complaint, or raises TwillError with the first.
Shares nothing with the code that makes programs; a complaint is a defect of that code. (`simulate` checks
what depends on the order of statements.)
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import prod
from typing import TypeAlias

from twill.diagnostics import DefectError, Location
from twill.ir.channels import Channel, SlotTensor
from twill.ir.effects import effects, registers
from twill.ir.loop import NvmmaShared
from twill.ir.operands import Iteration, Register, Slot
from twill.ir.problem import Limits
from twill.ir.program import Program, WarpProgram
from twill.ir.schedule import WARPGROUP
from twill.ir.statements import (
    SLICES,
    Alternate,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    For,
    If,
    MmaIssue,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
    ProducerStore,
    SlotPhase,
    Statement,
    StoreTile,
    StoreWait,
    TileLoad,
    While,
    inner,
    walk,
)
from twill.warp.channels import LOADED
from twill.warp.slot_tensors import bits

COPIES = (4, 8, 16)
"""Bytes of an asynchronous copy (PTX ISA, cp.async)."""
THROUGH_REGISTERS = (1, 2, 4)
"""Bytes of an access of a load through registers."""
NAMED_BARRIERS = 16
"""Of a thread block, the first for all of its threads (PTX ISA, bar)."""
MOST_BYTES = (1 << 20) - 1
"""That one phase of an mbarrier can expect (PTX ISA, mbarrier.expect_tx: tx-count)."""
ALIGNMENT = 1024
"""Of the base of shared memory: of tiles of 128-byte swizzle (PTX ISA, shared memory matrix layout)."""

Complaint = tuple[str, Location | None]
"""What is wrong, and with which operation."""


def validate(program: Program, limits: Limits) -> None:
    """Raises DefectError for the first complaint."""
    for what, where in complaints(program, limits):
        lines = program.module.text.splitlines()
        text = (
            lines[where.line - 1]
            if where and where.file == program.module.file and where.line <= len(lines)
            else None
        )
        raise DefectError(f"the generated program is wrong: {what}", where, text=text)


def complaints(program: Program, limits: Limits) -> Iterable[Complaint]:
    """Everything that is wrong."""
    yield from _memory(program, limits)
    yield from _named_barriers(program)
    yield from _warps(program, limits)
    yield from _registers(program, limits)
    for channel in program.channels:
        yield from _slots(program, channel)
        yield from _slot_sharing(program, channel)
    for group in program.groups:
        for statement in walk(group.body):
            yield from _statement(program, group, statement)
            for part in inner(statement):
                yield from _sliced(program, part)
    yield from _missing(program)


# --- shared memory ----------------------------------------------------------------------------------------


def _memory(program: Program, limits: Limits) -> Iterable[Complaint]:
    shared, most = program.shared, min(program.shared.limit, limits.shared)
    barriers = (
        shared.barriers,
        shared.barriers + 16 * sum(channel.barriers for channel in _owners(program)),
        "the barriers",
    )
    used, times = _sides(program), _times(program)
    spans = [
        barriers,
        *((c.offset, c.offset + c.depth * c.stride, f"channel {c.id}") for c in _owners(program)),
    ]
    spans += [(b.offset, b.offset + b.bytes, f"buffer {b.id}") for b in program.buffers if b.overlays is None]
    spans.sort()
    for (_, end, one), (begin, _, other) in combinations(spans, 2):
        apart = _exclusive(used.get(one), used.get(other)) or _after(times.get(one), times.get(other))
        if begin < end and not apart:
            yield f"{one} and {other} overlap in shared memory", None
    if spans[0][0] < 0 or max(end for _, end, _ in spans) > shared.bytes:
        yield f"shared memory of {shared.bytes} bytes does not hold {spans[-1][2]}", None
    if shared.bytes + ALIGNMENT > most:
        yield (
            (
                f"{shared.bytes} bytes of shared memory and {ALIGNMENT} to align them are over the limit of"
                f" {most}"
            ),
            None,
        )
    if shared.barriers % 8:
        yield "the barriers are not aligned to 8 bytes", None
    for buffer in program.buffers:
        channel = next((channel for channel in program.channels if channel.id == buffer.overlays), None)
        if buffer.overlays is not None and (
            channel is None or not _inside(buffer.offset, buffer.bytes, channel)
        ):
            yield f"buffer {buffer.id} is not in the slots of {buffer.overlays}", None


_Side: TypeAlias = tuple[int, bool]
"""An `if` outside of loops, by its index, and whether the condition holds there."""


def _exclusive(one: frozenset[_Side] | None, other: frozenset[_Side] | None) -> bool:
    """Whether a thread block that uses one channel does not use the other, which is on another side."""
    return any((branch, not side) in (other or ()) for branch, side in one or ())


def _after(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    """Whether the only group of a program uses one of two channels before the other."""
    return one is not None and other is not None and (one[1] < other[0] or other[1] < one[0])


def _times(program: Program) -> dict[str, tuple[int, int]]:
    """Where a program of one group uses each channel with slots of its own: numbers of its statements, those
    of a loop counting as one."""
    owners = {channel.id: channel.slot_owner for channel in program.channels}
    found = dict[str, tuple[int, int]]()

    def enter(statements: Sequence[Statement], number: int, repeated: bool) -> int:
        for statement in statements:
            number += not repeated
            for name in {f"channel {owners[one]}" for one in _used(statement) if one in owners}:
                found[name] = found.get(name, (number, number))[0], number
            looped = repeated or isinstance(statement, For | While | Pipelined | Alternate)
            for part in inner(statement):
                number = enter(part, number, looped)
        return number

    if len(program.groups) == 1:
        enter(program.groups[0].body, 0, False)
    return found


def _sides(program: Program) -> dict[str, frozenset[_Side]]:
    """The sides on which all statements are that use a channel with slots of its own, in all groups."""
    owners = {channel.id: channel.slot_owner for channel in program.channels}
    owners |= {buffer.id: owners[buffer.overlays] for buffer in program.buffers if buffer.overlays in owners}
    found = dict[str, frozenset[_Side]]()

    def enter(statements: Sequence[Statement], sides: frozenset[_Side], repeated: bool) -> None:
        for statement in statements:
            for name in sorted({f"channel {owners[one]}" for one in _used(statement) if one in owners}):
                found[name] = found.get(name, sides) & sides
            looped = repeated or isinstance(statement, For | While | Pipelined | Alternate)
            for n, part in enumerate(inner(statement)):
                own = {(statement.op, n == 0)} if isinstance(statement, If) and not repeated else set[_Side]()
                enter(part, sides | own, looped)

    for group in program.groups:
        enter(group.body, frozenset(), False)
    return found


def _used(statement: Statement) -> set[str]:
    """The channels and buffers that a statement waits for, fills, reads or releases."""
    what = effects(statement)
    every = (*what.reads, *what.writes, *what.acquires, *what.releases)
    names = {one.channel for one in every if isinstance(one, Slot | SlotPhase)}
    return names | ({statement.buffer} if isinstance(statement, StoreTile) else set[str]())


def _owners(program: Program) -> list[Channel]:
    """The channels whose slots are their own."""
    return [channel for channel in program.channels if channel.slot_owner == channel.id]


def _slot_sharing(program: Program, channel: Channel) -> Iterable[Complaint]:
    """Channels that share slots are alike, and pass tiles from group to group."""
    owner = program.channel(channel.slot_owner)
    alike = replace(channel, id=owner.id, tensors=owner.tensors) == owner
    sizes = [(one.bytes, one.offset) for one in channel.tensors]
    if not alike or sizes != [(one.bytes, one.offset) for one in owner.tensors]:
        yield f"channel {channel.id} is not of the kind of {owner.id}, whose slots it fills", None
    other = channel.alternating or channel.local or channel.multicast or channel.filled_by == "mma"
    if channel.sharers and (channel.id not in channel.sharers or other):
        yield f"channel {channel.id} can not share slots", None
    if channel.by_warpgroup and (channel.depth > len(channel.sharers) or len(channel.consumers) > 1):
        yield f"warpgroups can not fill the slots of channel {channel.id} alternately", None


def _inside(offset: int, size: int, channel: Channel) -> bool:
    return channel.offset <= offset and offset + size <= channel.offset + channel.depth * channel.stride


def _slots(program: Program, channel: Channel) -> Iterable[Complaint]:
    """The tiles of a slot, and who has to do with it."""
    if channel.depth < 1 or channel.offset % ALIGNMENT or channel.stride % ALIGNMENT:
        yield f"the slots of channel {channel.id} are not aligned to {ALIGNMENT} bytes", None
    spans = sorted((tensor.offset, tensor.offset + tensor.bytes, tensor.name) for tensor in channel.tensors)
    if any(begin < end for (_, end, _), (begin, _, _) in pairwise(spans)) or spans[-1][1] > channel.stride:
        yield f"the tiles of channel {channel.id} overlap", None
    for tensor in channel.tensors:
        if tensor.bytes < _bytes(tensor) or tensor.offset % ALIGNMENT:
            yield (
                (
                    f"{tensor.name} of channel {channel.id} is {tensor.bytes} bytes at {tensor.offset}, and"
                    f" needs {_bytes(tensor)}"
                ),
                None,
            )
    known = {group.id for group in program.groups}
    if channel.producer not in known or not channel.consumers or not set(channel.consumers) <= known:
        yield f"channel {channel.id} is of groups that there are not", None


def _bytes(tensor: SlotTensor) -> int:
    return _loaded(tensor) * (tensor.encoding.room if isinstance(tensor.encoding, NvmmaShared) else 1)


def _loaded(tensor: SlotTensor) -> int:
    """Without what pads it."""
    return prod(tensor.part) * bits(tensor.dtype) // 8 // tensor.repeated


# --- warps, registers, named barriers ---------------------------------------------------------------------


def _warps(program: Program, limits: Limits) -> Iterable[Complaint]:
    threads = program.launch.threads
    if threads > 32 * limits.warps:
        yield f"a thread block has {threads} threads, which are more than {32 * limits.warps}", None
    spans = sorted((group.first_warp, group.first_warp + group.warps, group.id) for group in program.groups)
    for (_, end, one), (begin, _, other) in pairwise(spans):
        if begin < end:
            yield f"groups {one} and {other} share warps", None
    narrow = len(program.groups) == 1 and program.launch.even
    if spans[-1][1] > threads // 32 or (threads % 128 and not narrow):
        yield f"a thread block of {threads} threads does not hold all groups in whole warpgroups", None
    for group in program.groups:
        across = group.first_warp // 4 != (group.first_warp + group.warps - 1) // 4
        if (group.warps >= 4 and (group.warps % 4 or group.first_warp % 4)) or (group.warps < 4 and across):
            yield f"group {group.id} does not begin and end with warpgroups", None


def _registers(program: Program, limits: Limits) -> Iterable[Complaint]:
    """Registers are granted to whole warpgroups."""
    entry, step = program.launch.entry_registers, limits.register_step
    if entry * program.launch.threads > limits.registers_total:
        yield (
            (
                f"{entry} registers for each of {program.launch.threads} threads are more than"
                f" {limits.registers_total}"
            ),
            None,
        )
    granted = 0
    for warp in range(0, program.launch.threads // 32, 4):
        own = [
            group.registers
            for group in program.groups
            if group.first_warp < warp + 4 and warp < group.first_warp + group.warps
        ]
        granted += min(128, program.launch.threads - 32 * warp) * max(own, default=entry)
        if any(
            one % step or not limits.narrow_registers <= one <= limits.registers_per_thread for one in own
        ):
            yield f"warps {warp} to {warp + 3} are granted {own} registers", None
    if granted > entry * program.launch.threads:
        yield (
            f"{granted} registers are granted, of {entry * program.launch.threads} of the thread block",
            None,
        )


def _named_barriers(program: Program) -> Iterable[Complaint]:
    """Those of the hand-offs, and one for each group's own warps."""
    numbers = [order.barrier for order in program.orders]
    used = len(numbers) + len(program.groups)
    if used >= NAMED_BARRIERS:
        yield f"{used} named barriers are needed, and there are {NAMED_BARRIERS - 1}", None
    if sorted(numbers) != list(range(1, len(numbers) + 1)):
        yield f"the named barriers of hand-offs have the numbers {numbers}", None
    known = {group.id for group in program.groups}
    for order in program.orders:
        if order.signaller == order.waiter or not {order.signaller, order.waiter} <= known:
            yield f"{order.id} is between groups {order.signaller} and {order.waiter}", None


# --- statements -------------------------------------------------------------------------------------------


def _load(program: Program, group: WarpProgram, statement: ProducerLoad) -> Iterable[Complaint]:
    channel, expected = program.channel(statement.channel), statement.bytes
    where = program.op(statement.loads[-1].ops[-1]).location if statement.loads else None
    whole = sum(map(_loaded, channel.tensors))
    if group.id != channel.producer or channel.filled_by not in LOADED:
        yield f"group {group.id} loads into channel {channel.id} of group {channel.producer}", where
    if any(load.vector not in _widths(channel, load) for load in statement.loads):
        yield f"channel {channel.id} is filled by {channel.filled_by}, and its loads are not", where
    if sorted(load.tensor for load in statement.loads) != list(range(len(channel.tensors))):
        yield f"a slot of channel {channel.id} is not loaded whole", where
    if expected != whole or not 0 < expected <= MOST_BYTES:
        yield f"{expected} bytes are expected in a slot of channel {channel.id} of {whole}", where


def _widths(channel: Channel, load: TileLoad) -> tuple[int, ...]:
    """Bytes of an access, of which a load of a channel may have one."""
    if channel.filled_by == "tma":
        return (0,)
    return COPIES if load.along is None else THROUGH_REGISTERS


def _store(program: Program, group: WarpProgram, statement: ProducerStore) -> Iterable[Complaint]:
    channel = program.channel(statement.channel)
    where = program.op(statement.ops[-1]).location if statement.ops else None
    if group.id != channel.producer or channel.filled_by in LOADED:
        yield f"group {group.id} stores into channel {channel.id} of group {channel.producer}", where
    if len(statement.values) != len(channel.tensors):
        yield f"a slot of channel {channel.id} is not stored whole", where


def _statement(program: Program, group: WarpProgram, statement: Statement) -> Iterable[Complaint]:
    match statement:
        case ProducerLoad():
            yield from _load(program, group, statement)
        case ProducerStore():
            yield from _store(program, group, statement)
        case ConsumerWait(channel=id) | ConsumerRelease(channel=id):
            if group.id not in program.channel(id).consumers:
                yield (
                    f"group {group.id} consumes channel {id} of groups {list(program.channel(id).consumers)}",
                    None,
                )
        case OrderBarrierWait(order=id) | OrderBarrierArrive(order=id):
            order = next((order for order in program.orders if order.id == id), None)
            role = (
                (order.waiter if isinstance(statement, OrderBarrierWait) else order.signaller)
                if order
                else None
            )
            if role != group.id:
                yield f"group {group.id} has the role of group {role} in {id}", None
        case StoreTile(buffer=id) | StoreWait(buffer=id):
            if all(buffer.id != id for buffer in program.buffers):
                yield f"there is no buffer {id}", None
        case _:
            return


def _sliced(program: Program, statements: Sequence[Statement]) -> Iterable[Complaint]:
    """Tiles that are computed in slices are read only as far as they are computed. An operation that
    overwrites what it reads (an accumulator that it rescales) reads of it what is not overwritten yet."""
    made = dict[tuple[Register, Iteration], int]()
    for statement in statements:
        if not isinstance(statement, (Compute, MmaIssue, ProducerStore)):
            continue
        iteration = statement.at.iteration
        through = statement.end if isinstance(statement, Compute) else SLICES
        own = (
            {write.register: statement.begin for write in statement.writes}
            if isinstance(statement, Compute)
            else {}
        )
        for register in registers(effects(statement).reads):
            before = made.get((register, iteration), SLICES)
            if before < through and own.get(register) != before:
                where = program.op(statement.ops[-1]).location if statement.ops else None
                yield f"{register.variable} is read before all of its slices are computed", where
        if isinstance(statement, Compute):
            made |= {(write.register, iteration): statement.end for write in statement.writes}


def _missing(program: Program) -> Iterable[Complaint]:
    """Roles that nobody plays."""
    found = {group.id: list(walk(group.body)) for group in program.groups}
    for channel in program.channels:
        if channel.filled_by != "mma" and not _has(
            found[channel.producer], (ProducerLoad, ProducerStore), channel=_named(program, channel)
        ):
            yield f"nothing fills channel {channel.id}", None
        for group in channel.consumers:
            if not _has(found[group], (ConsumerWait,), channel=channel.id):
                yield f"group {group} never waits for channel {channel.id}", None
    for order in program.orders:
        if not _has(found[order.signaller], (OrderBarrierArrive,), order=order.id):
            yield f"group {order.signaller} never signals {order.id}", None
        if not _has(found[order.waiter], (OrderBarrierWait,), order=order.id):
            yield f"group {order.waiter} never waits for {order.id}", None


def _named(program: Program, channel: Channel) -> str:
    """The channel that a statement of its producer names: of an independent group that of its first
    warpgroup."""
    group = next(group for group in program.groups if group.id == channel.producer)
    if not group.independent or not channel.sharers:
        return channel.id
    number, place = group.warps // WARPGROUP, channel.sharers.index(channel.id)
    return channel.sharers[place - place % number]


def _has(statements: Sequence[Statement], kinds: tuple[type, ...], **fields: str) -> bool:
    return any(
        isinstance(s, kinds) and all(getattr(s, name) == value for name, value in fields.items())
        for s in statements
    )
