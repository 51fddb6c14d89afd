"""Integer operations of PTX on arrays of lanes (PTX ISA, "Integer Arithmetic", "Logic and Shift")."""

from collections.abc import Callable, Mapping

import numpy as np

from twill.emulate.memory.clocks import Array

_LIMITS: Mapping[str, tuple[int, int]] = {
    f"{sign}{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)
    for sign in "su"
    for bits in (16, 32, 64)
}


def div(a: Array, b: Array) -> Array:
    """Rounded to zero; all ones where the divisor is 0."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    return np.where(b == 0, ~b.dtype.type(0), (a - np.fmod(a, safe)) // safe)


def rem(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, b.dtype.type(1), b)))


def mul_hi(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    kind = "int64" if a.dtype.kind == "i" else "uint64"
    if bits < 64:
        return a.astype(kind) * b.astype(kind) >> bits
    return np.array([int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)], dtype=object).astype(a.dtype)


def shl(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    return np.where(b < bits, a << np.minimum(b, bits - 1).astype(a.dtype), a.dtype.type(0))


def shr(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    moved = a >> np.minimum(b, bits - 1).astype(a.dtype)
    return moved if a.dtype.kind == "i" else np.where(b < bits, moved, a.dtype.type(0))


def popc(a: Array) -> Array:
    return np.bitwise_count(a)


def clz(a: Array) -> Array:
    bits = a.dtype.itemsize * 8
    wide = a.astype(np.uint64)
    for shift in (1, 2, 4, 8, 16, 32):
        wide = wide | wide >> np.uint64(shift)
    return bits - np.bitwise_count(wide).astype(np.int64)


def brev(a: Array) -> Array:
    bits = a.dtype.itemsize * 8
    octets = np.ascontiguousarray(a).view(np.uint8).reshape(-1, bits // 8)
    turned = np.unpackbits(octets, axis=1, bitorder="little")[:, ::-1]
    return np.packbits(turned, axis=1, bitorder="little").view(a.dtype)[:, 0]


def bfind(a: Array, shift: bool) -> Array:
    """Position of the highest bit that is not the sign; all ones where there is none."""
    bits = a.dtype.itemsize * 8
    word = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
    top = bits - 1 - clz(word.view(f"uint{bits}")).astype(np.int64)
    return np.where(top < 0, -1, bits - 1 - top if shift else top)


def bfe(a: Array, b: Array, c: Array) -> Array:
    """Field of c bits at b; a signed one is extended by its highest bit, or a's where it ends beyond a."""
    bits = a.dtype.itemsize * 8
    at, length = (b & 255).astype(np.int64), (c & 255).astype(np.int64)
    wide = a.astype(np.uint64) & np.uint64((1 << bits) - 1)
    field = np.where(at < bits, wide >> np.minimum(at, 63).astype(np.uint64), np.uint64(0))
    mask = np.where(
        length < 64, (np.uint64(1) << np.minimum(length, 63).astype(np.uint64)) - np.uint64(1), ~np.uint64(0)
    )
    found = field & mask
    if a.dtype.kind == "i":
        last = np.minimum(at + length - 1, bits - 1)
        sign = (length > 0) & (wide >> np.maximum(last, 0).astype(np.uint64) & np.uint64(1) == 1)
        valid = np.minimum(np.maximum(bits - at, 0), length)
        fill = ~np.where(
            valid < 64,
            (np.uint64(1) << np.minimum(valid, 63).astype(np.uint64)) - np.uint64(1),
            ~np.uint64(0),
        )
        found = np.where(sign, found | fill, found)
    return found.astype(f"uint{bits}").view(a.dtype)


def bfi(a: Array, b: Array, c: Array, d: Array) -> Array:
    """The lowest d bits of a, put into b at c."""
    bits = a.dtype.itemsize * 8
    at, length = (c & 255).astype(np.int64), (d & 255).astype(np.int64)
    ones = np.where(
        length < 64, (np.uint64(1) << np.minimum(length, 63).astype(np.uint64)) - np.uint64(1), ~np.uint64(0)
    )
    mask = np.where(at < bits, ones << np.minimum(at, 63).astype(np.uint64), np.uint64(0))
    moved = a.astype(np.uint64) << np.minimum(at, 63).astype(np.uint64)
    return (b.astype(np.uint64) & ~mask | moved & mask).astype(a.dtype)


def prmt(a: Array, b: Array, c: Array) -> Array:
    """Bytes of b:a chosen by the nibbles of c; bit 3 replicates a byte's sign."""
    source = np.stack([a, b]).astype("<u4").T.copy().view(np.uint8)
    found = np.zeros((len(a), 4), np.uint8)
    for i in range(4):
        choice = (c >> np.uint32(4 * i)) & np.uint32(15)
        octet = np.take_along_axis(source, (choice & 7).astype(np.int64)[:, None], axis=1)[:, 0]
        found[:, i] = np.where(choice & 8, np.where(octet & 128, 255, 0), octet)
    return found.view("<u4")[:, 0]


def prmt_mode(mode: str) -> Callable[[Array, Array, Array], Array]:
    """prmt with a named mode, of which c's lowest two bits choose."""
    choices = {
        "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
        "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
        "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
        "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
        "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
        "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
    }[mode]
    return lambda a, b, c: prmt(a, b, np.array(choices, np.uint32)[c & 3])


def lop3(table: int) -> Callable[[Array, Array, Array], Array]:
    """The bitwise function with a truth table."""

    def run(a: Array, b: Array, c: Array) -> Array:
        found = np.zeros_like(a)
        for row in range(8):
            if table >> row & 1:
                found |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return found

    return run


def shf(left: bool, wrap: bool) -> Callable[[Array, Array, Array], Array]:
    """Funnel shift of b:a."""

    def run(a: Array, b: Array, c: Array) -> Array:
        count = (c & np.uint32(31) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        both = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
        return (both << count >> np.uint64(32) if left else both >> count).astype(np.uint32)

    return run


def dp4a(a_signed: bool, b_signed: bool) -> Callable[[Array, Array, Array], Array]:
    def octets(x: Array, signed: bool) -> Array:
        return x.copy().view(np.int8 if signed else np.uint8).reshape(-1, 4).astype(np.int64)

    return lambda a, b, c: c.astype(np.int64) + (octets(a, a_signed) * octets(b, b_signed)).sum(axis=1)


def dp2a(high: bool, a_signed: bool, b_signed: bool) -> Callable[[Array, Array, Array], Array]:
    def run(a: Array, b: Array, c: Array) -> Array:
        words = a.copy().view(np.int16 if a_signed else np.uint16).reshape(-1, 2).astype(np.int64)
        octets = b.copy().view(np.int8 if b_signed else np.uint8).reshape(-1, 4).astype(np.int64)
        return c.astype(np.int64) + (words * (octets[:, 2:] if high else octets[:, :2])).sum(axis=1)

    return run


def saturated(fn: Callable[..., Array], dtype: str) -> Callable[..., Array]:
    """In 64 bits, then within the type's range (.sat)."""
    low, high = _LIMITS[dtype]
    return lambda *args: np.clip(fn(*(one.astype(np.int64) for one in args)), low, high)


def cnot(a: Array) -> Array:
    return a == 0


def mul24(a: Array, b: Array) -> Array:
    return (a << 8 >> 8) * (b << 8 >> 8)


def mul_wide(a: Array, b: Array) -> Array:
    return a.astype(f"{a.dtype.kind}{a.dtype.itemsize * 2}") * b


def mad_lo(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


def mad_hi(a: Array, b: Array, c: Array) -> Array:
    return mul_hi(a, b).astype(a.dtype) + c


def mad_wide(a: Array, b: Array, c: Array) -> Array:
    return mul_wide(a, b) + c


def select(a: Array, b: Array, c: Array) -> Array:
    return np.where(c >= 0, a, b)


def abs_diff_add(a: Array, b: Array, c: Array) -> Array:
    return np.where(a < b, b - a, a - b) + c
