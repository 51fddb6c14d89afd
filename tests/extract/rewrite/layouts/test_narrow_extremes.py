"""Maxima of widened tiles are the widened maxima of the narrow ones: the same values."""

from pathlib import Path

import pytest

from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.narrow_extremes import extremes_narrowed
from twill.ir.loop import Module, Scalar, Tensor
from twill.simulate.compare import arguments
from twill.simulate.interpret import interpret

TEXT = """
#a = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#p = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @rows(%out: !tt.ptr<f32>) {
    %n = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32, #p>
    %numbers = arith.sitofp %n : tensor<256xi32, #p> to tensor<256xf16, #p>
    %tile = tt.reshape %numbers : tensor<256xf16, #p> -> tensor<16x16xf16, #a>
    %wide = arith.extf %tile : tensor<16x16xf16, #a> to tensor<16x16xf32, #a>
    %most = "tt.reduce"(%wide) <{axis = 1 : i32}> ({
    ^bb0(%x: f32, %y: f32):
      %xy = arith.maxnumf %x, %y : f32
      tt.reduce.return %xy : f32
    }) : (tensor<16x16xf32, #a>) -> tensor<16xf32, #ttg.slice<{dim = 1, parent = #a}>>
    %all = "tt.reduce"(%most) <{axis = 0 : i32}> ({
    ^bb0(%x: f32, %y: f32):
      %xy = arith.addf %x, %y : f32
      tt.reduce.return %xy : f32
    }) : (tensor<16xf32, #ttg.slice<{dim = 1, parent = #a}>>) -> f32
    tt.store %out, %all : !tt.ptr<f32>
    tt.return
  }
}
"""
SUM = ("%xy = arith.maxnumf %x, %y : f32", "%xy = arith.addf %x, %y : f32")
LEAST = ("arith.maxnumf", "arith.minnumf")
READ_TWICE = ("    %most =", "    %other = math.absf %wide : tensor<16x16xf32, #a>\n    %most =")
FROM_8_BITS = (
    "%wide = arith.extf %tile : tensor<16x16xf16, #a>",
    "%low = tt.fp_to_fp %tile, rounding = rtne : tensor<16x16xf16, #a> -> tensor<16x16xf8E5M2, #a>\n"
    "    %wide = arith.extf %low : tensor<16x16xf8E5M2, #a>",
)


def module(*changes: tuple[str, str]) -> Module:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return read(text, "rows.ttgir")


def stored(made: Module) -> float:
    function = made.functions[0]
    values, memory = arguments(function, {})
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    return float(memory.arrays["out"][0])


def reduced(made: Module) -> list[Scalar]:
    """The types of the elements of tiles that are reduced."""
    types = (op.operands[0].type for op in made.functions[0].walk() if op.name == "tt.reduce")
    return [one.dtype for one in types if isinstance(one, Tensor) and isinstance(one.dtype, Scalar)]


@pytest.mark.parametrize("changes", [(), (LEAST,)], ids=["maxima", "minima"])
def test_extremes_are_of_the_narrow_tile(changes: tuple[tuple[str, str], ...]) -> None:
    before, after = module(*changes), extremes_narrowed(module(*changes))
    assert reduced(before) == [Scalar("f32"), Scalar("f32")]
    assert reduced(after) == [Scalar("f16"), Scalar("f32")]
    assert before.text.count("\n") == after.text.count("\n")
    assert stored(before) == stored(after)


@pytest.mark.parametrize("change", [SUM, READ_TWICE, FROM_8_BITS], ids=["sum", "read twice", "8 bits"])
def test_other_reductions_stay(change: tuple[str, str]) -> None:
    made = module(change)
    assert extremes_narrowed(made) is made


def test_a_result_with_a_location_keeps_it() -> None:
    text = Path("tests/kernels/ttgir/rescaled_rows.sm90.ttgir").read_text(encoding="utf-8")
    before = read(text, "rescaled_rows.ttgir")
    after = extremes_narrowed(before)
    assert reduced(after) == [Scalar("f16")]
    assert before.text.count("\n") == after.text.count("\n")
