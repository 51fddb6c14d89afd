"""Pointers that move once in every so many iterations: the same addresses from the number of the iteration."""

from itertools import product

import numpy as np
import pytest

from tests.extract.rewrite.test_rewrite import executed
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.induction import from_iteration
from twill.ir.loop import Module

TEXT = """\
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @moved(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %begin: i32, %end: i32, %length: i32, %far: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %shift = arith.constant SHIFT : i32
    %none = arith.constant dense<0.000000e+00> : tensor<128xf32, #blocked>
    %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #blocked>
    %all = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #blocked>
    %first = tt.addptr %all, %range : tensor<128x!tt.ptr<f32>, #blocked>, tensor<128xi32, #blocked>
    %out = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #blocked>
    %place = tt.addptr %out, %range : tensor<128x!tt.ptr<f32>, #blocked>, tensor<128xi32, #blocked>
    %r:2 = scf.for %k = %begin to %end step %one iter_args(%p = %first, %s = %none) -> (\
tensor<128x!tt.ptr<f32>, #blocked>, tensor<128xf32, #blocked>) : i32 {
      %v = tt.load %p : tensor<128x!tt.ptr<f32>, #blocked>
      %twice = arith.addf %s, %s : tensor<128xf32, #blocked>
      %t = arith.addf %twice, %v : tensor<128xf32, #blocked>
      %next = arith.addi %k, %shift : i32
      %rest = arith.remsi %next, %length : i32
      %due = arith.cmpi PREDICATE, %rest, %zero : i32
STEP
      %steps = tt.splat %step : i32 -> tensor<128xi32, #blocked>
      %q = tt.addptr %p, %steps : tensor<128x!tt.ptr<f32>, #blocked>, tensor<128xi32, #blocked>
      scf.yield %q, %t : tensor<128x!tt.ptr<f32>, #blocked>, tensor<128xf32, #blocked>
    }
    %last = tt.load %r#0 : tensor<128x!tt.ptr<f32>, #blocked>
    %sum = arith.addf %r#1, %last : tensor<128xf32, #blocked>
    tt.store %place, %sum : tensor<128x!tt.ptr<f32>, #blocked>
    tt.return
  }
}
"""
PRODUCT = "      %due_1 = arith.extui %due : i1 to i32\n      %step = arith.muli %due_1, %far : i32"
CHOICE = "      %step = arith.select %due, %far, %zero : i32"
OTHER = "      %step = arith.select %due, %far, %one : i32"


def moved(shift: int, step: str = PRODUCT, predicate: str = "eq") -> Module:
    text = TEXT.replace("SHIFT", str(shift)).replace("STEP", step).replace("PREDICATE", predicate)
    return read(text, "moved.ttgir")


@pytest.mark.parametrize("step", [PRODUCT, CHOICE], ids=["product", "choice"])
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_addresses_are_the_same(shift: int, step: str) -> None:
    original = moved(shift, step)
    rewritten = from_iteration(original)
    assert [len(loop.carried) for made in (original, rewritten) for loop in loops(made)] == [2, 1]
    assert original.text.count("\n") == rewritten.text.count("\n")
    for begin, end, length in product((0, 3, -4), (-4, 5, 9), (1, 3, -4)):
        sizes = {"begin": begin, "end": end, "length": length, "far": 7}
        (one, before), (other, _) = executed(original, (0, 0), **sizes), executed(rewritten, (0, 0), **sizes)
        assert np.array_equal(one.array("y", 128), other.array("y", 128)), sizes
        assert not np.array_equal(one.array("y", 128), before.array("y", 128))


@pytest.mark.parametrize(("step", "predicate"), [(OTHER, "eq"), (PRODUCT, "ne"), (PRODUCT, "sge")])
def test_other_steps_stay_carried(step: str, predicate: str) -> None:
    original = moved(1, step, predicate)
    assert from_iteration(original).text == original.text
