"""Stores of 32-bit elements by 16 bytes: two threads exchange pairs, so that each has four neighbours of a row."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from twill.emulate.host import compiled
from twill.launch.build import RUNTIME

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

ROWS, COLUMNS = 8, 16
"""Of a warp, in two groups of eight columns."""
SOURCE = """#include "twill.cuh"
using namespace twill;
extern "C" __global__ void exchanged(const float* from, float* to) {
    const int lane = threadIdx.x, row = lane / 4, own = row * 16 + lane % 4 * 2;
    uint32_t words[4];
    exchange_pairs<float>(words, from[own], from[own + 1], from[own + 8], from[own + 9]);
    store_words(to + row * 16 + lane % 2 * 8 + lane % 4 / 2 * 4, words, row != 5);
}
"""


def test_pairs_of_two_groups_of_columns_become_four_neighbours() -> None:
    """Each element is where it was; nothing is stored where the condition does not hold."""
    given = np.arange(1, ROWS * COLUMNS + 1, dtype=np.float32)
    found = np.zeros(ROWS * COLUMNS, np.float32)
    with TemporaryDirectory() as folder:
        (Path(folder) / "stores.cu").write_text(SOURCE)
        module = compiled(Path(folder) / "stores.cu", Path(folder), [RUNTIME], "90a").module
    module.kernel("exchanged").launch((1, 1, 1), [given, found], block=(32, 1, 1))
    wanted = given.reshape(ROWS, COLUMNS).copy()
    wanted[5] = 0
    assert found.reshape(ROWS, COLUMNS).tolist() == wanted.tolist()
