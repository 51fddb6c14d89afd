"""Capture and validation through the installed Triton."""

from pathlib import Path

import pytest

pytest.importorskip("triton")

from twill.extract.triton import capture, validate, version
from twill.extract.ttgir import read

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/ttgir/*.ttgir"))
MADE_WITH = "3.9"


@pytest.mark.skipif(not str(version()).startswith(MADE_WITH), reason=f"the examples are made with Triton {MADE_WITH}")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_what_their_kernels_give(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name, _, arch = path.stem.rpartition(".")
    assert capture("examples/kernels.py", name, arch, {}) == path.read_text(), "run python examples/compile.py"


def test_scheduled_by_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    before, after = (capture("examples/kernels.py", "gemm", "sm90", {}, scheduled=scheduled) for scheduled in (False, True))
    names = [{op.name for op in read(text, "f").functions[0].walk()} for text in (before, after)]
    assert "ttng.wait_barrier" in names[1] - names[0]


def test_validation() -> None:
    text = (ROOT / "examples/ttgir/gemm.sm90.ttgir").read_text()
    assert validate(text, "sm90") == ()
    (complaint,) = validate(text.replace("arith.muli", "arith.mulx", 1), "sm90")
    line = text[: text.index("arith.muli")].count("\n") + 1
    assert complaint.startswith(f"{line}:")
    assert "arith.mulx" in complaint
