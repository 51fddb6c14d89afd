"""A decision taken in a process of its own, because solvers called in this one can be neither interrupted nor timed.

`isolated` makes an engine of a function that just decides. The process gets its request, pickled, on standard input and answers on
standard output. It ends with the time limit (enforced here, and by an alarm there should this process be gone), with the stop event, and
at the latest when this process exits; its own children end with it.
"""

import atexit
import contextlib
import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol

from twill.diagnostics import TwillError
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.smt.engine import Attempt, Engine, Verdict

POLL = 0.02
"""Seconds between looks at the stop event."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict on one interval, with its solution."""

    verdict: Verdict
    solution: Solution | None = None


class Decide(Protocol):
    """A module's function (it travels by name) that decides one interval, taking as long as it takes."""

    def __call__(self, problem: Problem, interval: Time, copies: int, *, joint: bool, time_limit: float) -> Decision: ...


def isolated(engine: str, decide: Decide) -> Engine:
    """The engine that runs `decide` in a process of its own."""

    def attempt(
        problem: Problem,
        interval: Time,
        copies: int,
        *,
        joint: bool = True,
        time_limit: float = 60.0,
        stop: threading.Event | None = None,
    ) -> Attempt:
        begin = time.monotonic()
        decision = elsewhere(lambda: (decide, (problem, interval, copies), {"joint": joint, "time_limit": time_limit}), time_limit, stop)
        found = decision if isinstance(decision, Decision) else Decision("timeout")
        return Attempt(found.verdict, engine, time.monotonic() - begin, found.solution)

    return attempt


def elsewhere(request: Callable[[], tuple[object, ...]], time_limit: float, stop: threading.Event | None) -> object:
    """The value of a call (function, arguments, keywords) made in another process; None where a limit or the event came first.

    Raises the `TwillError` that the call raised, and `RuntimeError` with the process's own words where it failed otherwise.
    """
    end = time.monotonic() + time_limit
    message: bytes | None = pickle.dumps((time_limit, *request()))
    with tempfile.TemporaryDirectory() as scratch, _process(scratch) as process:
        while True:
            try:
                answer, words = process.communicate(message, timeout=POLL)
            except subprocess.TimeoutExpired:
                message = None  # it has been sent
                if time.monotonic() > end or (stop is not None and stop.is_set()):
                    return None
                continue
            if process.returncode > 0:
                raise RuntimeError(words.decode(errors="replace"))
            return _opened(answer) if process.returncode == 0 else None


def _opened(answer: bytes) -> object:
    """The answer, or the error that it is."""
    value = pickle.loads(answer)
    if isinstance(value, TwillError):
        raise value
    return value


@contextlib.contextmanager
def _process(scratch: str) -> Generator[subprocess.Popen[bytes]]:
    """A process with this one's packages, and a folder for temporary files that it need not live to clear."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TMPDIR": scratch}
    process = subprocess.Popen(
        [sys.executable, "-m", "twill.smt.subprocess_engine"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )

    def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    atexit.register(end)
    try:
        yield process
    finally:
        atexit.unregister(end)
        if process.poll() is None:
            end()
        process.communicate()


def end_with_parent() -> None:
    """Have Linux kill this process when the one that waits for it is gone."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def main() -> None:
    """Answer one request; solvers may print, so standard output is kept for the answer."""
    end_with_parent()
    gc.disable()  # one answer leaves little to collect, and millions of clauses to look through
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    time_limit, function, arguments, keywords = pickle.load(sys.stdin.buffer)
    signal.setitimer(signal.ITIMER_REAL, time_limit + 1)
    try:
        answer = function(*arguments, **keywords)
    except TwillError as error:
        answer = error
    pickle.dump(answer, answers)
    answers.flush()
    os._exit(0)  # freeing a large solver takes as long as filling it


if __name__ == "__main__":
    main()
