"""Tiles that pass through shared memory to another layout: elements that a thread holds side by side along columns
lie side by side there too. The check of the generated kernel compares values, by its PTX."""

import re
from pathlib import Path

from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs

KERNEL = """
import triton
import triton.language as tl

ARGUMENTS = {"a": "*fp16:16", "b": "*i32:16", "s": "*fp16:16", "c": "*fp16:16", "n": "i32:16"}
TWILL = {"unpacked": ARGUMENTS}

@triton.jit
def unpacked(a, b, s, c, n):
    m, k, j, word = tl.arange(0, 32), tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 16)
    shift, acc = 4 * tl.arange(0, 8)[None, None, :], tl.zeros([32, 64], tl.float32)
    for i in range(0, n, 128):
        x = tl.load(a + m[:, None] * n + i + k[None, :])
        packed = tl.load(b + j[:, None] * (n // 8) + i // 8 + word[None, :])
        y = tl.reshape(packed[:, :, None] >> shift & 15, (64, 128)) - 8
        y = y.to(tl.float16) * tl.load(s + j)[:, None]
        acc = tl.dot(x, tl.trans(y), acc)
    tl.store(c + m[:, None] * 64 + j[None, :], acc.to(tl.float16))
"""


def test_neighbours_along_columns_are_stored_together(tmp_path: Path) -> None:
    """Eight numbers of 4 bits come from a word, along K: 16 bytes of a column, where each was stored alone."""
    (tmp_path / "unpacked.py").write_text(KERNEL)
    made = generate(
        Inputs(f"{tmp_path / 'unpacked.py'}:unpacked", arch="sm90"), GenerateOptions(time_limit=10)
    )
    assert re.search(r"store_elements<4>\(memory \+ \d+ .*, written_\d+, i_ \* 4\)", made.cuda)
    assert not re.search(r"shared_at<__half>\(memory \+ \d+ .*\) = __half\(", made.cuda)


PRODUCT = """
import triton
import triton.language as tl

ARGUMENTS = {"a": "*fp16:16", "b": "*fp16:16", "c": "*fp16:16", "d": "*fp16:16", "e": "*fp16:16", "n": "i32:16", "stride": "i32:16"}
TWILL = {"stored_twice": ARGUMENTS}

@triton.jit
def stored_twice(a, b, c, d, e, n, stride):
    m, k = tl.arange(0, 128), tl.arange(0, 64)
    acc = tl.zeros([128, 128], tl.float32)
    for i in range(0, n, 64):
        x, y = tl.load(a + m[:, None] * n + i + k[None, :]), tl.load(b + m[:, None] * n + i + k[None, :])
        acc = tl.dot(x, tl.trans(y), acc)
    place = m[:, None] * stride + m[None, :]
    both = (acc + tl.load(d + place)).to(tl.float16)
    tl.store(c + place, both)
    tl.store(e + place, tl.trans(both))
"""


def test_matrices_are_stored_as_they_are_read(tmp_path: Path) -> None:
    """A product plus a tile, stored as it is and transposed: a thread reads eight elements of a column at once,
    where it read each alone."""
    (tmp_path / "product.py").write_text(PRODUCT)
    made = generate(
        Inputs(f"{tmp_path / 'product.py'}:stored_twice", arch="sm90"), GenerateOptions(time_limit=10)
    )
    assert "stmatrix_x4_transposed(" in made.cuda
    assert re.search(r"load_elements<4>\(read_\d+, i_ \* 4, read_\d+_at", made.cuda)
    assert not re.search(r"shared_at<__half>\(read", made.cuda)


OUTPUT = """
import triton
import triton.language as tl

ARGUMENTS = {"q": "*fp16:16", "k": "*fp16:16", "v": "*fp16:16", "h": "*fp16:16", "o": "*fp16:16", "n": "i32:16"}
TWILL = {"held_twice": ARGUMENTS}

@triton.jit
def held_twice(q, k, v, h, o, n):
    m = tl.arange(0, 32)
    scores, acc = tl.zeros([32, 32], tl.float32), tl.zeros([32, 32], tl.float32)
    for i in range(0, n, 32):
        x, y = tl.load(q + m[:, None] * n + i + m[None, :]), tl.load(k + m[:, None] * n + i + m[None, :])
        scores = tl.dot(x, tl.trans(y), scores)
        acc = tl.dot(x, tl.load(h + (i + m[:, None]) * 32 + m[None, :]), acc)
    scores = tl.where(m[:, None] >= m[None, :], scores, 0.0).to(tl.float16)
    acc = acc * 0.5 + tl.dot(scores, tl.load(v + m[:, None] * 32 + m[None, :]))
    tl.store(o + m[:, None] * 32 + m[None, :], acc.to(tl.float16))
"""


def test_tiles_that_warps_hold_twice_lie_in_a_swizzle(tmp_path: Path) -> None:
    """Four warps have 32 rows of two accumulators, so two of them hold copies: the others alone write each
    element, matrices at once, where they wrote one element after the other."""
    (tmp_path / "output.py").write_text(OUTPUT)
    made = generate(
        Inputs(f"{tmp_path / 'output.py'}:held_twice", arch="sm90"), GenerateOptions(time_limit=10)
    )
    assert re.search(r"if \(\(thread\.warp & 2\) == 0\) \{\n.*\n.*\n *stmatrix_x4\(", made.cuda)
    assert not re.search(r"shared_at<\w+>\(memory \+ \d+ \+ .* \* sizeof", made.cuda)
