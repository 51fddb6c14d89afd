"""Kernels in the forms that the examples do not have: values, interleavings, and one file of all their CUDA that builds."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.codegen.programs import FORMS, program
from tests.simulate.test_values import grid
from twill.codegen.build import RUNTIME
from twill.codegen.emit.kernel import source
from twill.simulate.compare import compare
from twill.simulate.explore import explore, same

NUMBERS = {"M": 256, "N": 256, "K": 256}


@pytest.mark.parametrize("kernel", FORMS)
@pytest.mark.parametrize("prefer", [(0, 1, 2), (2, 1, 0)])
def test_a_program_computes_what_its_ttgir_computes(kernel: str, prefer: tuple[int, ...]) -> None:
    made = program(kernel)
    names = {arg.name.lstrip("%") for arg in made.function.args}
    given = {"L": 1, "slope": 0.125}
    found = compare(made, {name: value for name, value in (NUMBERS | given).items() if name in names}, grid(0, 0, (1, 1)), prefer=prefer)
    assert all(one.good for one in found), found
    assert any(one.changed for one in found)


@pytest.mark.parametrize("kernel", FORMS)
def test_no_interleaving_goes_wrong(kernel: str) -> None:
    for trips in range(6):
        assert explore(program(kernel), same(trips)).complete


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_all_of_them_build(tmp_path: Path) -> None:
    """Names are made distinct, and what every file begins with is written once."""
    instructions, texts = set[str](), list[str]()
    for kernel in FORMS:
        lines = source(program(kernel)).splitlines()
        name = program(kernel).function.name
        instructions |= {line for line in lines if line.startswith("TWILL_WGMMA")}
        kept = "\n".join(line for line in lines if not line.startswith(("TWILL_WGMMA", "#include")))
        texts.append(re.sub(rf"\b{name}_(kernel|launch)\b", rf"{kernel}_\1", kept))
    head = ["#include <cuda_runtime.h>", '#include "twill.cuh"', *sorted(instructions)]
    (tmp_path / "all.cu").write_text("\n".join([*head, *texts]))
    command = ["nvcc", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", f"-I{RUNTIME}", "-Xptxas", "-v,-O1", "-cubin"]
    done = subprocess.run([*command, "-o", tmp_path / "all.cubin", tmp_path / "all.cu"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "C75" not in done.stderr
    assert "warning" not in done.stderr
