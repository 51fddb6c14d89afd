"""Tiles that copies bring and threads read, with fewer rows than 16 for each warp: in a swizzle."""

from pathlib import Path

from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs

KERNEL = """
import triton
import triton.language as tl

TWILL = {"limited": {"p": "*bf16:16", "v": "*bf16:16", "o": "*fp32:16", "n": "i32:16", "m": "i32"}}

@triton.jit
def limited(p, v, o, n, m):
    i, j, k = tl.arange(0, 16)[:, None], tl.arange(0, 128)[None, :], tl.arange(0, 32)
    acc = tl.zeros([16, 128], tl.float32)
    for start in range(0, n, 32):
        x = tl.load(p + i * n + start + k[None, :])
        y = tl.load(v + (start + k[:, None]) * 128 + j)
        acc = tl.dot(x, tl.where(start + k[:, None] < m, y, 0.0), acc)
    tl.store(o + i * 128 + j, acc)
"""


def test_rows_that_several_warps_have_begin_in_different_banks(tmp_path: Path) -> None:
    """32 rows, which warps read side by side: without a pattern eight rows lie in the same banks, and no
    matrices are read."""
    (tmp_path / "limited.py").write_text(KERNEL)
    made = generate(Inputs(f"{tmp_path / 'limited.py'}:limited", arch="sm90"), GenerateOptions(time_limit=10))
    assert "shared_at<__nv_bfloat16>" not in made.cuda
    assert "ldmatrix_x4(" in made.cuda or "load_matrices<" in made.cuda
