"""Atomic additions of neighbours: 4, 8 or 16 bytes in one operation, and one element of 16 bits together with -0."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from twill.emulate.host import compiled
from twill.launch.build import RUNTIME

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

SOURCE = """#include "twill.cuh"
using namespace twill;
template <class T>
__device__ void added(const T* from, T* to) {
    constexpr int count = 16 / sizeof(T);
    const int lane = threadIdx.x, own = lane * count;
    T values[count];
    for (int i = 0; i < count; ++i) values[i] = from[own + i];
    if (lane < 8) add_neighbours<count>(to + own, values, 0, lane != 5);
    else if (lane < 16) add_neighbours<count / 2>(to + own, values, count / 2, lane != 13);
    else add_pair<T>(to + own, values[0], values[1], lane != 21);
}
extern "C" __global__ void floats(const float* from, float* to) { added(from, to); }
extern "C" __global__ void halves(const __half* from, __half* to) { added(from, to); }
extern "C" __global__ void single(const __half* from, __half* to) {
    const int lane = threadIdx.x;
    add_element<__half>(to + lane, from[lane], lane != 5);
    add_element<__half>(to + lane / 2, from[lane], lane % 4 == 1);
}
"""


def _launched(kernel: str, given: NDArray[np.generic], found: NDArray[np.generic]) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "additions.cu").write_text(SOURCE)
        module = compiled(Path(folder) / "additions.cu", Path(folder), [RUNTIME], "90a").module
    module.kernel(kernel).launch((1, 1, 1), [given, found], block=(32, 1, 1))


@pytest.mark.parametrize(("kernel", "dtype"), [("floats", np.float32), ("halves", np.float16)])
def test_neighbours_are_added_in_one_operation_where_the_condition_holds(
    kernel: str, dtype: DTypeLike
) -> None:
    count = 16 // np.dtype(dtype).itemsize
    given: NDArray[np.generic] = (np.arange(32 * count) % 61).astype(dtype)
    found: NDArray[np.generic] = np.ones(32 * count, dtype)
    _launched(kernel, given, found)
    rows = given.reshape(32, count).astype(np.float64)
    wanted = np.ones((32, count))
    wanted[:8] += rows[:8]
    wanted[8:16, : count // 2] += rows[8:16, count // 2 :]
    wanted[16:, :2] += rows[16:, :2]
    wanted[[5, 13, 21]] = 1
    assert found.reshape(32, count).tolist() == wanted.tolist()


def test_one_element_leaves_the_other_of_its_word_as_it_is() -> None:
    given = np.arange(1, 33, dtype=np.float16)
    found = np.where(np.arange(32) % 3 == 0, -0.0, 2.0).astype(np.float16)
    wanted = found.copy()
    wanted[np.arange(32) != 5] += given[np.arange(32) != 5]
    for lane in range(1, 32, 4):
        wanted[lane // 2] += given[lane]
    _launched("single", given, found)
    assert found.tolist() == wanted.tolist()
