"""What the groups of a kernel share, before any of their statements.

Takes a `Design`, which says what each group does; gives a `Plan`: channels, shared memory, code outside of
loops, launch. Raises TwillError for what does not fit or can not be lowered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from twill.ir.loop import GRID
from twill.ir.program import Launch
from twill.ir.schedule import Group as Granted
from twill.ops.table import role
from twill.warp import multicast, pairs, thread_block, tiles_in_flight
from twill.warp.block_memory import block_memory
from twill.warp.channels import ChannelPlan, distinct, merged, of_loop
from twill.warp.dataflow import STORES
from twill.warp.deferred_reductions import deferred_reductions
from twill.warp.kernel import Kernel
from twill.warp.non_loop_code import NonLoopCode, plan_non_loop_code
from twill.warp.plan import Design, Plan, claims_tiles, loader
from twill.warp.residency import (
    sharing,
)
from twill.warp.shared_memory import SharedMemoryPlan
from twill.warp.shared_slots import with_shared_slots
from twill.warp.stored_before import around_loops, between, ordering, stored_by_several
from twill.warp.tasks import Scheduled, Task

_Inside: TypeAlias = Sequence[tuple[Scheduled, tuple[Task, ...]]]
"""The loops with their tasks."""


def planned(design: Design) -> Plan:
    """Channels, shared memory and the code outside of loops, for groups with their tasks."""
    code, options, parts = design.code, design.options, design.parts
    inside = [(part.scheduled, part.tasks) for part in parts]
    non_loop = _outside(design, inside)
    channels, stored, handed = _passed_on(design, inside, non_loop)
    order = _store_order(design, non_loop)
    memory, blocks, by_tma = block_memory(
        design, channels, non_loop, stored, handed, synchronized=order.needed
    )
    granted = sharing(design.granted, parts[0].scheduled, blocks)
    return Plan(
        code.module,
        _kernel(design, memory),
        parts,
        granted,
        non_loop,
        memory,
        deferred_reductions(code, inside),
        _launch(design, granted, blocks),
        by_tma,
        tiles=design.tiles,
        independent=design.independent,
        pairs=options.pairs,
        cluster=options.cluster,
        even=_even(design, channels),
        claiming=_claiming(design),
        alternate=options.alternate,
        synchronized=tuple(group.id for group in granted) if order.several else (),
        entered=frozenset(part.scheduled.loop.op.index for part in parts) if order.several else frozenset(),
        orders_stores=order.needed,
        between=order.between,
    )


def _outside(design: Design, inside: _Inside) -> NonLoopCode:
    groups, fillers = [group.id for group in design.granted], _fillers(design)
    loads = loader(design.parts, design.granted)
    return plan_non_loop_code(design.code, inside, groups, loads, design.epilogue, fillers)


def _passed_on(
    design: Design, inside: _Inside, non_loop: NonLoopCode
) -> tuple[tuple[ChannelPlan, ...], Mapping[int, int], Mapping[int, str]]:
    """The channels of the kernel; the group of each store in a loop, and the channel of one that leaves from
    its slots."""
    channels = _channels(design, inside, non_loop)
    stored, handed = _stores(design, channels)
    channels, own = _in_flight(design, channels), design.independent
    if own is None:
        return channels, stored, handed
    by_warps = {op: names[0] for op, names in own.stores.items()}
    return (*channels, *own.channels), stored, {**handed, **by_warps}


def _channels(design: Design, inside: _Inside, non_loop: NonLoopCode) -> tuple[ChannelPlan, ...]:
    """The channels of the loops and of the code outside of them, as the target uses them."""
    code, target, multistage = design.code, design.target, bool(design.options.multistage)
    channels = distinct((*non_loop.channels, *merged(of_loop(code, *pair, multistage) for pair in inside)))
    if target.completion == "commit group":
        channels = tuple(replace(channel, by_mma=(), by_threads=None) for channel in channels)
    for scheduled, tasks in inside if design.share_slots else ():
        channels = with_shared_slots(code, scheduled, tasks, channels, design.share_slots or "stored")
    if design.options.pairs:
        if target.accumulators != "tensor memory":
            what = f"{target.name} has no MMAs of pairs of thread blocks"
            raise code.refuse(what, design.parts[0].scheduled.loop.op)
        channels = pairs.halved(code, channels, inside)
    if design.options.cluster > 1:
        channels = multicast.shared(code, _without_dynamic(design, channels))
    return channels


def _without_dynamic(design: Design, channels: tuple[ChannelPlan, ...]) -> tuple[ChannelPlan, ...]:
    """The channels of a kernel that can have clusters. Raises TwillError for one that can not."""
    code, loop = design.code, design.parts[0].scheduled.loop.op
    if design.target.accumulators == "tensor memory":
        raise code.refuse(
            f"{design.target.name} shares loads by MMAs of pairs", loop, help="give --pairs, not --cluster"
        )
    if design.options.dynamic:
        raise code.refuse(
            "thread blocks that claim tiles one by one can not share loads", loop, help="leave --dynamic away"
        )
    return channels


def _even(design: Design, channels: tuple[ChannelPlan, ...]) -> tuple[int, ...]:
    """What has to be even for what the thread blocks share."""
    if design.options.pairs:
        return pairs.assumptions(design.code)
    return multicast.assumptions(design.code, channels) if design.options.cluster > 1 else ()


def _in_flight(design: Design, channels: tuple[ChannelPlan, ...]) -> tuple[ChannelPlan, ...]:
    """The channels with slots for the tile that is loaded ahead, and for each copy of a group."""
    if design.ahead is not None:
        channels = tiles_in_flight.loaded_ahead(design.code, channels, design.ahead) or channels
    if design.tiles is not None:
        channels = tiles_in_flight.channels(design.code, channels, design.tiles)
    return channels


def _stores(design: Design, channels: tuple[ChannelPlan, ...]) -> tuple[Mapping[int, int], Mapping[int, str]]:
    """The group of each store in a loop, and the channel of one that leaves from its slots."""
    code, every = design.code, [task for part in design.parts for task in part.tasks]
    stores = [task for task in every if code.ops[task.ops[-1]].name in STORES]
    handed = {task.ops[-1]: channel for task in stores for channel in _slots_read(task, channels)}
    return {task.ops[-1]: task.group for task in stores}, handed


def _slots_read(store: Task, channels: Iterable[ChannelPlan]) -> Iterable[str]:
    """The channels between groups from which a store reads its tile."""
    for channel in channels:
        read = any(channel.holds(leaf.source) is not None for leaf in store.leaves)
        if read and channel.filled_by == "threads" and store.group in channel.consumers:
            yield channel.id


def _kernel(design: Design, memory: SharedMemoryPlan) -> Kernel:
    return Kernel(
        design.code,
        design.target,
        memory.plans,
        design.names,
        memory.stores,
        design.options.settings,
        memory.overlaid,
        multistage=bool(design.options.multistage),
    )


def _launch(design: Design, granted: Sequence[Granted], blocks: int) -> Launch:
    """Of the groups and of the warps that are added to them."""
    tiles, own = design.tiles, design.independent
    added = (*(tiles.added if tiles else ()), *((own.storing,) if own else ()))
    launch = thread_block.launch((*granted, *added), design.parts[0].scheduled, blocks)
    return replace(launch, even=bool(design.options.multistage))


@dataclass(frozen=True, slots=True)
class _StoreOrder:
    """What keeps stores of several groups in the order of the TTGIR."""

    several: bool
    """All groups synchronize before and behind the loops."""
    between: frozenset[int]
    """Before these stores outside of loops, by index, they do too."""
    needed: bool


def _store_order(design: Design, non_loop: NonLoopCode) -> _StoreOrder:
    code, parts = design.code, design.parts
    storing = {task.ops[-1]: task.group for part in parts for task in part.tasks}
    scheduled = [part.scheduled.loop for part in parts]
    several = stored_by_several(code, storing, non_loop.owner) or around_loops(code, scheduled)
    ordered = between(code, non_loop.owner, (loop.op.index for loop in scheduled))
    return _StoreOrder(several, ordered, several or bool(ordered or ordering(code, scheduled)))


def _fillers(design: Design) -> Mapping[int, int]:
    """The group that stages tiles before the loops, by group that reads these and holds no tiles: one that
    issues MMAs alone."""
    narrow = (group.id for group in design.granted if thread_block.only_moves(group))
    wide = any(group.id == design.epilogue and not thread_block.only_moves(group) for group in design.granted)
    return dict.fromkeys(narrow, design.epilogue) if wide else {}


def _claiming(design: Design) -> int | None:
    """The loop over tiles of a kernel made persistent. Raises TwillError where there is none."""
    code = design.code
    if not claims_tiles(design.options, code):
        return None
    loop = design.parts[0].scheduled.loop.op
    if not any(GRID in attributes for attributes in code.function.arg_attributes):
        raise code.refuse("only a kernel made persistent can claim its tiles", loop, help="give --persistent")
    assert code.function.body
    return next(op.index for op in code.function.body.blocks[0].ops if role(op) == "for")
