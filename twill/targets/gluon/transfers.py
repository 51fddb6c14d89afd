"""Channels, hand-offs and barriers: how tiles pass between groups, as lines of Gluon."""

from twill.diagnostics import TwillError
from twill.ir.channels import Channel
from twill.ir.loop import Op, Tensor
from twill.ir.operands import Iteration, Slot
from twill.ir.program import WarpProgram
from twill.ir.statements import (
    BarrierWait,
    MmaIssue,
    ProducerLoad,
    ProducerStore,
    TileLoad,
    walk,
)
from twill.ops.axis_info import AxisAnalysis, element_bytes
from twill.ops.pointer_loads import WIDTHS, bounds_of_copies
from twill.ops.table import role
from twill.targets.gluon.emitter import Emitter, descriptor
from twill.targets.gluon.scope import (
    DRAIN,
    File,
    counter,
    empty,
    full,
    iteration,
    number,
)

SYNC, SYNC_COUNT = "tensor_sync", "tensor_sync_count"
"""The mbarrier on which all groups that use tensor memory synchronize, and how often a group has."""


def producer_load(emitter: Emitter, it: ProducerLoad) -> list[str]:
    """Tiles from global memory to a slot of a channel."""
    channel = emitter.file.program.channel(it.channel)
    barrier = emitter.barrier(full(it.channel), it.channel, it.at.iteration)
    lines = [
        emitter.comment(it.at.cycle, it.at.stage, it.loads[-1].ops, f"load {it.channel}"),
        f"producer_acquire({empty(it.channel)}, {emitter.arguments(it.channel, it.at.iteration)})",
    ]
    if not by_copies(emitter.file, channel):
        lines.append(f"mbarrier.expect({barrier}, {it.bytes})")
        return [*lines, *(line for load in it.loads for line in _tile(emitter, it, load, barrier))]
    copied = [line for load in it.loads for line in _copy(emitter, it, load)]
    return [*lines, *copied, f"async_copy.mbarrier_arrive({barrier}, increment_count=False)"]


def _tile(emitter: Emitter, it: ProducerLoad, load: TileLoad, barrier: str) -> list[str]:
    scope = emitter.begin(load.reads, it.at.iteration)
    *before, op = (emitter.file.program.op(index) for index in load.ops)
    for one in before:
        scope.execute(one)
    corner = ", ".join(scope.text(value) for value in op.operands[1:])
    slot = Slot(it.channel, load.tensor, it.at.iteration)
    into = scope.slot(slot, number(it.channel, it.at.iteration, emitter.trips))
    return [*scope.lines, f"tma_load({descriptor(emitter.file, op)}, [{corner}], {barrier}, {into})"]


def _copy(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> list[str]:
    """Asynchronous copies by every thread of the group; where the mask is false they write zeros. A tile
    that passes through registers is loaded and stored, and one of whose copies a mask may leave out the last
    narrow elements, which Gluon does not copy."""
    scope = emitter.begin(load.reads, it.at.iteration)
    *before, op = (emitter.file.program.op(index) for index in load.ops)
    if not isinstance(op.result.type, Tensor):
        raise emitter.file.refuse(op, "of a number into a channel is not exported")
    for one in before:
        scope.execute(one)
    slot = Slot(it.channel, load.tensor, it.at.iteration)
    into = scope.slot(slot, number(it.channel, it.at.iteration, emitter.trips))
    if load.along is not None or _in_part(emitter, op, load.vector):
        scope.execute(op)
        return [*scope.lines, f"{into}.store({scope.values[op.result.id]})", "fence_async_shared()"]
    given = ", ".join(scope.text(value) for value in op.operands[:2])
    return [*scope.lines, f"copy_async({into}, {given})"]


def _in_part(emitter: Emitter, op: Op, vector: int) -> bool:
    """Whether a mask may leave out the last elements of a copy, which are too narrow for copies of their
    own."""
    narrow = element_bytes(op.operands[0].type) < min(WIDTHS)
    return narrow and bool(bounds_of_copies(AxisAnalysis(emitter.file.program.function), op, vector))


def producer_store(emitter: Emitter, it: ProducerStore) -> list[str]:
    """Tiles that a group computed, to a slot of a channel."""
    scope = emitter.begin(it.reads, it.at.iteration)
    for index in it.ops:
        scope.execute(emitter.file.program.op(index))
    lines = [
        f"# cycle {it.at.cycle}, stage {it.at.stage}: store {it.node} to {it.channel}",
        f"producer_acquire({empty(it.channel)}, {emitter.arguments(it.channel, it.at.iteration)})",
        *scope.lines,
    ]
    for position, value in enumerate(it.values):
        slot = Slot(it.channel, position, it.at.iteration)
        into = scope.slot(slot, number(it.channel, it.at.iteration, emitter.trips))
        lines.append(f"{into}.store({scope.values[value]})")
    barrier = emitter.barrier(full(it.channel), it.channel, it.at.iteration)
    return [*lines, "fence_async_shared()", f"mbarrier.arrive({barrier}, count=1)"]


def consumer_wait(emitter: Emitter, channel: str, where: Iteration) -> list[str]:
    """Copies write through the generic proxy; the tensor core reads through the asynchronous one."""
    one = emitter.file.program.channel(channel)
    fenced = by_copies(emitter.file, one) and any(tensor.encoding is not None for tensor in one.tensors)
    wait = f"consumer_wait({full(channel)}, {emitter.arguments(channel, where)})"
    return [wait, "fence_async_shared()"] if fenced else [wait]


def consumer_release(emitter: Emitter, channel: str, where: Iteration) -> list[str]:
    """The slot may be filled again."""
    text = f"mbarrier.arrive({emitter.barrier(empty(channel), channel, where)}, count=1)"
    condition = emitter.exists(where)
    return [f"if {condition}:", f"    {text}"] if condition else [text]


def order_wait(emitter: Emitter, order: str) -> list[str]:
    """Wait until another group hands over the tensor core."""
    one = next(one for one in emitter.file.program.orders if one.id == order)
    flip = " ^ 1" if one.signalled else ""
    return [f"mbarrier.wait({order}, ({order}_waits & 1){flip})", f"{order}_waits += 1"]


def dependence_wait(emitter: Emitter, it: BarrierWait) -> list[str]:
    """For an iteration that there is."""
    one = next(one for one in emitter.file.program.dependences if one.id == it.barrier)
    phase, condition = number(it.barrier, it.awaited, emitter.trips), emitter.exists(it.awaited)
    if emitter.predicated and it.awaited.offset < it.at.iteration.offset:
        condition = f"i >= {it.awaited.offset}" if it.awaited.offset > 0 else ""
        last = f"gl.minimum({iteration(it.awaited, emitter.trips)}, {emitter.trips} - 1)"
        phase = f"{counter(it.barrier)} + {last}"
    slot, parity = f"({phase}) % {one.depth}", f"(({phase}) // {one.depth}) & 1"
    wait = f"mbarrier.wait({it.barrier}.index({slot}), {parity})"
    return [f"if {condition}:", f"    {wait}"] if condition else [wait]


def tensor_memory_sync(emitter: Emitter) -> list[str]:
    """The MMAs of this group are complete, then the groups synchronize."""
    if not emitter.file.program.tensor_memory:
        raise TwillError(
            "a barrier behind a store can not be exported: Gluon has no fence for global memory",
            emitter.file.program.function.location,
            help="generate CUDA with twill codegen",
        )
    lines, phase = list[str](), f"{SYNC_COUNT} & 1"
    if any(isinstance(one, MmaIssue) for one in walk(emitter.group.body)):
        drain = drained(emitter.group)
        lines = [f"tcgen05_commit({drain})", f"mbarrier.wait({drain}, {phase})"]
    arrive = [f"mbarrier.arrive({SYNC}, count=1)", f"mbarrier.wait({SYNC}, {phase})"]
    return [*lines, *arrive, f"{SYNC_COUNT} += 1"]


def by_copies(file: File, channel: Channel) -> bool:
    """Whether the threads of a group fill a channel by asynchronous copies: also rows that CUDA's bulk copies
    would load through a pointer, which Gluon does not have. Raises TwillError for a channel that is filled
    through descriptors too."""
    loads = [
        file.program.op(load.ops[-1])
        for group in file.program.groups
        for one in walk(group.body)
        if isinstance(one, ProducerLoad) and one.channel == channel.id
        for load in one.loads
    ]
    through_pointers = [op for op in loads if role(op) == "pointer_load"]
    if through_pointers and len(through_pointers) < len(loads):
        raise file.refuse(through_pointers[0], "beside loads through descriptors is not exported")
    return bool(through_pointers)


def drained(group: WarpProgram) -> str:
    """The mbarrier on which all MMAs of a group are waited for."""
    return f"{DRAIN}{group.id}"
