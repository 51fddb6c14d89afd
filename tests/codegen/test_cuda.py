"""Generated CUDA: it builds, what can not be generated is refused at its line, and the text says where it comes from."""

import shutil
from pathlib import Path

import pytest

from tests.codegen.programs import program
from twill.codegen.build import build, warnings
from twill.codegen.emit.kernel import source
from twill.diagnostics import TwillError

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
    library, found = build(source(program(kernel)), tmp_path)
    assert library.exists()
    assert found == ()


def test_spills_and_serialization_are_noticed() -> None:
    log = "0 bytes stack frame, 16 bytes spill stores\nptxas info : (C7514) Potential Performance Loss: serialized\n1 bytes spill stores"
    assert [line.split()[0] for line in warnings(log)] == ["17", "ptxas"]
    assert warnings("0 bytes spill stores") == ()
