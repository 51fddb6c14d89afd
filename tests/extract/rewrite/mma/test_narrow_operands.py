"""MMAs of tiles that are widened to float32 before."""

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.mma.narrow_operands import operands_narrowed
from twill.ir.loop import Module, Op, Scalar, Tensor

WIDENED = """
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#right = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f() {
    %zero = arith.constant dense<0.000000e+00> : tensor<16x64xf32, #mma>
    %a = arith.constant dense<1.000000e+00> : tensor<16x32xbf16, #left>
    %b = arith.constant dense<1.000000e+00> : tensor<32x64xbf16, #right>
    %x = arith.extf %a : tensor<16x32xbf16, #left> to tensor<16x32xf32, #left>
    %y = arith.extf %b : tensor<32x64xbf16, #right> to tensor<32x64xf32, #right>
    %z = tt.dot %x, %y, %zero, inputPrecision = tf32 : tensor<16x32xf32, #left> * tensor<32x64xf32, #right> -> tensor<16x64xf32, #mma>
    tt.return
  }
}
"""


def _mma(module: Module) -> Op:
    return next(op for op in module.functions[0].walk() if op.name == "tt.dot")


def test_the_mma_takes_the_narrow_elements() -> None:
    module = operands_narrowed(read(WIDENED, "widened.ttgir"))
    mma = _mma(module)
    assert [value.name for value in mma.operands] == ["%a", "%b", "%zero"]
    types = [value.type for value in (*mma.operands, mma.result)]
    kinds = [one.dtype for one in types if isinstance(one, Tensor)]
    assert kinds == [Scalar("bf16"), Scalar("bf16"), Scalar("f32"), Scalar("f32")]
    assert module.text.count("\n") == WIDENED.count("\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "%a = arith.constant dense<1.000000e+00> : tensor<16x32xbf16",
            "%a = arith.constant dense<1.000000e+00> : tensor<16x32xf16",
        ),
        ("inputPrecision = tf32", "inputPrecision = ieee"),
        ("tt.dot %x", "tt.dot %w"),
        ("kWidth = 2", "kWidth = 1"),
    ],
)
def test_others_stay(old: str, new: str) -> None:
    """Of two narrow types, of all bits, of a tile that nothing widens, with other neighbours along K."""
    wide = "    %w = arith.constant dense<1.000000e+00> : tensor<16x32xf32, #left>\n    %z ="
    text = WIDENED.replace("    %z =", wide).replace(old, new)
    if "xf16" in new:
        text = text.replace("extf %a : tensor<16x32xbf16", "extf %a : tensor<16x32xf16")
    module = read(text, "widened.ttgir")
    assert operands_narrowed(module) is module
