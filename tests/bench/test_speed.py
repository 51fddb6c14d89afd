"""Rows of reports/speed.md are renewed one by one, and a run that was ended goes on where it was."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

Ran = Callable[..., list[str]]


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script; it finds its neighbours in its own folder."""
    monkeypatch.setattr(sys, "path", [str(Path("benchmarks").resolve()), *sys.path])
    from benchmarks import speed

    return speed


@pytest.fixture
def ran(speed: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ran:
    """Runs the command without measuring anything; gives the loops that it ran. Each run takes a second
    longer than the last one."""
    loops, walls = list[str](), iter(range(1, 1000))

    def run(loop: object, limit: float) -> object:
        loops.append(loop.name)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
        outcome = speed.Outcome(1024, 1024, "optimal", 3)
        return speed.Run(float(next(walls)), 0.5, (outcome,))

    monkeypatch.setattr(speed, "run", run)

    def command(*options: str) -> list[str]:
        loops.clear()
        report = tmp_path / "speed.md"
        found = CliRunner().invoke(speed.main, ["--runs", "1", "--out", str(report), *options])
        assert found.exit_code == 0, found.output
        warm = len(speed.WARM)
        return loops[warm:]

    return command


def rows(folder: Path) -> dict[str, str]:
    """Lines of the first table by loop."""
    text = (folder / "speed.md").read_text(encoding="utf-8").split("## Beside")[0]
    return {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}


def test_a_row_is_renewed_alone(ran: Ran, speed: ModuleType, tmp_path: Path) -> None:
    assert ran() == [loop.name for loop in speed.LOOPS for _ in ("alone", "busy")]
    before = rows(tmp_path)
    assert ran("--only", "fa_fwd.sm90") == ["fa_fwd.sm90"] * 2
    after = rows(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"fa_fwd.sm90"}


def test_a_run_that_was_ended_goes_on(ran: Ran, speed: ModuleType, tmp_path: Path) -> None:
    first = [loop.name for loop in speed.LOOPS[:3]]
    ran(*(option for name in first for option in ("--only", name)))
    before = rows(tmp_path)
    assert before[speed.LOOPS[5].name].endswith("not run |")
    assert ran("--resume") == [loop.name for loop in speed.LOOPS[3:] for _ in ("alone", "busy")]
    after = rows(tmp_path)
    assert all(after[name] == before[name] for name in first)
    assert "not run" not in "".join(after.values())
    assert ran("--resume") == []
    assert ran("--resume", "--runs", "2") == [loop.name for loop in speed.LOOPS for _ in ("alone", "busy")]


def test_runs_without_a_load_do_not_count_beside_one(ran: Ran) -> None:
    only = ("--only", "gemm.sm90", "--resume")
    assert ran(*only, "--beside", "0") == ["gemm.sm90"]
    assert ran(*only) == ["gemm.sm90"] * 2


def test_rows_of_another_machine_say_so(
    ran: Ran, speed: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(speed, "machine", lambda: "a machine.")
    ran()
    monkeypatch.setattr(speed, "machine", lambda: "another one.")
    ran("--only", "gemm.sm90")
    assert "`: a machine. (gemm.sm90: another one)" in (tmp_path / "speed.md").read_text(encoding="utf-8")
