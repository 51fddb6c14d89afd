"""Loads that the two thread blocks of a cluster share: each block loads half of a tile, for both.

The blocks are neighbours along x, and each executes a program of its own. A tile that TMA loads through a
descriptor can be shared where it is the same in both programs, and both fill the slots of its channel equally
often (`twill.warp.parity` shows both). Either block then writes to the slots of the other, so that a slot is
filled again only after the consumers of both have released it. Launches in which a number that has to be even
is odd take a kernel without clusters. Raises TwillError where no load can be shared.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from twill.diagnostics import TwillError
from twill.ir.channels import SlotTensor
from twill.ir.loop import NvmmaShared, Op, TensorDesc, Value
from twill.warp import parity
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import LOAD, Code
from twill.warp.parity import COMMON, Parity, differing, parents, parities
from twill.warp.slot_tensors import bits

PATTERN = 8
"""Lines after which a swizzle pattern repeats (PTX ISA, swizzling modes)."""
LONGEST = 256
"""Elements of a box along each axis, at most (CUDA driver API, cuTensorMapEncodeTiled)."""
PLACE = 128
"""What the address of a box in shared memory is a multiple of, in bytes (PTX ISA, cp.async.bulk.tensor)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Programs:
    """How the programs of a cluster differ."""

    code: Code
    found: Mapping[int, Parity]
    parents: Mapping[int, Op]


def shared(code: Code, channels: Sequence[ChannelPlan]) -> tuple[ChannelPlan, ...]:
    """The channels, with the axis along which tiles are divided that both blocks load. Raises TwillError
    where there is no such tile."""
    axes = common(code, channels, frozenset(assumptions(code, channels)))
    return tuple(divided(one, axes) for one in channels)


def assumptions(code: Code, channels: Sequence[ChannelPlan]) -> tuple[int, ...]:
    """Numbers, by value id, that follow from the arguments of a launch, and have to be even so that as many
    bytes as possible are shared: the fewest. Raises TwillError where nothing is shared, whatever is even."""
    most = max(_bytes(code, channels, frozenset(even)) for even in ((), parity.quotients(code)))

    def show(even: frozenset[int]) -> None:
        if not most or _bytes(code, channels, even) < most:
            raise _nothing(code, channels)

    return parity.assumptions(code, show)


def _bytes(code: Code, channels: Sequence[ChannelPlan], even: frozenset[int]) -> int:
    """That the blocks share, of a slot of each channel."""
    axes = common(code, channels, even)
    return sum(
        tensor.bytes
        for channel in channels
        for i, tensor in enumerate(channel.tensors)
        if all(use[i].id in axes for use in channel.sources)
    )


def common(code: Code, channels: Sequence[ChannelPlan], even: frozenset[int]) -> Mapping[int, int]:
    """Along which axis each tile of some channels is divided that both blocks load, by the id of the loaded
    value, where the numbers `even`, by value id, are even."""
    programs = _Programs(code, parities(code, even), parents(code))
    axes = {
        use[i].id: axis
        for channel in channels
        if channel.filled_by == "tma" and _filled_alike(programs, channel)
        for i, tensor in enumerate(channel.tensors)
        for use in channel.sources
        if all(_differs(programs, one[i]) is None for one in channel.sources)
        and (axis := _axis(code, tensor, use[i])) is not None
    }
    return _exclusive(code, axes)


def _filled_alike(programs: _Programs, channel: ChannelPlan) -> bool:
    """Whether both blocks fill the slots equally often."""
    ops = (programs.code.maker(value) for use in channel.sources for value in use)
    return all(op is not None and differing(op, programs.found, programs.parents) is None for op in ops)


def _differs(programs: _Programs, value: Value) -> str | None:
    """Why the blocks cannot share a tile; None where they can."""
    maker = programs.code.maker(value)
    if maker is None or maker.name != LOAD:
        return "it is not loaded by TMA through a descriptor"
    if differing(maker, programs.found, programs.parents) is not None:
        return "they may load it differently often"
    if any(programs.found.get(one.id) not in COMMON for one in maker.operands):
        return "its coordinates follow from the program's number along x"
    return None


def _axis(code: Code, tensor: SlotTensor, value: Value) -> int | None:
    """The axis along which a tile is divided, so that each half is one range of bytes in every box and holds
    whole swizzle patterns; None where there is none."""
    maker = code.maker(value)
    kind = maker.operands[0].type if maker is not None and maker.operands else None
    encoding = kind.encoding if isinstance(kind, TensorDesc) else None
    axis = next((i for i, size in enumerate(tensor.shape[:-1]) if size > 1), None)
    if axis is None or not isinstance(encoding, NvmmaShared):
        return None
    outer = len(kind.shape) - len(tensor.shape) if isinstance(kind, TensorDesc) else 0
    whole = isinstance(kind, TensorDesc) and kind.shape == (1,) * outer + tensor.shape
    return axis if whole and tensor.shape[axis] % 2 == 0 and _in_halves(tensor, encoding) else None


def _in_halves(tensor: SlotTensor, encoding: NvmmaShared) -> bool:
    """Whether half of the lines of a tile are whole swizzle patterns; of a tile that lies row by row, whether
    TMA can write them behind the others."""
    line, lines = tensor.shape[-1] * bits(tensor.dtype) // 8, prod(tensor.shape[:-1])
    if encoding.swizzle_bytes:
        return line % encoding.swizzle_bytes == 0 and lines % (2 * PATTERN) == 0
    row_by_row = not encoding.transposed and tensor.shape[-1] <= LONGEST and line % 16 == 0
    return row_by_row and lines * line % (2 * PLACE) == 0


def _exclusive(code: Code, axes: Mapping[int, int]) -> Mapping[int, int]:
    """Without tiles whose descriptor something else uses: it moves half tiles."""
    users = [op for op in code.ops.values() if op.operands and isinstance(op.operands[0].type, TensorDesc)]
    other = {op.operands[0].id for op in users if not {one.id for one in op.results} & axes.keys()}
    makers = {value: code.ops[producer] for value, producer in _producers(code, axes)}
    return {value: axis for value, axis in axes.items() if makers[value].operands[0].id not in other}


def _producers(code: Code, values: Collection[int]) -> list[tuple[int, int]]:
    return [(one.id, op.index) for op in code.ops.values() for one in op.results if one.id in values]


def divided(channel: ChannelPlan, axes: Mapping[int, int]) -> ChannelPlan:
    """With the axis along which its tiles are loaded in halves."""
    made = list[SlotTensor]()
    for i, tensor in enumerate(channel.tensors):
        found = [axes.get(use[i].id) for use in channel.sources]
        made.append(replace(tensor, multicast=found[0] if None not in found else None))
    return replace(channel, tensors=tuple(made))


def _nothing(code: Code, channels: Sequence[ChannelPlan]) -> TwillError:
    """Why nothing is shared, of the largest tile."""
    programs = _Programs(code, parities(code, frozenset(parity.quotients(code))), parents(code))
    tiles = [(t.bytes, use[i]) for one in channels for i, t in enumerate(one.tensors) for use in one.sources]
    loaded = [(size, value) for size, value in tiles if (op := code.maker(value)) and op.name == LOAD]
    if not loaded:
        return code.refuse(
            "a cluster shares loads by TMA through descriptors, and there is none",
            next(iter(code.ops.values())),
            help="leave --cluster away, or load tiles through descriptors",
        )
    _, value = max(loaded, key=lambda one: one[0])
    maker = code.maker(value)
    assert maker is not None
    why = _differs(programs, value) or "half of it is no tile of its own, or its descriptor has other uses"
    return code.refuse(
        f"the thread blocks of a cluster share no load; not this tile: {why}",
        maker,
        help="let neighbours along x, programs 2 q and 2 q + 1, load the same tile equally often, or leave"
        " --cluster away",
    )
