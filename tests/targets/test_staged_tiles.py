"""Dots without a tensor core that read their operands from shared memory."""

import re
import shutil
from pathlib import Path

import pytest

from tests.kernels.programs import assemble, cuda, joined, loops, program
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest


def test_operands_that_are_too_large_for_registers_are_read_from_shared_memory() -> None:
    text = cuda("mounting")
    assert re.search(r"load_elements<4>\(a_, ", text)
    assert re.search(r"load_elements<4>\(b_, ", text)
    assert not re.search(r"float \w+\[(256|512|1024)\];", text)
    assert "shared_at" not in next(line for line in cuda("exactly").splitlines() if "k_" in line)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_nothing_is_spilled(tmp_path: Path) -> None:
    said = assemble(joined(["mounting"]), tmp_path, level=3)
    assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("schedule", [0, 1])
def test_the_sums_are_right(schedule: int, tmp_path: Path) -> None:
    """Executed as PTX."""
    (tmp_path / "kernel.cu").write_text(cuda("mounting"))
    host = compiled(tmp_path / "kernel.cu", tmp_path, [RUNTIME], "90a")
    made = program("mounting")
    described = manifest(made, loops("mounting")[1], {one.loop.path: 1.0 for one in loops("mounting")[1]})
    build = Build(described, made.function, host)
    compared = run(build, Request({"M": 128, "N": 128}, (1, 1, 1), schedule=schedule))
    assert wrong(build, compared) is None, compared
    assert sum(one.values for one in compared) == 128 * 128
