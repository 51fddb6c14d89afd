"""Numbers as a GPU has them, in NumPy.

Takes TTGIR element types; gives NumPy types and rounding. f16, f32, f64 and the integers are NumPy's own;
bf16 and the 8-bit floats are float32 arrays whose values are rounded to what the type can hold, to nearest
even.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from twill.ir.loop import Pointer, Scalar, Tensor, Type

Array: TypeAlias = np.ndarray[Any, Any]

_NATIVE: Mapping[str, str] = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i1": "bool",
    "index": "int64",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
}


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
    """In elements."""


def element(type: Type) -> str:
    """The element type's name; `ptr` for pointers."""
    match type:
        case Tensor(_, dtype):
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
    """Values converted to an element type, rounded to nearest even; 8-bit floats saturate."""
    if name not in _NARROW:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values).astype(dtype(name))
    narrow = _NARROW[name]
    wide = np.asarray(values, np.float64)
    exponent = np.maximum(np.frexp(wide)[1] - 1, narrow.least)
    step = np.ldexp(1.0, exponent - narrow.fraction)
    with np.errstate(invalid="ignore"):
        near = np.where(np.isfinite(wide), np.rint(wide / step) * step, wide)
    limited = np.clip(near, -narrow.largest, narrow.largest) if name.startswith("f8") else near
    return np.where(np.isfinite(wide), limited, wide).astype(np.float32)
