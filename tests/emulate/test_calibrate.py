"""The microbenchmarks of Blackwell, executed: each does what it says, without a hazard. No time is measured."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.emulate.compiled import few
from tests.kernels.builds import ENTRY
from twill.emulate import Module, load
from twill.emulate.module import Mapped
from twill.emulate.tensormap import TensorMap
from twill.launch.build import RUNTIME

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
SOURCE = Path("benchmarks/calibrate/blackwell.cu")
FILLED = 66560
"""Bytes of shared memory that a kernel fills first: the tiles of an MMA."""
REPEATS = 3
BODIES = (
    *("MmaI7KindF16", "MmaI8KindMxf4", "TensorLoad", "TmaStore", "MmaRoundTrip", "PolynomialPair"),
    *("MmaI8KindBf16", "MmaI8KindTf32", "MmaI8KindE4m3", "MmaI8KindMxf8", "MmaI8KindNvf4", "TensorStore"),
    *("TensorCopy", "RowMaximum", "Elementwise", "Packed", "Chain", "BesideExp2", "Reduce", "Convert"),
    *("StoreMatrix", "LoadMatrix", "TmaLatency", "TmaThroughput", "TmaIssue", "MbarrierRoundTrip"),
    *("NamedRoundTrip", "NamedSync", "MbarrierIssue", "HandOver", "WarpMma"),
)
"""Parts of the kernels' names."""
TWO_GROUPS = ("RoundTrip", "HandOver")
"""Of those whose two groups of warps wait for each other."""


@cache
def module(folder: Path) -> tuple[Module, tuple[str, ...]]:
    """The microbenchmarks that are run, and the names of their kernels."""
    made = folder / "blackwell.ptx"
    options = ["-std=c++17", "-arch=sm_100a", f"-DCALIBRATE_FILLED={FILLED}", f"-I{RUNTIME}", "-ptx"]
    subprocess.run(["nvcc", *options, "-o", made, SOURCE], check=True)
    chosen = few(6, BODIES)
    pieces = ENTRY.split(made.read_text())
    text = "".join(
        one
        for one in pieces
        if not one.startswith(".visible .entry") or any(body in one.split("(", 1)[0] for body in chosen)
    )
    return load(text, made.name), tuple(sorted(set(re.findall(r"\.entry (\w+)", text))))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calibrate")


@pytest.mark.parametrize("body", few(6, BODIES))
def test_a_microbenchmark_runs(folder: Path, body: str) -> None:
    made, names = module(folder)
    chosen = [name for name in names if body in name]
    assert chosen
    for name in chosen:
        rows = np.zeros((4096, 64), np.float16)
        streamed = Mapped(rows, TensorMap(0, "f16", rows.shape[::-1], (128,), (64, 64), swizzle=128))
        pair = "Mma" in name and name.rpartition("Li")[2].startswith("2E")
        threads = 256 if any(one in name for one in TWO_GROUPS) else 128
        made.kernel(name).launch(
            (1 + pair,),
            [streamed, np.zeros(2, np.int64), REPEATS, 0],
            block=(threads,),
            cluster=(1 + pair,),
            shared=200 * 1024,
        )
        if "TmaStore" in name:
            stored = rows[: 64 * REPEATS]
            assert np.all(stored == 1)
            assert not rows[64 * REPEATS :].any()


def test_every_kernel_is_executed_here(folder: Path) -> None:
    """By some part of a name."""
    _, names = module(folder)
    assert [name for name in names if not any(body in name for body in BODIES)] == []
