"""The small commands: diff, doctor, cache, completion, and suggestions for misspelled commands."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.samples import attention
from twill.cli import COMMANDS, run
from twill.files import write_schedule
from twill.report.comparison import compared


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The same loop twice, one operation later and in another group the second time."""
    first = attention()
    assert first.solution
    start, group = list(first.solution.start), list(first.solution.group)
    start[3], group[3] = start[3] + 10, 2
    second = replace(first, solution=replace(first.solution, start=tuple(start), group=tuple(group)))
    for name, result in (("a.json", first), ("b.json", second)):
        (tmp_path / name).write_text(write_schedule(result))
    return str(tmp_path / "a.json"), str(tmp_path / "b.json")


def test_a_schedule_is_the_same_as_itself(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", files[0], files[0]]) == 0
    assert "the same" in capsys.readouterr().out


def test_a_moved_operation_is_listed(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", *files, "--json", "--out", str(tmp_path)]) == 1
    found = json.loads(capsys.readouterr().out)
    moved = attention().problem.operations[3].id
    assert [(one["id"], one["group"]) for one in found["moved"]] == [(moved, [1, 2])]
    assert moved in found["regrouped"]
    assert (tmp_path / "diff.svg").read_text().count("steady state") == 2


def test_groups_with_other_numbers_are_the_same_partition() -> None:
    result = attention()
    assert result.solution
    swapped = tuple({1: 2, 2: 1}.get(group, group) for group in result.solution.group)
    found = compared(result, replace(result, solution=replace(result.solution, group=swapped)))
    assert found.regrouped == ()
    assert len(found.moved) == 22


def test_other_costs_and_operations() -> None:
    result = attention()
    slower = replace(result.problem.operations[0], latency=900)
    problem = replace(result.problem, operations=(slower, *result.problem.operations[1:-1]))
    found = compared(result, replace(result, problem=problem, solution=None))
    assert [(op, "latency 900" in after) for op, _, after in found.costs] == [(slower.id, True)]
    assert found.removed == (result.problem.operations[-1].id,)
    assert not found.same


def test_doctor_names_solvers_and_what_they_enable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("ortools", "python-sat", "triton", "nvcc", "gpu", "cache"))


def test_the_cache_is_listed_and_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for key, name in (("0a", "gemm"), ("triton/0b", "softmax")):
        folder = tmp_path / "twill" / key
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(json.dumps({"name": name}))
    assert run(["cache", "list"]) == 0
    out = capsys.readouterr().out
    assert "gemm" in out
    assert "softmax" in out
    assert "2 kernels" in out
    assert run(["cache", "clear", "--yes"]) == 0
    assert not (tmp_path / "twill").exists()
    assert run(["cache", "list"]) == 0
    assert "0 kernels" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    # Click exits the process after it printed the script.
    done = subprocess.run(
        [sys.executable, "-c", f"from twill.cli import run; run(['--completion', '{shell}'])"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_TWILL_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("typed", "meant"), [("shedule", "schedule"), ("explane", "explain"), ("doctr", "doctor")]
)
def test_a_misspelled_command_has_a_suggestion(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([typed]) == 2
    assert meant in capsys.readouterr().err


def test_a_misspelled_option_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedule", "x.ttgir", "--registers-per-thread", "3"]) == 2
    assert "--registers" in capsys.readouterr().err


def test_help_lists_every_command_and_groups_shared_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)
    assert run(["codegen", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"{title} options:" in out for title in ("Input", "What-if", "Code generation"))
    assert "--depth" not in out
