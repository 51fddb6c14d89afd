"""Ctrl-C at several moments of `twill schedule`: it answers at once, leaves no half file, and nothing goes on
running."""

import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pytest

from twill.emit.files import RECORD

TOLD = """
import sys, twill.cli, twill.cli.progress as progress, twill.costs.normalize as normalize
progress.PATIENCE = 0.0
solve = normalize._solve
def told(*given):
    print("normalizing", file=sys.stderr, flush=True)
    return solve(*given)
normalize._solve = told
twill.cli.main()
"""
"""The command, which says every event of its search, and when a solver begins to normalize, as it comes."""

HARD = ["examples/ttgir/fa_fwd_subtiled.sm100.ttgir", "--no-drawings", "--time-limit", "100"]


STARTED = """
import os, sys, time
from twill.engine import subprocess_engine
with subprocess_engine._process("/tmp") as process:
    print(process.pid, flush=True)
    os.kill(os.getpid(), 9)
"""
"""A process that dies as soon as it has started a solver's, which has imported nothing yet."""


@pytest.mark.skipif(sys.platform != "linux", reason="the signal is Linux's")
def test_a_solver_process_never_outlives_its_parent() -> None:
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=False)
        gone = time.monotonic() + 10  # it asks for its parent when it has imported what it needs
        child = Path(f"/proc/{int(done.stdout)}/stat")
        while (
            time.monotonic() < gone
            and child.exists()
            and child.read_text().rpartition(")")[2].split()[0] != "Z"
        ):
            time.sleep(0.01)
        assert not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3])
def test_an_interruption_at_start_up_shows_no_traceback(delay: float) -> None:
    """Of the command line: what Python imports before it is Python's."""
    process = subprocess.Popen(
        [sys.executable, "-m", "twill", "machines"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert "twill/cli" not in said, said


def alive(marker: str) -> list[str]:
    """Processes with the marker in their environment that are not just waiting to be collected."""
    found = list[str]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if marker.encode() in environment:
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("arguments", "words", "times", "number"),
    [
        ([*HARD, "--resolution", "300"], "normalizing", 1, signal.SIGINT),
        (HARD, "trying", 1, signal.SIGINT),
        (HARD, "trying", 2, signal.SIGTERM),
        (["examples/graphs/figure1.graph.json"], "wrote", 1, signal.SIGINT),
    ],
)
def test_an_interruption_leaves_nothing_half_done(
    arguments: list[str], words: str, times: int, number: signal.Signals, tmp_path: Path
) -> None:
    marker = f"twill-{uuid4()}"
    process = subprocess.Popen(
        [sys.executable, "-c", TOLD, "schedule", *arguments, "--out", str(tmp_path / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"MARKER": marker},
    )
    assert process.stderr
    said = (line for line in process.stderr if words in line)
    assert len(list(islice(said, times))) == times
    process.send_signal(number)
    written = words == "wrote"
    assert process.wait(20) in ((0, 130, -number) if written else (130,))  # it may just be leaving
    assert "Traceback" not in process.stderr.read()
    deadline = time.monotonic() + 10
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(marker) == []
    assert not [path for path in tmp_path.rglob(".*") if path.name != RECORD]
    assert written or not (tmp_path / "out").exists()


PATIENT = """
import sys, time
try:
    print("ready", flush=True)
    time.sleep(30)
except KeyboardInterrupt:
    time.sleep(0.6)
    print("saved", flush=True)
    sys.exit(7)
"""
"""A program that has something to do when it is interrupted."""


@pytest.mark.parametrize("command", ["run", "capture"])
def test_a_program_under_twill_ends_in_its_own_way(command: str, tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(PATIENT)
    process = subprocess.Popen(
        [sys.executable, "-m", "twill", command, "--", sys.executable, "patient.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert said.startswith("saved\n")
    assert process.returncode == 7


def test_a_request_to_end_reaches_the_program(tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(PATIENT)
    process = subprocess.Popen(
        [sys.executable, "-m", "twill", "run", "--", sys.executable, "patient.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 128 + signal.SIGTERM
