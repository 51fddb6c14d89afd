"""Integer arithmetic, logic and bit fields (PTX ISA, "Integer Arithmetic", "Logic and Shift")."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from twill.emulate.decode import Decoder, Step, guard_of, mask_of, step
from twill.emulate.machine.warp import Warp, size
from twill.emulate.memory.clocks import Array
from twill.emulate.numeric.integers import (
    abs_diff_add,
    bfe,
    bfi,
    bfind,
    brev,
    clz,
    cnot,
    div,
    dp2a,
    dp4a,
    lop3,
    mad_hi,
    mad_lo,
    mad_wide,
    mul24,
    mul_hi,
    mul_wide,
    popc,
    prmt,
    prmt_mode,
    rem,
    saturated,
    select,
    shf,
    shl,
    shr,
)
from twill.emulate.opcodes.lift import Pure, get, lift, put
from twill.emulate.ptx.syntax import Instruction, Integer, Operand

INTEGERS = ("u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64")


def type_of(one: Instruction) -> str:
    """The last modifier that is a type."""
    return one.modifiers[-1]


def _wide(dtype: str) -> str:
    """The type of twice the size."""
    return f"{dtype[0]}{int(dtype[1:]) * 2}"


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
