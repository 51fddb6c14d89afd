"""Weights that a loop takes apart from words, and scales of columns that it exchanges: bytes are taken where they
are in the words, and the scales are read behind the MMA. The check of a generated kernel compares values, by
its PTX."""

from pathlib import Path

from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs

KERNEL = """
import triton
import triton.language as tl

TWILL = {"decoded": {"a": "*fp8e4nv:16", "w": "*i32:16", "s": "*u8:16", "c": "*fp32:16", "n": "i32:16"}}

@triton.jit
def decoded(a, w, s, c, n):
    i, j = tl.arange(0, 64), tl.arange(0, 128)
    inner, words = tl.arange(0, 32), tl.arange(0, 8)
    acc = tl.zeros([64, 128], tl.float32)
    for k in range(0, n, 32):
        left = tl.load(a + i[:, None] * n + k + inner[None, :])
        word = tl.load(w + j[:, None] * (n // 4) + k // 4 + words[None, :]) & 0x3F3F3F3F
        b0 = word.to(tl.uint8).to(tl.float8e4nv, bitcast=True)
        b1 = (word >> 8).to(tl.uint8).to(tl.float8e4nv, bitcast=True)
        b2 = (word >> 16).to(tl.uint8).to(tl.float8e4nv, bitcast=True)
        b3 = (word >> 24).to(tl.uint8).to(tl.float8e4nv, bitcast=True)
        right = tl.join(tl.join(b0, b2), tl.join(b1, b3)).reshape(128, 32)
        scale = (tl.load(s + j * (n // 32) + k // 32) & 3).to(tl.float32)
        acc += tl.dot(left, right.trans()) * scale[None, :]
    tl.store(c + i[:, None] * 128 + j[None, :], acc)
"""


def _generated(folder: Path) -> str:
    (folder / "decoded.py").write_text(KERNEL)
    given = Inputs(f"{folder / 'decoded.py'}:decoded", arch="sm90")
    return generate(given, GenerateOptions(time_limit=10)).cuda


def test_bytes_are_taken_from_their_words_and_scales_are_read_behind_the_mma(tmp_path: Path) -> None:
    cuda = _generated(tmp_path)
    assert "ByteOfWord part_[16]" in cuda
    steady = cuda[cuda.index("ByteOfWord part_[16]") :]
    reads = steady.index("= shared_at<float>(memory")
    assert steady.index("wgmma_wait") < reads < steady.index("consumer_release", steady.index("wgmma_wait"))
