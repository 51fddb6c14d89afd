"""`twill emulate` on PTX and on a build folder: what it says, what it refuses."""

import shutil
from pathlib import Path

import pytest

from tests.emulate.ptx import HEADER, REGISTERS
from tests.kernels.programs import cuda, loops, program
from twill.cli import run
from twill.launch.describe import manifest
from twill.launch.manifest import write

DOUBLE = f"""{HEADER}
.visible .entry double(.param .u64 x, .param .u32 size)
{{
{REGISTERS}
    ld.param.u64 %d1, [x];
    ld.param.u32 %r2, [size];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 exit;
    mad.wide.u32 %d1, %r1, 4, %d1;
    ld.global.f32 %f1, [%d1];
    add.f32 %f1, %f1, %f1;
    st.global.f32 [%d1], %f1;
    ret;
}}
"""


@pytest.fixture
def ptx(tmp_path: Path) -> str:
    path = tmp_path / "double.ptx"
    path.write_text(DOUBLE)
    return str(path)


def test_a_file_is_executed(ptx: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["emulate", ptx, "--block", "64", "--param", "f32[50]", "--param", "50", "--random", "1"]) == 0
    assert capsys.readouterr().out == "as late as possible  no hazard\nrandom schedule 1  no hazard\n"


def test_a_hazard_has_its_line(ptx: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["emulate", ptx, "--block", "64", "--param", "f32[50]", "--param", "60"]) == 2
    assert "double.ptx:20:1: error: global memory is accessed out of bounds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--param", "f32[50]"], "double has 2 parameters, not 1"),
        (["--param", "f12[50]", "--param", "1"], "'f12' is no element type"),
        (["--param", "many", "--param", "1"], "'many' is no parameter"),
        (["--kernel", "half"], "has no kernel 'half'"),
        (["--param", "f32[50]", "--param", "1", "--block", "2048"], "2048 threads; a CTA has at most 1024"),
        (
            ["--param", "f32[50]", "--param", "1", "--shared", "300000"],
            "bytes of shared memory; a CTA has at most",
        ),
        (
            ["--param", "f32[50]", "--param", "1", "--grid", "3", "--cluster", "2"],
            "do not divide into clusters",
        ),
    ],
)
def test_what_does_not_fit(
    ptx: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["emulate", ptx, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_what_is_no_ptx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.ptx"
    path.write_text(DOUBLE.replace("add.f32 %f1, %f1, %f1;", "add.f32 %f1, %f1 %f1;"))
    assert run(["emulate", str(path), "--param", "f32[50]", "--param", "1"]) == 2
    assert "wrong.ptx:21:22: error: ',' or ';' is expected" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_a_build_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, (_, scheduled) = program("gemm"), loops("gemm")
    (tmp_path / "kernel.json").write_text(
        write(manifest(made, scheduled, {one.loop.path: 1.0 for one in scheduled}))
    )
    (tmp_path / "kernel.ttgir").write_text(made.module.text)
    (tmp_path / "kernel.cu").write_text(cuda("gemm"))
    assert (
        run(["emulate", str(tmp_path), "--arg", "K=128", "--integers", "--ptx", str(tmp_path / "made.ptx")])
        == 0
    )
    assert "wgmma.mma_async" in (tmp_path / "made.ptx").read_text()
    assert capsys.readouterr().out == "as late as possible  relative errors c 0.0e+00: no hazard\n"
    (tmp_path / "kernel.cu").write_text(cuda("gemm").replace("__syncthreads();", ""))
    assert run(["emulate", str(tmp_path), "--arg", "K=128"]) == 2
    assert "an mbarrier is used without synchronization after its initialization" in capsys.readouterr().err
