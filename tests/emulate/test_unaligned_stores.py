"""Stores of tiles whose rows begin anywhere: as wide as each address allows, and right at every one."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from tests.kernels.builds import build
from twill.emulate import Module
from twill.emulate.build import Request, run, wrong
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

SOURCE = """#include "twill.cuh"
using namespace twill;
extern "C" __global__ void words(const uint32_t* from, uint16_t* to, int first, int stored) {
    const uint32_t words[4] = {from[0], from[1], from[2], from[3]};
    store_words_anywhere(to + first, words, stored != 0);
}
"""


@cache
def module() -> Module:
    with TemporaryDirectory() as folder:
        (Path(folder) / "stores.cu").write_text(SOURCE)
        return compiled(Path(folder) / "stores.cu", Path(folder), [RUNTIME], "90a").module


@pytest.mark.parametrize("first", range(9))
def test_neighbours_go_to_any_address(first: int) -> None:
    """Not one beside them, and none where the condition does not hold."""
    values = np.arange(1, 9, dtype=np.uint16)
    for stored in (0, 1):
        found, wanted = np.zeros(24, np.uint16), np.zeros(24, np.uint16)
        wanted[first : first + 8 * stored] = values[: 8 * stored]
        given = [values.view(np.uint32), found, first, stored]
        module().kernel("words").launch((1, 1, 1), given, block=(1, 1, 1))
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("pitch", [136, 130, 129])
def test_a_tile_whose_rows_begin_anywhere(pitch: int) -> None:
    """Rows at multiples of 16, 4 and 2 bytes; the last ones are masked."""
    numbers = {"M": 48, "N": 128, "K": 128, "pitch": pitch}
    compared = run(build("unaligned"), Request(numbers, (1, 1, 1)))
    assert wrong(build("unaligned"), compared) is None, compared
    assert sum(one.values for one in compared) >= 48 * 128
