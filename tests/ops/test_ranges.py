"""Intervals of the elements of tiles: of every operation, what brute force finds lies inside."""

from itertools import product

import numpy as np
import pytest

from twill.extract.reader.ttgir import read
from twill.ops.axis_info import AxisAnalysis
from twill.ops.ranges import Interval, Ranges

TEXT = """\
#flat = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @ranges(%n: i32 {{tt.divisibility = 16 : i32}}, %x: tensor<128xi8, #flat>) {{
{body}
    tt.return
  }}
}}
"""
FIXED = "    %{name} = arith.constant dense<{value}> : tensor<128xi8, #flat>"


def found(body: str) -> dict[str, Interval]:
    function = read(TEXT.format(body=body), "ranges.ttgir").functions[0]
    ranges = Ranges(function)
    return {value.name: ranges.of(value) for op in function.walk() for value in op.results}


@pytest.mark.parametrize("word", ["andi", "ori", "shrsi", "shrui"])
def test_what_bits_give_lies_inside(word: str) -> None:
    """Of 8-bit numbers that two masks leave, by shifts that are less than their width."""
    for one, other in product((15, 112, -1), (1, 3, 7)):
        lines = [
            FIXED.format(name="a", value=one),
            FIXED.format(name="b", value=other),
            "    %left = arith.andi %x, %a : tensor<128xi8, #flat>",
            "    %right = arith.andi %x, %b : tensor<128xi8, #flat>",
            f"    %made = arith.{word} %left, %right : tensor<128xi8, #flat>",
        ]
        interval = found("\n".join(lines))["%made"]
        lefts, rights = ({np.int8(x) & np.int8(mask) for x in range(-128, 128)} for mask in (one, other))
        computed = {int(_result(word, a, b)) for a, b in product(lefts, rights)}
        assert interval.low <= min(computed), (one, other)
        assert max(computed) <= interval.high, (one, other)


def _result(word: str, a: np.int8, b: np.int8) -> np.int8:
    match word:
        case "andi":
            return a & b
        case "ori":
            return a | b
        case "shrsi":
            return a >> b
        case _:
            return (a.view(np.uint8) >> b.view(np.uint8)).view(np.int8)


def test_a_weight_of_four_bits_less_its_zero_is_from_minus_8_to_7() -> None:
    body = "\n".join(
        [
            FIXED.format(name="mask", value=15),
            FIXED.format(name="zero", value=8),
            "    %code = arith.andi %x, %mask : tensor<128xi8, #flat>",
            "    %whole = arith.subi %code, %zero : tensor<128xi8, #flat>",
            "    %wide = arith.extsi %whole : tensor<128xi8, #flat> to tensor<128xi32, #flat>",
            "    %byte = arith.extui %x : tensor<128xi8, #flat> to tensor<128xi32, #flat>",
        ]
    )
    intervals = found(body)
    assert intervals["%code"] == Interval(0, 15)
    assert intervals["%whole"] == intervals["%wide"] == Interval(-8, 7)
    assert intervals["%byte"] == Interval(0, 255)


def test_a_multiple_divided_by_a_constant_keeps_its_other_divisors() -> None:
    """Packed weights: N numbers of 4 bits are N / 8 words."""
    body = """\
    %c8 = arith.constant 8 : i32
    %c6 = arith.constant 6 : i32
    %words = arith.divsi %n, %c8 : i32
    %others = arith.divsi %n, %c6 : i32"""
    function = read(TEXT.format(body=body), "ranges.ttgir").functions[0]
    named = {value.name: value for op in function.walk() for value in op.results}
    axes = AxisAnalysis(function)
    assert axes.of(named["%words"]).divisibility == (2,)
    assert axes.of(named["%others"]).divisibility == (1,)
