"""Exact sums and products, rounded once.

A float32 result is computed in float64 with what the float64 lost, rounded to odd, and then to float32 in the
direction wanted, which gives what one rounding of the exact result gives (Boldo and Melquiond, "Emulation of
FMA and correctly rounded sums", 2008).
"""

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Sum and what it lost (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Product of float64 and what it lost (Dekker, with Veltkamp's splitting)."""
    p = a * b
    x, y = _halves(a), _halves(b)
    return p, ((x[0] * y[0] - p) + x[0] * y[1] + x[1] * y[0]) + x[1] * y[1]


def _halves(a: Array) -> tuple[Array, Array]:
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


def odd(s: Array, lost: Array) -> Array:
    """The exact s + lost, rounded to odd in float64."""
    inexact = (lost != 0) & np.isfinite(s) & np.isfinite(lost)
    if not inexact.any():
        return s
    code = np.array(s, np.float64).view(np.int64)
    code[inexact & (np.signbit(lost) != np.signbit(s))] -= 1
    code[inexact] |= 1
    return code.view(np.float64)


def narrowed(exact: Array, mode: str, kind: str = "float32") -> Array:
    """float64 rounded to a narrower type. Modes rn, rz, rm, rp."""
    near = exact.astype(kind)
    if mode == "rn":
        return near
    wide = near.astype(np.float64)
    zero, infinity = near.dtype.type(0), near.dtype.type(np.inf)
    match mode:
        case "rz":
            return np.where(np.abs(wide) > np.abs(exact), np.nextafter(near, zero), near)
        case "rm":
            return np.where(wide > exact, np.nextafter(near, -infinity), near)
        case _:
            return np.where(wide < exact, np.nextafter(near, infinity), near)


def fma32(a: Array, b: Array, c: Array, mode: str = "rn", kind: str = "float32") -> Array:
    """a * b + c with one rounding, of float32 or narrower operands."""
    s, lost = two_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    return narrowed(odd(s, lost), mode, kind)


def add32(a: Array, b: Array, mode: str) -> Array:
    s, lost = two_sum(a.astype(np.float64), b.astype(np.float64))
    return narrowed(odd(s, lost), mode)


def mul32(a: Array, b: Array, mode: str) -> Array:
    return narrowed(a.astype(np.float64) * b.astype(np.float64), mode)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of float64 with one rounding (Boldo and Melquiond, 2008)."""
    high, low = two_product(a, b)
    t, t_lost = two_sum(c, low)
    v, v_lost = two_sum(high, t)
    found = v + odd(*two_sum(t_lost, v_lost))
    plain = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)
    return np.where(np.isfinite(found), found, plain)


LEAST = np.float32(2.0**-126)


def flushed(a: Array) -> Array:
    """Subnormals as zeros of their sign (.ftz)."""
    small = np.abs(a) < LEAST
    return np.where(small, np.copysign(a.dtype.type(0), a), a) if small.any() else a
