"""MMAs of one warp whose operands come from shared memory."""

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.native_widths import native_widths
from twill.ir.loop import DotOperand, Module, Op, Tensor

WIDE = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f() {
    %zero = arith.constant dense<0.000000e+00> : tensor<16x64xf32, #mma>
    %a = arith.constant dense<1.000000e+00> : tensor<16x32xbf16, #blocked>
    %b = arith.constant dense<1.000000e+00> : tensor<32x64xbf16, #blocked>
    %x = ttg.convert_layout %a : tensor<16x32xbf16, #blocked> -> tensor<16x32xbf16, #left>
    %y = ttg.convert_layout %b : tensor<32x64xbf16, #blocked> -> tensor<32x64xbf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>>
    %z = tt.dot %x, %y, %zero, inputPrecision = tf32 : tensor<16x32xbf16, #left> * tensor<32x64xbf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>> -> tensor<16x64xf32, #mma>
    tt.return
  }
}
"""


def _mma(module: Module) -> Op:
    return next(op for op in module.functions[0].walk() if op.name == "tt.dot")


def test_operands_have_the_neighbours_of_an_instruction() -> None:
    module = native_widths(read(WIDE, "wide.ttgir"))
    layouts = [value.type.encoding for value in _mma(module).operands[:2] if isinstance(value.type, Tensor)]
    assert [(one.index, one.k_width) for one in layouts if isinstance(one, DotOperand)] == [(0, 2), (1, 2)]
    assert module.text.count("\n") == WIDE.count("\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kWidth = 4", "kWidth = 2"),
        ("bf16", "f8E4M3FN"),
        ("%y = ttg.convert_layout %b", "%y = math.absf %c"),
        ("    tt.return", "    %w = math.absf %x : tensor<16x32xbf16, #left>\n    tt.return"),
    ],
)
def test_others_stay(old: str, new: str) -> None:
    """Those of an instruction, of a byte, computed as the MMA takes them, read by others."""
    text = WIDE.replace(old, new)
    if "%c" in new:
        computed = "tensor<32x64xbf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>>"
        text = text.replace(f"tensor<32x64xbf16, #blocked> -> {computed}", computed)
        made = f"    %c = arith.constant dense<1.000000e+00> : {computed}\n    %x ="
        text = text.replace("    %x =", made)
    module = read(text, "wide.ttgir")
    assert native_widths(module) is module
