"""A kernel that loads what it has stored, in an earlier time that its loop was executed: all groups synchronize
around the loop. Its blocks are added by a function that is called and returns early."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.builds import build
from tests.kernels.programs import cuda
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.faults import HazardError
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
SIZES = {"M": 192, "K": 192}
SYNC = "named_barrier_sync(tensor_memory_sync"


@pytest.mark.parametrize("schedule", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["accrued", "accrued.sm100"])
def test_sums_in_memory_are_complete(kernel: str, schedule: int) -> None:
    compared = run(build(kernel), Request(SIZES, schedule=schedule))
    assert wrong(build(kernel), compared) is None, compared
    assert next(one for one in compared if one.argument == "c").values == 192 * 64


def without(kernel: str, text: str, folder: Path) -> Build:
    """The kernel with lines left out that contain a text."""
    source = "\n".join(line for line in cuda(kernel).split("\n") if text not in line)
    (folder / "kernel.cu").write_text(source)
    return replace(build(kernel), host=compiled(folder / "kernel.cu", folder, [RUNTIME], "90a"))


def test_without_synchronization_loads_come_too_early(tmp_path: Path) -> None:
    made = without("accrued", SYNC, tmp_path)
    outcomes = list[bool]()
    for schedule in range(3):
        try:
            outcomes.append(wrong(made, run(made, Request(SIZES, schedule=schedule))) is None)
        except HazardError:
            outcomes.append(False)
    assert not all(outcomes)
