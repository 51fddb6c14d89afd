"""Operands of warpgroup and fifth-generation MMAs in shared memory: where their 16-byte pieces lie, and the
values of their elements (PTX ISA, "Matrix Descriptor Format", "Shared memory descriptor", "Canonical
Layouts")."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from twill.emulate.machine.cta import Cta
from twill.emulate.memory.clocks import Array
from twill.emulate.numeric.formats import FORMATS, bf16_values, table


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What the descriptors of both generations say; offsets in bytes."""

    start: int
    leading: int
    stride: int
    swizzle: int
    """Bytes of a line of the pattern; 0 for none."""
    atom: int = 16
    """Bytes that the swizzle moves as one."""


@lru_cache(maxsize=4096)
def pieces(one: Descriptor, rows: int, transposed: bool, depth: int = 16, across: int = 2) -> Array:
    """Offsets of the 16-byte pieces of an operand. K-major: (row, `across` pieces of K); else: (`depth`
    elements of K, piece of `rows` / (16 bytes), where `across` counts those pieces)."""
    width = one.swizzle or 16
    if transposed:
        lines = 8 if one.atom == 16 else 4
        k, m, wide = np.arange(depth)[:, None], np.arange(across)[None, :], width // 16
        along = (
            m % wide * 16 + m // wide * one.leading + k // lines * one.stride
            if one.swizzle
            else m * one.stride + k // lines * one.leading
        )
        found = one.start + along + k % lines * width
    else:
        r, k = np.arange(rows)[:, None], np.arange(across)[None, :]
        found = one.start + r // 8 * one.stride + r % 8 * width + k * (16 if one.swizzle else one.leading)
    if one.swizzle:
        mask = one.swizzle // one.atom - 1
        found = found ^ ((found >> 7 & mask) << one.atom.bit_length() - 1)
    found.flags.writeable = False
    return found


def values(data: Array, type: str) -> Array:
    """Elements of bytes as float32; 4- and 6-bit elements fill a byte each."""
    match type:
        case "f16":
            return data.view(np.float16).astype(np.float32)
        case "bf16":
            return bf16_values(data.view(np.uint16))
        case "tf32":
            return (data.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        case "s8":
            return data.view(np.int8).astype(np.float32)
        case "u8":
            return data.astype(np.float32)
        case _:
            return table(type).astype(np.float32)[data]


def narrow(octets: Array, bits: int, padded: bool) -> Array:
    """Codes of 4- or 6-bit elements from bytes (..., 16 x pieces). `padded`: 16 elements fill the first bytes
    of each 16-byte piece (PTX ISA, "Packing format used for matrix A and B by .kind::mxf8f6f4")."""
    lines = np.ascontiguousarray(octets).reshape(-1, 16)
    lines = lines[:, : 2 * bits] if padded else lines
    digits = np.unpackbits(lines, axis=1, bitorder="little").reshape(len(lines), -1, bits)
    codes = digits @ (1 << np.arange(bits)).astype(np.uint8)
    return codes.reshape(*octets.shape[:-1], -1)


def matrix(cta: Cta, at: Array, type: str, transposed: bool, packed: bool = False) -> Array:
    """An operand from its pieces: (row, k). With `packed`, 4-bit elements have no padding."""
    data = cta.shared.data.reshape(-1, 16)[at >> 4].reshape(at.shape[0], -1)
    bits = FORMATS[type].bits if type in FORMATS else 8
    codes = narrow(data, bits, not packed) if bits < 8 else np.ascontiguousarray(data)
    found = values(codes, type)
    return found.T if transposed else found
