"""Operations between two changes of layout in a loop: what the loop does not change is exchanged once."""

import pytest

from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.exchanged_once import exchanged_once
from twill.ops.table import role

MASKED = """
#far = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#near = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c7 = arith.constant 7 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #near>
    %none = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #far>
    %at = tt.splat %p : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>, #far>
    %x = arith.addf %zero, %zero : tensor<64x64xf32, #near>
    scf.for %i = %c0 to %c7 step %c1  : i32 {
      %m = tt.load %at : tensor<64x64x!tt.ptr<f32>, #far>
      %is = arith.cmpf oeq, %m, %none : tensor<64x64xf32, #far>
      %here = ttg.convert_layout %is : tensor<64x64xi1, #far> -> tensor<64x64xi1, #near>
      %y = arith.select %here, %x, %zero : tensor<64x64xi1, #near>, tensor<64x64xf32, #near>
      %back = ttg.convert_layout %y : tensor<64x64xf32, #near> -> tensor<64x64xf32, #far>
      tt.store %at, %back : tensor<64x64x!tt.ptr<f32>, #far>
    }
    tt.return
  }
}
"""
AGAIN = "tt.store %at, %back : tensor<64x64x!tt.ptr<f32>, #far>"
READ = "arith.addf %y, %y : tensor<64x64xf32, #near>"


def test_a_tile_from_before_the_loop_goes_to_the_layout_of_the_loops_tile() -> None:
    before = read(MASKED, "masked.ttgir")
    after = exchanged_once(before)
    (loop,) = loops(after)
    changes = [op for op in loop.op.inner() if role(op) == "layout"]
    assert [op.operands[0].type for op in changes] == [op.result.type for op in changes]
    outside = [op for op in after.functions[0].walk() if role(op) == "layout" and op not in changes]
    assert [op.operands[0].name for op in outside] == ["%x"]
    assert before.text.count("\n") == after.text.count("\n")


@pytest.mark.parametrize(
    "change",
    [
        (AGAIN, f"{AGAIN}\n      %z = {READ}"),
        (
            "%y = arith.select %here, %x,",
            "%w = arith.addf %x, %x : tensor<64x64xf32, #near>\n      %y = arith.select %here, %w,",
        ),
        ("-> tensor<64x64xf32, #far>\n      tt.store", "-> tensor<64x64xf32, #near>\n      tt.store"),
    ],
)
def test_a_tile_that_is_read_or_made_in_the_other_layout_stays(change: tuple[str, str]) -> None:
    """The result is read there too, an operand is made there in every iteration, or the layouts differ."""
    made = read(MASKED.replace(*change), "masked.ttgir")
    assert exchanged_once(made) is made
