"""Divisions of rows by one number each."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.programs import program
from twill.emulate.host import compiled
from twill.ir.loop import NvidiaMma, Scalar, Tensor
from twill.launch.build import RUNTIME
from twill.targets.cuda.values.divisions import divided
from twill.targets.hopper import source

THREADS, ROWS, COLUMNS = 128, 2, 16
TILE = Tensor((64, 64), Scalar("f32"), NvidiaMma((3, 0), (4, 1), (16, 64, 16)))
KERNEL = """#include "twill.cuh"
using namespace twill;
extern "C" __global__ void run(const float* from, const float* by, float* to) {
    float given[32], divisor[2], found[32];
    for (int i = 0; i < 32; ++i) given[i] = from[threadIdx.x * 32 + i];
    for (int i = 0; i < 2; ++i) divisor[i] = by[threadIdx.x * 2 + i];
LINES
    for (int i = 0; i < 32; ++i) to[threadIdx.x * 32 + i] = found[i];
}
"""
ODD = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 2.0**127, -(2.0**127), 2.0**126, 2.0**-126], np.float32
)
"""Divisors: of those beyond 2^126 and below 2^-126, the reciprocal alone would be zero or infinite."""


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_quotients_are_those_of_a_division(tmp_path: Path) -> None:
    single = "divide(given[{0}], divisor[{0} / 2 % 2])"
    lines = divided(
        TILE,
        "found",
        lambda one: f"given[{one.register}]",
        lambda one: f"divisor[({one.register}) / 2 % 2]",
        lambda one: single.format(one.register),
    )
    file = tmp_path / "divisions.cu"
    file.write_text(KERNEL.replace("LINES", "\n".join(lines)))
    random = np.random.default_rng(5)
    given = random.normal(size=(THREADS, COLUMNS, ROWS, 1)).astype(np.float32)
    given = np.ascontiguousarray(
        np.broadcast_to(given, (THREADS, COLUMNS, ROWS, 1)).reshape(THREADS, 8, 2, 2)
    )
    by = random.uniform(1, 1e4, (THREADS, ROWS)).astype(np.float32)
    by[::9, 0][: len(ODD)] = ODD
    found = np.zeros_like(given)
    kernel = compiled(file, tmp_path, [RUNTIME], "90a").module.kernel("run")
    kernel.launch((1, 1, 1), [given.ravel(), by.ravel(), found.ravel()], block=(THREADS, 1, 1))
    with np.errstate(all="ignore"):
        wanted = given / by[:, None, :, None]
    np.testing.assert_allclose(found, wanted, rtol=2.0**-22)


def test_attention_divides_by_each_sum_once() -> None:
    text = source(program("fa_fwd_subtiled"))
    assert text.count("invert(") == text.count("divide(") == 2
