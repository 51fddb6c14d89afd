"""The polynomial 2 to the x: as exact as its documentation says over the whole range of float32, and computed
so by the PTX that nvcc makes of it."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.emulate.ptx import Array
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME

LIMIT = 1.17
"""Units in the last place (twill/targets/runtime/math.cuh); ex2.approx.ftz.f32 is documented with 2."""
COEFFICIENTS = np.array(
    [0x3F317216, 0x3E75FEAB, 0x3D634488, 0x3C1E85C9, 0x3AA36B27, 0x3962A0BB], np.uint32
).view(np.float32)
SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-40,
    127.99999,
    128.0,
    1000.0,
    -126.0,
    -126.5,
    -127.0,
    -150.0,
]
SAMPLES = 1 << 22


def fma(a: Array, b: Array, c: float) -> Array:
    """Rounded once: a product of two float32 numbers is exact in float64, and no sum here is halfway between
    two float32 numbers only after its first rounding."""
    return (a.astype(np.float64) * b + np.float64(c)).astype(np.float32)


def polynomial(x: Array) -> Array:
    """The steps of `exp2_polynomial`."""
    x = np.maximum(np.minimum(x, np.float32(128)), np.float32(-127))
    whole = np.floor(x)
    f, p = x - whole, np.full_like(x, COEFFICIENTS[-1])
    for coefficient in (*COEFFICIENTS[-2::-1].tolist(), 1.0):
        p = fma(p, f, coefficient)
    with np.errstate(all="ignore"):
        bits = (np.nan_to_num(whole).astype(np.int32) + 127).astype(np.uint32) << np.uint32(23)
        y = p * bits.view(np.float32)
    return np.where(np.abs(y) < np.finfo(np.float32).tiny, np.float32(0), y)


def errors(x: Array, y: Array) -> Array:
    """In units in the last place."""
    exact = np.exp2(x.astype(np.float64))
    return np.abs(y - exact) / np.exp2(np.floor(np.log2(exact)) - 23)


def test_all_of_float32_is_as_exact_as_documented() -> None:
    """Bit patterns at even distances: every binade of both signs, whose results are normal numbers."""
    x = np.linspace(0, 2**32 - 1, SAMPLES).astype(np.uint32).view(np.float32)
    x = np.concatenate([x[np.isfinite(x)], np.linspace(-126, 128, SAMPLES, endpoint=False, dtype=np.float32)])
    x = x[(x >= -126) & (x < 128)]
    assert len(x) > SAMPLES
    assert errors(x, polynomial(x)).max() <= LIMIT


def test_whole_numbers_are_exact() -> None:
    x = np.arange(-126, 128).astype(np.float32)
    assert (polynomial(x) == np.ldexp(np.float32(1), x.astype(np.int32))).all()


KERNEL = """#include "twill.cuh"
using namespace twill;
extern "C" __global__ void run(const float* from, float* to) {
    for (int i = threadIdx.x; i < 2048; i += 128) {
        const float x = from[i];
        to[i] = CALL;
    }
}
"""


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize(
    "call", ["exp2_polynomial(x)", "exp2_polynomial_pair(float2{0.5f, x}).y", "exp2_parts<3>(17, x)"]
)
def test_the_ptx_computes_these_steps(call: str, tmp_path: Path) -> None:
    """Special values and underflow included; register 17 is of pair 0 of its eight, so of the polynomial."""
    file = tmp_path / "exp2.cu"
    file.write_text(KERNEL.replace("CALL", call))
    random = np.random.default_rng(5)
    wide, usual = random.uniform(-130, 130, 1024 - len(SPECIAL)), -random.exponential(4, 1024)
    given = np.concatenate([SPECIAL, wide, usual]).astype(np.float32)
    found = np.zeros(2048, np.float32)
    module = compiled(file, tmp_path, [RUNTIME], "100a").module
    module.kernel("run").launch((1, 1, 1), [given.copy(), found], block=(128, 1, 1))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, polynomial(given))
    assert found[2] == np.inf
    assert found[3] == 0
    assert np.isnan(found[4])
