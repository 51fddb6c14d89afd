"""Loops that magnify the rounding of sums until nothing can be compared, and bounds of masks that are odd."""

import pytest

from tests.kernels.programs import program
from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.extract.scalars import bounding, masking
from twill.ir.loop import Function
from twill.simulate.check import EXTENTS, ODD, trials
from twill.simulate.compare import unstable, wrong
from twill.simulate.shortened import shortened

RECURRENCE = """
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %count = arith.constant 30 : i32
    %factor = arith.constant FACTOR : f32
    %lane = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #b>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #b>
    %read = tt.addptr %from, %lane : tensor<128x!tt.ptr<f32>, #b>, tensor<128xi32, #b>
    %terms = tt.load %read : tensor<128x!tt.ptr<f32>, #b>
    %sum = "tt.reduce"(%terms) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %both = arith.addf %a, %b : f32
      tt.reduce.return %both : f32
    }) : (tensor<128xf32, #b>) -> f32
    %last = scf.for %i = %zero to %count step %one iter_args(%s = %sum) -> (f32) : i32 {
      %wave = math.sin %s : f32
      %next = arith.mulf %wave, %factor : f32
      scf.yield %next : f32
    }
    %all = tt.splat %last : f32 -> tensor<128xf32, #b>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #b>
    %at = tt.addptr %to, %lane : tensor<128x!tt.ptr<f32>, #b>, tensor<128xi32, #b>
    tt.store %at, %all : tensor<128x!tt.ptr<f32>, #b>
    tt.return
  }
}
"""
"""s = factor * sin(s), from a sum on: with a large factor an error grows in every iteration."""


def recurrence(factor: float, text: str = RECURRENCE) -> Function:
    return read(text.replace("FACTOR", f"{factor:e}"), "k").functions[0]


def magnifies(function: Function) -> bool:
    return unstable(function, {}, [grid(0, 0)], lambda found: wrong(function, found) is not None)


def test_results_that_rounding_decides_are_those_of_few_iterations() -> None:
    """Thirty iterations make another number of the last bit of a sum, four do not."""
    function = recurrence(4)
    assert magnifies(function)
    fewer = shortened(function, 4)
    assert fewer is not None
    assert not magnifies(fewer)
    assert not magnifies(recurrence(0.5))


def test_only_constants_that_bound_loops_alone_are_replaced() -> None:
    assert shortened(recurrence(4), 30) is None
    begun = RECURRENCE.replace("%i = %zero", "%i = %one")
    assert shortened(recurrence(4, begun), 4) is None
    added = RECURRENCE.replace("%wave = ", "%used = arith.addi %count, %i : i32\n      %wave = ")
    assert shortened(recurrence(4, added), 4) is None
    assert shortened(program("gemm").function, 4) is None, "an argument bounds its loop"


@pytest.mark.parametrize("kernel", ["gathered", "turned", "sieved"])
def test_masks_are_tried_with_odd_bounds(kernel: str) -> None:
    """Of the arguments without a known divisor; those that bound loops have sizes of their own."""
    made = program(kernel)
    free = masking(made.function) - bounding(made.function)
    names = {arg.name.lstrip("%") for arg in made.function.args if arg.id in free}
    assert names
    found = [{trial.numbers[name] for trial in trials(made)} for name in names]
    assert all(values == {EXTENTS[0], ODD} for values in found)


def test_bounds_with_a_divisor_keep_it() -> None:
    made = program("gemm")
    assert not masking(made.function)
    assert {trial.numbers["M"] for trial in trials(made)} == set(EXTENTS)


def test_what_a_kernel_promises_of_a_value_is_no_free_bound() -> None:
    text = """
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%M: i32, %N: i32, %K: i32) {
    %lane = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #b>
    %m = tt.splat %M : i32 -> tensor<128xi32, #b>
    %n = tt.splat %N : i32 -> tensor<128xi32, #b>
    %k = tt.splat %K : i32 -> tensor<128xi32, #b>
    %0 = arith.cmpi slt, %lane, %m : tensor<128xi32, #b>
    %1 = arith.cmpi slt, %lane, %n : tensor<128xi32, #b>
    %2 = arith.cmpi slt, %lane, %k : tensor<128xi32, #b>
    %row = arith.muli %N, %N {tt.divisibility = 16 : i32} : i32
    %tile = arith.divsi %M, %K : i32
    tt.return
  }
}
"""
    function = read(text, "k").functions[0]
    assert [arg.id in masking(function) for arg in function.args] == [True, False, False]
