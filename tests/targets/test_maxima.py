"""Maxima of rows by the bits of numbers: the same as number by number, whatever the numbers are."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.programs import program
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.values.maxima import maxima
from twill.targets.hopper import source

THREADS, ROWS, COLUMNS = 128, 2, 16
KERNEL = """#include "twill.cuh"
using namespace twill;
extern "C" __global__ void run(const float* from, float* to) {
    float given[32], found[2];
    for (int i = 0; i < 32; ++i) given[i] = from[threadIdx.x * 32 + i];
    for (int i = 0; i < 2; ++i) found[i] = to[threadIdx.x * 2 + i];
LINES
    for (int i = 0; i < 2; ++i) to[threadIdx.x * 2 + i] = found[i];
}
"""
NEGATIVE_NAN = np.array([0xFFC00000], np.uint32).view(np.float32)[0]
ODD_ROWS = (
    [-3.0] * 15 + [-1.5],
    [-0.0] * 16,
    [-0.0] * 15 + [0.0],
    [-np.inf] * 16,
    [-np.inf] * 15 + [-1e-40],
    [np.inf] + [2.0] * 15,
    [np.nan] + [2.0] * 15,
    [NEGATIVE_NAN] * 8 + [-2.0] * 8,
    [np.nan] * 8 + [NEGATIVE_NAN] * 8,
    [1e-40] + [-1.0] * 15,
)


def rows() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """One warp has rows as they usually are; in every other, some thread has an odd one."""
    made = np.random.default_rng(3).normal(size=(THREADS, ROWS, COLUMNS)).astype(np.float32)
    for i, odd in enumerate(ODD_ROWS):
        made[32 + 9 * i, i % ROWS] = odd
    return made


def in_registers(
    made: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """As wgmma has them: two of one row, two of the other, alternately."""
    return np.ascontiguousarray(made.reshape(THREADS, ROWS, COLUMNS // 2, 2).transpose(0, 2, 1, 3))


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("first", [True, False])
def test_maxima_are_those_of_the_numbers(tmp_path: Path, *, first: bool) -> None:
    fragment = Fragment((0, 1), (64, 2 * 32), down=4, across=1)
    assert fragment.registers == ROWS * COLUMNS
    start = ["for (int i_ = 0; i_ < 2; ++i_) found[i_] = -INFINITY;"] if first else []
    loop = "for (int i_ = 0; i_ < 32; ++i_) found[i_ / 2 % 2] = fmaxf(found[i_ / 2 % 2], given[i_]);"
    words = "for (int i_ = 0; i_ < 16; ++i_)"
    lines = maxima(
        "found", fragment, lambda one: f"given[{one.register}]", words, [*start, loop], first=first
    )
    file = tmp_path / "maxima.cu"
    file.write_text(KERNEL.replace("LINES", "\n".join(lines)))
    given, found = rows(), np.full((THREADS, ROWS), 1.0, np.float32)
    kernel = compiled(file, tmp_path, [RUNTIME], "90a").module.kernel("run")
    kernel.launch((1, 1, 1), [in_registers(given).ravel(), found.ravel()], block=(THREADS, 1, 1))
    with np.errstate(all="ignore"):
        wanted = np.fmax.reduce(given, axis=2, initial=-np.inf if first else 1.0)
    np.testing.assert_array_equal(found, wanted)


def test_maxima_of_attention_take_three_numbers_at_once_and_sums_do_not() -> None:
    text = source(program("fa_fwd_subtiled"))
    assert text.count("largest_bits(") == text.count(": reduce_max")
    assert "bits_mislead(" in text


def test_a_group_that_computes_alone_takes_no_vote() -> None:
    text = source(program("fa_fwd"))
    assert ": reduce_max" in text
    assert "bits_mislead(" not in text
