"""Arithmetic on two elements at once."""

import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.programs import cuda
from twill.extract.reader.ttgir import read
from twill.targets.cuda.expressions import choice
from twill.targets.cuda.registers.register_tiles import AnyPoint, Elements
from twill.targets.cuda.values.element_pairs import Paired, pair, paired


@pytest.mark.parametrize("compute", [operator.add, operator.sub, operator.mul], ids=lambda one: one.__name__)
def test_rounding_to_float32_first_changes_no_result(compute: Callable[..., Any]) -> None:
    """Every exponent and sign of f16, with random fractions, subnormal numbers too."""
    random = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        a, b = random.integers(0, 1 << 16, (2, 1 << 20)).astype(np.uint16).view(np.float16)
        exact = compute(a.astype(np.float64), b.astype(np.float64)).astype(np.float16)
        twice = compute(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    assert np.array_equal(exact, twice, equal_nan=True)


@pytest.mark.parametrize("compute", [operator.add, operator.sub, operator.mul], ids=lambda one: one.__name__)
def test_rounding_to_float32_first_changes_no_result_of_bf16(compute: Callable[..., Any]) -> None:
    """The exact result, as the nearest of both neighbours in bf16, ties to even."""
    random = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        words = random.integers(0, 1 << 16, (2, 1 << 20)).astype(np.uint32) << 16
        a, b = words.view(np.float32)
        exact = compute(a.astype(np.longdouble), b.astype(np.longdouble))
        twice = _bf16(compute(a, b))
        step = np.where(twice == 0, np.uint32(0), np.uint32(1 << 16))
        code = twice.view(np.uint32)
        lower, upper = (one.view(np.float32).astype(np.longdouble) for one in (code - step, code + step))
        error, other = np.abs(exact - twice), np.minimum(np.abs(exact - lower), np.abs(exact - upper))
    usual = np.isfinite(twice) & (twice != 0) & np.isfinite(lower) & np.isfinite(upper)
    even = code >> 16 & 1 == 0
    assert np.all((error < other) | ((error == other) & even) | ~usual)


def _bf16(values: np.ndarray) -> np.ndarray:
    """Rounded to the nearest, ties to even."""
    code = values.view(np.uint32).astype(np.uint64)
    rounded = (code + 0x7FFF + (code >> 16 & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


def test_words_that_are_packed_already_are_taken_as_they_are() -> None:
    def held(point: AnyPoint) -> str:
        return f"unpack_f16(x[{point} / 2], {point} % 2)"

    def number(point: AnyPoint) -> str:
        return f"f({point})"

    product = Paired("f16", "multiply_f16x2", (held, number), lambda point: "unused")
    made = pair("f16", product, "0", "1")  # pyright: ignore[reportArgumentType]
    assert made == (
        "multiply_f16x2(halves(half_of(x[0 / 2], 0 % 2), half_of(x[1 / 2], 1 % 2)), pack_f16(f(0), f(1)))"
    )


def test_one_of_two_stored_elements_is_taken_as_it_is() -> None:
    def joined(point: AnyPoint) -> str:
        return f"((({point}) & 1) ? unpack_f16(x[{point} / 2], {point} % 2) : float(y[{point}]))"

    def rounded(point: AnyPoint) -> str:
        return f"(c ? z[{point}] : float(y[{point}]))"

    product = Paired("f16", "multiply_f16x2", (joined, rounded), lambda point: "unused")
    assert pair("f16", product, "0", "1") == (  # pyright: ignore[reportArgumentType]
        "multiply_f16x2(pack_f16((((0) & 1) ? f16_of(x[0 / 2], 0 % 2) : stored_f16(y[0])),"
        " (((1) & 1) ? f16_of(x[1 / 2], 1 % 2) : stored_f16(y[1]))),"
        " pack_f16((c ? z[0] : float(y[0])), (c ? z[1] : float(y[1]))))"
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("(a ? b : c)", ("a", "b", "c")),
        ("((a ? b : c))", ("a", "b", "c")),
        ("((a) ? (b ? c : d) : e[f ? g : h])", ("(a)", "(b ? c : d)", "e[f ? g : h]")),
        (
            '(a ? [&] { asm("x" : "=r"(b)); return b; }() : c)',
            ("a", '[&] { asm("x" : "=r"(b)); return b; }()', "c"),
        ),
        ("a ? b : c", None),
        ("(a ? b : c ? d : e)", None),
        ("f(a ? b : c)", None),
    ],
)
def test_a_choice_is_one_conditional_expression(text: str, parts: tuple[str, str, str] | None) -> None:
    assert choice(text) == parts


def test_sums_of_products_that_round_once_are_computed_in_pairs() -> None:
    text = Path("tests/kernels/ttgir/dequantized.sm90.ttgir").read_text()
    product = re.compile(r"arith\.mulf (%\w+), (%\w+) (: tensor<[0-9x]*xf16)")
    (function, *_) = read(product.sub(r"math.fma \1, \2, \2 \3", text), "fused.ttgir").functions
    op = next(one for one in function.walk() if one.name == "math.fma")

    def named(name: str) -> Elements:
        return lambda point: f"float({name}[{point}])"

    made = paired(op, [named(name) for name in "abc"], named("single"), frozenset(), floats=False)
    assert pair("f16", made, "0", "1") == (  # pyright: ignore[reportArgumentType]
        "fma_f16x2(pack_f16(a[0], a[1]), pack_f16(b[0], b[1]), pack_f16(c[0], c[1]))"
    )


def test_two_factors_are_not_taken_for_one_element() -> None:
    def two(point: AnyPoint) -> str:
        return f"unpack_f16(x, 0) * unpack_f16(y, {point})"

    assert pair("f16", two, "0", "1").startswith("pack_f16(")  # pyright: ignore[reportArgumentType]


def test_scales_are_multiplied_by_words() -> None:
    assert "multiply_f16x2(" in cuda("dequantized")


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_stored_elements_are_packed_without_float32(dtype: str) -> None:
    def read(point: AnyPoint) -> str:
        return f"float(read[{point}])"

    def kept(point: AnyPoint) -> str:
        return f"unpack_{dtype}(x[0], {point})"

    assert pair(dtype, read, "0", "1") == f"pack_{dtype}(read[0], read[1])"  # pyright: ignore[reportArgumentType]
    assert pair(dtype, kept, "1", "0") == "halves(half_of(x[0], 1), half_of(x[0], 0))"  # pyright: ignore[reportArgumentType]
