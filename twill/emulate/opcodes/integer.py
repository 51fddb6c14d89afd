"""Integer arithmetic, logic and bit fields (PTX ISA, "Integer Arithmetic", "Logic and Shift")."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from twill.emulate.decode import Decoder, Step, guard_of, mask_of, step
from twill.emulate.machine.warp import Warp, size
from twill.emulate.memory.clocks import Array
from twill.emulate.opcodes.lift import Pure, get, lift, put
from twill.emulate.ptx.syntax import Instruction, Integer, Operand

INTEGERS = ("u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64")
_LIMITS: Mapping[str, tuple[int, int]] = {
    f"{sign}{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)
    for sign in "su"
    for bits in (16, 32, 64)
}


def type_of(one: Instruction) -> str:
    """The last modifier that is a type."""
    return one.modifiers[-1]


def _wide(dtype: str) -> str:
    """The type of twice the size."""
    return f"{dtype[0]}{int(dtype[1:]) * 2}"


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


# --- rows -------------------------------------------------------------------------------------------------

Made = tuple[Pure, str, tuple[str, ...]]


def same(fn: Pure, count: int) -> Callable[[str], Made]:
    return lambda dtype: (fn, dtype, (dtype,) * count)


_PLAIN: Mapping[str, Callable[[str], Made]] = {
    "add": same(np.add, 2),
    "sub": same(np.subtract, 2),
    "min": same(np.minimum, 2),
    "max": same(np.maximum, 2),
    "div": same(div, 2),
    "rem": same(rem, 2),
    "abs": same(np.abs, 1),
    "neg": same(np.negative, 1),
    "and": same(np.bitwise_and, 2),
    "or": same(np.bitwise_or, 2),
    "xor": same(np.bitwise_xor, 2),
    "not": same(np.invert, 1),
    "cnot": same(cnot, 1),
    "shl": lambda dtype: (shl, dtype, (dtype, "u32")),
    "shr": lambda dtype: (shr, dtype, (dtype, "u32")),
    "popc": lambda dtype: (popc, "u32", (dtype,)),
    "clz": lambda dtype: (clz, "u32", (dtype,)),
    "brev": same(brev, 1),
    "bfe": lambda dtype: (bfe, dtype, (dtype, "u32", "u32")),
    "bfi": lambda dtype: (bfi, dtype, (dtype, dtype, "u32", "u32")),
    "sad": same(abs_diff_add, 3),
    "mul.lo": same(np.multiply, 2),
    "mul.hi": same(mul_hi, 2),
    "mul24.lo": same(mul24, 2),
    "mul.wide": lambda dtype: (mul_wide, _wide(dtype), (dtype, dtype)),
    "mad.lo": same(mad_lo, 3),
    "mad.hi": same(mad_hi, 3),
    "mad.wide": lambda dtype: (mad_wide, _wide(dtype), (dtype, dtype, _wide(dtype))),
}


def integer(name: str, one: Instruction) -> Made:
    """The function and the types of a row, of an instruction on integers. Raises KeyError."""
    dtype = type_of(one)
    if dtype not in (*INTEGERS, "pred", "u16x2", "s16x2"):
        raise KeyError(f"the dtype {dtype}")
    if dtype in ("u16x2", "s16x2"):
        view = {"u16x2": np.uint16, "s16x2": np.int16}[dtype]
        fn = _PLAIN[name](dtype)[0]
        return (
            (lambda *args: fn(*(arg.view(view) for arg in args)).view(np.uint32)),
            "u32",
            ("u32",) * (1 if name in ("neg", "abs") else 2),
        )
    fn, target, sources = _PLAIN[name](dtype)
    if "sat" in one.modifiers:
        fn = saturated(fn, dtype)
    if dtype == "pred" and name == "not":
        fn = np.logical_not
    return fn, target, sources


def apply(one: Instruction, decoder: Decoder, made: Made) -> Step:
    fn, target, sources = made
    if len(one.operands) != len(sources) + 1:
        raise ValueError(f"{len(sources) + 1} operands are expected")
    refs = [decoder.source(operand, dtype) for operand, dtype in zip(one.operands[1:], sources, strict=True)]
    return lift(fn, decoder.target(one.operands[0], target), refs)


@step("rem", "and", "or", "xor", "not", "cnot", "shl", "shr", "popc", "clz", "brev", "bfe", "bfi", "sad")
def _integer(one: Instruction, decoder: Decoder) -> Step:
    return apply(one, decoder, integer(one.name, one))


@step("mul.lo", "mul.hi", "mul.wide", "mul24.lo", "mad.lo", "mad.hi", "mad.wide")
def _longer(one: Instruction, decoder: Decoder) -> Step:
    return apply(one, decoder, integer(".".join(one.opcode.split(".")[:2]), one))


@step("bfind")
def _bfind(one: Instruction, decoder: Decoder) -> Step:
    shift = "shiftamt" in one.modifiers
    return apply(one, decoder, (partial(bfind, shift=shift), "u32", (type_of(one),)))


@step("prmt")
def _prmt(one: Instruction, decoder: Decoder) -> Step:
    fn = prmt if len(one.modifiers) == 1 else prmt_mode(one.modifiers[1])
    return apply(one, decoder, (fn, "u32", ("u32", "u32", "u32")))


@step("lop3")
def _lop3(one: Instruction, decoder: Decoder) -> Step:
    table = one.operands[4]
    if not isinstance(table, Integer) or len(one.operands) != 5:
        raise ValueError("a truth table is expected")
    sources = [decoder.source(operand, "u32") for operand in one.operands[1:4]]
    return lift(lop3(table.value), decoder.target(one.operands[0], "u32"), sources)


@step("shf")
def _shf(one: Instruction, decoder: Decoder) -> Step:
    return apply(
        one, decoder, (shf(one.modifiers[0] == "l", one.modifiers[1] == "wrap"), "u32", ("u32", "u32", "u32"))
    )


@step("dp4a")
def _dp4a(one: Instruction, decoder: Decoder) -> Step:
    a, b = one.modifiers
    return apply(
        one,
        decoder,
        (
            dp4a(a[0] == "s", b[0] == "s"),
            "s32" if "s32" in (a, b) else "u32",
            (a, b, "s32" if "s32" in (a, b) else "u32"),
        ),
    )


@step("dp2a")
def _dp2a(one: Instruction, decoder: Decoder) -> Step:
    half, a, b = one.modifiers
    return apply(one, decoder, (dp2a(half == "hi", a[0] == "s", b[0] == "s"), "s32", (a, b, "s32")))


# --- carries ----------------------------------------------------------------------------------------------


def _exact(one: Instruction) -> Callable[[list[int]], int]:
    """The sum that an instruction forms, on Python's integers, without the carry."""
    bits, high = size(type_of(one)), "hi" in one.modifiers

    def product_sum(values: list[int]) -> int:
        whole = values[0] * values[1]
        return (whole >> bits if high else whole & (1 << bits) - 1) + values[2]

    match one.name.removesuffix("c"):
        case "add":
            return sum
        case "sub":
            return _difference
        case _:
            return product_sum


def _difference(values: list[int]) -> int:
    return values[0] - values[1]


def _carry(one: Instruction, decoder: Decoder) -> Step:
    """add.cc, addc and the like: the carry, or borrow, is one bit for each lane, kept beside the
    registers."""
    dtype = type_of(one)
    target, refs = (
        decoder.target(one.operands[0], dtype),
        [decoder.source(operand, dtype) for operand in one.operands[1:]],
    )
    reads, writes, exact = one.name.endswith("c"), "cc" in one.modifiers, _exact(one)
    bits, sign = size(dtype), -1 if one.name.startswith("sub") else 1

    def run(warp: Warp) -> None:
        carry: Array = warp.state.get("carry", np.zeros(32, np.bool_))
        columns = [get(warp, ref).view(f"uint{bits}").tolist() for ref in refs]
        if "hi" in one.modifiers and dtype[0] == "s":
            columns[:2] = [get(warp, ref).tolist() for ref in refs[:2]]
        sums = [
            exact(values) + (sign * int(bit) if reads else 0)
            for *values, bit in zip(*columns, carry, strict=True)
        ]
        valid = warp.mask
        for ref in refs:
            valid &= warp.valid[ref.code][ref.index]
        put(
            warp,
            target,
            np.array([value & (1 << bits) - 1 for value in sums], f"uint{bits}").view(
                get(warp, target).dtype
            ),
            valid,
        )
        if writes:
            made = np.array([bool(value >> bits) for value in sums])
            warp.state["carry"] = np.where(warp.active, made, carry)

    return run


@step("add.cc", "addc", "sub.cc", "subc", "mad.lo.cc", "mad.hi.cc", "madc.lo", "madc.hi")
def _with_carry(one: Instruction, decoder: Decoder) -> Step:
    return _carry(one, decoder)


# --- moves and choices ------------------------------------------------------------------------------------


@step("selp")
def _selp(one: Instruction, decoder: Decoder) -> Step:
    dtype = type_of(one)
    target = decoder.target(one.operands[0], dtype)
    a, b = (decoder.source(operand, dtype) for operand in one.operands[1:3])
    chosen, negated = guard_of(one.operands[3], decoder)

    def run(warp: Warp) -> None:
        views, valid = warp.views, warp.valid
        which = warp.files[1][chosen.index]
        if negated:
            which = ~which
        value = np.where(which, views[a.type][a.index], views[b.type][b.index])
        x, y = valid[a.code][a.index], valid[b.code][b.index]
        known = valid[0][chosen.index]
        if x != y or x != 0xFFFFFFFF:
            picked = mask_of(warp, (chosen, negated))
            known &= x & picked | y & ~picked
        put(warp, target, value, known)

    return run


@step("slct")
def _slct(one: Instruction, decoder: Decoder) -> Step:
    dtype, by = one.modifiers[-2:]
    sources = [
        decoder.source(operand, kind)
        for operand, kind in zip(one.operands[1:], (dtype, dtype, by), strict=True)
    ]
    return lift(select, decoder.target(one.operands[0], dtype), sources)


def immediate(operand: Operand) -> int:
    """Raises ValueError for what is no literal."""
    if isinstance(operand, Integer):
        return operand.value
    raise ValueError(f"{operand} is no integer literal")
