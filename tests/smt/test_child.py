"""Processes that solvers run in: none outlives the one that waits for it, however that ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
from tests.smt.test_boolean import pigeons
from twill.smt import sat
sat.attempt(pigeons(40, 8), 79, 3)
"""


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _alive(process: int) -> bool:
    """It runs; a dead one that nobody has waited for does not."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def _until(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes where Linux lists them")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_orphan_stays(end: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job's is ignored
    )
    try:
        assert _until(lambda: _children(parent.pid))
        (child,) = _children(parent.pid)
        time.sleep(0.5)  # well into its work
        assert _alive(child)
        os.kill(parent.pid, end)
        parent.wait(10)
        assert _until(lambda: not _alive(child))
    finally:
        parent.kill()
        parent.wait()
