"""What no input should cause is one error with the operation, whatever raises it and in which process."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.mutants import mutants, outcome
from twill.cli import INTERNAL, run
from twill.diagnostics import TRACEBACK, InternalError
from twill.targets.cuda import kernel

GEMM = "examples/ttgir/gemm.sm90.ttgir"


def broken(form: Any, *_: object) -> None:
    """A stage that stumbles over an operation."""
    op = next(op for op in form.program.function.walk() if op.name == "tt.descriptor_load")
    {}[op.index]


@pytest.mark.parametrize("command", ["codegen", "simulate"])
def test_a_defect_is_one_line_with_the_operation(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_kernel", broken)
    assert run([command, GEMM, "--out", str(tmp_path)]) == INTERNAL
    first, text, caret, advice = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{GEMM}:")
    assert "error: internal error at tt.descriptor_load, KeyError: " in first
    assert "tt.descriptor_load %" in text
    assert caret.strip() == "^"
    assert "please report it" in advice
    assert TRACEBACK in advice
    assert not list(tmp_path.iterdir())


def test_the_traceback_is_there_for_who_wants_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRACEBACK, "1")
    monkeypatch.setattr(kernel, "_kernel", lambda *_: 1 // 0)  # pyright: ignore
    assert run(["codegen", GEMM, "--no-build"]) == INTERNAL
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert "in source" in shown
    assert "internal error" in shown
    assert "ZeroDivisionError" in shown


@pytest.mark.parametrize("seed", range(4))
def test_a_module_with_a_mistake_is_refused_or_generated(seed: int) -> None:
    for text in mutants(12, seed):
        problem = outcome(text)
        assert not isinstance(problem, InternalError), f"{problem}\n{problem.details}\n{text}"
