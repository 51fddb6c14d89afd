"""Shared memory of a kernel: rings as deep as it allows, and results staged where nothing lives any more.

Takes the rings (with the slots that the schedules need) and the tiles to be stored; gives addresses. A tile is staged in slots that are
dead when it is stored: of a tile loaded once that only the storing group reads, after the last loop that reads it; or, where nothing is
loaded after the loop, of a ring that only the storing group reads. Otherwise it gets a buffer of its own, in as few parts as leave the
rings as deep as more parts would. A tile that is stored in every iteration is staged in the fewest parts that fit: each further part
costs an iteration a wait for TMA to read the one before, more than another slot of a channel saves (backward attention on an H200: 39.0
against 32.3 million SM cycles with one part in place of two).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from twill.diagnostics import TwillError
from twill.ir.loop import NvmmaShared, Op, Tensor, TensorDesc
from twill.ir.program import Buffer, Channel, SharedMemory
from twill.targets.hopper.fragments import layout as layout_of
from twill.warp.channels import ALIGNMENT, ChannelPlan, bits, deepen, tile_bytes
from twill.warp.dataflow import LOAD, STORES, Code
from twill.warp.non_loop_code import Outside, home

SPARE = 2048
"""Bytes set aside for barriers and for the alignment of the base."""


@dataclass(frozen=True, slots=True)
class SharedMemoryPlan:
    """Where everything lies."""

    rings: tuple[ChannelPlan, ...]
    channels: tuple[Channel, ...]
    buffers: tuple[Buffer, ...]
    stores: Mapping[int, tuple[str, int]]
    """By the index of a store: buffer and parts."""
    overlaid: Mapping[str, tuple[str, ...]]
    """By ring: the buffers in its slots."""
    memory: SharedMemory


@dataclass(frozen=True, slots=True)
class _Want:
    """A store, and where its tile can lie: slots of a ring with the reason, or None."""

    op: Op
    group: int
    ring: ChannelPlan | None
    reason: str
    looped: bool

    @property
    def bytes(self) -> int:
        return tile_bytes(_tile(self.op).shape, _tile(self.op).dtype)


def _tile(op: Op) -> Tensor:
    return next(value.type for value in op.operands if isinstance(value.type, Tensor))


def layout(
    code: Code,
    rings: tuple[ChannelPlan, ...],
    outside: Outside,
    loops: Mapping[int, int],
    scratch: Mapping[int, int],
    limit: int,
    given: Mapping[str, int],
    most: int,
) -> SharedMemoryPlan:
    """`loops`: by the index of a store inside a scheduled loop, its group. `scratch`: bytes for exchanges inside each group.

    Raises TwillError where shared memory does not suffice."""
    wants = [_want(code, rings, op, outside.owner.get(op.index, loops.get(op.index, 0)), op.index in loops) for op in _stores(code)]
    inside = {want.op.index: want for want in wants if want.ring is not None}
    own = [want for want in wants if want.ring is None]
    looped = any(want.looped for want in own)
    room = limit - SPARE
    best = None
    for parts in (1, 2, 4, 8):
        sizes = _own(own, parts, scratch)
        needed = sum(-(-ring.stride * ring.depth) for ring in rings) + sum(sizes.values())
        if best is not None and (needed > room or sizes == best[1]):
            continue
        if needed > room and parts < 8:
            continue
        deep = deepen(rings, room - sum(sizes.values()), given, most)
        if best is None or (not looped and sum(r.depth for r in deep) > sum(r.depth for r in best[0])):
            best = (deep, sizes, parts)
    assert best is not None
    return _placed(best[0], best[1], best[2], own, inside, limit)


def _stores(code: Code) -> list[Op]:
    return [op for op in code.ops.values() if op.name in STORES]


def _split(op: Op, parts: int) -> int:
    """How many parts of at most `parts` the columns of a tile can be stored in: whole lines of the swizzle pattern for every warp."""
    tile = _tile(op)
    whole = tile.shape[-1] * bits(tile.dtype) // 8 // layout_of(tile).across
    while parts > 1 and whole % (parts * _line(op)):
        parts //= 2
    return parts


def _line(op: Op) -> int:
    """Bytes of a line of the pattern that a store's descriptor has."""
    kind = op.operands[0].type
    encoding = kind.encoding if isinstance(kind, TensorDesc) else None
    return encoding.swizzle_bytes if isinstance(encoding, NvmmaShared) else 1


def _own(wants: Sequence[_Want], parts: int, scratch: Mapping[int, int]) -> dict[str, int]:
    """Bytes of the buffers of their own, one for each group, and of the groups' scratch rooms."""
    sizes = {f"scratch{group}": -(-size // ALIGNMENT) * ALIGNMENT for group, size in scratch.items() if size}
    for want in wants:
        size = -(-want.bytes // _split(want.op, parts) // ALIGNMENT) * ALIGNMENT
        sizes[f"staging{want.group}"] = max(size, sizes.get(f"staging{want.group}", 0))
    return sizes


def _want(code: Code, rings: tuple[ChannelPlan, ...], op: Op, group: int, looped: bool) -> _Want:
    for ring in () if looped else rings:
        if ring.consumers == (group,) and ring.by_tma and (reason := _dead(code, ring, op)):
            room = ring.stride * ring.depth
            want = _Want(op, group, ring, reason, looped)
            if room * _split(op, 8) >= want.bytes:
                return want
    return _Want(op, group, None, "", looped)


def _dead(code: Code, ring: ChannelPlan, op: Op) -> str:
    """Why the ring's slots are dead when the group stores; empty where they may not be."""
    homes = home(code)
    loads = [code.ops[value.producer] for place in ring.sources for value in place if value.producer is not None]
    if any(load.name != LOAD for load in loads):
        return ""
    if ring.once:
        later = [
            other
            for other in code.ops.values()
            if other.name == "scf.for" and other.index > op.index and homes[other.index] == homes[op.index]
        ]
        same = all(homes[load.index] == homes[op.index] and load.index < op.index for load in loads)
        return "loaded once, read by this group alone, whose loops are over" if same and not later else ""
    above = {homes[load.index] for load in loads}
    over = all(loop is not None and loop < op.index and homes[loop] is None for loop in above)
    return "read by this group alone, and nothing is loaded after its loop" if over and homes[op.index] is None else ""


def _placed(
    rings: tuple[ChannelPlan, ...], sizes: Mapping[str, int], parts: int, own: Sequence[_Want], inside: Mapping[int, _Want], limit: int
) -> SharedMemoryPlan:
    offset, channels = 0, list[Channel]()
    for ring in rings:
        channels.append(Channel(ring.id, ring.producer, ring.consumers, ring.depth, ring.tensors, ring.by_tma, offset, ring.stride))
        offset += ring.stride * ring.depth
    buffers = list[Buffer]()
    for name, size in sorted(sizes.items()):
        buffers.append(Buffer(name, offset, size))
        offset += size
    stores = {want.op.index: (f"staging{want.group}", _split(want.op, parts)) for want in own}
    overlaid = dict[str, tuple[str, ...]]()
    for want in inside.values():
        assert want.ring is not None
        name, channel = f"{want.ring.id}.staging", next(c for c in channels if want.ring.id == c.id)
        fitting = next(p for p in (1, 2, 4, 8) if -(-want.bytes // p) <= channel.stride * channel.depth)
        stores[want.op.index] = (name, fitting)
        if want.ring.id not in overlaid:
            buffers.append(Buffer(name, channel.offset, 0, channel.id, want.reason))
            overlaid[want.ring.id] = (name,)
        buffers = [replace(b, bytes=max(b.bytes, want.bytes // fitting)) if b.id == name else b for b in buffers]
    total = offset + 16 * sum(channel.depth for channel in channels)
    if total > limit - ALIGNMENT:
        raise TwillError(f"the kernel needs {total} bytes of shared memory of {limit - ALIGNMENT}", help="smaller tiles, or fewer slots")
    return SharedMemoryPlan(rings, tuple(channels), tuple(buffers), stores, overlaid, SharedMemory(total, offset, limit))
