"""Cluster launch control: thread blocks that take over tiles while they run, alone and in pairs."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from twill.diagnostics import TwillError
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.generate import GenerateOptions, generate
from twill.inputs import Inputs
from twill.launch.build import RUNTIME
from twill.launch.manifest import manifest
from twill.warp.plan import Options

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
KERNEL = "tests/kernels/ttgir/matmul_bf16.sm100.ttgir"


@cache
def build(pairs: bool) -> Build:
    options = GenerateOptions(time_limit=20, check=False, lowering=Options(pairs=pairs, dynamic=True))
    made = generate(Inputs(KERNEL, arch="sm100", persistent=True), options)
    described = manifest(made.program, made.loops, dict.fromkeys(made.results, 1.0))
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.cu").write_text(made.cuda)
        host = compiled(Path(folder) / "kernel.cu", Path(folder), [RUNTIME], "100a")
    assert "claims.request(claimed" in made.cuda
    return Build(described, made.program.function, host)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_every_tile_is_computed_once(pairs: bool, schedule: int) -> None:
    """Twelve tiles, ragged ones among them; the blocks that run take as many as they come to."""
    one = Request({"M": 464, "N": 320, "K": 200}, (4, 3, 1), schedule=schedule)
    compared = run(build(pairs), one)
    assert wrong(build(pairs), compared) is None, compared
    assert sum(one.values for one in compared) > 464 * 300


def test_a_kernel_that_is_not_persistent_claims_nothing() -> None:
    with pytest.raises(TwillError, match="persistent") as error:
        generate(
            Inputs(KERNEL, arch="sm100"),
            GenerateOptions(time_limit=20, check=False, lowering=Options(dynamic=True)),
        )
    assert error.value.help == "give --persistent"
