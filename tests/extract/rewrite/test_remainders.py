"""Remainders of remainders."""

from itertools import product
from math import fmod

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.remainders import remainders_once

TEXT = """
#row = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%x: tensor<64xi32, #row>, %n: i32 {tt.divisibility = 16 : i32}) {
    %eight = arith.constant dense<8> : tensor<64xi32, #row>
    %all = tt.splat %n : i32 -> tensor<64xi32, #row>
    %column = arith.remsi %x, %all : tensor<64xi32, #row>
    %bit = arith.remsi %column, %eight : tensor<64xi32, #row>
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("change", "once"),
    [
        (("", ""), True),
        (("tt.divisibility = 16", "tt.divisibility = 4"), False),
        (("dense<8>", "dense<12>"), False),
        (("dense<8>", "dense<0>"), False),
        (("%bit = arith.remsi", "%bit = arith.remui"), False),
        (("%column = arith.remsi", "%column = arith.divsi"), False),
    ],
)
def test_a_remainder_by_a_divisor_of_the_first_is_one_of_the_number(
    change: tuple[str, str], once: bool
) -> None:
    text = TEXT.replace(*change) if change[0] else TEXT
    module = remainders_once(read(text, "remainders.ttgir"))
    assert ("rem" in module.text.split("%bit = arith.")[1] and "%x, %eight" in module.text) == once


def test_remainders_agree() -> None:
    """Signed ones, as C has them."""
    for x, m, d in product(range(-50, 50), (8, -16, 24), (-8, -4, 2, 4, 8)):
        assert fmod(fmod(x, m), d) == fmod(x, d)
