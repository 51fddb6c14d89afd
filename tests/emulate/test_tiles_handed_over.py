"""Tiles of 16-bit numbers that one group computes and another reads, each thread what its neighbour held."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.generation.loop_nest import program
from twill.inputs import Inputs, cases
from twill.ir.search import Options
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest
from twill.pipeline import solve
from twill.targets import EXACT_LAYOUTS, target

KERNEL = "tests/kernels/ttgir/dequantized.sm90.ttgir"
CONVERTED, SCALED = "sitofp.whole_16", "stage.whole_21"


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_words_lie_as_threads_hold_them() -> None:
    found = cases(Inputs(KERNEL, arch="sm90", exact_layouts=EXACT_LAYOUTS))
    made, loops = program(
        found, lambda problem: solve(replace(problem, apart=((CONVERTED, SCALED),)), Options(time_limit=20))
    )
    assert loops[0].group(CONVERTED) != loops[0].group(SCALED)
    text = target("sm90").source(made)
    assert re.search(r"store_elements<4>\(channel_whole_\d+\.slot\(.*thread\.index\) \* 16", text)
    assert re.search(r"load_elements<4>\(read_\d+\[i_\], 0, .*thread\.index\) \* 16", text)
    described = manifest(made, loops, dict.fromkeys((one.loop.path for one in loops), 1.0))
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.cu").write_text(text)
        built = Build(
            described, made.function, compiled(Path(folder) / "kernel.cu", Path(folder), [RUNTIME], "90a")
        )
        compared = run(built, Request({"M": 128, "N": 256, "K": 192}))
        assert wrong(built, compared) is None, compared
        assert sum(one.values for one in compared) > 1000
