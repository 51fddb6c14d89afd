"""Kernels from Triton's cache, TTIR alone, and loop nests that Triton would flatten."""

import json
import logging
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

pytest.importorskip("triton")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from twill.diagnostics import TwillError
from twill.extract.dependence.loops import loops
from twill.extract.frontend import triton_passes
from twill.extract.frontend.source import load
from twill.extract.frontend.triton import capture, resolved
from twill.extract.frontend.triton_passes import CUTS, version

KERNELS = Path(__file__).parents[1] / "kernels.py"


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Triton's cache has it, of a kernel with a dot in a loop."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        kernel, _, instance = resolved("examples/kernels.py", "gemm", "sm90", {})
        signature = {name: instance.types.get(name, "constexpr") for name in kernel.arg_names}
        divisible: Any = {
            (kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in sorted(instance.divisible)
        }
        source = ASTSource(kernel, signature, dict(instance.constants), divisible)
        triton.compile(  # pyright: ignore[reportUnknownMemberType]
            source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 4}
        )
    return next(folder.rglob("gemm.ttir")).parent


@pytest.mark.parametrize("file", ["gemm.ttgir", "gemm.ttir"])
def test_both_files_of_the_cache_are_the_kernel(
    cached: Path, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "twill"):
        module = load(str(cached / file))
    whole = capture("examples/kernels.py", "gemm", "sm90", {"num_warps": 8, "num_stages": 4})
    assert [op.name for op in module.functions[0].walk()] == [
        op.name for op in load(whole, "sm90").functions[0].walk()
    ]
    assert (
        f"gemm.ttir, compiled by Triton {version()} for sm90; lowered for sm90 with num_warps = 8,"
        " num_stages = 4" in caplog.text
    )


def test_another_architecture_and_other_options(cached: Path) -> None:
    module = load(str(cached / "gemm.ttir"), "sm100", {"num_warps": "4"})
    assert (module.target, module.attributes["ttg.num-warps"]) == ("cuda:100", 4)


def test_ttir_alone_needs_an_architecture(cached: Path, tmp_path: Path) -> None:
    copy(cached / "gemm.ttir", tmp_path)
    with pytest.raises(TwillError, match="does not say what it is compiled for"):
        load(str(tmp_path / "gemm.ttir"))
    assert loops(load(str(tmp_path / "gemm.ttir"), "sm90"))[0].schedulable


@pytest.mark.parametrize(("name", "value"), [("BLOCK_M", "64"), ("num_warps", "many")])
def test_constants_are_settled(cached: Path, name: str, value: str) -> None:
    with pytest.raises(TwillError, match=f"--set {name} does not fit"):
        load(str(cached / "gemm.ttir"), None, {name: value})


def test_ttgir_whose_ttir_is_gone(cached: Path, tmp_path: Path) -> None:
    copy(cached / "gemm.ttgir", tmp_path)
    copy(cached / "gemm.json", tmp_path)
    with pytest.raises(TwillError, match=r"gemm.ttir is not beside it") as caught:
        load(str(tmp_path / "gemm.ttgir"))
    assert "MLIR_ENABLE_DUMP=1" in str(caught.value.help)


def test_pipelined_ttgir_alone_is_read_and_its_loop_refused_with_a_way_out(
    cached: Path, tmp_path: Path
) -> None:
    copy(cached / "gemm.ttgir", tmp_path)
    (loop,) = loops(load(str(tmp_path / "gemm.ttgir")))
    assert loop.refusal
    assert "FILE.py:FUNCTION" in str(loop.refusal.help)


def test_text_that_triton_cannot_read(cached: Path, tmp_path: Path) -> None:
    (tmp_path / "gemm.ttir").write_text((cached / "gemm.ttir").read_text().replace("tt.dot", "tt.dott", 1))
    metadata = json.loads((cached / "gemm.json").read_text())
    (tmp_path / "gemm.json").write_text(json.dumps({**metadata, "triton_version": "3.1.0"}))
    with pytest.raises(TwillError, match=r"Triton cannot read it.*tt\.dott") as caught:
        load(str(tmp_path / "gemm.ttgir"))
    assert "written by Triton 3.1.0" in str(caught.value.help)
    assert "tt.dott" in str(caught.value.text)


@pytest.mark.parametrize("arch", ["sm90", "sm100"])
def test_a_nest_to_be_flattened_stays_a_nest(arch: str) -> None:
    text = capture(str(KERNELS), "flat_gemm", arch, {})
    outer, inner = loops(load(text, arch))
    assert (outer.depth, inner.depth, inner.schedulable) == (0, 1, True)
    assert "scf.if" not in {op.name for op in inner.ops}


@pytest.mark.parametrize("cc", sorted(CUTS))
def test_the_pass_that_flattens_stands_before_the_cut(cc: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is skipped exists under that name, in the part of the list that runs."""
    seen: list[str] = []
    admits = triton_passes.Half.admits

    def record(half: triton_passes.Half, name: str) -> bool:
        seen.append(name)
        return admits(half, name)

    monkeypatch.setattr(triton_passes.Half, "admits", record)
    capture(str(KERNELS), "flat_gemm", f"sm{cc}", {})
    assert seen.index("add_fuse_nested_loops") < seen.index(CUTS[cc])
