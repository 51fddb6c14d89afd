"""Branches in front of a loop that choose tiles of pointers are taken apart: who loads computes them anew. The
check of the generated kernel compares values."""

import shutil
from pathlib import Path

import pytest

from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs

KERNEL = """
import triton
import triton.language as tl

TWILL = {
    "either": {"a": "*fp16:16", "b": "*fp16:16", "d": "*fp16:16", "c": "*fp32:16", "k": "i32:16", "n": "i32"},
}

@triton.jit
def either(a, b, d, c, k, n):
    side = tl.program_id(0)
    row, column, depth = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    if side < n:
        part = side * 64
        pointers = b + depth[:, None] * 128 + (part + column) % 128
    else:
        part = (side - n) * 64
        pointers = d + depth[:, None] * 256 + (part + column) % 256
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(0, k, 64):
        x = tl.load(a + row[:, None] * k + (i + depth)[None, :])
        acc = tl.dot(x, tl.load(pointers), acc)
        pointers += 64 * 256
    tl.store(c + (side * 64 + row[:, None]) * 64 + column[None, :], acc + part)
"""


def _made(folder: Path, check: bool) -> Generated:
    (folder / "kernel.py").write_text(KERNEL)
    options = GenerateOptions(time_limit=10, check=check, execute=check)
    return generate(Inputs(f"{folder / 'kernel.py'}:either", arch="sm90"), options)


def test_the_loop_loads_with_the_pointers_of_the_side_that_is_taken(tmp_path: Path) -> None:
    assert "element by element" not in _made(tmp_path, False).cuda


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_both_sides_have_the_same_values(tmp_path: Path) -> None:
    assert _made(tmp_path, True).checked
