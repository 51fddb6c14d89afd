"""Numbers as a GPU has them, in NumPy.

Takes TTGIR element types; gives NumPy types, rounding and bit patterns. f16, f32, f64 and the integers are
NumPy's own (signed, `i1` is bool); bf16 and the 8-bit floats are float32 arrays whose values are rounded to
what the type can hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from twill.ir.loop import MemDesc, Pointer, Scalar, Tensor, TensorDesc, Type

Array: TypeAlias = np.ndarray[Any, Any]

_NATIVE: Mapping[str, str] = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "index": "int64",
    **{f"{sign}i{bits}": f"int{bits}" for sign in ("", "s", "u") for bits in (8, 16, 32, 64)},
}
"""Descriptors of integers say whether they have a sign; values do not."""


Operand: TypeAlias = Any
"""A value of the interpreter: a tile is an array of its shape (layouts do not matter), a scalar an array
of no dimensions, a pointer `Pointers`, a descriptor whatever `Environment.descriptor` gives. The TTGIR type
of an operand says which of them it is."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """A float of less than 16 bits of precision: stored bits of the fraction, least normal exponent, largest
    value."""

    fraction: int
    least: int
    largest: float


_NARROW: Mapping[str, Narrow] = {
    "bf16": Narrow(7, -126, 3.3895313892515355e38),
    "f8E4M3FN": Narrow(3, -6, 448.0),
    "f8E5M2": Narrow(2, -14, 57344.0),
    "tf32": Narrow(10, -126, 3.4028235e38),
}


@dataclass(frozen=True, slots=True)
class Pointers:
    """One or many addresses into the memory behind a kernel argument."""

    argument: str
    offset: Array
    """In elements, of the type that they are seen as."""
    seen_as: str | None = None
    """The element type that the numbers there are read and written as, where it is not their own."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A TMA descriptor: where its tensor begins, its shape and strides in elements, and the block it
    moves."""

    pointers: Pointers
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]

    def offsets(self, corner: tuple[int, ...]) -> tuple[Array, Array]:
        """Element offsets of a block at `corner`, and which of them are inside the tensor."""
        flat, inside = np.asarray(self.pointers.offset, np.int64), np.ones((), bool)
        for axis, (begin, size) in enumerate(zip(corner, self.block, strict=True)):
            index = (begin + np.arange(size)).reshape(
                [-1 if i == axis else 1 for i in range(len(self.block))]
            )
            flat = flat + index * self.strides[axis]
            inside = inside & (index >= 0) & (index < self.shape[axis])
        return flat, np.broadcast_to(inside, self.block)


@dataclass(slots=True)
class TensorBuffer:
    """A buffer in tensor memory, which operations change; None before it is first written."""

    contents: Array | None = None


def shape_of(type: Type) -> tuple[int, ...]:
    """Of a tile; () for everything else."""
    return type.shape if isinstance(type, Tensor | MemDesc | TensorDesc) else ()


def element(type: Type) -> str:
    """The element type's name; `ptr` for pointers."""
    match type:
        case Tensor(_, dtype) | MemDesc(_, dtype):
            return element(dtype)
        case Scalar(name):
            return name
        case Pointer():
            return "ptr"
        case other:
            return str(getattr(other, "dtype", other))


def dtype(name: str) -> np.dtype[Any]:
    """How values of an element type are kept. Raises KeyError for an unknown one."""
    return np.dtype("float32" if name in _NARROW else _NATIVE[name])


def known(name: str) -> bool:
    return name in _NATIVE or name in _NARROW


def rounded(values: Array, name: str) -> Array:
    """Values converted to an element type, to nearest even. 8-bit floats saturate (PTX `cvt.rn.satfinite`),
    integers wrap."""
    if name not in _NARROW:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values).astype(dtype(name))
    narrow, (wide, step) = _NARROW[name], _grid(values, name)
    with np.errstate(invalid="ignore"):
        near = np.where(np.isfinite(wide), np.rint(wide / step) * step, wide)
    limited = np.clip(near, -narrow.largest, narrow.largest) if name.startswith("f8") else near
    with np.errstate(over="ignore"):
        return limited.astype(np.float32)


def truncated(values: Array, name: str) -> Array:
    """Values converted to a narrower float type towards zero: nothing finite becomes infinite. 8-bit floats
    saturate."""
    if name == "f16":
        near = rounded(values, name)
        away = np.isfinite(values) & (
            np.abs(near.astype(np.float64)) > np.abs(np.asarray(values, np.float64))
        )
        return np.where(away, np.nextafter(near, np.float16(0)), near)
    wide, step = _grid(values, name)
    with np.errstate(invalid="ignore"):
        near = np.where(np.isfinite(wide), np.trunc(wide / step) * step, wide)
    return (
        np.clip(near, -_NARROW[name].largest, _NARROW[name].largest) if name.startswith("f8") else near
    ).astype(np.float32)


def _grid(values: Array, name: str) -> tuple[Array, Array]:
    """Values as float64, and the distance of the numbers of a narrow type around each."""
    narrow, wide = _NARROW[name], np.asarray(values, np.float64)
    exponent = np.maximum(np.frexp(wide)[1] - 1, narrow.least)
    return wide, np.ldexp(1.0, exponent - narrow.fraction)


# --- bit patterns -----------------------------------------------------------------------------------------


def bits_of(values: Array, name: str) -> Array:
    """The bit patterns of values of an element type, as unsigned integers of its width."""
    if name not in _NARROW:
        values = np.asarray(values, dtype(name))
        return values if values.dtype == np.bool_ else values.view(f"uint{8 * values.dtype.itemsize}")
    byte = _BYTES.get(name)
    if byte is None:
        return (np.asarray(values, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return byte.encoded(np.asarray(values, np.float32))


def of_bits(bits: Array, name: str) -> Array:
    """The values of an element type from their bit patterns, unsigned integers of its width."""
    if name not in _NARROW:
        return bits.view(dtype(name)) if bits.dtype != np.bool_ else bits
    byte = _BYTES.get(name)
    if byte is None:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return byte.values()[bits]


@dataclass(frozen=True, slots=True)
class _Byte:
    """An 8-bit float: sign, `exponent` bits of exponent, the rest the fraction. Only E5M2 has infinities."""

    exponent: int
    infinite: bool

    def values(self) -> Array:
        """All 256, by bit pattern."""
        fraction = 7 - self.exponent
        bias = 2 ** (self.exponent - 1) - 1
        bits = np.arange(128)
        high, low = bits >> fraction, bits & (2**fraction - 1)
        scale = np.ldexp(1.0, np.maximum(high, 1) - bias - fraction)
        found = (low + np.where(high > 0, 2**fraction, 0)) * scale
        top = high == 2**self.exponent - 1
        found[(top & (low > 0)) if self.infinite else bits == 127] = np.nan
        found[top & (low == 0) & self.infinite] = np.inf
        return np.concatenate([found, -found]).astype(np.float32)

    def encoded(self, values: Array) -> Array:
        """Bit patterns of values that the type has."""
        table = self.values()[:128]
        known = np.flatnonzero(~np.isnan(table))
        found = known[
            np.searchsorted(
                table[known], np.abs(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))
            )
        ]
        return (np.where(np.isnan(values), 127, found) | np.where(np.signbit(values), 128, 0)).astype(
            np.uint8
        )


_BYTES: Mapping[str, _Byte] = {"f8E4M3FN": _Byte(4, infinite=False), "f8E5M2": _Byte(5, infinite=True)}
