"""Pairs of thread blocks: two neighbours along x whose MMAs are one of twice the rows (cta_group::2).

Each block of a pair executes a program of its own. Their MMAs have the same B, of which each block loads
half; the first block issues them for both. What else both need of a tile that MMAs alone read, such as the
scale factors of B, which lie in the tensor memory of both, is loaded half by each block and multicast to both
(`twill.warp.multicast`). All of it is right where B, and how often each loop runs, is the same
in both programs (`twill.warp.parity` shows it); the launcher refuses numbers of tiles that it takes for even.
Raises TwillError, with the operation, where it can not be shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from twill.ir.loop import NvmmaShared, Op, TensorDesc, Value
from twill.ops.mma import inputs
from twill.ops.table import role
from twill.ops.values import shape_of
from twill.warp import multicast, parity
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import BUFFER_VIEWS, LOAD, MMAS, Code
from twill.warp.parity import COMMON, Parity, differing, parents, parities
from twill.warp.slot_tensors import ALIGNMENT, bits
from twill.warp.tasks import Scheduled, Task


@dataclass(frozen=True, slots=True, eq=False)
class _Checked:
    """A kernel whose MMAs become those of pairs."""

    code: Code
    found: Mapping[int, Parity]
    parents: Mapping[int, Op]
    """By operation: the one around it."""


def halved(
    code: Code, channels: Sequence[ChannelPlan], loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]
) -> tuple[ChannelPlan, ...]:
    """The channels, with half of each B in the slots. Raises TwillError where the MMAs of a kernel can not be
    those of pairs."""
    inside = {index for _, tasks in loops for task in tasks for index in task.ops}
    for op in (one for one in code.ops.values() if one.name in MMAS and one.index not in inside):
        raise code.refuse("an MMA outside of the scheduled loops can not be that of a pair", op)
    even = frozenset(assumptions(code))
    axes = _axes(code, even)
    _only_as_b(code, axes)
    made = tuple(_halved(code, one, axes) if one.by_mma else one for one in channels)
    return _multicast(code, made, axes, even)


def _multicast(
    code: Code, channels: tuple[ChannelPlan, ...], axes: Mapping[int, int], even: frozenset[int]
) -> tuple[ChannelPlan, ...]:
    """The channels, with the axis along which tiles are divided that both blocks need whole. MMAs release
    their slots in both blocks at once, so that either block may fill those of the other."""
    own = [one for one in channels if one.by_mma and one.by_threads == ()]
    found = multicast.common(code, own, even)
    whole = {value: axis for value, axis in found.items() if value not in axes}
    return tuple(multicast.divided(one, whole) if one in own else one for one in channels)


def halved_loads(code: Code) -> frozenset[int]:
    """The loads, by `Op.index`, of which each block of a pair executes half: those of B. Raises TwillError
    as `halved`."""
    axes = _axes(code, frozenset(assumptions(code)))
    return frozenset(v.producer for v in _values(code) if v.id in axes and v.producer is not None)


def assumptions(code: Code) -> tuple[int, ...]:
    """Numbers, by value id, that must be even so that it can be shown that the programs of a pair have the
    same B (`parity.assumptions`). Raises TwillError where none suffice."""
    return parity.assumptions(code, lambda even: _axes(code, even))


def _axes(code: Code, even: frozenset[int]) -> dict[int, int]:
    """Along which axis each tile is halved, by the id of the loaded value."""
    checked, axes = _Checked(code, parities(code, even), parents(code)), dict[int, int]()
    for op in (one for one in code.ops.values() if one.name in MMAS):
        _runs_alike(checked, op)
        value, axis = _loaded_b(checked, op)
        axes[value.id] = axis
    return axes


def _runs_alike(checked: _Checked, op: Op) -> None:
    """All that is around it is executed equally often in both programs."""
    if (around := differing(op, checked.found, checked.parents)) is not None:
        raise checked.code.refuse(
            "both thread blocks of a pair must execute it equally often, which can not be shown", around
        )


ROWS = 128
"""With fewer, the rows of a pair's accumulator lie in other lanes than those of one thread block's (PTX ISA,
tcgen05 data path layouts)."""


def _loaded_b(checked: _Checked, op: Op) -> tuple[Value, int]:
    """The loaded tile that is B of an MMA, and its axis along N."""
    code, value, axis = checked.code, inputs(op)[1], 1
    if shape_of(inputs(op)[0].type)[0] != ROWS:
        what = f"MMAs of pairs are generated for {ROWS} rows in each thread block"
        raise code.refuse(what, op, help="leave --pairs away, or give larger tiles")
    while (maker := code.maker(value)) is not None and role(maker) in BUFFER_VIEWS | {"alloc"}:
        if role(maker) == "buffer_transpose":
            axis = 1 - axis
        value = maker.operands[0]
    if maker is None or maker.name != LOAD or len(shape_of(maker.result.type)) != 2:
        raise code.refuse("B of an MMA of a pair must be a tile that TMA loads through a descriptor", op)
    if any(checked.found.get(one.id) not in COMMON for one in maker.operands):
        raise code.refuse(
            "both thread blocks of a pair must load the same B, which can not be shown",
            maker,
            help="let neighbours along x, programs 2 q and 2 q + 1, compute tiles of the same columns"
            " (--persistent keeps that order)",
        )
    return value, axis


def _only_as_b(code: Code, axes: Mapping[int, int]) -> None:
    """No operation but MMAs, as B, reads what is halved, and no other load has the same descriptor."""
    for op in code.ops.values():
        if op.name in MMAS:
            others = [_origin(code, value) for value in (*inputs(op)[:1], *inputs(op)[2:])]
        elif role(op) in BUFFER_VIEWS | {"alloc"}:
            others = []
        else:
            others = list(op.operands)
        if any(value.id in axes for value in others):
            raise code.refuse("B of an MMA of a pair can not be read otherwise", op)
    halves = {
        code.ops[v.producer].operands[0].id for v in _values(code) if v.id in axes and v.producer is not None
    }
    for op in code.ops.values():
        shared = op.name == LOAD and op.result.id not in axes and op.operands[0].id in halves
        if shared or (role(op) in ("tma_store", "tma_reduce") and op.operands[0].id in halves):
            raise code.refuse("the descriptor of B of an MMA of a pair can not have other uses", op)


def _values(code: Code) -> list[Value]:
    return [value for op in code.ops.values() for value in op.results]


def _origin(code: Code, value: Value) -> Value:
    while (maker := code.maker(value)) is not None and role(maker) in BUFFER_VIEWS | {"alloc"}:
        if not maker.operands:
            break
        value = maker.operands[0]
    return value


def _halved(code: Code, plan: ChannelPlan, axes: Mapping[int, int]) -> ChannelPlan:
    """A channel that MMAs read: TMA fills it. What threads read too is filled again and again by loads of a
    loop, so that they can wait for it there."""
    values = [value for use in plan.sources for value in use]
    loads = [code.ops[value.producer] for value in values if value.producer is not None]
    at = loads[0] if loads else next(iter(code.ops.values()))
    if plan.filled_by != "tma" or any(op.name != LOAD for op in loads):
        raise code.refuse("operands of an MMA of a pair must be loaded by TMA through descriptors", at)
    if plan.by_threads and plan.once:
        raise code.refuse("a tile from before a loop can not be read by MMAs of a pair and by threads", at)
    offset, tensors = 0, list(plan.tensors)
    for i, tensor in enumerate(tensors):
        ways = {axes.get(use[i].id) for use in plan.sources}
        if len(ways) > 1:
            raise code.refuse("a tile is B of an MMA in one loop and something else in another", loads[i])
        axis = ways.pop()
        if axis is not None:
            _divisible(code, loads[i], axis)
        size = tensor.bytes // (1 if axis is None else 2)
        tensors[i] = replace(tensor, halved=axis, offset=offset, bytes=size)
        offset = -(-(offset + size) // ALIGNMENT) * ALIGNMENT
    return replace(plan, tensors=tuple(tensors))


def _divisible(code: Code, load: Op, axis: int) -> None:
    """Half of a tile consists of whole patterns of the swizzle."""
    kind = load.operands[0].type
    encoding = kind.encoding if isinstance(kind, TensorDesc) else None
    shape, line = (
        shape_of(load.result.type),
        encoding.swizzle_bytes if isinstance(encoding, NvmmaShared) else 0,
    )
    assert isinstance(kind, TensorDesc)
    whole = 16 if axis == 0 else 2 * line * 8 // bits(kind.dtype)
    if not line or shape[axis] % whole:
        raise code.refuse(f"half of a tile of {'x'.join(map(str, shape))} is no operand of an MMA", load)
