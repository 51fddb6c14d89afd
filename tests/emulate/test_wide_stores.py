"""Stores by 16 bytes: threads exchange elements of 32 bits, of a byte, or of two rows, so that each has neighbours of
a row."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from tests.kernels.programs import loops, program
from twill.emulate.check import check
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME
from twill.targets import target

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

OF_BYTES = "pointers_into_bytes"
OF_COLUMNS = "pointers_16"
TRANSPOSED = "archived"
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
extern "C" __global__ void transposed(const uint8_t* from, uint8_t* to) {
    const int lane = threadIdx.x, row = lane / 4;
    uint32_t words[4];
    for (int i = 0; i < 4; ++i) {
        const uint8_t* const pair = from + row * 64 + 16 * i + lane % 4 * 2;
        words[i] = pair[0] | pair[1] << 8 | pair[8] << 16 | pair[9] << 24;
    }
    transpose_bytes(words);
    store_words(to + row * 64 + lane % 4 * 16, words, row != 5);
}
"""


def test_pairs_of_two_groups_of_columns_become_four_neighbours() -> None:
    """Each element is where it was; nothing is stored where the condition does not hold."""
    _same_but_a_row("exchanged", np.arange(1, ROWS * COLUMNS + 1, dtype=np.float32))


def test_pairs_of_eight_groups_of_bytes_become_sixteen_neighbours() -> None:
    _same_but_a_row("transposed", np.arange(ROWS * 64).astype(np.uint8) % 251 + 1)


def test_bytes_that_mmas_leave_are_stored_so() -> None:
    text = target("sm90").source(program(OF_BYTES))
    assert "transpose_bytes(" in text
    assert "store_pair" not in text
    assert check(program(OF_BYTES), loops(OF_BYTES)[1], text, lambda what: None).values > 1000


def test_sixteen_columns_of_two_rows_are_stored_so() -> None:
    """Of four threads, two store those of the first row and two those of the second."""
    text = target("sm90").source(program(OF_COLUMNS))
    stored = next(line for line in text.splitlines() if "store_words(" in line)
    assert "(thread.lane % 4 < 2 ? ((c + " in stored
    assert "store_pair" not in text
    assert check(program(OF_COLUMNS), loops(OF_COLUMNS)[1], text, lambda what: None).values > 1000


def test_transposed_states_are_stored_as_they_come_from_shared_memory() -> None:
    """They pass through it anyway; threads that read 16 bytes there exchange none."""
    text = target("sm90").source(program(TRANSPOSED))
    assert "store_neighbours<4>(" in text
    assert "transpose_quad(" not in text
    assert check(program(TRANSPOSED), loops(TRANSPOSED)[1], text, lambda what: None).values > 1000


def _same_but_a_row(kernel: str, given: np.ndarray) -> None:
    found = np.zeros_like(given)
    with TemporaryDirectory() as folder:
        (Path(folder) / "stores.cu").write_text(SOURCE)
        module = compiled(Path(folder) / "stores.cu", Path(folder), [RUNTIME], "90a").module
    module.kernel(kernel).launch((1, 1, 1), [given, found], block=(32, 1, 1))
    wanted = given.reshape(ROWS, -1).copy()
    wanted[5] = 0
    assert found.reshape(ROWS, -1).tolist() == wanted.tolist()
