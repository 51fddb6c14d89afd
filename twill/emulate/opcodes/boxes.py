"""Boxes of tensors in global memory as TMA reads and writes them, and the pattern of their bytes in shared
memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from twill.emulate.faults import Fault
from twill.emulate.memory.clocks import Array
from twill.emulate.memory.device import Device
from twill.emulate.opcodes.atomic import joined
from twill.emulate.tensormap import TensorMap


@lru_cache(maxsize=4096)
def swizzled(first: int, lines: int, inner: int, swizzle: int, atom: int = 16) -> Array:
    """Offsets of the 16-byte pieces of a box in shared memory: piece i of the box in row-major order lies at
    the i-th."""
    pieces = first + np.arange(lines * inner // 16, dtype=np.int64) * 16
    if swizzle:
        line = swizzle // 16 - 1
        moved = (
            pieces ^ ((pieces >> 7 & line) << 4) if atom == 16 else pieces ^ ((pieces >> 7 & line >> 1) << 5)
        )
        pieces = moved
    pieces.flags.writeable = False
    return pieces


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a tensor at given coordinates: its lines in global memory."""

    starts: Array
    """Address of each line's first byte, also where that lies outside."""
    inside: Array
    """Whether a line is inside along all outer dimensions."""
    first: int
    """Byte of a line that is the first inside."""
    last: int
    """And behind the last."""
    inner: int
    """Bytes of a line in global memory."""


def box(tensor: TensorMap, coordinates: Sequence[int]) -> Box:
    if any(step > 1 for step in tensor.steps):
        raise Fault("element strides above 1 are not supported")
    starts, inside = np.zeros(1, np.int64), np.ones(1, np.bool_)
    for i in range(1, len(tensor.shape)):
        position = coordinates[i] + np.arange(tensor.box[i], dtype=np.int64)
        good = (position >= 0) & (position < tensor.shape[i])
        starts = (position[:, None] * tensor.strides[i - 1] + starts[None, :]).reshape(-1)
        inside = (good[:, None] & inside[None, :]).reshape(-1)
    x, bytes_of = coordinates[0], tensor.bytes_of
    if x % tensor.step:
        raise Fault(
            f"the first coordinate in a tensor of {tensor.type}, {x}, is no multiple of {tensor.step}"
        )
    first, last = min(max(0, -x), tensor.box[0]), max(0, min(tensor.box[0], tensor.shape[0] - x))
    return Box(
        starts + tensor.address + bytes_of(x),
        inside,
        bytes_of(first),
        bytes_of(max(first, last)),
        bytes_of(tensor.box[0]),
    )


def read_box(device: Device, tensor: TensorMap, one: Box) -> Array:
    """Bytes (line, byte), zeros or NaN outside."""
    made = np.full((len(one.starts), one.inner), 0, np.uint8)
    if tensor.nan:
        made[...] = np.tile(np.array(_NAN[tensor.type], np.uint8), one.inner // tensor.bytes_of(1))
    starts = one.starts[one.inside]
    if len(starts) and one.last > one.first:
        held, base = _reach(device, starts, one)
        made[one.inside, one.first : one.last] = held[
            (starts - base)[:, None] + np.arange(one.first, one.last)
        ]
    return made


_NAN: Mapping[str, tuple[int, ...]] = {
    "f16": (0xFF, 0x7F),
    "bf16": (0xFF, 0x7F),
    "f32": (0xFF, 0xFF, 0xFF, 0x7F),
    "tf32": (0xFF, 0xFF, 0xFF, 0x7F),
}


def _reach(device: Device, starts: Array, one: Box) -> tuple[Array, int]:
    found = device.find(int(starts.min()) + one.first, int(starts.max()) + one.last)
    return found.data, found.base


def padded(tensor: TensorMap, data: Array) -> Array:
    """Bytes of lines as they lie in shared memory (16-byte piece, byte), before the swizzle."""
    pieces = data.reshape(-1, 16 // tensor.padding)
    return np.pad(pieces, ((0, 0), (0, 16 - pieces.shape[1])))


def write_box(device: Device, tensor: TensorMap, one: Box, data: Array, reduce: str | None) -> None:
    """Stores the part of (line, byte) that is inside, or adds it to what is there."""
    starts = one.starts[one.inside]
    if not len(starts) or one.last <= one.first:
        return
    found = device.find(int(starts.min()) + one.first, int(starts.max()) + one.last)
    at = (starts - found.base)[:, None] + np.arange(one.first, one.last)
    new = np.ascontiguousarray(data[one.inside, one.first : one.last])
    found.data[at] = (
        joined(reduce, _ELEMENTS.get(tensor.type, tensor.type), found.data[at], new) if reduce else new
    )
    if found.valid is not None:
        found.valid[at] = True


_ELEMENTS: Mapping[str, str] = {"tf32": "f32", "f32.ftz": "f32", "tf32.ftz": "f32"}
"""How elements of tensor maps are added."""
