"""Kernels whose grid is launched with its axes in another order, executed: every program, and one alone."""

import ctypes
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.kernels.programs import loops, program
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest
from twill.targets import target

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

NUMBERS = {"M": 256, "N": 96, "K": 128}
GRID = (2, 3, 1)


@cache
def build() -> Build:
    """Tiles of 128 x 32 along x and y, launched along y and x."""
    _, scheduled = loops("scaled_32")
    made = replace(program("scaled_32"), order=(1, 0, 2))
    described = manifest(made, scheduled, dict.fromkeys((one.loop.path for one in scheduled), 1.0))
    with TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(target("sm90").source(made))
        return Build(described, made.function, compiled(source, Path(folder), [RUNTIME], "90a"))


@pytest.mark.parametrize("programs", [None, ((1, 2, 0),), ((0, 1, 0), (1, 0, 0))])
def test_programs_keep_their_indices(programs: tuple[tuple[int, int, int], ...] | None) -> None:
    found = run(build(), Request(NUMBERS, GRID, programs))
    assert wrong(build(), found) is None, found
    assert sum(one.values for one in found) == 128 * 32 * len(programs or range(6))


@pytest.mark.parametrize(
    ("grid", "launched"), [(GRID, (3, 2, 1)), ((70000, 3, 1), (70000, 3, 1)), ((2, 3, 70), (3, 2, 70))]
)
def test_no_axis_gets_more_blocks_than_it_may_have(
    grid: tuple[int, int, int], launched: tuple[int, int, int]
) -> None:
    pointers = [ctypes.c_void_p(1 << 20)] * 5
    sizes = [ctypes.c_int(extent) for extent in (*NUMBERS.values(), *grid)]
    found = build().host.call("scaled_launch", [*pointers, *sizes, ctypes.c_void_p(0)])
    assert [one.grid for one in found] == [launched]
