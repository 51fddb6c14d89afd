"""Thread blocks that take over tiles while they run: by cluster launch control, alone and in pairs, and from a counter."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from twill.diagnostics import TwillError
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest
from twill.warp.plan import Options

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
KERNEL = "tests/kernels/ttgir/matmul_bf16.sm100.ttgir"
HOPPER = "tests/kernels/ttgir/matmul_bf16.sm90.ttgir"


@cache
def build(pairs: bool, kernel: str = KERNEL, tiles: int | None = None) -> Build:
    options = Options(pairs=pairs, dynamic=True, tiles=tiles)
    arch = "sm90" if kernel == HOPPER else "sm100"
    made = generate(
        Inputs(kernel, arch=arch, persistent=True),
        GenerateOptions(time_limit=20, check=False, lowering=options),
    )
    described = manifest(made.program, made.loops, dict.fromkeys(made.results, 1.0))
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.cu").write_text(made.cuda)
        host = compiled(
            Path(folder) / "kernel.cu", Path(folder), [RUNTIME], "90a" if arch == "sm90" else "100a"
        )
    assert ("claims.take()" if arch == "sm90" else "claims.request(claimed") in made.cuda
    return Build(described, made.program.function, host)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_every_tile_is_computed_once(pairs: bool, schedule: int) -> None:
    """Twelve tiles, ragged ones among them; the blocks that run take as many as they come to."""
    one = Request({"M": 464, "N": 320, "K": 200}, (4, 3, 1), schedule=schedule)
    compared = run(build(pairs), one)
    assert wrong(build(pairs), compared) is None, compared
    assert sum(one.values for one in compared) > 464 * 300


@pytest.mark.parametrize("schedule", [0, 1])
@pytest.mark.parametrize("processors", [1, 3, 20])
def test_every_tile_is_counted_once(schedule: int, processors: int) -> None:
    """As above, on fewer and more multiprocessors than tiles."""
    one = Request({"M": 464, "N": 320, "K": 200}, (4, 3, 1), schedule=schedule, processors=processors)
    made = build(False, HOPPER)
    compared = run(made, one)
    assert wrong(made, compared) is None, compared
    assert sum(one.values for one in compared) > 464 * 300


def test_a_kernel_that_is_not_persistent_claims_nothing() -> None:
    with pytest.raises(TwillError, match="persistent") as error:
        generate(
            Inputs(KERNEL, arch="sm100"),
            GenerateOptions(time_limit=20, check=False, lowering=Options(dynamic=True)),
        )
    assert error.value.help == "give --persistent"


def test_lanes_that_store_what_they_load_come_together_before_a_tile_is_claimed() -> None:
    """The leader releases what its warp has stored."""
    options = GenerateOptions(time_limit=20, execute=True, lowering=Options(dynamic=True))
    made = generate(Inputs("tests/kernels/ttgir/turned.sm90.ttgir", arch="sm90", persistent=True), options)
    assert "load_global" in made.cuda
    assert "claims.publish" in made.cuda
    assert made.checked
    assert made.checked.values
