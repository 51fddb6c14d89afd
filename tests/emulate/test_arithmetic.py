"""Integer, floating-point and conversion instructions, against exact arithmetic: Python's integers and
fractions, exhaustive tables."""

import math
import struct
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.emulate.ptx import Array, evaluate
from twill.emulate import HazardError

RANDOM = np.random.default_rng(7)
EDGES = (0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFF, 0x10000)
WORDS = np.concatenate(
    [RANDOM.integers(0, 1 << 32, 300, dtype=np.uint32), RANDOM.choice(np.array(EDGES, np.uint32), 300)]
)
OTHERS, THIRDS = RANDOM.permutation(WORDS), RANDOM.permutation(WORDS)


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> bits - 1 & 1 else value


Words: TypeAlias = Callable[[int], int] | Callable[[int, int], int] | Callable[[int, int, int], int]


def expected(fn: Words, *inputs: Array, bits: int = 32) -> list[int]:
    apply: Any = fn
    return [
        apply(*values) & (1 << bits) - 1 for values in zip(*(one.tolist() for one in inputs), strict=True)
    ]


# --- integers ---------------------------------------------------------------------------------------------


def truncated(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * truncated(a, b)


def field(a: int, b: int, c: int) -> int:
    """bfe.u32."""
    return a >> (b & 255) & (1 << (c & 255)) - 1


def signed_field(a: int, b: int, c: int) -> int:
    """bfe.s32: bits beyond the field are its sign, bits beyond a are a's."""
    at, length = b & 255, c & 255
    if not length:
        return 0
    bits = [a >> min(at + i, 31) & 1 for i in range(min(length, 32))]
    value = sum(bit << i for i, bit in enumerate(bits))
    return value | (-(bits[-1]) << len(bits))


def inserted(a: int, b: int, c: int) -> int:
    mask = ((1 << 8) - 1 << (c & 255)) & 0xFFFFFFFF
    return b & ~mask | a << (c & 255) & mask


def permuted(a: int, b: int, c: int) -> int:
    octets, found = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")], list[int]()
    for i in range(4):
        choice = c >> 4 * i & 15
        octet = octets[choice & 7]
        found.append((255 if octet & 128 else 0) if choice & 8 else octet)
    return int.from_bytes(bytes(found), "little")


def dot4(a: int, b: int, c: int) -> int:
    return c + sum(signed(a >> 8 * i & 255, 8) * (b >> 8 * i & 255) for i in range(4))


def majority(a: int, b: int, c: int) -> int:
    return a & b | a & c | b & c


TWO: dict[str, Callable[[int, int], int]] = {
    "add.s32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.s32": lambda a, b: signed(a) * signed(b) >> 32,
    "div.u32": lambda a, b: a // b if b else -1,
    "div.s32": lambda a, b: truncated(signed(a), signed(b)),
    "rem.u32": lambda a, b: a % b if b else a,
    "rem.s32": lambda a, b: remainder(signed(a), signed(b)),
    "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.u32": max,
    "add.sat.s32": lambda a, b: min(max(signed(a) + signed(b), -(1 << 31)), (1 << 31) - 1),
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
    "shr.s32": lambda a, b: signed(a) >> min(b, 31),
    "xor.b32": lambda a, b: a ^ b,
    "bmsk.clamp.b32": lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32),
    "szext.clamp.s32": lambda a, b: signed(a & (1 << min(b, 32)) - 1, min(b, 32)) if b else 0,
}


@pytest.mark.parametrize("name", TWO)
def test_two_words(name: str) -> None:
    found = evaluate(f"{name} {{d}}, {{a}}, {{b}};", 32, WORDS, OTHERS)
    keep = ~((WORDS == 0x80000000) & (OTHERS == 0xFFFFFFFF))
    assert found[keep].tolist() == np.array(expected(TWO[name], WORDS, OTHERS), np.uint32)[keep].tolist()


THREE: dict[str, Callable[[int, int, int], int]] = {
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "mad.hi.u32": lambda a, b, c: (a * b >> 32) + c,
    "bfe.u32": field,
    "bfe.s32": signed_field,
    "prmt.b32": permuted,
    "shf.l.wrap.b32": lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32,
    "shf.r.clamp.b32": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "dp4a.s32.u32": dot4,
    "sad.u32": lambda a, b, c: abs(a - b) + c,
}


@pytest.mark.parametrize("name", THREE)
def test_three_words(name: str) -> None:
    found = evaluate(f"{name} {{d}}, {{a}}, {{b}}, {{c}};", 32, WORDS, OTHERS, THIRDS)
    assert found.tolist() == expected(THREE[name], WORDS, OTHERS, THIRDS)


def test_bit_fields_of_useful_lengths() -> None:
    at, length = RANDOM.integers(0, 40, 600, dtype=np.uint32), RANDOM.integers(0, 40, 600, dtype=np.uint32)
    for name in ("bfe.u32", "bfe.s32"):
        assert evaluate(f"{name} {{d}}, {{a}}, {{b}}, {{c}};", 32, WORDS, at, length).tolist() == expected(
            THREE[name], WORDS, at, length
        )
    assert evaluate("bfi.b32 {d}, {a}, {b}, {c}, 8;", 32, WORDS, OTHERS, at).tolist() == expected(
        inserted, WORDS, OTHERS, at
    )


def test_logic_by_a_truth_table() -> None:
    assert evaluate("lop3.b32 {d}, {a}, {b}, {c}, 0xE8;", 32, WORDS, OTHERS, THIRDS).tolist() == expected(
        majority, WORDS, OTHERS, THIRDS
    )


ONE: dict[str, Callable[[int], int]] = {
    "popc.b32": int.bit_count,
    "clz.b32": lambda a: 32 - a.bit_length(),
    "brev.b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "bfind.u32": lambda a: a.bit_length() - 1,
    "bfind.s32": lambda a: (~signed(a) if signed(a) < 0 else a).bit_length() - 1,
    "bfind.shiftamt.u32": lambda a: 32 - a.bit_length() if a else -1,
    "neg.s32": lambda a: -a,
    "not.b32": lambda a: ~a,
    "cnot.b32": lambda a: int(a == 0),
    "abs.s32": lambda a: abs(signed(a)),
}


@pytest.mark.parametrize("name", ONE)
def test_one_word(name: str) -> None:
    assert evaluate(f"{name} {{d}}, {{a}};", 32, WORDS).tolist() == expected(ONE[name], WORDS)


def test_wide_products_and_carries() -> None:
    wide = evaluate("mul.wide.s32 {d}, {a}, {b};", 64, WORDS, OTHERS)
    assert wide.tolist() == expected(lambda a, b: signed(a) * signed(b), WORDS, OTHERS, bits=64)
    text = "add.cc.u32 {d}, {a}, {b};\n addc.u32 {d}, {c}, {a};"
    carried = evaluate(text, 32, WORDS, OTHERS, THIRDS)
    assert carried.tolist() == expected(lambda a, b, c: c + a + (a + b >> 32), WORDS, OTHERS, THIRDS)
    text = "mad.lo.cc.u32 %r30, {a}, {b}, {c};\n madc.hi.u32 {d}, {a}, {b}, 0;"
    assert evaluate(text, 32, WORDS, OTHERS, THIRDS).tolist() == expected(
        lambda a, b, c: a * b + c >> 32, WORDS, OTHERS, THIRDS
    )
    text = "sub.cc.u32 {d}, {a}, {b};\n subc.u32 {d}, {c}, 0;"
    assert evaluate(text, 32, WORDS, OTHERS, THIRDS).tolist() == expected(
        lambda a, b, c: c - (a < b), WORDS, OTHERS, THIRDS
    )


# --- floats -----------------------------------------------------------------------------------------------

SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    2.0**-149,
    -(2.0**-149),
    2.0**-126,
    3.4028235e38,
    -3.4028235e38,
    0.5,
    1.5,
]


def floats(count: int, spread: int = 60) -> Array:
    values = RANDOM.standard_normal(count) * 2.0 ** RANDOM.integers(-spread, spread, count)
    return np.concatenate([values, RANDOM.choice(np.array(SPECIAL), 200)]).astype(np.float32)


A, B, C = floats(600), floats(600), floats(600)


def exact(value: Fraction, mode: str, least: int = -149, bits: int = 24, top: int = 127) -> float:
    """A number rounded to float32, by its definition."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = math.frexp(float(size))[1] - 1 if size else 0
    while Fraction(2) ** exponent > size:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** max(exponent - bits + 1, least)
    steps, rest = divmod(size, unit)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and steps % 2 == 1),
        "rz": False,
        "rm": value < 0 and rest > 0,
        "rp": value > 0 and rest > 0,
    }[mode]
    made = (steps + up) * unit
    if made >= Fraction(2) ** (top + 1):
        grows = {"rn": True, "rz": False, "rm": value < 0, "rp": value > 0}[mode]
        made = Fraction(2) ** (top + 1) - Fraction(2) ** (top + 1 - bits) if not grows else None
    result = math.inf if made is None else float(made)
    return -result if value < 0 else result


def agree(found: Array, wanted: Iterable[float], *inputs: Array) -> None:
    """Equal as numbers; what has no finite operands is not looked at."""
    finite = np.logical_and.reduce([np.isfinite(one) for one in inputs])
    other = np.array(list(wanted), np.float32)
    assert finite.sum() > 300
    assert np.array_equal(found.view(np.float32)[finite], other[finite])


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_fma_rounds_once(mode: str) -> None:
    with np.errstate(all="ignore"):
        near = (-A.astype(np.float64) * B * (1 + RANDOM.integers(-2, 3, len(A)) * 2.0**-23)).astype(
            np.float32
        )
    for c in (C, near):
        found = evaluate(
            f"fma.{mode}.f32 {{d}}, {{a}}, {{b}}, {{c}};",
            32,
            A.view(np.uint32),
            B.view(np.uint32),
            c.view(np.uint32),
        )

        def one(x: float, y: float, z: float) -> float:
            return (
                exact(Fraction(x) * Fraction(y) + Fraction(z), mode)
                if np.isfinite([x, y, z]).all()
                else math.nan
            )

        agree(
            found, (one(*values) for values in zip(A.tolist(), B.tolist(), c.tolist(), strict=True)), A, B, c
        )


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["add", "mul", "sub"])
def test_sums_and_products_round(name: str, mode: str) -> None:
    fn = {"add": Fraction.__add__, "mul": Fraction.__mul__, "sub": Fraction.__sub__}[name]
    found = evaluate(f"{name}.{mode}.f32 {{d}}, {{a}}, {{b}};", 32, A.view(np.uint32), B.view(np.uint32))

    def one(x: float, y: float) -> float:
        return exact(fn(Fraction(x), Fraction(y)), mode) if np.isfinite([x, y]).all() else math.nan

    agree(found, (one(*values) for values in zip(A.tolist(), B.tolist(), strict=True)), A, B)


def test_subnormals_are_flushed() -> None:
    small = np.array([2.0**-149, 2.0**-127, 2.0**-126, -(2.0**-130)], np.float32)
    found = evaluate("add.ftz.f32 {d}, {a}, 0f00000000;", 32, small.view(np.uint32)).view(np.float32)
    assert found.tolist() == [0.0, 0.0, 2.0**-126, 0.0]


@pytest.mark.parametrize(("name", "least"), [("min", True), ("max", False)])
@pytest.mark.parametrize("nan", ["", ".NaN"])
def test_extremes_and_nan(name: str, least: bool, nan: str) -> None:
    found = evaluate(f"{name}{nan}.f32 {{d}}, {{a}}, {{b}};", 32, A.view(np.uint32), B.view(np.uint32)).view(
        np.float32
    )
    for a, b, one in zip(A.tolist(), B.tolist(), found.tolist(), strict=True):
        if math.isnan(a) or math.isnan(b):
            wanted = math.nan if nan or (math.isnan(a) and math.isnan(b)) else (b if math.isnan(a) else a)
        else:
            wanted = min(a, b) if least else max(a, b)
        assert one == wanted or (math.isnan(one) and math.isnan(wanted))


def test_negative_zero_is_less_than_zero() -> None:
    zeros = np.array([0x00000000, 0x80000000], np.uint32)
    assert evaluate("min.NaN.f32 {d}, {a}, {b};", 32, zeros, zeros[::-1].copy()).tolist() == [0x80000000] * 2
    assert evaluate("max.NaN.f32 {d}, {a}, {b};", 32, zeros, zeros[::-1].copy()).tolist() == [0] * 2


def test_comparisons_with_nan() -> None:
    def one(compare: str) -> list[int]:
        values = np.array([1.0, 2.0, math.nan, math.inf], np.float32).view(np.uint32)
        others = np.array([2.0, 2.0, 1.0, math.nan], np.float32).view(np.uint32)
        return evaluate(
            f"setp.{compare}.f32 %p1, {{a}}, {{b}};\nselp.u32 {{d}}, 1, 0, %p1;", 32, values, others
        ).tolist()

    assert one("lt") == [1, 0, 0, 0]
    assert one("ltu") == [1, 0, 1, 1]
    assert one("ne") == [1, 0, 0, 0]
    assert one("neu") == [1, 0, 1, 1]
    assert one("num") == [1, 1, 0, 0]
    assert one("ge") == [0, 1, 0, 0]


def test_predicates_are_joined() -> None:
    text = """
    setp.ne.u32 %p2, {b}, 0;
    setp.lt.and.u32 %p1|%p3, {a}, 10, %p2;
    selp.u32 %r30, 1, 0, %p1;
    selp.u32 {d}, 2, 0, %p3;
    or.b32 {d}, {d}, %r30;
"""
    a, b = np.array([5, 5, 15, 15], np.uint32), np.array([1, 0, 1, 0], np.uint32)
    assert evaluate(text, 32, a, b).tolist() == [1, 0, 2, 0]


APPROXIMATE: dict[str, Callable[[Any], Any]] = {
    "ex2.approx.ftz.f32": np.exp2,
    "lg2.approx.f32": np.log2,
    "rcp.approx.f32": lambda x: 1 / x,
    "rsqrt.approx.f32": lambda x: 1 / np.sqrt(x),
    "sqrt.rn.f32": np.sqrt,
    "sqrt.approx.ftz.f32": np.sqrt,
    "sin.approx.f32": np.sin,
    "cos.approx.f32": np.cos,
    "tanh.approx.f32": np.tanh,
}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_functions(name: str) -> None:
    values = np.abs(RANDOM.standard_normal(500)).astype(np.float32) + np.float32(0.01)
    found = evaluate(f"{name} {{d}}, {{a}};", 32, values.view(np.uint32)).view(np.float32)
    assert np.allclose(found, APPROXIMATE[name](values.astype(np.float64)), rtol=1e-6)


# --- packed and narrow ------------------------------------------------------------------------------------


def test_packed_halves() -> None:
    a, b, c = (RANDOM.standard_normal(800).astype(np.float16) for _ in range(3))
    found = evaluate(
        "fma.rn.f16x2 {d}, {a}, {b}, {c};", 32, a.view(np.uint32), b.view(np.uint32), c.view(np.uint32)
    )
    wanted = [
        exact(Fraction(x) * Fraction(y) + Fraction(z), "rn", -24, 11, 15)
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert found.view(np.float16).tolist() == wanted
    found = evaluate("max.f16x2 {d}, {a}, {b};", 32, a.view(np.uint32), b.view(np.uint32))
    assert found.view(np.float16).tolist() == np.maximum(a, b).tolist()


def test_bf16() -> None:
    a, b, c = (RANDOM.integers(0x3000, 0x4800, 400).astype(np.uint16) for _ in range(3))
    values = [((one.astype(np.uint32) << 16).view(np.float32)).tolist() for one in (a, b, c)]
    found = evaluate("fma.rn.bf16 {d}, {a}, {b}, {c};", 16, a, b, c)
    wanted = [
        exact(Fraction(x) * Fraction(y) + Fraction(z), "rn", -133, 8) for x, y, z in zip(*values, strict=True)
    ]
    assert (found.astype(np.uint32) << 16).view(np.float32).tolist() == wanted


def value_of(code: int, exponent: int, fraction: int, kind: str) -> float:
    """The number that 8 bits stand for (OCP 8-bit floating point)."""
    bias, top = (1 << exponent - 1) - 1, (1 << exponent) - 1
    e, f = code >> fraction & top, code & (1 << fraction) - 1
    sign = -1.0 if code >> 7 else 1.0
    if kind == "e5m2" and e == top:
        return sign * math.inf if f == 0 else math.nan
    if kind == "e4m3" and e == top and f == 7:
        return math.nan
    return sign * (
        math.ldexp(f, 1 - bias - fraction) if e == 0 else math.ldexp((1 << fraction) + f, e - bias - fraction)
    )


@pytest.mark.parametrize(("kind", "exponent", "fraction"), [("e4m3", 4, 3), ("e5m2", 5, 2)])
def test_8_bit_floats_are_widened(kind: str, exponent: int, fraction: int) -> None:
    codes = np.arange(256, dtype=np.uint16)
    found = evaluate(f"cvt.rn.f16x2.{kind}x2 {{d}}, {{a}};", 32, codes | 0x0100).view(np.float16)[0::2]
    wanted = [value_of(code, exponent, fraction, kind) for code in range(256)]
    assert np.array_equal(found.astype(np.float64), np.array(wanted), equal_nan=True)


@pytest.mark.parametrize(("kind", "exponent", "fraction"), [("e4m3", 4, 3), ("e5m2", 5, 2)])
def test_8_bit_floats_are_rounded_and_saturate(kind: str, exponent: int, fraction: int) -> None:
    table = {code: value_of(code, exponent, fraction, kind) for code in range(256)}
    finite = {code: value for code, value in table.items() if math.isfinite(value)}
    tops = max(finite.values())
    middles = [
        (a + b) / 2 for a, b in zip(sorted(finite.values()), sorted(finite.values())[1:], strict=False)
    ]
    values = np.array(
        [*finite.values(), *middles, *(m * 1.001 for m in middles), 1e9, -1e9, math.inf, -math.inf, math.nan],
        np.float32,
    )
    other = np.full(len(values), 1.0, np.float32)
    found = evaluate(
        f"cvt.rn.satfinite.{kind}x2.f32 {{d}}, {{a}}, {{b}};",
        16,
        other.view(np.uint32),
        values.view(np.uint32),
    )
    for value, code in zip(values.tolist(), (found & 255).tolist(), strict=True):
        if math.isnan(value):
            assert code == 0x7F
            continue
        limited = max(-tops, min(tops, value))
        best = min(abs(limited - one) for one in finite.values())
        near = [other for other, one in finite.items() if abs(limited - one) == best]
        assert code in near
        assert len({finite[other] for other in near}) == 1 or code % 2 == 0
    assert set((found >> 8).tolist()) == {int(next(code for code, value in table.items() if value == 1.0))}


def test_float_to_integer() -> None:
    values = np.array(
        [0.5, 1.5, 2.5, -0.5, -1.5, 2.7, -2.7, 1e20, -1e20, math.nan, math.inf, -math.inf, 2147483520.0],
        np.float32,
    )
    text = "cvt.{mode}.s32.f32 {{d}}, {{a}};"

    def one(mode: str) -> list[int]:
        return evaluate(text.format(mode=mode), 32, values.view(np.uint32)).view(np.int32).tolist()

    top, low = (1 << 31) - 1, -(1 << 31)
    ends = [top, low, 0, top, low, 2147483520]
    assert one("rni") == [0, 2, 2, 0, -2, 3, -3, *ends]
    assert one("rzi") == [0, 1, 2, 0, -1, 2, -2, *ends]
    assert one("rmi") == [0, 1, 2, -1, -2, 2, -3, *ends]
    assert one("rpi") == [1, 2, 3, 0, -1, 3, -2, *ends]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_narrowing(mode: str) -> None:
    values = RANDOM.standard_normal(400) * 2.0 ** RANDOM.integers(-30, 20, 400)
    single = values.astype(np.float32)
    found = evaluate(f"cvt.{mode}.f16.f32 {{d}}, {{a}};", 16, single.view(np.uint32)).view(np.float16)
    assert found.tolist() == [exact(Fraction(x), mode, -24, 11, 15) for x in single.tolist()]
    found = evaluate(f"cvt.{mode}.f32.f64 {{d}}, {{a}};", 32, values.view(np.uint64)).view(np.float32)
    assert found.tolist() == [exact(Fraction(x), mode) for x in values.tolist()]
    if mode in ("rn", "rz"):
        found = evaluate(f"cvt.{mode}.bf16.f32 {{d}}, {{a}};", 16, single.view(np.uint32))
        assert (found.astype(np.uint32) << 16).view(np.float32).tolist() == [
            exact(Fraction(x), mode, -133, 8) for x in single.tolist()
        ]
    found = evaluate(f"cvt.{mode}.f32.s32 {{d}}, {{a}};", 32, WORDS).view(np.float32)
    assert found.tolist() == [exact(Fraction(signed(x)), mode) for x in WORDS.tolist()]


def test_tf32_rounds_away_from_zero() -> None:
    values = np.array([1.0 + 2.0**-11, 1.0 + 2.0**-12, -1.0 - 2.0**-11], np.float32)
    found = evaluate("cvt.rna.tf32.f32 {d}, {a};", 32, values.view(np.uint32)).view(np.float32)
    assert found.tolist() == [1.0 + 2.0**-10, 1.0, -1.0 - 2.0**-10]


def test_integers_change_size() -> None:
    assert evaluate("cvt.s64.s32 {d}, {a};", 64, WORDS).tolist() == expected(signed, WORDS, bits=64)
    assert evaluate("cvt.s32.s8 {d}, {a};", 32, WORDS).tolist() == expected(
        lambda a: signed(a & 255, 8), WORDS
    )
    text = "cvt.s8.s32 %h1, {a};\ncvt.s32.s16 {d}, %h1;"
    assert evaluate(text, 32, WORDS).tolist() == expected(lambda a: signed(a & 255, 8), WORDS)
    text = "cvt.u8.s32 %h1, {a};\ncvt.s32.s16 {d}, %h1;"
    assert evaluate(text, 32, WORDS).tolist() == expected(lambda a: a & 255, WORDS)
    assert evaluate("cvt.sat.u8.s32 {d}, {a};", 32, WORDS).tolist() == expected(
        lambda a: min(max(signed(a), 0), 255), WORDS
    )


def test_moves_between_sizes() -> None:
    text = "mov.b32 {{%h1, %h2}}, {a};\nmov.b32 {d}, {{%h2, %h1}};"
    assert evaluate(text, 32, WORDS).tolist() == expected(lambda a: a >> 16 | a << 16, WORDS)
    text = "mov.b64 {d}, {{{a}, {b}}};"
    assert evaluate(text, 64, WORDS, OTHERS).tolist() == expected(
        lambda a, b: a | b << 32, WORDS, OTHERS, bits=64
    )


def test_the_defined_half_of_a_register_can_be_unpacked() -> None:
    """Compilers pack a value beside one that nothing writes, and unpack the value alone."""
    packed = "mov.b64 %d9, {{%r99, {a}}};\n"
    assert evaluate(packed + "mov.b64 {{_, {d}}}, %d9;", 32, WORDS).tolist() == expected(lambda a: a, WORDS)
    with pytest.raises(HazardError, match="never written"):
        evaluate(packed + "mov.b64 {{{d}, _}}, %d9;", 32, WORDS)
    with pytest.raises(HazardError, match="never written"):  # the register is written elsewhere too
        evaluate(packed + "mov.b64 %d9, %d33;\nmov.b64 {{_, {d}}}, %d9;", 32, WORDS)


def test_packed_single_floats() -> None:
    a, b = A[:600].copy(), B[:600].copy()
    found = evaluate("add.rn.f32x2 {d}, {a}, {b};", 64, a.view(np.uint64), b.view(np.uint64)).view(np.float32)
    with np.errstate(all="ignore"):
        assert np.array_equal(found, a + b, equal_nan=True)


def test_literals() -> None:
    nothing = np.zeros(1, np.uint32)
    assert evaluate("mov.f32 {d}, 0f3FC00000;", 32, nothing).view(np.float32)[0] == 1.5
    assert evaluate("mov.f64 {d}, 0d4000000000000000;", 64, nothing).view(np.float64)[0] == 2.0
    assert evaluate("mov.u32 {d}, 0xFFu;".replace("u;", ";"), 32, nothing)[0] == 255
    assert evaluate("add.s32 {d}, {a}, -1;", 32, nothing)[0] == 0xFFFFFFFF
    assert (
        struct.unpack(
            "<f", struct.pack("<I", evaluate("add.f32 {d}, 0f00000000, 0f80000000;", 32, nothing)[0])
        )[0]
        == 0.0
    )
