"""Tiles that leave through descriptors, as lines of Gluon."""

from math import prod

from twill.ir.channels import Buffer
from twill.ir.loop import NvmmaShared, Op, Tensor, TensorDesc
from twill.ir.schedule import WARPGROUP
from twill.ir.statements import (
    StoreTile,
)
from twill.targets.cuda.expressions import plus
from twill.targets.gluon.emitter import Emitter, descriptor
from twill.targets.gluon.layouts import bits, dtype
from twill.targets.gluon.scope import (
    File,
    tensor_name,
)

REDUCTIONS = {"None": "tma_store", "add": "tma.async_atomic_add"}
"""How a tile leaves, by the kind of reduction."""


def store_tile(emitter: Emitter, it: StoreTile) -> list[str]:
    """A tile leaves through its descriptor, in parts that fit where it is staged."""
    program = emitter.file.program
    scope, op = emitter.begin(it.reads, it.at.iteration), program.op(it.ops[-1])
    value = next(value for value in op.operands if isinstance(value.type, Tensor))
    for index in it.ops[:-1]:
        scope.execute_before(program.op(index), value)
    corner = [scope.text(one) for one in op.operands[1:] if not isinstance(one.type, Tensor)]
    word = REDUCTIONS.get(str(op.attributes.get("kind")))
    if word is None:
        raise emitter.file.refuse(op, f"{op.attributes['kind']} is not exported")
    buffer = next(one for one in program.buffers if one.id == it.buffer)
    parts = divided(emitter.file, it)
    lines = [emitter.comment(it.at.cycle, it.at.stage, it.ops, "store"), *scope.lines]
    for part, text in enumerate(_parts(emitter, scope.text(value), op, parts, lines)):
        lines += ["tma.store_wait(0)"] if it.waits or part else []
        lines += _leave(emitter, op, word, text, buffer, parts, part, corner)
    return lines


def _parts(emitter: Emitter, text: str, op: Op, parts: int, lines: list[str]) -> list[str]:
    """Equal parts of the columns of a tile, first to last; appends the lines that divide it."""
    kind = op.operands[0].type
    assert isinstance(kind, TensorDesc)
    found, columns = [text], kind.shape[-1]
    while len(found) < parts:
        columns //= 2
        halves = list[str]()
        for one in found:
            left, right = (emitter.scope.fresh("part") for _ in range(2))
            shape = [*kind.shape[:-1], 2, columns]
            order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            halves_last = _in_threads(emitter, f"gl.permute(gl.reshape({one}, {shape}), {order})", len(shape))
            lines.append(f"{left}, {right} = gl.split({halves_last})")
            halves += [left, right]
        found = halves
    return found


def _in_threads(emitter: Emitter, text: str, rank: int) -> str:
    """A tile whose last axis, of two elements, lies within threads, so that it can be split: columns of
    tensor memory are divided among warpgroups."""
    if not emitter.file.program.tensor_memory or emitter.group.warps <= WARPGROUP:
        return text
    ones = [1] * (rank - 1)
    layout = f"{[*ones, 2]}, {[32, *ones]}, {[emitter.group.warps, *ones]}, {[*range(rank)][::-1]}"
    return f"gl.convert_layout({text}, gl.BlockedLayout({layout}))"


def _leave(
    emitter: Emitter,
    op: Op,
    word: str,
    text: str,
    buffer: Buffer,
    parts: int,
    part: int,
    corner: list[str],
) -> list[str]:
    """One part of a tile: registers to shared memory, then to global memory."""
    kind = op.operands[0].type
    assert isinstance(kind, TensorDesc)
    columns = kind.shape[-1] // parts
    into = staging(emitter, op, buffer, (*kind.shape[:-1], columns))
    at = [*corner[:-1], plus(corner[-1], part * columns)]
    return [
        f"{into}.store({text})",
        "fence_async_shared()",
        f"{word}({descriptor(emitter.file, op, parts)}, [{', '.join(at)}], {into})",
    ]


def staging(emitter: Emitter, op: Op, buffer: Buffer, shape: tuple[int, ...]) -> str:
    """Shared memory for a tile on its way out: a buffer of its own, or the slots that it overlays."""
    kind = op.operands[0].type
    assert isinstance(kind, TensorDesc)
    element = emitter.scope.attempt(op, lambda: dtype(kind.dtype))
    form = emitter.scope.attempt(op, lambda: emitter.file.layouts.name(kind.encoding, shape))
    if buffer.overlays is None:
        return f"reinterpreted({buffer_name(buffer)}, {element}, {[*shape]}, {form})"
    channel = emitter.file.program.channel(buffer.overlays)
    needed = prod(shape) * bits(kind.dtype) // 8
    sizes = [channel.depth * tensor.bytes for tensor in channel.tensors]
    position = min(range(len(sizes)), key=lambda one: (sizes[one] != needed, -sizes[one], one))
    slots, tiles = tensor_name(channel.id, position), sizes[position] // needed
    if tiles == 1 or sizes[position] % needed:
        return f"reinterpreted({slots}, {element}, {[*shape]}, {form})"
    return f"reinterpreted({slots}, {element}, {[tiles, *shape]}, {form}).index(0)"


def divided(file: File, it: StoreTile) -> int:
    """In how many parts a tile leaves: no part is larger than the slots of one tensor, where it goes through
    the slots of a channel. Raises TwillError where a part would be narrower than its swizzle pattern."""
    op, parts = file.program.op(it.ops[-1]), it.parts
    kind = op.operands[0].type
    assert isinstance(kind, TensorDesc)
    buffer = next(one for one in file.program.buffers if one.id == it.buffer)
    if buffer.overlays is None:
        return parts
    channel = file.program.channel(buffer.overlays)
    room = max(channel.depth * tensor.bytes for tensor in channel.tensors)
    whole = prod(kind.shape) * bits(kind.dtype) // 8
    while whole // parts > room:
        parts *= 2
    line = kind.encoding.swizzle_bytes if isinstance(kind.encoding, NvmmaShared) else 0
    if kind.shape[-1] // parts * bits(kind.dtype) // 8 < line:
        raise file.refuse(op, f"of a tile in {parts} parts is not exported", "use tiles of fewer rows")
    return parts


def buffer_name(buffer: Buffer) -> str:
    return buffer.id.replace(".", "_")
