"""Loads through registers that a group starts an iteration early, and bytes that lanes read
in the order with the fewest bank conflicts. The check of the generated kernel compares values, by its PTX."""

import shutil
from pathlib import Path

import pytest

from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs
from twill.warp.plan import Options as Lowering

KERNELS = """
import triton
import triton.language as tl

SIZES = {"m": "i32", "n": "i32", "size": "i32"}
TWILL = {
    "odd": {"a": "*bf16", "b": "*bf16", "c": "*fp32", **SIZES},
    "outer": {"q": "*fp16:16", "k": "*fp8e4nv:16", "o": "*fp32:16", "n": "i32:16"},
    "scaled": {"a": "*fp16:16", "b": "*fp16:16", "s": "*fp32:16", "t": "*fp32:16", "c": "*fp32:16", **SIZES, "size": "i32:16"},
    "pages": {"q": "*bf16:16", "k": "*i8:16", "v": "*i8:16", "s": "*bf16:16", "c": "*fp32:16", "n": "i32:16"},
}

@triton.jit
def odd(a, b, c, m, n, size):
    row, column, k = tl.arange(0, 64), tl.arange(0, 32), tl.arange(0, 32)
    acc = tl.zeros([64, 32], tl.float32)
    for i in range(0, size, 32):
        x = tl.load(a + row[:, None] * size + (i + k)[None, :], (i + k)[None, :] < size, 0.0)
        y = tl.load(b + (i + k)[:, None] * n + column[None, :], (i + k)[:, None] < size, 0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + row[:, None] * 32 + column[None, :], acc)

@triton.jit
def outer(q, k, o, n):
    m, d, j = tl.arange(0, 16)[:, None], tl.arange(0, 128), tl.arange(0, 128)
    best = tl.zeros([16, 128], tl.float32)
    for i in range(0, n, 128):
        x = tl.load(q + m * n + (i + d)[None, :])
        y = tl.load(k + (i + d)[:, None] * 128 + j[None, :])
        best = tl.dot(x, y.to(tl.float16), best)
    tl.store(o + m * 128 + j[None, :], best)

@triton.jit
def scaled(a, b, s, t, c, m, n, size):
    row, column, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(0, size, 64):
        x = tl.load(a + row[:, None] * size + (i + k)[None, :])
        y = tl.load(b + column[:, None] * size + (i + k)[None, :])
        scale = tl.load(s + row * n + i // 64, row < m, 0.0)[:, None]
        acc += tl.dot(x, y.T) * scale * tl.load(t + column * n + i // 64)[None, :]
    tl.store(c + row[:, None] * 64 + column[None, :], acc)

@triton.jit
def pages(q, k, v, s, c, n):
    row, d, j = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 64)
    x = tl.load(q + row[:, None] * 64 + d[None, :])
    acc = tl.zeros([16, 64], tl.float32)
    for i in range(0, n, 64):
        y = tl.load(k + d[:, None] + (i + j)[None, :] * 64)
        y = (y * tl.load(s + (i + j)[None, :] * 8)).to(tl.bfloat16)
        z = tl.load(v + (i + j)[:, None] * 64 + d[None, :])
        z = (z * tl.load(s + (i + j)[:, None] * 8 + 1)).to(tl.bfloat16)
        acc = tl.dot(tl.dot(x, y).to(tl.bfloat16), z, acc)
    tl.store(c + row[:, None] * 64 + d[None, :], acc)
"""


def _made(folder: Path, kernel: str, check: bool, multistage: bool = True) -> Generated:
    (folder / "kernels.py").write_text(KERNELS)
    lowering = Lowering(multistage=multistage)
    options = GenerateOptions(time_limit=10, check=check, execute=check, lowering=lowering)
    return generate(Inputs(f"{folder / 'kernels.py'}:{kernel}", arch="sm90"), options)


def test_tiles_of_the_next_iteration_are_read_behind_the_stores_of_this_one(tmp_path: Path) -> None:
    cuda = _made(tmp_path, "odd", False).cuda
    assert "uint32_t next_x_" in cuda
    behind = cuda[cuda.index("uint32_t next_y_") :]
    loop = behind[behind.index("for (int32_t i = ") :]
    assert loop.index("producer_acquire") < loop.index("read_ = next_x") < loop.index("load_global<2>")


def test_a_group_that_loads_reads_the_words_of_the_next_iteration_before_it_waits(tmp_path: Path) -> None:
    """Those of the first iteration stand before its prologue: no copy waits for them."""
    cuda = _made(tmp_path, "scaled", False, multistage=False).cuda
    begin = cuda.index("uint32_t next_")
    assert begin < cuda.index("producer_acquire")
    loop = cuda[begin:][cuda[begin:].index("for (int32_t i = ") :]
    assert loop.index("read_ = next_") < loop.index("mbarrier_arrive(") < loop.index("load_global<4>")
    assert "cp_async<4>" not in cuda


def test_a_row_and_a_column_of_narrow_numbers_apart_are_read_once_for_all_warps(tmp_path: Path) -> None:
    made = _made(tmp_path, "pages", False)
    assert made.cuda.count("passes through registers in accesses of 2 bytes") == 2
    assert "element by element" not in made.cuda


def test_lanes_whose_lines_meet_in_a_bank_read_another_byte_first(tmp_path: Path) -> None:
    assert "exchange_neighbours(" in _made(tmp_path, "outer", False).cuda


@pytest.mark.parametrize(
    ("kernel", "multistage"),
    [("odd", True), ("outer", True), ("scaled", False), ("scaled", True), ("pages", True), ("pages", False)],
)
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_all_compute_the_same(tmp_path: Path, kernel: str, multistage: bool) -> None:
    assert _made(tmp_path, kernel, True, multistage).checked
