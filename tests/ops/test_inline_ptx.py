"""Inline PTX on arrays, beside the emulator of PTX, and beside results that are known."""

import numpy as np
import pytest

from tests.emulate.ptx import evaluate
from twill.diagnostics import TwillError
from twill.ops.inline_ptx import registers, run
from twill.ops.values import Array

RANDOM = np.random.default_rng(5)
WORDS, OTHERS, THIRDS = (RANDOM.integers(0, 2**32, 250).astype(np.uint32) for _ in range(3))
WHOLE = (
    *(f"{name}.{kind}32" for name in ("add", "sub", "min", "max") for kind in "us"),
    *(f"mul.{part}.{kind}32" for part in ("lo", "hi") for kind in "us"),
    *(f"{name}.b32" for name in ("and", "or", "xor")),
)
REAL = ("add.f32", "sub.f32", "mul.f32", "min.f32", "max.f32", "add.f16x2", "sub.f16x2", "mul.f16x2")


def simulated(text: str, *operands: Array) -> Array:
    return run(text, 1, operands)[0].astype(np.uint32)


def floats(size: int = 250) -> Array:
    """f32, and in its halves f16, none of them infinite or NaN."""
    numbers = RANDOM.integers(0, 2**32, size).astype(np.uint32)
    return numbers & np.uint32(0xBBFFBBFF)


@pytest.mark.parametrize("name", [*WHOLE, *REAL])
def test_two_operands(name: str) -> None:
    a, b = (WORDS, OTHERS) if name in WHOLE else (floats(), floats())
    assert (
        simulated(f"{name} $0, $1, $2;", a, b).tolist()
        == evaluate(f"{name} {{d}}, {{a}}, {{b}};", 32, a, b).tolist()
    )


@pytest.mark.parametrize("name", ["prmt.b32", "fma.rn.f32", "fma.rn.f16x2", "mad.lo.s32", "mad.lo.u32"])
def test_three_operands(name: str) -> None:
    given = (WORDS, OTHERS, THIRDS) if name[0] in "pm" else (floats(), floats(), floats())
    expected = evaluate(f"{name} {{d}}, {{a}}, {{b}}, {{c}};", 32, *given)
    assert simulated(f"{name} $0, $1, $2, $3;", *given).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["shl.b32", "shr.u32", "shr.s32"])
def test_shifts_further_than_the_register_is_wide(name: str) -> None:
    by = (OTHERS % 70).astype(np.uint32)
    expected = evaluate(f"{name} {{d}}, {{a}}, {{b}};", 32, WORDS, by)
    assert simulated(f"{name} $0, $1, $2;", WORDS, by).tolist() == expected.tolist()


@pytest.mark.parametrize("table", [0xEA, 0x6A, 0x96, 0x01])
def test_any_function_of_three_bits(table: int) -> None:
    expected = evaluate(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", 32, WORDS, OTHERS, THIRDS)
    tables = np.full(250, table, np.uint32)
    assert (
        simulated("lop3.b32 $0, $1, $2, $3, $4;", WORDS, OTHERS, THIRDS, tables).tolist() == expected.tolist()
    )


@pytest.mark.parametrize(
    "name",
    ["cvt.rna.tf32.f32", "cvt.rzi.s32.f32", "cvt.rni.u32.f32", "cvt.rn.f32.s32", "cvt.rn.f32.u32", "not.b32"],
)
def test_one_operand(name: str) -> None:
    expected = evaluate(f"{name} {{d}}, {{a}};", 32, WORDS)
    assert simulated(f"{name} $0, $1;", WORDS).tolist() == expected.tolist()


def test_two_numbers_are_put_into_a_register() -> None:
    a, b = (RANDOM.standard_normal(250).astype(np.float32).view(np.uint32) for _ in range(2))
    expected = evaluate("cvt.rn.f16x2.f32 {d}, {a}, {b};", 32, a, b)
    assert simulated("cvt.rn.f16x2.f32 $0, $1, $2;", a, b).tolist() == expected.tolist()


def test_both_halves_of_a_register_are_results() -> None:
    """Numbers of four bits behind the exponent of 1024, as weights are unpacked."""
    text = (
        "{\n .reg .b32 tmp;\n lop3.b32 tmp, $2, $3, $4, $5;\n"
        " sub.f16x2 tmp, tmp, $6;\n mov.b32 {$0, $1}, tmp;\n}"
    )
    given = [np.full(1, one, np.uint32) for one in (0x00B50042, 0x000F000F, 0x64006400, 0xEA, 0x64086408)]
    low, high = run(text, 2, given)
    assert low.astype(np.uint16).view(np.float16).tolist() == [2 - 8]
    assert high.astype(np.uint16).view(np.float16).tolist() == [5 - 8]


def test_predicates() -> None:
    """The logarithm of 1 + 2**x, where x is not too large."""
    text = """{ .reg .pred p; // of this block
        setp.gt.f32  p, $1, 15.;
        @p  mov.f32  $0, $1;
        @!p ex2.approx.ftz.f32 $0, $1;
        @!p add.f32            $0, $0, 1.0;
        @!p lg2.approx.ftz.f32 $0, $0; }"""
    values = np.array([-3.5, 0.0, 2.25, 14.5, 15.5, 200.0], np.float32)
    found = simulated(text, values.view(np.uint32)).view(np.float32)
    with np.errstate(over="ignore"):
        assert np.allclose(found, np.where(values > 15, values, np.log2(1 + np.exp2(values))), rtol=1e-6)


def test_constraints() -> None:
    assert registers("=r,=&h, r,n") == (["r", "h"], ["r", "n"])


@pytest.mark.parametrize(
    "text",
    [
        "shfl.sync.idx.b32 $0, $1, 0, 31, -1;",
        "mov.u32 $0, %laneid;",
        "bra done;",
        "prmt.b32.f4e $0, $1, $1, $1;",
    ],
)
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(TwillError, match="can not be simulated"):
        run(text, 1, [WORDS])
