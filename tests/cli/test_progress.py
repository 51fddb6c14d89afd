"""Progress: silent at first and on standard error alone; on a terminal one line that goes away."""

import io
import sys
import time
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import pytest

from twill.cli import progress, run
from twill.ir.search import Progress

EVENTS = [
    Progress(0.1, "cpsat", 2048, "trying"),
    Progress(0.9, "cpsat", 2048, "timeout"),
    Progress(2.5, "sat", 2100, "feasible", "2 groups"),
    Progress(2.6, "sat", 2080, "infeasible"),
]


def test_plain_lines_come_only_after_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, *(event.seconds for event in EVENTS)])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with progress.shown("fa/for.0") as report:
        for event in EVENTS:
            report(event)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "fa/for.0:    2.5 s  interval 2100 works, by sat (2 groups)\n"


def test_a_terminal_shows_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.shown("fa/for.0") as report:
        for event in EVENTS:
            report(event)
    assert "best 2100  interval 2080 refuted by sat" in screen.getvalue()


def test_loops_one_after_the_other_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.shown_by_name() as tell:
        tell(("fa/for.0", EVENTS[0]))
        tell(("fa/for.1", EVENTS[2]))
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "fa/for.0",
        "fa/for.1",
    ]


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_names_its_interval(event: Progress) -> None:
    assert str(event.interval) in progress.phrase(event)


def test_what_reports_nothing_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until it is over, also by an error."""
    monkeypatch.setattr(progress, "TICK", 0.01)
    said = Event()

    def note(*given: object, **more: object) -> None:
        if ":" in str(given[0]):
            said.set()

    monkeypatch.setattr("builtins.print", note)

    def read() -> None:
        with progress.ticking("reading big.ttgir"):
            assert said.wait(30)
            raise ValueError("unreadable")

    with pytest.raises(ValueError, match="unreadable"):
        read()
    assert not [thread for thread in enumerate_threads() if thread.name == progress.TICKING]


def test_a_large_file_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("twill.cli.options.LARGE", 10)
    assert run(["graph", "examples/ttgir/gemm.sm90.ttgir", "--arch", "sm90", "--out", str(tmp_path)]) == 0
    assert "reading examples/ttgir/gemm.sm90.ttgir (0 MB)\n" in capsys.readouterr().err
