"""Work in a process of its own: values and errors come back, and an interruption leaves nothing running."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from twill.cli import worker
from twill.diagnostics import Location, TwillError

STUBBORN = """
import subprocess, sys
from twill.cli import worker

def work(tell):
    solver = subprocess.Popen(["sleep", "60"])
    tell((solver.pid, __import__("os").getpid()))
    sum(range(10**13))  # nothing in Python can interrupt this

try:
    worker.run(work, lambda pids: print(*pids, flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_events_and_the_result_come_back() -> None:
    events = list[int]()

    def work(tell: Callable[[int], None]) -> str:
        tell(1)
        tell(2)
        return f"by {os.getpid()}"

    result = worker.run(work, events.append)
    assert events == [1, 2]
    assert result != f"by {os.getpid()}"


def test_an_error_comes_back_whole() -> None:
    def work(tell: Callable[[int], None]) -> None:
        raise TwillError("no", Location("f", 3, 4), text="abc", help="yes")

    with pytest.raises(TwillError) as caught:
        worker.run(work, print)
    assert str(caught.value) == str(TwillError("no", Location("f", 3, 4), text="abc", help="yes"))


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os._exit(7), "ended with status 7"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed"),
        (lambda: os.kill(os.getpid(), signal.SIGXCPU), "died of SIGXCPU"),
    ],
)
def test_a_worker_that_dies_is_an_error_with_a_way_out(end: Callable[[], None], words: str) -> None:
    with pytest.raises(TwillError, match=words) as caught:
        worker.alone(end)
    assert "help:" in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_everything_at_once(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    pids = [int(pid) for pid in process.stdout.readline().split()]
    process.send_signal(number)
    assert process.wait(5) == 130
    deadline = time.monotonic() + 5
    while any(map(running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(running, pids))


def running(pid: int) -> bool:
    """A process of that number exists and is not just waiting to be collected."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
