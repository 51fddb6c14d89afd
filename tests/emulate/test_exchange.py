"""Tiles that both thread blocks of a pair compute in halves and that an MMA of the pair reads divided otherwise: exchanged
through distributed shared memory (`exchange.cu`). Values, and no hazard in whatever order; what is found without each wait."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from twill.emulate import HazardError, Module
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
SOURCE = Path(__file__).with_name("exchange.cu")
ITERATIONS, SHARED = 3, 4 * 128 * 128 + 2048


@cache
def built(old: str = "", new: str = "") -> Module:
    """The kernel, with one line changed."""
    text = SOURCE.read_text(encoding="utf-8")
    assert text.count(old) == 1 or not old
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cu"
        file.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        return compiled(file, Path(folder), [RUNTIME], "100a").module


def executed(module: Module, schedule: int) -> float:
    """The largest error, relative to the largest sum."""
    random = np.random.default_rng(schedule)
    slopes = random.standard_normal((ITERATIONS, 256, 128)).astype(np.float16)
    keys, result = random.standard_normal((256, 128)).astype(np.float16), np.zeros((128, 128), np.float32)
    module.kernel("summed").launch(
        (2, 1, 1), [slopes, keys, result, ITERATIONS], block=(160, 1, 1), cluster=(2, 1, 1), shared=SHARED, seed=schedule
    )  # fmt: skip
    expected = slopes.astype(np.float64).sum(axis=0).T @ keys.astype(np.float64)
    return float(np.abs(result - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("schedule", range(5))
def test_a_pair_sums_over_the_keys_of_both_blocks(schedule: int) -> None:
    assert executed(built(), schedule) < 1e-6


@pytest.mark.parametrize(
    ("old", "new", "hazard"),
    [
        ("mbarrier_wait(empty, (i + 1) % 2);", "", "synchronization after its write"),
        ("            fence_async();\n            __syncwarp", "            __syncwarp", "proxy"),
        ("mbarrier_arrive_at(of_first(full))", "mbarrier_arrive_relaxed(of_first(full))", "synchronization"),
        ("mbarrier_init(full, 2 * WARPS)", "mbarrier_init(full, WARPS)", "never written"),
        ("part / 8), row[part]", "rank), row[part]", "never written"),
    ],
    ids=[
        "slots not awaited",
        "no proxy fence",
        "relaxed arrivals",
        "one block awaited",
        "stored to one block",
    ],
)
def test_each_part_of_the_exchange_is_needed(old: str, new: str, hazard: str) -> None:
    with pytest.raises(HazardError, match=hazard):
        executed(built(old, new), 0)
