"""Kernels that differ in the registers of their groups: compiled once, and assembled each."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.launch.test_build import MANIFEST
from twill.launch import tries
from twill.launch.build import build
from twill.launch.manifest import write

CUDA = """// a kernel
#include <cuda_runtime.h>
#include "twill.cuh"
using namespace twill;
__global__ void __maxnreg__(64) k(float *out) {
    if (threadIdx.x < 128) {
        registers_decrease<40>();
        out[threadIdx.x] = 1.0f;
    } else {
        registers_increase<88>();
        out[threadIdx.x] = 2.0f;
    }
}
"""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are compiled."""
    ran = list[str]()
    compile_to = tries.compile_to

    def counted(made: Path, folder: Path, flags: tuple[str, ...], code: str = "kernel.cu") -> None:
        ran.append(code)
        compile_to(made, folder, flags, code=code)

    monkeypatch.setattr(tries, "compile_to", counted)
    return ran


def test_grants_are_told_apart_by_what_is_equal() -> None:
    text, grants = tries.without_registers(CUDA)
    assert grants == (("dec", "40"), ("inc", "88"))
    assert "a kernel" not in text
    assert tries.without_registers(CUDA.replace("<40>", "<56>").replace("<88>", "<72>"))[0] == text
    thrice = CUDA + "registers_increase<96>();"
    assert tries.without_registers(thrice)[0] != tries.without_registers(thrice.replace("<96>", "<88>"))[0]


def test_grants_are_replaced_in_ptx() -> None:
    ptx = "setmaxnreg.dec.sync.aligned.u32 40;\nsetmaxnreg.inc.sync.aligned.u32 88;\nmov.u32 %r1, 40;"
    instead = {("dec", "40"): ("dec", "24"), ("inc", "88"): ("inc", "40")}
    expected = "setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 40;\nmov.u32 %r1, 40;"
    assert tries.with_registers(ptx, instead) == expected


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_the_compiler_runs_once(tmp_path: Path, ran: list[str]) -> None:
    (tmp_path / "kernel.json").write_text(write(MANIFEST))
    logs = list[str]()
    for low, high in ((40, 88), (56, 72), (40, 88)):
        text = CUDA.replace("<40>", f"<{low}>").replace("<88>", f"<{high}>")
        (tmp_path / "kernel.cu").write_text(text)
        assert tries.tried(tmp_path) == ()
        logs.append((tmp_path / "ptxas.txt").read_text())
    assert ran == ["kernel.cu", "kernel.ptx"]
    assert all("Used" in log for log in logs)
    assert logs[0] == logs[2]
    assert "setmaxnreg.inc.sync.aligned.u32 72;" in (tmp_path / "kernel.ptx").read_text()
    (tmp_path / "kernel.cu").write_text(CUDA.replace("// a kernel", "// another note"))
    assert tries.known(tmp_path) == ()
    (tmp_path / "kernel.cu").write_text(CUDA.replace("<40>", "<24>"))
    assert tries.known(tmp_path) is None


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_ptxas_runs_alone_for_another_level_of_register_usage(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands, run = list[list[str]](), subprocess.run

    def noted(command: list[str], **given: Any) -> object:
        commands.append(command)
        return run(command, **given)  # pyright: ignore[reportUnknownVariableType]

    monkeypatch.setattr(subprocess, "run", noted)
    (tmp_path / "kernel.json").write_text(write(MANIFEST))
    text = CUDA.replace("(64)", "(80)")
    for level in ("", "#define TWILL_REGISTER_USAGE_LEVEL 2\n"):
        (tmp_path / "kernel.cu").write_text(text.replace("using", f"{level}using"))
        assert tries.known(tmp_path) is None
        assert tries.tried(tmp_path) == ()
    assert ran == ["kernel.cu", "kernel.ptx"]
    (default, fewer) = (command for command in commands if "--version" not in command)
    level = ["-Xptxas", "--register-usage-level=2"]
    assert fewer[fewer.index(level[1]) - 1 : fewer.index(level[1]) + 1] == level
    assert level[1] not in default


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_what_a_build_compiled_is_not_compiled_again(tmp_path: Path, ran: list[str]) -> None:
    kept, text = tmp_path / "kept", CUDA.replace("<64>", "<72>")
    kept.mkdir()
    (tmp_path / "kernel.json").write_text(write(MANIFEST))
    (tmp_path / "kernel.cu").write_text(text)
    assert build(tmp_path, kept=kept) == ()
    tries.keep(tmp_path, kept)
    (tmp_path / "kernel.cu").write_text(text.replace("<88>", "<96>"))
    assert tries.tried(tmp_path) == ()
    assert ran == ["kernel.ptx"]
    assert "setmaxnreg.inc.sync.aligned.u32 96;" in (tmp_path / "kernel.ptx").read_text()
