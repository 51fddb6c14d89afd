"""Maxima and minima of 16-bit floats in words: those of the numbers, whatever they are."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.programs import cuda
from tests.targets.test_maxima import ODD_ROWS
from twill.emulate.host import compiled
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.narrow_extremes import extremes_narrowed
from twill.ir.loop import Op
from twill.launch.build import RUNTIME
from twill.ops.values import element
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.values.packed_maxima import as_wide, extremes, in_words

THREADS, ROWS, COLUMNS = 128, 2, 16
KERNEL = """#include "twill.cuh"
using namespace twill;
extern "C" __global__ void run(const uint32_t* from, float* to) {
    uint32_t given[16];
    float found[2];
    for (int i = 0; i < 16; ++i) given[i] = from[threadIdx.x * 16 + i];
LINES
    for (int i = 0; i < 2; ++i) to[threadIdx.x * 2 + i] = found[i];
}
"""


def reduction(dtype: str, word: str) -> Op:
    text = Path("tests/kernels/ttgir/rescaled_rows.sm90.ttgir").read_text(encoding="utf-8")
    text = text.replace("arith.maxnumf %scale_27, %scale_28", f"arith.{word}numf %scale_27, %scale_28")
    (function,) = extremes_narrowed(read(text.replace("f16", dtype), "rescaled_rows.ttgir")).functions
    return next(op for op in function.walk() if op.name == "tt.reduce")


def bits(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounded to 16 bits, each number's own word."""
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def numbers(words: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "f16":
        return words.view(np.float16).astype(np.float32)
    return (words.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("word", ["max", "min"])
def test_extremes_in_words_are_those_of_the_numbers(tmp_path: Path, dtype: str, word: str) -> None:
    fragment, op = Fragment((0, 1), (64, 2 * 32), down=4, across=1), reduction(dtype, word)
    wide = as_wide(op)
    assert wide is not None
    assert element(wide.result.type) == "f32"
    assert in_words(op, fragment, (0, 8))
    loop = "for (int i_ = 0; i_ < 16; ++i_)"
    lines = extremes(
        wide,
        "found",
        fragment,
        lambda one: f"unpack_{dtype}(given[{one.register} / 2], {one.register} % 2)",
        loop,
    )
    file = tmp_path / "extremes.cu"
    file.write_text(KERNEL.replace("LINES", "\n".join(lines)))
    made = np.random.default_rng(3).normal(size=(THREADS, ROWS, COLUMNS)).astype(np.float32)
    for i, odd in enumerate(ODD_ROWS):
        made[9 * i, i % ROWS] = odd
    words = bits(made, dtype)
    order = np.ascontiguousarray(words.reshape(THREADS, ROWS, COLUMNS // 2, 2).transpose(0, 2, 1, 3))
    found = np.zeros((THREADS, ROWS), np.float32)
    kernel = compiled(file, tmp_path, [RUNTIME], "90a").module.kernel("run")
    kernel.launch((1, 1, 1), [order.view(np.uint32).ravel(), found.ravel()], block=(THREADS, 1, 1))
    reduce, first = (np.fmax.reduce, -np.inf) if word == "max" else (np.fmin.reduce, np.inf)
    with np.errstate(all="ignore"):
        wanted = reduce(numbers(words, dtype), axis=2, initial=first)
    np.testing.assert_array_equal(found, wanted)


def test_other_reductions_are_of_the_numbers_themselves() -> None:
    op = reduction("f16", "max")
    region = op.regions[0]
    (block,) = region.blocks
    added = replace(block, ops=(replace(block.ops[0], name="arith.addf"), *block.ops[1:]))
    assert as_wide(replace(op, regions=(replace(region, blocks=(added,)),))) is None


def test_rows_are_scaled_by_words() -> None:
    text = cuda("rescaled_rows")
    assert "absolute_halves(" in text
    assert "max_f16x2(" in text
    assert "clamp_magnitude(" in text
    assert "fminf(fmaxf(" not in text
