"""Capture and validation through the installed Triton."""

from pathlib import Path

import pytest

pytest.importorskip("triton")

from twill.extract.dependence.loops import loops
from twill.extract.frontend.kernel_files import load_file
from twill.extract.frontend.triton import capture, capture_kernel, finish, validate
from twill.extract.frontend.triton_passes import version
from twill.extract.reader.ttgir import read

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(ROOT.glob("examples/ttgir/*.ttgir"))
MADE_WITH = "3.9"


@pytest.mark.skipif(
    not str(version()).startswith(MADE_WITH), reason=f"the examples are made with Triton {MADE_WITH}"
)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_what_their_kernels_give(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name, _, arch = path.stem.rpartition(".")
    assert capture("examples/kernels.py", name, arch, {}) == path.read_text(), (
        "run python examples/compile.py"
    )


@pytest.mark.skipif(
    not str(version()).startswith(MADE_WITH), reason=f"the file is made with Triton {MADE_WITH}"
)
@pytest.mark.parametrize("name", ["fa_fwd_four", "fa_fwd_eight", "fa_bwd_eight"])
def test_a_kernel_that_calls_functions_of_another_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its places are relative too: the same text on every machine."""
    monkeypatch.chdir(ROOT)
    made = Path(f"benchmarks/{name}.sm100.ttgir").read_text()
    assert capture("benchmarks/many_tiles.py", name, "sm100", {}) == made, (
        "run the commands in benchmarks/many_tiles.py"
    )
    assert 'loc("examples/kernels.py":' in made


def test_scheduled_by_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    before, after = (
        capture("examples/kernels.py", "gemm", "sm90", {}, scheduled=scheduled) for scheduled in (False, True)
    )
    names = [{op.name for op in read(text, "f").functions[0].walk()} for text in (before, after)]
    assert "ttng.wait_barrier" in names[1] - names[0]


def test_validation() -> None:
    text = (ROOT / "examples/ttgir/gemm.sm90.ttgir").read_text()
    assert validate(text, "sm90") == ()
    (complaint,) = validate(text.replace("arith.muli", "arith.mulx", 1), "sm90")
    line = text[: text.index("arith.muli")].count("\n") + 1
    assert complaint.startswith(f"{line}:")
    assert "arith.mulx" in complaint


@pytest.mark.parametrize(("name", "arch", "warps"), [("gemm", "sm90", 8), ("gemm", "sm100", 8)])
def test_both_halves_together_are_what_triton_does(
    name: str, arch: str, warps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    front = capture("examples/kernels.py", name, arch, {})
    whole = capture("examples/kernels.py", name, arch, {}, scheduled=True)
    assert finish(front, arch, warps, skipped=frozenset()).ttgir == whole


def test_stages_in_the_text_are_honoured() -> None:
    """Loads three stages ahead of the product get four slots, and no schedule of Triton's own gets in the
    way.

    The buffers that the loads are put into belong to the product's stage: only then are the loads made
    asynchronous.
    """
    text = (ROOT / "examples/ttgir/gemm.sm90.ttgir").read_text()
    (loop,) = loops(read(text, "f"))
    stages = {op.index: 0 if op.name == "tt.descriptor_load" else 3 for op in loop.ops}
    marks = [
        (op.slot, f"loop.stage = {stages[op.index]} : i32, loop.cluster = {3 - stages[op.index]} : i32")
        for op in loop.ops
    ]
    for slot, attributes in reversed([*marks, (loop.op.slot, "tt.scheduled_max_stage = 3 : i32")]):
        text = text[: slot.offset] + slot.insertion(attributes) + text[slot.offset :]
    binary = finish(text, "sm90", 8)
    assert "memdesc<4x128x64xf16" in binary.ttgir
    assert 4 * (128 + 256) * 64 * 2 < binary.shared_bytes < 232448
    assert ".target sm_90a" in binary.ptx
    assert binary.cubin.startswith(b"\x7fELF")


def test_a_kernel_at_hand() -> None:
    kernels = load_file(str(ROOT / "examples/kernels.py"))
    text, constants = capture_kernel(kernels.gemm, "sm90", {"BLOCK_N": 64})
    assert constants == {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP": 8}
    assert "tensor<128x64xf32" in text
