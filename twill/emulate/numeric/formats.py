"""Floating-point formats of 4 to 16 bits, as codes and as values.

A value is a float64, which holds every one of these formats exactly. Encoding rounds to nearest, ties to
even, unless told otherwise. PTX ISA, "Alternate Floating-Point Data Formats" and "Packed Data Types"; OCP
8-bit and microscaling formats.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from twill.emulate.numeric.rounding import Array


@dataclass(frozen=True, slots=True)
class Format:
    """Sign, exponent and fraction, in bits."""

    exponent: int
    fraction: int
    bias: int
    infinity: bool
    """The largest exponent holds infinity and NaN, as in IEEE 754; else only what `nan` says is no number."""
    nan: bool
    """Where there is no infinity: the code of all ones is NaN."""
    signed: bool = True

    @property
    def bits(self) -> int:
        return self.exponent + self.fraction + self.signed


FORMATS: Mapping[str, Format] = {
    "f16": Format(5, 10, 15, True, True),
    "bf16": Format(8, 7, 127, True, True),
    "tf32": Format(8, 10, 127, True, True),
    "e4m3": Format(4, 3, 7, False, True),
    "e5m2": Format(5, 2, 15, True, True),
    "e2m1": Format(2, 1, 1, False, False),
    "e2m3": Format(2, 3, 1, False, False),
    "e3m2": Format(3, 2, 3, False, False),
    "ue8m0": Format(8, 0, 127, False, True, signed=False),
    "ue4m3": Format(4, 3, 7, False, True, signed=False),
}


@cache
def table(name: str) -> Array:
    """The float64 of every code of a format of at most 16 bits."""
    form = FORMATS[name]
    codes = np.arange(1 << form.bits, dtype=np.int64)
    exponent = codes >> form.fraction & (1 << form.exponent) - 1
    fraction = codes & (1 << form.fraction) - 1
    if name == "ue8m0":
        values = np.ldexp(1.0, exponent - form.bias)
    else:
        normal = np.ldexp(1.0 + fraction / (1 << form.fraction), exponent - form.bias)
        values = np.where(exponent == 0, np.ldexp(fraction / (1 << form.fraction), 1 - form.bias), normal)
    top = (1 << form.exponent) - 1
    if form.infinity:
        values = np.where(exponent == top, np.where(fraction == 0, np.inf, np.nan), values)
    elif form.nan:
        values = np.where((exponent == top) & (fraction == (1 << form.fraction) - 1), np.nan, values)
    sign = codes >> form.exponent + form.fraction & 1 if form.signed else np.zeros_like(codes)
    found = np.where(sign == 1, -values, values)
    found.flags.writeable = False
    return found


def decode(codes: Array, name: str) -> Array:
    """float64 values of codes."""
    return table(name)[codes]


@cache
def largest(name: str) -> float:
    """The largest finite value."""
    values = table(name)
    return float(values[np.isfinite(values)].max())


def rounded(values: Array, name: str, mode: str = "rn") -> Array:
    """float64 values of so few bits of fraction, with no bound above. Modes: rn, rz, rm, rp, rna."""
    form = FORMATS[name]
    least = 1 - form.bias if name != "ue8m0" else -127
    exponent = np.maximum(np.frexp(values)[1] - 1, least)
    step = np.ldexp(1.0, exponent - form.fraction)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), ROUNDINGS[mode](values / step) * step, values)


def _away(values: Array) -> Array:
    return np.copysign(np.floor(np.abs(values) + 0.5), values)


ROUNDINGS: Mapping[str, Any] = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil, "rna": _away}
"""To integers."""


def encode(values: Array, name: str, mode: str = "rn", *, finite: bool = False) -> Array:
    """Codes (int64) of float64 values. What is too large becomes infinity, or with `finite` the largest
    value; NaN becomes the canonical NaN, or in formats without one the largest value (PTX ISA, cvt,
    .satfinite)."""
    form = FORMATS[name]
    near, top = rounded(np.asarray(values, np.float64), name, mode), largest(name)
    beyond = np.abs(near) > top
    limit = top if finite or not form.infinity or mode == "rz" else np.inf
    near = np.where(beyond & np.isfinite(values), np.copysign(limit, near), near)
    if finite or not form.infinity:
        near = np.where(np.isinf(near), np.copysign(top, near), near)
    return np.where(np.isnan(near), _nan(name), _code(near, form))


def _nan(name: str) -> int:
    form = FORMATS[name]
    if name == "ue8m0":
        return 255
    if not form.nan:
        return (1 << form.exponent + form.fraction) - 1
    return (1 << form.exponent + form.fraction) - 1


def _code(values: Array, form: Format) -> Array:
    """Codes of values that the format has, or infinity."""
    size = np.abs(np.where(np.isfinite(values), values, 0.0))
    if not form.fraction:
        return np.clip(np.frexp(np.where(size > 0, size, 1.0))[1] - 1 + form.bias, 0, 254).astype(np.int64)
    exponent = np.maximum(np.frexp(size)[1] - 1, 1 - form.bias)
    units = np.ldexp(size, form.fraction - exponent).astype(np.int64)
    normal = units >> form.fraction > 0
    code = np.where(
        normal, (exponent + form.bias << form.fraction) + (units & (1 << form.fraction) - 1), units
    )
    code = np.where(np.isinf(values), (1 << form.exponent) - 1 << form.fraction, code)
    return code | (np.signbit(values).astype(np.int64) << form.exponent + form.fraction if form.signed else 0)


# --- bf16 and float32, fast -------------------------------------------------------------------------------


def bf16_values(codes: Array) -> Array:
    """float32 of 16-bit codes."""
    return (codes.astype(np.uint32) << 16).view(np.float32)


def bf16_codes(values: Array) -> Array:
    """16-bit codes of float32 values, to nearest even; NaN is 0x7fff (PTX ISA, cvt to bf16)."""
    word = np.ascontiguousarray(values, np.float32).view(np.uint32)
    near = (word + 0x7FFF + (word >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FFF, near).astype(np.uint16)
