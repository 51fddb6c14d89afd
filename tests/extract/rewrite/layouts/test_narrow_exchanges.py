"""A tile that is rounded behind a change of layout is rounded before it: the same values, half the shared memory."""

import numpy as np
import pytest

from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.narrow_exchanges import narrowed
from twill.ir.loop import Module, Scalar, Tensor
from twill.ops.table import role
from twill.simulate.compare import arguments
from twill.simulate.interpret import interpret

TEXT = """
#a = #ttg.blocked<{sizePerThread = [1, 1, 2], threadsPerWarp = [32, 1, 1], warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#b = #ttg.blocked<{sizePerThread = [1, 1, 2], threadsPerWarp = [4, 8, 1], warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#c = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#p = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @halves(%from: !tt.ptr<f32>, %even: !tt.ptr<f16>, %odd: !tt.ptr<f16>) {
    %n = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32, #p>
    %numbers = arith.sitofp %n : tensor<512xi32, #p> to tensor<512xf32, #p>
    %wide = tt.reshape %numbers : tensor<512xf32, #p> -> tensor<16x16x2xf32, #a>
    %moved = ttg.convert_layout %wide : tensor<16x16x2xf32, #a> -> tensor<16x16x2xf32, #b>
    %one, %two = tt.split %moved : tensor<16x16x2xf32, #b> -> tensor<16x16xf32, #c>
    %low = arith.truncf %one : tensor<16x16xf32, #c> to tensor<16x16xf16, #c>
    %high = arith.truncf %two : tensor<16x16xf32, #c> to tensor<16x16xf16, #c>
    %sum = "tt.reduce"(%low) <{axis = 1 : i32}> ({
    ^bb0(%x: f16, %y: f16):
      %xy = arith.addf %x, %y : f16
      tt.reduce.return %xy : f16
    }) : (tensor<16x16xf16, #c>) -> tensor<16xf16, #ttg.slice<{dim = 1, parent = #c}>>
    %low_sum = "tt.reduce"(%sum) <{axis = 0 : i32}> ({
    ^bb0(%x: f16, %y: f16):
      %xy = arith.maxnumf %x, %y : f16
      tt.reduce.return %xy : f16
    }) : (tensor<16xf16, #ttg.slice<{dim = 1, parent = #c}>>) -> f16
    tt.store %even, %low_sum : !tt.ptr<f16>
    %most = "tt.reduce"(%high) <{axis = 1 : i32}> ({
    ^bb0(%x: f16, %y: f16):
      %xy = arith.maxnumf %x, %y : f16
      tt.reduce.return %xy : f16
    }) : (tensor<16x16xf16, #c>) -> tensor<16xf16, #ttg.slice<{dim = 1, parent = #c}>>
    %high_most = "tt.reduce"(%most) <{axis = 0 : i32}> ({
    ^bb0(%x: f16, %y: f16):
      %xy = arith.maxnumf %x, %y : f16
      tt.reduce.return %xy : f16
    }) : (tensor<16xf16, #ttg.slice<{dim = 1, parent = #c}>>) -> f16
    tt.store %odd, %high_most : !tt.ptr<f16>
    tt.return
  }
}
"""
WHOLE = (
    ("    %one, %two = tt.split %moved : tensor<16x16x2xf32, #b> -> tensor<16x16xf32, #c>\n", ""),
    (
        "%low = arith.truncf %one : tensor<16x16xf32, #c> to tensor<16x16xf16, #c>",
        "%both = arith.truncf %moved : tensor<16x16x2xf32, #b> to tensor<16x16x2xf16, #b>",
    ),
    (
        "%high = arith.truncf %two : tensor<16x16xf32, #c> to tensor<16x16xf16, #c>",
        "%low, %high = tt.split %both : tensor<16x16x2xf16, #b> -> tensor<16x16xf16, #c>",
    ),
)
"""The same with the whole tile rounded in front of the split."""


def module(*changes: tuple[str, str]) -> Module:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return read(text, "halves.ttgir")


def stored(made: Module) -> list[float]:
    function = made.functions[0]
    values, memory = arguments(function, {})
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    return [float(memory.arrays[name][0]) for name in ("even", "odd")]


@pytest.mark.parametrize("changes", [(), WHOLE], ids=["halves", "whole"])
def test_the_exchange_has_narrow_elements(changes: tuple[tuple[str, str], ...]) -> None:
    before, after = module(*changes), narrowed(module(*changes))
    (moved,) = (op for op in after.functions[0].walk() if role(op) == "layout")
    assert isinstance(moved.result.type, Tensor)
    assert moved.result.type.dtype == Scalar("f16")
    assert sum(role(op) == "round" for op in after.functions[0].walk()) == 1
    assert before.text.count("\n") == after.text.count("\n")
    assert stored(before) == stored(after)
    assert np.isfinite(stored(after)).all()


@pytest.mark.parametrize(
    "change",
    [
        ("%high = arith.truncf %two", '%other = math.absf %two : tensor<16x16xf32, #c>\n    %high = arith.truncf %two'),
        ("%low = arith.truncf %one", '%other = math.absf %moved : tensor<16x16x2xf32, #b>\n    %low = arith.truncf %one'),
    ],
    ids=["half", "whole"],
)  # fmt: skip
def test_an_exchange_whose_wide_elements_are_read_stays(change: tuple[str, str]) -> None:
    made = module(change)
    assert narrowed(made) is made


LOADED = """
#a = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#b = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @loaded(%from: tensor<32x32x!tt.ptr<f32>, #a>, %to: tensor<32x32x!tt.ptr<f16>, #b>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {
      %wide = tt.load %from : tensor<32x32x!tt.ptr<f32>, #a>
      %other = tt.load %from : tensor<32x32x!tt.ptr<f32>, #a>
      %sum = arith.addf %other, %other : tensor<32x32xf32, #a>
      %moved = ttg.convert_layout %wide : tensor<32x32xf32, #a> -> tensor<32x32xf32, #b>
      %low = arith.truncf %moved : tensor<32x32xf32, #b> to tensor<32x32xf16, #b>
      tt.store %to, %low : tensor<32x32x!tt.ptr<f16>, #b>
    }
    tt.return
  }
}
"""


def test_what_a_loop_loads_is_read_from_its_slot_and_then_rounded() -> None:
    module = read(LOADED, "loaded.ttgir")
    assert narrowed(module) is module
    computed = read(LOADED.replace("convert_layout %wide", "convert_layout %sum"), "loaded.ttgir")
    assert narrowed(computed) is not computed
    twice = read(LOADED.replace("%other, %other", "%other, %wide"), "loaded.ttgir")
    assert narrowed(twice) is not twice
