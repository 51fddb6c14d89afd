"""Probes in a process of their own, because solvers called in this one can be neither interrupted nor timed.

`isolated` makes an engine of a function that just decides. The process reads its request, pickled, from
standard input and writes the result to standard output. It ends with the limits (of measured time here, and
by an alarm there should this process be gone; of processor time there), with the stop event, and at the
latest when this process exits; its own children end with it.
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
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Protocol

from twill.diagnostics import TwillError
from twill.engine.clock import SEARCHED, STARTED
from twill.engine.probe import UNLIMITED, Budget, Engine, Feasible, Outcome, Probe, Refuted, Unknown
from twill.ir.problem import Problem, Time

POLL = 0.02
"""Seconds between checks of the stop event."""


class Decide(Protocol):
    """A module's function (it travels by name) that decides one interval, taking as long as it takes."""

    def __call__(
        self,
        problem: Problem,
        interval: Time,
        in_flight: int,
        *,
        joint: bool,
        time_limit: float,
        work: float | None,
    ) -> Outcome | Probe: ...


def isolated(engine: str, decide: Decide) -> Engine:
    """The engine that runs `decide` in a process of its own, and counts the work that `decide` says, if it
    does, else the processor time that the process took."""

    def attempt(
        problem: Problem, interval: Time, in_flight: int, *, joint: bool = True, budget: Budget = UNLIMITED
    ) -> Probe:
        begin = time.monotonic()
        work = None if budget.work is None else min(budget.work, budget.seconds / SEARCHED)
        keywords = {"joint": joint, "time_limit": budget.seconds, "work": work}
        answer = elsewhere(lambda: (decide, (problem, interval, in_flight), keywords), budget)
        seconds = time.monotonic() - begin
        match answer:
            case Probe():
                probe = replace(answer, engine=engine, seconds=seconds, counted=STARTED + answer.counted)
            case _:
                probe = Probe(Unknown("time"), engine, seconds, counted=budget.seconds)
        budget.count(probe.counted)
        return probe

    return attempt


def elsewhere(request: Callable[[], tuple[object, ...]], budget: Budget) -> object:
    """The value of a call (function, arguments, keywords) made in another process; None where a limit or the
    event came first. Without a budget of work its processor time is limited.

    Raises the `TwillError` that the call raised, and `RuntimeError` with the process's standard error where
    it failed otherwise.
    """
    end = time.monotonic() + budget.measured
    processor = budget.seconds if budget.work is None else budget.measured
    message: bytes | None = pickle.dumps((budget.measured, processor, *request()))
    with tempfile.TemporaryDirectory() as scratch, _process(scratch) as process:
        while True:
            try:
                answer, errors = process.communicate(message, timeout=POLL)
            except subprocess.TimeoutExpired:
                message = None  # it has been sent
                if time.monotonic() > end or budget.stopped:
                    return None
                continue
            if process.returncode > 0:
                raise RuntimeError(errors.decode(errors="replace"))
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
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TMPDIR": scratch,
    }
    process = subprocess.Popen(
        # no preexec_fn: between fork and exec it may wait for ever for what another thread held at the fork
        [sys.executable, "-m", "twill.engine.subprocess_engine", str(os.getpid())],
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


_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2): kept across exec."""


def end_with_parent(parent: int) -> None:
    """Have Linux kill this process when `parent` is gone, or end it at once if it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def main() -> None:
    """Serve one request of the process whose number is the argument; solvers may print, so standard output is
    reserved for the result."""
    end_with_parent(int(sys.argv[1]))
    gc.disable()  # one answer leaves little to collect, and millions of clauses to look through
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    measured, processor, function, arguments, keywords = pickle.load(sys.stdin.buffer)
    signal.setitimer(signal.ITIMER_REAL, measured + 1)
    signal.setitimer(signal.ITIMER_PROF, processor + 1)
    try:
        answer = function(*arguments, **keywords)
        if isinstance(answer, Feasible | Refuted | Unknown):  # of an engine that does not count its work
            answer = Probe(answer, "", counted=sum(os.times()[:4]))
    except TwillError as error:
        answer = error
    pickle.dump(answer, answers)
    answers.flush()
    os._exit(0)  # freeing a large solver takes as long as filling it


if __name__ == "__main__":
    main()
