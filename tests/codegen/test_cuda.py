"""Generated CUDA: it builds, what can not be generated is refused at its line, and the text says where it comes from."""

import shutil
from pathlib import Path

import pytest

from tests.codegen.programs import assembled, program
from twill.codegen import manifest
from twill.codegen.build import build
from twill.codegen.emit.kernel import source
from twill.diagnostics import TwillError
from twill.emit.files import write

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
FORWARD = ("gemm", "gemm_persistent", "dual_gemm", "gemm_reduction", "fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal")


@pytest.mark.parametrize("kernel", FORWARD)
def test_every_product_is_issued_with_its_cycle_and_line(kernel: str) -> None:
    text = source(program(kernel))
    issues = [line for line in text.splitlines() if "// cycle" in line and ": dot." in line]
    assert issues
    assert all(f"{kernel}.sm90.ttgir:" in line for line in issues)
    assert text == source(program(kernel))


def test_what_can_not_be_generated_is_refused_at_its_line() -> None:
    with pytest.raises(TwillError) as refused:
        source(program("fa_bwd"))
    assert refused.value.location is not None


@needs_nvcc
@pytest.mark.parametrize("kernel", ["gemm", "gemm_reduction"])
def test_products_build_without_spills(kernel: str, tmp_path: Path) -> None:
    write(tmp_path / "kernel.cu", source(program(kernel)))
    write(tmp_path / "kernel.json", manifest.write(manifest.manifest(program(kernel), (), {})))
    assert build(tmp_path) == ()
    assert (tmp_path / "kernel.so").exists()


@needs_nvcc
def test_the_forward_examples_assemble(tmp_path: Path) -> None:
    assert "error" not in assembled(FORWARD, tmp_path)
