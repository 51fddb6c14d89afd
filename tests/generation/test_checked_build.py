"""Kernels that are checked while nvcc builds them."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from twill.diagnostics import TwillError
from twill.generation.builds import checked_build as module
from twill.generation.builds.checked_build import check_beside_build, library, warnings
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs
from twill.launch.build import LIBRARY, SOURCE, TooFewRegistersError

GEMM = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90", subtile=1)


@pytest.fixture(scope="module")
def gemm() -> Generated:
    return generate(GEMM, GenerateOptions(time_limit=20, check=False))


def silent(name: str, event: object) -> None:
    """No progress."""


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_the_ptx_of_the_library_is_executed(gemm: Generated, tmp_path: Path) -> None:
    checked = check_beside_build(gemm, tmp_path, silent)
    assert checked
    assert {run.by for run in checked.runs} == {"simulator", "emulator"}
    assert checked.runs[-1].values
    assert not checked.runs[-1].skipped
    built = (tmp_path / LIBRARY).stat()
    assert library(gemm, tmp_path) == ()
    assert (tmp_path / LIBRARY).stat() == built
    wrong = replace(gemm, cuda=gemm.cuda.replace("fence_async_shared();", ""))
    with pytest.raises(TwillError, match="the async proxy reads byte") as refused:
        check_beside_build(wrong, tmp_path, silent)
    assert refused.value.location
    assert refused.value.location.file == "kernel.ptx"
    assert (tmp_path / SOURCE).read_text() == wrong.cuda


def test_a_kernel_with_warnings_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated, tmp_path: Path
) -> None:
    def warned(folder: Path, *_: object, **__: object) -> tuple[str, ...]:
        return ("8 bytes of registers are spilled",)

    monkeypatch.setattr(module, "build", warned)
    assert check_beside_build(gemm, tmp_path, silent) is None


def test_too_few_registers_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated, tmp_path: Path
) -> None:
    def refused(folder: Path, *_: object, **__: object) -> tuple[str, ...]:
        raise TooFewRegistersError("24 registers are too few")

    monkeypatch.setattr(module, "build", refused)
    assert check_beside_build(gemm, tmp_path, silent) is None
    assert warnings(gemm, tmp_path) == ("24 registers are too few",)


def test_a_kernel_that_cannot_be_built_is_refused(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated, tmp_path: Path
) -> None:
    def broken(folder: Path, *_: object, **__: object) -> tuple[str, ...]:
        raise TwillError("nvcc can not build it")

    monkeypatch.setattr(module, "build", broken)
    with pytest.raises(TwillError, match="can not build it"):
        check_beside_build(gemm, tmp_path, silent)
