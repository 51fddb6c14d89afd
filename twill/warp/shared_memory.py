"""Shared memory of a kernel: channels with as many slots as fit, and results staged where nothing is live any
more.

Takes the channels (with the slots that the schedules need) and the tiles to be stored; gives addresses. A
tile is staged in slots that are dead when it is stored: of a tile loaded once that only the storing group
reads, after the last loop that reads it; or, where nothing is loaded after the loop, of a channel that only
the storing group reads. Otherwise it gets a buffer of its own, in as few parts as leave the channels as many
slots as more parts would. A tile that is stored in every iteration is staged in the fewest parts that fit:
each further part costs an iteration a wait for TMA to read the one before, more than another slot of a
channel saves (backward attention on an H200: 39.0 against 32.3 million SM cycles with one part in place of
two). One that another warp stores lies in a slot of a channel, which is its buffer.

What the threads of a group exchange has a scratch buffer. Where they only change layouts, and that after all
loops, it lies in dead slots as well: of a channel that this group alone reads.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from twill.diagnostics import TwillError
from twill.ir.channels import BEHIND, Buffer, Channel, SharedMemory
from twill.ir.loop import NvmmaShared, Op, Tensor, TensorDesc, Value
from twill.ops.mma import inputs
from twill.ops.table import role
from twill.warp.channels import BARRIERS, ChannelPlan, store_buffer
from twill.warp.dataflow import BUFFER_VIEWS, LOAD, STORES, Code, stored_tile
from twill.warp.footprint import Footprint, footprint
from twill.warp.non_loop_code import NonLoopCode, home
from twill.warp.slot_counts import deepen
from twill.warp.slot_tensors import ALIGNMENT, aligned, bits, tile_bytes
from twill.warp.target import Tiles

PARTS = tuple(range(1, 9))
"""In how many parts a tile may be staged."""


@dataclass(frozen=True, slots=True)
class SharedMemoryPlan:
    """Where everything lies."""

    plans: tuple[ChannelPlan, ...]
    channels: tuple[Channel, ...]
    buffers: tuple[Buffer, ...]
    stores: Mapping[int, tuple[str, int]]
    """By the index of a store: buffer and parts."""
    overlaid: Mapping[str, tuple[str, ...]]
    """By channel: the buffers in its slots."""
    memory: SharedMemory


@dataclass(frozen=True, slots=True, eq=False)
class _StagingRequest:
    """A store, and where its tile can lie: slots of a channel with the reason, or None."""

    op: Op
    group: int
    across: int
    """How many warps share the rows of the tile."""
    looped: bool
    plan: ChannelPlan | None = None
    reason: str = ""

    @property
    def bytes(self) -> int:
        return tile_bytes(stored_tile(self.op).shape, stored_tile(self.op).dtype)


def _held(demand: "Demand", op: Op) -> Tensor:
    """The tile that a store writes, as it lies in registers when it leaves."""
    kind = stored_tile(op)
    value = next(value for value in op.operands if value.type == kind)
    while (maker := demand.code.maker(value)) is not None and role(maker) == "layout":
        value = maker.operands[0]
        if not isinstance(value.type, Tensor) or not demand.tiles.leaves(value.type):
            break
        kind = value.type
    return kind


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What needs shared memory, and how much there is."""

    code: Code
    tiles: Tiles
    plans: tuple[ChannelPlan, ...]
    non_loop: NonLoopCode
    stores: Mapping[int, int]
    """By the index of a store inside a scheduled loop: its group."""
    handed: Mapping[int, str]
    """By the index of a store that starts from a slot: its channel."""
    scratch: Mapping[int, int]
    """By group: bytes for exchanges between its threads."""
    exchanging: Mapping[int, tuple[Op, ...]]
    """By group: the operations that need them."""
    limit: int
    """Bytes that a thread block may have."""
    depths: Mapping[str, int]
    """Slots of channels that are given, by name."""
    most: int
    """Slots of the other channels at most."""
    copies: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """Of each group that works on one of several tiles in flight: itself, and the groups that work on the
    others. Each stages in buffers of its own."""
    issuers: Mapping[int, int] = field(default_factory=dict[int, int])
    """By group: another group that issues its MMAs."""
    dead_slots: bool = True
    """Whether slots are dead when a group stores: not where the next tile is loaded meanwhile."""


def layout(demand: Demand) -> SharedMemoryPlan:
    """Raises TwillError where shared memory does not suffice."""
    stores = (op for op in demand.code.ops.values() if op.name in STORES and op.index not in demand.handed)
    lying = footprint(demand.code, demand.plans)
    requests = [_request(demand, lying, op) for op in stores]
    dead = _dead_scratch(demand, lying, requests)
    scratch = {
        group: _beside(demand, group, dead[group].behind) if group in dead else size
        for group, size in demand.scratch.items()
    }
    held = _held_slots(requests, dead)
    plans = tuple(_holding(plan, held.get(plan.slot_owner, 0)) for plan in demand.plans)
    demand = replace(demand, plans=plans, scratch={group: size for group, size in scratch.items() if size})
    own = [request for request in requests if request.plan is None]
    looped = any(request.looped for request in own)
    available = demand.limit - ALIGNMENT
    least = _least(demand, lying)
    best = None
    for parts in PARTS:
        sizes = _own(own, parts, demand)
        needed = least + sum(sizes.values())
        if best is not None and (needed > available or sizes == best[1]):
            continue
        if needed > available and parts < PARTS[-1]:
            continue
        deep = deepen(demand.plans, available - sum(sizes.values()), demand.depths, demand.most, lying)
        if best is None or (not looped and sum(r.depth for r in deep) > sum(r.depth for r in best[0])):
            best = (deep, sizes, parts)
    assert best is not None
    deep, sizes, parts = best
    split = {request: _split(request, parts) for request in own}
    made = _laid_out(deep, lying, sizes, split, requests, demand.limit)
    return _with_handed(_with_scratch(made, dead), demand.handed)


def _held_slots(requests: Sequence[_StagingRequest], dead: Mapping[int, "_DeadScratch"]) -> Mapping[str, int]:
    """By channel: the slots in which stores stage, in as many parts as they can, and scratch lies."""
    held = Counter[str]()
    for request in requests:
        if plan := request.plan:
            held |= Counter({plan.slot_owner: -(-_part(request) // plan.stride)})
    return held | Counter({one.channel: one.slots for one in dead.values()})


def _holding(plan: ChannelPlan, slots: int) -> ChannelPlan:
    """With slots that are never given up, as what lies in them takes as many."""
    depth = max(plan.depth, slots)
    return replace(plan, depth=depth, spare=min(plan.spare, depth - slots))


def _least(demand: Demand, lying: Footprint) -> int:
    """Bytes of the channels with the slots that are given, or that their schedules need."""
    own = [plan for plan in demand.plans if plan.slot_owner == plan.id]
    given = [replace(plan, depth=demand.depths.get(plan.id, plan.depth)) for plan in own]
    return _slots(given, lying)[1] + sum(BARRIERS * plan.barriers for plan in given)


def _slots(plans: Sequence[ChannelPlan], lying: Footprint) -> tuple[dict[str, int], int]:
    """Where the slots of each channel that has its own begin, and where the last ones end."""
    return lying.addresses(
        {plan.id: plan.stride * plan.depth for plan in plans if plan.slot_owner == plan.id}
    )


def _with_handed(plan: SharedMemoryPlan, handed: Mapping[int, str]) -> SharedMemoryPlan:
    """With the slots from which stores start as their buffers."""
    found = dict[str, Buffer]()
    for channel in (one for one in plan.channels if {one.id, one.slot_owner} & set(handed.values())):
        name, size = store_buffer(channel.id), channel.stride * channel.depth
        found[channel.id] = Buffer(name, channel.offset, size, channel.id, "filled for the warp that stores")
    stores = {op: (found[channel].id, 1) for op, channel in handed.items()}
    return replace(plan, buffers=(*plan.buffers, *found.values()), stores={**plan.stores, **stores})


def _split(request: _StagingRequest, parts: int) -> int:
    """How many equal parts of at most `parts` the columns of a tile can be stored in: whole lines of the
    swizzle pattern for every warp."""
    tile = stored_tile(request.op)
    whole = tile.shape[-1] * bits(tile.dtype) // 8 // request.across
    return next(one for one in range(parts, 0, -1) if one == 1 or whole % (one * _line(request.op)) == 0)


def _line(op: Op) -> int:
    """Bytes of a line of the pattern that a store's descriptor has; of one without a swizzle, a whole row."""
    kind = op.operands[0].type
    if not isinstance(kind, TensorDesc) or not isinstance(kind.encoding, NvmmaShared):
        return 1
    return kind.encoding.swizzle_bytes or kind.shape[-1] * bits(kind.dtype) // 8


def _own(requests: Sequence[_StagingRequest], parts: int, demand: Demand) -> dict[str, int]:
    """Bytes of the buffers of their own, one for each group, and of the groups' scratch buffers."""
    sizes = dict[str, int]()
    for group, size in demand.scratch.items():
        if size:
            sizes |= {f"scratch{one}": aligned(size) for one in demand.copies.get(group, (group,))}
    for request in requests:
        size = -(-request.bytes // _split(request, parts) // ALIGNMENT) * ALIGNMENT
        for one in demand.copies.get(request.group, (request.group,)):
            sizes[f"staging{one}"] = max(size, sizes.get(f"staging{one}", 0))
    return sizes


@dataclass(frozen=True, slots=True)
class _DeadScratch:
    """The scratch buffer of a group at the end of dead slots."""

    channel: str
    bytes: int
    slots: int
    """Slots that it takes, with what is staged there."""
    behind: tuple[Op, ...]
    """The operations that exchange there."""
    apart: bool
    """Whether the group has others."""


def _dead_scratch(
    demand: Demand, lying: Footprint, requests: Sequence[_StagingRequest]
) -> Mapping[int, _DeadScratch]:
    """By group: the channel in whose slots its scratch buffer lies, if it has at least as many as that and
    what is staged there take together; or the part of it that only code behind the loops needs."""
    found = dict[int, _DeadScratch]()
    for group, ops in demand.exchanging.items() if demand.dead_slots else ():
        for deeper, plan in product((False, True), demand.plans) if demand.scratch.get(group) else ():
            behind = tuple(op for op in ops if _dead_for(demand.code, lying, plan, group, op))
            staged = max((request.bytes for request in requests if request.plan is plan), default=0)
            size = _needed(demand, behind)
            slots = -(-(aligned(staged) + size) // plan.stride)
            if behind and slots <= _most_slots(demand, group, plan, behind, deeper=deeper):
                found[group] = _DeadScratch(plan.id, size, slots, behind, behind != ops)
                break
    return found


def _most_slots(demand: Demand, group: int, plan: ChannelPlan, behind: Sequence[Op], *, deeper: bool) -> int:
    """Slots that a channel may have for what these operations exchange: those that its schedule needs, or
    that are given, or, if it may be `deeper`, as many as take no more than a scratch buffer of their own
    would; none where that saves nothing."""
    saved = aligned(demand.scratch[group]) - _beside(demand, group, behind)
    given = demand.depths.get(plan.id)
    if saved <= 0:
        return 0
    if given is not None or not deeper:
        return given or plan.depth
    return max(plan.depth, min(plan.depth + saved // plan.stride, demand.most, plan.fills or demand.most))


def _indices(ops: Sequence[Op]) -> tuple[int, ...]:
    return tuple(op.index for op in ops)


def _needed(demand: Demand, ops: Sequence[Op]) -> int:
    """Bytes of a scratch buffer for one of these operations at a time."""
    return aligned(max(map(demand.tiles.scratch, ops), default=0))


def _beside(demand: Demand, group: int, behind: Sequence[Op]) -> int:
    """Bytes of the scratch buffer that a group has beside one for the operations behind its loops: for two
    exchanges, which use halves of it one after the other, where there are several."""
    apart = set(_indices(behind))
    others = [op for op in demand.exchanging[group] if op.index not in apart]
    return min(demand.scratch[group], _needed(demand, others) * min(2, len(others)))


def _dead_for(code: Code, lying: Footprint, plan: ChannelPlan, group: int, op: Op) -> bool:
    """Whether the slots are dead for a group when it executes an operation: it alone reads them, as it has
    waited for every fill, in loops that are over. A change of layout waits for all warps of the group before
    it writes, and so for their last reads: a group whose threads, or whose MMAs that it waits for, read a
    slot. Other operations write at once."""
    homes = home(code)
    sources = [value.producer for use in plan.sources for value in use]
    loops = {homes.get(source) if source is not None else None for source in sources}
    return (
        plan.consumers == (group,)
        and not (plan.once or plan.by_mma or plan.sharers or plan.alternating)
        and all(loop is not None and homes[loop] is None for loop in loops)
        and role(op) == "layout"
        and homes[op.index] is None
        and all(loop is not None and loop < op.index for loop in loops)
        and lying.alone(plan, op)
    )


def _with_scratch(plan: SharedMemoryPlan, dead: Mapping[int, _DeadScratch]) -> SharedMemoryPlan:
    """With the scratch buffers that lie in slots."""
    channels = {channel.id: channel for channel in plan.channels}
    reason = "read by this group alone, which changes layouts after its loop"
    found = list[Buffer]()
    for group, one in dead.items():
        channel = channels[one.channel]
        end = channel.offset + channel.stride * channel.depth
        name, ops = (
            (f"{BEHIND}scratch{group}", _indices(one.behind)) if one.apart else (f"scratch{group}", ())
        )
        found.append(Buffer(name, end - one.bytes, one.bytes, channel.id, reason, ops))
    return replace(plan, buffers=(*plan.buffers, *found))


def _request(demand: Demand, lying: Footprint, op: Op) -> _StagingRequest:
    looped = op.index in demand.stores
    group = demand.non_loop.owner.get(op.index, demand.stores.get(op.index, 0))
    plain = _StagingRequest(op, group, demand.tiles.across(_held(demand, op)), looped)
    if not demand.dead_slots:
        return plain
    plans = [plan for plan in demand.plans if lying.alone(plan, op)]
    for plan in plans if looped else ():
        if plan.holds_one_of(read_by_maker(demand.code, op)) and _after_its_mma(demand, plan, group):
            request = replace(plain, plan=plan, reason="read by the MMA whose result is stored, and no other")
            if _part(request) <= _room(demand, plan):
                return request
    for plan in () if looped else plans:
        if (
            set(plan.consumers) <= {group, demand.issuers.get(group, group)}
            and plan.filled_by == "tma"
            and (reason := _dead(demand.code, plan, op))
            and (home(demand.code)[op.index] is None or _released_by(demand, plan, group))
        ):
            request = replace(plain, plan=plan, reason=reason)
            if _part(request) <= _room(demand, plan):
                return request
    return plain


def _room(demand: Demand, plan: ChannelPlan) -> int:
    """Bytes of the slots that a channel's schedule needs, or that are given."""
    return plan.stride * demand.depths.get(plan.slot_owner, plan.depth)


def _part(request: _StagingRequest) -> int:
    """Bytes of a tile that is staged in as many parts as it can be."""
    return -(-request.bytes // _split(request, PARTS[-1]))


def read_by_maker(code: Code, op: Op) -> tuple[Value, ...]:
    """The tiles in shared memory that the MMA reads whose result a store writes, as it is loaded from tensor
    memory: the MMA is complete when the store has its tile."""
    value = next(value for value in op.operands if isinstance(value.type, Tensor))
    while (maker := code.maker(value)) is not None and role(maker) == "layout":
        value = maker.operands[0]
    if maker is None or role(maker) != "tensor_memory_load" or len(maker.operands) < 2:
        return ()
    mma = code.maker(maker.operands[1])
    if mma is None or role(mma) != "tensor_memory_mma":
        return ()
    return tuple(_unviewed(code, operand) for operand in inputs(mma))


def _unviewed(code: Code, value: Value) -> Value:
    while (maker := code.maker(value)) is not None and role(maker) in BUFFER_VIEWS:
        value = maker.operands[0]
    return value


def _after_its_mma(demand: Demand, plan: ChannelPlan, group: int) -> bool:
    """A group fills the one slot of the channel and stores; that MMA alone reads it."""
    values = [value for use in plan.sources for value in use]
    readers = [user for value in values for user in _mmas(demand.code, value)]
    issuer = demand.issuers.get(group, group)
    own = plan.producer == group and plan.by_mma == (issuer,) and plan.by_threads == ()
    return own and plan.filled_by == "threads" and plan.depth == 1 and len(readers) == 1


def _mmas(code: Code, value: Value) -> Iterator[Op]:
    for user in code.users.get(value.id, ()):
        if role(user) in BUFFER_VIEWS:
            yield from _mmas(code, user.result)
        else:
            yield user


def _released_by(demand: Demand, plan: ChannelPlan, group: int) -> bool:
    """Whether the group that stores releases the channel's only slot, so that the next tile is loaded to it
    once it is stored: a group that issues MMAs for another one does not wait for its stores."""
    return demand.depths.get(plan.id, 1) == 1 and set(plan.consumers) == {group}


def _dead(code: Code, plan: ChannelPlan, op: Op) -> str:
    """Why the channel's slots are dead when the group stores; empty where they may not be."""
    homes = home(code)
    loads = [code.ops[value.producer] for use in plan.sources for value in use if value.producer is not None]
    if any(load.name != LOAD for load in loads):
        return ""
    if plan.once:
        later = [
            other
            for other in code.ops.values()
            if role(other) in ("for", "while")
            and other.index > op.index
            and homes[other.index] == homes[op.index]
        ]
        same = all(homes[load.index] == homes[op.index] and load.index < op.index for load in loads)
        return "loaded once, read by this group alone, whose loops are over" if same and not later else ""
    above = {homes[load.index] for load in loads}
    over = all(loop is not None and loop < op.index and homes[loop] is None for loop in above)
    return (
        "read by this group alone, and nothing is loaded after its loop"
        if over and homes[op.index] is None
        else ""
    )


def _channels(plans: Sequence[ChannelPlan], begins: Mapping[str, int]) -> list[Channel]:
    """The channels at addresses."""
    channels = list[Channel]()
    for plan in plans:
        ends = (plan.id, plan.producer, plan.consumers)
        slots = (plan.depth, plan.tensors, plan.filled_by, begins[plan.slot_owner], plan.stride)
        channels.append(Channel(*ends, *slots, plan.by_mma, plan.by_threads, plan.alternating, plan.sharers))
    return channels


def _laid_out(
    plans: tuple[ChannelPlan, ...],
    lying: Footprint,
    sizes: Mapping[str, int],
    own: Mapping[_StagingRequest, int],
    requests: Sequence[_StagingRequest],
    limit: int,
) -> SharedMemoryPlan:
    """Addresses; `own`: the parts of each store with a buffer of its own."""
    begins, offset = _slots(plans, lying)
    channels = _channels(plans, begins)
    slots = sum(plan.barriers for plan in plans if plan.slot_owner == plan.id)
    buffers = list[Buffer]()
    for name, size in sorted(sizes.items()):
        buffers.append(Buffer(name, offset, size))
        offset += size
    stores = {request.op.index: (f"staging{request.group}", parts) for request, parts in own.items()}
    overlaid = dict[str, tuple[str, ...]]()
    for request in requests:
        if request.plan is None:
            continue
        name, channel = f"{request.plan.id}.staging", next(c for c in channels if request.plan.id == c.id)
        most = channel.stride * channel.depth
        fitting = next(p for p in PARTS if p == _split(request, p) and -(-request.bytes // p) <= most)
        stores[request.op.index] = (name, fitting)
        if request.plan.id not in overlaid:
            buffers.append(Buffer(name, channel.offset, 0, channel.id, request.reason))
            overlaid[request.plan.id] = (name,)
        buffers = [
            replace(b, bytes=max(b.bytes, request.bytes // fitting)) if b.id == name else b for b in buffers
        ]
    total = offset + BARRIERS * slots
    if total > limit - ALIGNMENT:
        raise TwillError(
            f"the kernel needs {total} bytes of shared memory of {limit - ALIGNMENT}",
            help="smaller tiles, or fewer slots",
        )
    return SharedMemoryPlan(
        plans, tuple(channels), tuple(buffers), stores, overlaid, SharedMemory(total, offset, limit)
    )
