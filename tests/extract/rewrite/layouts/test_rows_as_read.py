"""Vectors that a loop loads and views as rows: brought to the layout of the tile in front of the view."""

import pytest

from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.rows_as_read import rows_as_read
from twill.ir.loop import Module, Op, Slice, Tensor
from twill.ops.table import role

SCALED = """
#far = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], order = [1, 0]}>
#near = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f16>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c7 = arith.constant 7 : i32
    %ones = arith.constant dense<1.000000e+00> : tensor<64x64xf16, #near>
    %zero = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #mma>
    %at = tt.splat %p : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>, #line>
    %q = ttg.local_alloc %ones : (tensor<64x64xf16, #near>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
    scf.for %i = %c0 to %c7 step %c1  : i32 {
      %s = tt.load %at : tensor<64x!tt.ptr<f16>, #line>
      %t = ttg.convert_layout %s : tensor<64xf16, #line> -> tensor<64xf16, #ttg.slice<{dim = 0, parent = #far}>>
      %u = tt.expand_dims %t {axis = 0 : i32} : tensor<64xf16, #ttg.slice<{dim = 0, parent = #far}>> -> tensor<1x64xf16, #far>
      %v = ttg.convert_layout %u : tensor<1x64xf16, #far> -> tensor<1x64xf16, #near>
      %w = tt.broadcast %v : tensor<1x64xf16, #near> -> tensor<64x64xf16, #near>
      %x = arith.mulf %ones, %w : tensor<64x64xf16, #near>
      %y = ttg.local_alloc %x : (tensor<64x64xf16, #near>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
      %d = ttng.warp_group_dot %q, %y, %zero {inputPrecision = 0 : i32} : !ttg.memdesc<64x64xf16, #shared, #smem> * !ttg.memdesc<64x64xf16, #shared, #smem> -> tensor<64x64xf32, #mma>
    }
    tt.return
  }
}
"""
BOTH = "      %d = ttng"
LINE = "tensor<64xf16, #ttg.slice<{dim = 0, parent = #far}>>"


def changes(module: Module) -> list[Op]:
    return [op for loop in loops(module) for op in loop.ops if role(op) == "layout"]


@pytest.mark.parametrize("once", [False, True], ids=["changed before, too", "loaded for the view"])
def test_a_row_is_brought_to_the_layout_that_it_is_read_in(once: bool) -> None:
    text = SCALED
    if once:  # the load itself has the layout of the view
        (change,) = [line for line in SCALED.splitlines() if "%t = " in line]
        text = text.replace(change, "").replace(
            "tensor<64x!tt.ptr<f16>, #line>", LINE.replace("xf16", "x!tt.ptr<f16>")
        )
        text = text.replace("expand_dims %t", "expand_dims %s")
    before = read(text, "scaled.ttgir")
    after = rows_as_read(before)
    first, last = changes(after)
    assert isinstance(first.result.type, Tensor)
    assert isinstance(last.result.type, Tensor)
    assert last.result.type.encoding is not None
    assert first.result.type.encoding == Slice(0, last.result.type.encoding)
    assert last.operands[0].type == last.result.type
    assert before.text.count("\n") == after.text.count("\n")


@pytest.mark.parametrize("read_twice", ["%t", "%u"])
def test_what_something_else_reads_stays(read_twice: str) -> None:
    kind = LINE if read_twice == "%t" else "tensor<1x64xf16, #far>"
    text = SCALED.replace(BOTH, f"      %z = arith.addf {read_twice}, {read_twice} : {kind}\n{BOTH}")
    module = read(text, "scaled.ttgir")
    assert rows_as_read(module) is module
