"""Generated CUDA: it builds, what can not be generated is refused at its line, and the text says where it comes from."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codegen.programs import EXAMPLES, assembled, loops, program
from twill.codegen import manifest
from twill.codegen.build import build
from twill.codegen.emit.kernel import source
from twill.codegen.emit.scope import Scope
from twill.codegen.emit.tiles import Turned
from twill.codegen.lower import lower
from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.extract.ttgir import loops as found
from twill.extract.ttgir import read
from twill.ir.program import Register, Write

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_every_product_is_issued_with_its_cycle_and_line(kernel: str) -> None:
    text = source(program(kernel))
    issues = [line for line in text.splitlines() if "// cycle" in line and ": dot." in line]
    assert issues
    assert all(f"{kernel}.sm90.ttgir:" in line for line in issues)
    assert text == source(program(kernel))


def test_what_can_not_be_generated_is_refused_at_its_line() -> None:
    module, (one,) = loops("fa_bwd")
    odd = read(module.text.replace("tt.descriptor_reduce add", "tt.descriptor_reduce max", 1), module.file)
    with pytest.raises(TwillError, match="a reduction max can not be generated") as refused:
        source(lower(odd, [replace(one, loop=found(odd)[0])]))
    assert refused.value.location is not None
    assert "tt.descriptor_reduce max" in module.text.splitlines()[refused.value.location.line - 1].replace("add", "max")


def test_a_tile_whose_elements_can_not_be_had_is_refused_at_its_line() -> None:
    """Elements of some types are computed only where a result is kept: here, of a tile that was transposed."""
    made = program("gemm")
    op = next(op for op in made.function.walk() if op.name == "arith.truncf")
    scope = Scope(made, made.groups[1], {op.result.id: Turned(lambda point: "x")})
    with pytest.raises(TwillError, match=r"arith\.truncf: .* can only be transposed on its way to shared memory") as refused:
        scope.assign([Write(op.result.id, Register("kept"))])
    assert refused.value.location == op.location


@needs_nvcc
@pytest.mark.parametrize("kernel", ["gemm", "gemm_reduction"])
def test_products_build_without_spills(kernel: str, tmp_path: Path) -> None:
    write(tmp_path / "kernel.cu", source(program(kernel)))
    write(tmp_path / "kernel.json", manifest.write(manifest.manifest(program(kernel), (), {})))
    assert build(tmp_path) == ()
    assert (tmp_path / "kernel.so").exists()


@needs_nvcc
def test_the_examples_assemble(tmp_path: Path) -> None:
    assert "error" not in assembled(EXAMPLES, tmp_path)
