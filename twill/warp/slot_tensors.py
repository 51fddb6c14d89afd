"""Tiles of a slot of a channel: where each lies, in which layout, and how many bytes it takes."""

from collections.abc import Sequence
from math import prod
from re import search

from twill.ir.channels import SlotTensor
from twill.ir.loop import (
    DotOperand,
    Encoding,
    MemDesc,
    NvmmaShared,
    Op,
    Pointer,
    Scalar,
    Tensor,
    TensorDesc,
    Type,
    Value,
)
from twill.ops.pointer_loads import LEAST_LINE
from twill.ops.table import role
from twill.warp.dataflow import ALLOC, LOAD, MMAS, Code

ROWS = 16
"""Of a tile that a warp holds at once (PTX ISA, register fragments of wgmma)."""
ALIGNMENT = 1024
"""Of a tile in shared memory, bytes: the pattern of the 128-byte swizzle repeats after so many (PTX ISA,
shared memory matrix layout)."""


def aligned(bytes: int) -> int:
    """Where the next tile may begin."""
    return -(-bytes // ALIGNMENT) * ALIGNMENT


def bits(dtype: Type) -> int:
    """Of one element in shared memory, where a truth value takes a byte."""
    match dtype:
        case Pointer():
            return 64
        case Scalar(name):
            found = search(r"\d+", name)
            return max(8, int(found.group())) if found else 64
        case _:
            raise TypeError(f"{dtype} is no element type")


def tile_bytes(shape: tuple[int, ...], dtype: Type) -> int:
    return max(1, prod(shape) * bits(dtype) // 8)


def tensors(code: Code, values: Sequence[Value], stored: Encoding | None = None) -> tuple[SlotTensor, ...]:
    """The tiles of one slot, one after the other; `stored`: the layout in which TMA stores them from it."""
    offset, found = 0, list[SlotTensor]()
    for value in values:
        shape, dtype = _tile(value)
        repeated = code.repeated.get(-1 if value.producer is None else value.producer, 1)
        encoding = _across(code, value) if repeated > 1 else stored or _encoding(code, value)
        room = encoding.room if isinstance(encoding, NvmmaShared) else 1
        size = tile_bytes(shape, dtype) * room // repeated
        name = value.name.lstrip("%")
        found.append(SlotTensor(name, shape, dtype, encoding, offset, size, repeated=repeated))
        offset = aligned(offset + found[-1].bytes)
    return tuple(found)


def _tile(value: Value) -> tuple[tuple[int, ...], Type]:
    match value.type:
        case Tensor(shape, dtype) | MemDesc(shape, dtype):
            return shape, dtype
        case other:
            return (1,), other


def _encoding(code: Code, value: Value) -> Encoding | None:
    """As TMA writes it, as the buffer has it that it is or is copied to, or as an MMA reads it that takes it
    for a tile in registers; None for one that goes from registers to registers."""
    maker = code.maker(value)
    match value.type:
        case MemDesc(encoding=encoding):
            return encoding
        case Tensor(shape, dtype, DotOperand()) if maker is not None:
            transposed = _transposed(code, value)
            line = shape[0 if transposed else -1] * bits(dtype) // 8
            return NvmmaShared(min(128, line & -line), transposed, bits(dtype), False)
        case _ if maker is not None and maker.name == LOAD and isinstance(maker.operands[0].type, TensorDesc):
            return maker.operands[0].type.encoding
        case _:
            users = code.users.get(value.id, ())
            buffers = [user.result.type for user in users if user.name == ALLOC]
            found = next((buffer.encoding for buffer in buffers if isinstance(buffer, MemDesc)), None)
            read = (_encoding(code, user.result) for user in users if _operand(code, user))
            found = found or _across(code, value)
            return found or next(read, None) or _for_warp_mmas(code, value) or _for_rows(code, value)


def _operand(code: Code, op: Op) -> bool:
    """A change of layout whose result an MMA reads as it is."""
    tile = op.results[0].type if role(op) == "layout" else None
    users = code.users.get(op.results[0].id, ()) if op.results else ()
    return (
        isinstance(tile, Tensor)
        and isinstance(tile.encoding, DotOperand)
        and any(user.name in MMAS for user in users)
    )


def _across(code: Code, value: Value) -> Encoding | None:
    """As copies along the columns of a tile bring it; None for a tile of which there are none."""
    if value.producer not in code.across or not isinstance(value.type, Tensor):
        return None
    size = bits(value.type.dtype)
    line = value.type.shape[0] // code.repeated.get(value.producer, 1) * size // 8
    return NvmmaShared(min(128, line & -line), True, size, False)


def _for_warp_mmas(code: Code, value: Value) -> Encoding | None:
    """A pattern in which rows of matrices lie in different banks, where a loaded tile is only read as
    operands of mma.sync; None elsewhere."""
    users = code.users.get(value.id, ())
    kinds = [user.result.type for user in users if role(user) == "layout"]
    operands = all(isinstance(one, Tensor) and isinstance(one.encoding, DotOperand) for one in kinds)
    if (
        not isinstance(value.type, Tensor)
        or len(value.type.shape) != 2
        or not kinds
        or len(kinds) < len(users)
    ):
        return None
    line = value.type.shape[1] * bits(value.type.dtype) // 8
    swizzled = operands and code.maker(value) is not None and (line & -line) >= LEAST_LINE
    return NvmmaShared(min(128, line & -line), False, bits(value.type.dtype), False) if swizzled else None


def _for_rows(code: Code, value: Value) -> Encoding | None:
    """A pattern in which the rows of a tile begin in different banks, of a tile that copies bring and threads
    read: a warp reads elements of eight rows at once, and warps may have the same rows. None where a line is
    too short for a pattern, or the tile has fewer than 16 rows."""
    tile = value.type
    if not code.copied(value) or not isinstance(tile, Tensor) or len(tile.shape) != 2:
        return None
    rows, columns = tile.shape
    line = columns * bits(tile.dtype) // 8
    if rows < ROWS or bits(tile.dtype) not in (8, 16, 32) or line % LEAST_LINE:
        return None
    return NvmmaShared(min(128, line & -line), False, bits(tile.dtype), False)


def _transposed(code: Code, value: Value) -> bool:
    """Whether a tile is seen with rows and columns exchanged, compared to what was computed."""
    maker, transposed = code.maker(value), False
    while maker is not None and role(maker) in ("layout", "transpose"):
        transposed ^= role(maker) == "transpose"
        maker = code.maker(maker.operands[0])
    return transposed
