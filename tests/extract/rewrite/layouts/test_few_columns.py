"""Tiles that a loop decodes, held as they are laid out where threads then compute with fewer columns."""

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.literal_layouts import literal_layouts
from twill.ir.loop import Linear

DECODED = """
#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#other = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%at: tensor<64x64x!tt.ptr<f16>, #rows>, %scales: tensor<64x!tt.ptr<f16>, #ttg.slice<{dim = 0, parent = #rows}>>, %n: i32) {
    %zero = arith.constant dense<0.000000e+00> : tensor<32x64xf32, #mma>
    %a = arith.constant dense<1.000000e+00> : tensor<32x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
    %from = arith.constant 0 : i32
    %by = arith.constant 1 : i32
    %sum = scf.for %k = %from to %n step %by iter_args(%acc = %zero) -> (tensor<32x64xf32, #mma>)  : i32 {
      %b = tt.load %at : tensor<64x64x!tt.ptr<f16>, #rows>
      %s = tt.load %scales : tensor<64x!tt.ptr<f16>, #ttg.slice<{dim = 0, parent = #rows}>>
      %twice = arith.addf %s, %s : tensor<64xf16, #ttg.slice<{dim = 0, parent = #rows}>>
      %more = arith.addf %twice, %s : tensor<64xf16, #ttg.slice<{dim = 0, parent = #rows}>>
      %row = tt.expand_dims %more {axis = 0 : i32} : tensor<64xf16, #ttg.slice<{dim = 0, parent = #rows}>> -> tensor<1x64xf16, #rows>
      %all = tt.broadcast %row : tensor<1x64xf16, #rows> -> tensor<64x64xf16, #rows>
      %scaled = arith.mulf %b, %all : tensor<64x64xf16, #rows>
      %operand = ttg.convert_layout %scaled : tensor<64x64xf16, #rows> -> tensor<64x64xf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>>
      %next = tt.dot %a, %operand, %acc : tensor<32x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>> * tensor<64x64xf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>> -> tensor<32x64xf32, #mma>
      scf.yield %next : tensor<32x64xf32, #mma>
    }
    MOVED
    tt.return
  }
}
"""
MOVED = """%there = tt.load %at : tensor<64x64x!tt.ptr<f16>, #rows>
    %moved = ttg.convert_layout %there : tensor<64x64xf16, #rows> -> tensor<64x64xf16, #other>
    %used = arith.addf %moved, %moved : tensor<64x64xf16, #other>"""


def _held(text: str) -> bool:
    return isinstance(literal_layouts(read(text, "decoded.ttgir")).encodings["#rows"], Linear)


@pytest.mark.parametrize(("moved", "held"), [("", True), (MOVED, False)])
def test_tiles_that_vectors_scale_are_held_as_laid_out(moved: str, held: bool) -> None:
    """A thread has four columns, of which an MMA gives it sixteen. Not where threads would exchange tiles."""
    assert _held(DECODED.replace("MOVED", moved)) == held


@pytest.mark.parametrize(
    "change",
    [
        ("arith.mulf %b, %all", "arith.mulf %b, %b"),
        ("threadsPerWarp = [2, 16], warpsPerCTA = [4, 1]", "threadsPerWarp = [8, 4], warpsPerCTA = [4, 1]"),
        ("[1, 4], threadsPerWarp = [2, 16]", "[1, 2], threadsPerWarp = [1, 32]"),
    ],
)
def test_others_are_held_as_an_mma_has_them(change: tuple[str, str]) -> None:
    """Without numbers of columns, and where threads have as many columns, or no four neighbours."""
    assert not _held(DECODED.replace("MOVED", "").replace(*change))


EXPONENTS = """
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%at: tensor<128x!tt.ptr<i8>, #line>, %a: !ttg.memdesc<64x64xf16, #shared, #smem>, %b: !ttg.memdesc<64x128xf16, #shared, #smem>, %n: i32) {
    %zero = arith.constant dense<0.000000e+00> : tensor<64x128xf32, #mma>
    %bits = arith.constant dense<23> : tensor<128xi32, #line>
    %from = arith.constant 0 : i32
    %by = arith.constant 1 : i32
    %sum = scf.for %k = %from to %n step %by iter_args(%acc = %zero) -> (tensor<64x128xf32, #mma>)  : i32 {
      %e = tt.load %at : tensor<128x!tt.ptr<i8>, #line>
      %wide = arith.extui %e : tensor<128xi8, #line> to tensor<128xi32, #line>
      %shifted = arith.shli %wide, %bits : tensor<128xi32, #line>
      %scale = tt.bitcast %shifted : tensor<128xi32, #line> -> tensor<128xf32, #line>
      %there = ttg.convert_layout %scale : tensor<128xf32, #line> -> tensor<128xf32, #ttg.slice<{dim = DIM, parent = #mma}>>
      %made = ttng.warp_group_dot %a, %b, %acc : !ttg.memdesc<64x64xf16, #shared, #smem> * !ttg.memdesc<64x128xf16, #shared, #smem> -> tensor<64x128xf32, #mma>
      scf.yield %made : tensor<64x128xf32, #mma>
    }
    tt.return
  }
}
"""
READ = "convert_layout %e : tensor<128xi8, #line> -> tensor<128xi8"


@pytest.mark.parametrize(
    ("dim", "change", "held"),
    [
        (0, ("", ""), True),
        (1, ("", ""), False),
        (0, ("convert_layout %scale : tensor<128xf32, #line> -> tensor<128xf32", READ), False),
    ],
)
def test_vectors_that_belong_to_columns_are_computed_as_laid_out(
    dim: int, change: tuple[str, str], held: bool
) -> None:
    """One number in a thread, of which rows of an MMA have four. Not numbers of rows, nor what is only read."""
    text = (EXPONENTS.replace(*change) if change[0] else EXPONENTS).replace("DIM", str(dim))
    exact = literal_layouts(read(text, "exponents.ttgir")).encodings
    assert isinstance(exact["#line"], Linear) == held
