"""Ctrl-C at several moments of `twill schedule`: it answers at once, leaves no half file, and nothing goes on running."""

import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pytest

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
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]
    assert written or not (tmp_path / "out").exists()
