"""`twill export`."""

import ast
import re
from pathlib import Path

import pytest

from twill.cli import run
from twill.extract.frontend.gluon import Compiled


def missing(name: str) -> None:
    """As if Triton were not installed."""


def installed(name: str) -> object:
    return object()


def large(*given: object) -> Compiled:
    """A compilation that takes more shared memory than there is."""
    return Compiled("", "", 232448 + 100, 0)


@pytest.mark.parametrize("to", ["gluon", "tilelang"])
def test_a_file_of_python_is_written(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.generation.export.find_spec", missing)
    command = ["export", "examples/ttgir/gemm.sm90.ttgir", "--arch", "sm90", "--to", to]
    assert run([*command, "--out", str(tmp_path)]) == 0
    ast.parse((tmp_path / f"gemm_{to}.py").read_text())


def test_kernels_exported_before_stay(tmp_path: Path) -> None:
    for example in ("gemm", "gemm_reduction"):
        command = ["export", f"examples/ttgir/{example}.sm90.ttgir", "--arch", "sm90", "--to", "tilelang"]
        assert run([*command, "--out", str(tmp_path)]) == 0
    assert {"gemm_tilelang.py", "gemm_reduction_tilelang.py"} <= {path.name for path in tmp_path.iterdir()}


def test_too_much_shared_memory_names_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Triton needs memory of its own; a slot less makes room."""
    monkeypatch.setattr("twill.extract.frontend.gluon.compiled", large)
    monkeypatch.setattr("twill.generation.export.find_spec", installed)
    command = ["export", "examples/ttgir/gemm.sm90.ttgir", "--arch", "sm90"]
    assert run([*command, "--out", str(tmp_path)]) == 2
    assert "--slots x_y=3" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def reordered(text: str, *given: object) -> Compiled:
    """A compilation in which a load comes after the arrival that it precedes in the file."""
    words = ["ttng.arrive_barrier" if "arrive" in one else "ttng.tmem_load" for one in EVENTS.findall(text)]
    return Compiled("\n".join([*words[:-2], *words[-2:][::-1]]), "", 1000, 0)


EVENTS = re.compile(r"mbarrier\.arrive\(|\)\.load\(LINEAR")


def test_a_load_behind_its_arrival_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("twill.extract.frontend.gluon.compiled", reordered)
    monkeypatch.setattr("twill.generation.export.find_spec", installed)
    command = ["export", "examples/ttgir/gemm_reduction.sm100.ttgir", "--arch", "sm100"]
    assert run([*command, "--out", str(tmp_path)]) == 2
    assert "Triton moves a load from tensor memory" in capsys.readouterr().err
