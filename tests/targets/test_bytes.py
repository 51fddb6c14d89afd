"""Tiles of a byte that threads read one element after the other, or hand on to another group: bytes are joined
as they are, and a conversion gives both elements of a pair. The check of the generated kernel compares values,
by its PTX."""

import re
from pathlib import Path

import pytest

from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.loop import NvidiaMma, Scalar, Tensor
from twill.targets.cuda.registers.elements import thread_words
from twill.warp.slot_tensors import bits

KERNEL = """
import triton
import triton.language as tl

TWILL = {"scored": {"q": "*bf16:16", "k": "*fp8e4nv:16", "s": "*fp32:16", "o": "*fp32:16", "n": "i32:16"}}

@triton.jit
def scored(q, k, s, o, n):
    m, d, j = tl.arange(0, 16)[:, None], tl.arange(0, 128), tl.arange(0, 32)
    x, scale, best = tl.load(q + m * 128 + d[None, :]), tl.load(s), tl.zeros([16, 32], tl.float32)
    for i in range(0, n, 32):
        y = tl.load(k + (i + j)[None, :] * 128 + d[:, None])
        best = tl.maximum(best, tl.dot(x, (y.to(tl.float32) * scale).to(tl.bfloat16)))
    tl.store(o + m * 32 + j[None, :], best)
"""


def test_bytes_are_joined_without_a_conversion(tmp_path: Path) -> None:
    (tmp_path / "scored.py").write_text(KERNEL)
    made = generate(Inputs(f"{tmp_path / 'scored.py'}:scored", arch="sm90"), GenerateOptions(time_limit=10))
    assert "both_bytes(shared_at<__nv_fp8_e4m3>(" in made.cuda
    assert " pack_e4m3(" not in made.cuda


@pytest.mark.parametrize(("dtype", "arrays"), [("i8", 16), ("f8E4M3FN", 4), ("bf16", 4)])
def test_a_tile_that_threads_hand_on_fills_its_slot_and_no_more(dtype: str, arrays: int) -> None:
    """As threads hold it: bytes 16 at a time, fp8 in words of two bytes, of which an accumulator has rows of
    four."""
    tile = Tensor((64, 64), Scalar(dtype), NvidiaMma((3, 0), (4, 1), (16, 64, 16)))
    words = thread_words(tile)
    assert words is not None
    assert words.unit == arrays
    (body,) = (line for line in words.write("x", "slot") if "store_elements" in line)
    stride = int(re.findall(r"thread\.index\) \* (\d+)", body)[0])
    assert words.words // words.unit * words.threads * stride == 64 * 64 * bits(tile.dtype) // 8
