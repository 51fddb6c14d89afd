"""Rows of reports/speed.md are renewed one by one, and a run that was ended goes on where it was."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
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


def measured(speed: ModuleType, wall: float) -> object:
    """A run of that many seconds."""
    return speed.Run(wall, 0.5, (sys.modules["speed_record"].Outcome(1024, 1024, "optimal", 3),))


@pytest.fixture
def ran(speed: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ran:
    """Runs the command without measuring anything; gives the loops that it ran. Each run takes a second
    longer than the last one."""
    loops, walls = list[str](), iter(range(1, 1000))

    def run(loop: object, limit: float, cores: object = None) -> object:
        loops.append(loop.name)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
        return measured(speed, float(next(walls)))

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
    names = iter(("a machine.", "another one."))

    def machine(pairs: int) -> str:
        return next(names)

    monkeypatch.setattr(speed, "machine", machine)
    ran()
    ran("--only", "gemm.sm90")
    assert "`: a machine. (gemm.sm90: another one)" in (tmp_path / "speed.md").read_text(encoding="utf-8")


def test_pairs_of_cores_measure_side_by_side(
    speed: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two at a time, each with its load on cores of its own, and every run is on record."""
    together, inside, used = threading.Barrier(2), dict[object, str](), set[object]()

    def run(loop: object, limit: float, cores: object = None) -> object:
        if cores is not None:
            assert inside.setdefault(cores, str(loop)) == str(loop)
            together.wait(60)
            used.add(cores)
            inside.pop(cores, None)
        return measured(speed, 1.0)

    @contextmanager
    def load(processes: int, cores: object) -> Generator[None]:
        assert cores in ((2, 3), (5, 7))
        yield

    def cores(process: int) -> set[int]:
        return {7, 2, 3, 5}

    monkeypatch.setattr(os, "sched_getaffinity", cores, raising=False)
    monkeypatch.setattr(speed, "run", run)
    monkeypatch.setattr(speed, "load", load)
    report = tmp_path / "speed.md"
    asked = ["--runs", "2", "--pairs", "2", "--only", "gemm.sm90", "--out", str(report)]
    found = CliRunner().invoke(speed.main, asked)
    assert found.exit_code == 0, found.output
    assert used == {(2, 3), (5, 7)}
    assert "| gemm.sm90 | 2 |" in report.read_text(encoding="utf-8")
    assert "(1 other pairs busy with the same measurement)" in report.read_text(encoding="utf-8")
    found = CliRunner().invoke(speed.main, [*asked, "--pairs", "3"])
    assert isinstance(found.exception, ValueError)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen on Linux alone")
def test_a_load_stays_on_its_cores(speed: ModuleType) -> None:
    core = min(os.sched_getaffinity(0))
    from benchmarks import speed_runs

    script = speed_runs.bound((core, core), "import os; print(os.sched_getaffinity(0))")
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str({core})
