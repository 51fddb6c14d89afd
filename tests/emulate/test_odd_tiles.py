"""Tiles with sizes that are no powers of two: the PTX computes what the TTGIR says, at ragged ends too."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")


@cache
def build() -> Build:
    inputs = Inputs("tests/kernels/kernels.py:masked", arch="sm90", tile=("BLOCK_N", 48), subtile=1)
    made = generate(inputs, GenerateOptions(time_limit=10, check=False))
    described = manifest(made.program, made.loops, dict.fromkeys(made.results, 1.0))
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.cu").write_text(made.cuda)
        host = compiled(Path(folder) / "kernel.cu", Path(folder), [RUNTIME], "90a")
    assert "n48<" in made.cuda
    return Build(described, made.program.function, host)


@pytest.mark.parametrize("keys", [48, 112, 128, 208])
def test_values_at_ragged_ends(keys: int) -> None:
    compared = run(build(), Request({"N": keys}, (1, 1, 1)))
    assert wrong(build(), compared) is None, compared
    assert sum(one.values for one in compared) >= 48 * 64


@cache
def product(columns: int) -> Build:
    """Two tiles in flight, each of one warpgroup; staged in parts of 64 columns (192), or in rows of 64 bytes
    (160)."""
    settings = (("num_warps", "4"),)
    spec = "examples/kernels.py:gemm_persistent"
    inputs = Inputs(spec, arch="sm90", settings=settings, tile=("BLOCK_N", columns))
    made = generate(inputs, GenerateOptions(time_limit=10, check=False))
    described = manifest(made.program, made.loops, dict.fromkeys(made.results, 1.0))
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.cu").write_text(made.cuda)
        host = compiled(Path(folder) / "kernel.cu", Path(folder), [RUNTIME], "90a")
    assert f"n{columns}<" in made.cuda
    return Build(described, made.program.function, host)


@pytest.mark.parametrize("columns", [160, 192])
@pytest.mark.parametrize("size", [192, 320])
def test_products_at_ragged_ends(columns: int, size: int) -> None:
    compared = run(product(columns), Request({"M": 128, "N": size, "K": 128}, (1, 1, 1)))
    assert wrong(product(columns), compared) is None, compared
    assert sum(one.values for one in compared) >= 128 * size
