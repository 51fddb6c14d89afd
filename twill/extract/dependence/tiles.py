"""Types as tiles: how many elements, where they lie, what room they take.

Takes a TTGIR type and the module's number of threads; gives a `Tile`. A register tile whose layout is not
known counts as spread evenly over the threads.
"""

import re
from dataclasses import replace
from math import prod

from twill.ir.distribution import distribution
from twill.ir.graph import Tile
from twill.ir.loop import (
    MemDesc,
    NvmmaShared,
    Pointer,
    Scalar,
    Tensor,
    TensorDesc,
    TensorMemory,
    TensorMemoryScales,
    Type,
    Value,
)

LANES = 128
"""Lanes of tensor memory: what one column holds, times 32 bits (PTX ISA, Tensor Memory)."""


def dtype_name(type: Type) -> str:
    match type:
        case Scalar(name):
            return name
        case Pointer():
            return "ptr"
        case _:
            return "opaque"


def dtype_bits(type: Type) -> int:
    """Bits of one element; pointers and indices have 64."""
    digits = re.match(r"[a-z]+(\d+)", dtype_name(type))
    return int(digits[1]) if digits else 64


def tile(type: Type, threads: int) -> Tile | None:
    """The tile a value of this type is, for `threads` threads; None for tokens and types that hold no
    data."""
    match type:
        case Scalar() | Pointer():
            return Tile((), dtype_name(type), dtype_bits(type), "scalar", held=1)
        case Tensor(shape, dtype, _):
            return register_tile(type, shape, dtype_name(dtype), dtype_bits(dtype), threads)
        case MemDesc(shape, dtype, _, "tmem"):
            return memory_tile(type, shape, dtype, columns=tensor_columns(type))
        case MemDesc(shape, dtype):
            return memory_tile(type, shape, dtype)
        case TensorDesc() | _:
            return None


def register_tile(type: Tensor, shape: tuple[int, ...], name: str, bits: int, threads: int) -> Tile:
    layout = distribution(type.encoding, shape)
    per_thread = layout.per_thread if layout else max(1, -(-prod(shape) // threads))
    held = layout.held if layout else per_thread * threads
    return Tile(shape, name, bits, "registers", registers=max(1, per_thread * bits // 32), held=held)


def registers_of(value: Value) -> int:
    """32-bit registers in which a thread holds a value of a known layout; 0 for any other."""
    kind = value.type
    if not isinstance(kind, Tensor) or distribution(kind.encoding, kind.shape) is None:
        return 0
    return register_tile(kind, kind.shape, dtype_name(kind.dtype), dtype_bits(kind.dtype), 1).registers


def memory_tile(type: MemDesc, shape: tuple[int, ...], dtype: Type, columns: int = 0) -> Tile:
    place = "tensor" if type.space == "tmem" else "shared"
    return Tile(
        shape,
        dtype_name(dtype),
        dtype_bits(dtype) * (1 + padded(type)),
        place,
        held=prod(shape),
        columns=columns,
    )


def padded(type: Type) -> bool:
    """A buffer of 4-bit floats for an MMA with 8-bit ones: 16 of them, eight bytes, take sixteen (PTX ISA,
    .b4x16_p64)."""
    return isinstance(type, MemDesc) and isinstance(type.encoding, NvmmaShared) and type.encoding.fp4_padded


def tensor_columns(type: MemDesc) -> int:
    """Columns of tensor memory. Blocks of 128 rows lie side by side; a block of 64 rows takes as many columns
    as one of 128."""
    *outer, rows, columns = type.shape
    bits = dtype_bits(type.dtype)
    match type.encoding:
        case TensorMemoryScales():
            return prod(outer) * -(-rows // 32) * -(-columns // 4)
        case TensorMemory(col_stride=stride):
            return prod(outer) * -(-rows // LANES) * -(-columns * bits * stride // 32)
        case _:
            return prod(outer) * -(-rows // LANES) * -(-columns * bits // 32)


def in_shared(tile: Tile) -> Tile:
    """The same block laid down in shared memory."""
    return replace(tile, place="shared", held=tile.elements, registers=0)


def with_repeated_rows(tile: Tile, rows: int) -> Tile:
    """A tile in shared memory of which one of each `rows` rows lies there."""
    first, *rest = tile.shape
    kept = (first // rows, *rest)
    return replace(tile, shape=kept, held=prod(kept)) if rows > 1 else tile
