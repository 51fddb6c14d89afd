"""Runs `twill.triton.worker` for a request, at once or beside the program.

A process of its own keeps the search from the interpreter that launches kernels, and a crash of a solver from
the program.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path

from twill.triton import store
from twill.triton.request import Request
from twill.triton.settings import Settings, log
from twill.triton.store import Outcome

AT_ONCE = max(1, (os.cpu_count() or 1) // 8)
"""Processes that work in the background at the same time: each searches with several threads."""

SIDE_BY_SIDE = max(1, (os.cpu_count() or 1) - 1)
"""Processes that build the configurations of an autotuned kernel, while the program waits for them: a search
is short beside the build, which has one thread."""

SILENCE = 10.0
"""Seconds that a launch waits before the log says so, where no terminal shows it."""
WAITING = (
    "%s: its first launch waits until Twill's kernel is built%s; Triton's runs meanwhile with"
    ' compile="background"'
)

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""For NumPy in a worker: its tiles are small, and threads that wait for each other take the processors from
the workers beside it."""

_running: set[subprocess.Popen[str]] = set()
_slots = threading.BoundedSemaphore(AT_ONCE)
_slots_ahead = threading.BoundedSemaphore(SIDE_BY_SIDE)
_ahead: dict[str, Future[Outcome]] = {}
"""Builds that were started ahead of the launch, by key."""


def outcome(request: Request, key: str, settings: Settings) -> Outcome | Future[Outcome]:
    """Waits for the worker, the one that was started ahead if there is one. Gives the build that goes on
    where it takes longer than `settings.patience`. Raises KeyboardInterrupt, after ending the worker, where
    the user interrupts."""
    begun = ahead(request, key, settings)
    with _shown(request.name, settings.patience):
        try:
            wait([begun], settings.patience)
        except KeyboardInterrupt:
            stop()
            raise
    return begun.result() if begun.done() else begun


@contextmanager
def _shown(name: str, patience: float | None) -> Generator[None]:
    """What the program is waiting for: on a terminal at once, else in the log after a while."""
    if not sys.stderr.isatty():
        longest = "" if patience is None else f", {patience:.0f} s at most"
        said = threading.Timer(SILENCE, log.warning, [WAITING, name, longest])
        said.daemon = True
        said.start()
        try:
            yield
        finally:
            said.cancel()
        return
    others = f" ({len(_ahead)} configurations to go)" if len(_ahead) > 1 else ""
    from rich.console import Console

    with Console(stderr=True).status(f"Twill schedules and builds {name}{others}"):
        yield


def ahead(request: Request, key: str, settings: Settings) -> Future[Outcome]:
    """Starts a worker without waiting for it, unless there is one; `outcome` waits."""
    running = _ahead.get(key)
    if running is not None:
        return running
    begun = _ahead[key] = Future[Outcome]()

    def work() -> None:
        try:
            with _slots_ahead:
                begun.set_result(_worked(request, key, settings))
        except BaseException as error:
            begun.set_exception(error)
        del _ahead[key]

    threading.Thread(target=work, name=f"twill-{key[:8]}", daemon=True).start()
    return begun


def _worked(request: Request, key: str, settings: Settings) -> Outcome:
    try:
        path = request.save(key)
    except OSError as error:
        return Outcome(refused=f"{store.folder_of(key)}: {error.strerror}", lasting=False)
    return _answer(_started(key, path, settings))


def ended(build: Future[Outcome]) -> Outcome:
    """What came of a build that is done, also where it failed."""
    error = build.exception()
    return build.result() if error is None else Outcome(refused=str(error), lasting=False)


def in_background(request: Request, key: str, settings: Settings, ready: Callable[[Outcome], None]) -> None:
    """Calls `ready` in a thread when the worker is done."""

    def work() -> None:
        with _slots:
            ready(_worked(request, key, settings))

    threading.Thread(target=work, name=f"twill-{key[:8]}", daemon=True).start()


def stop() -> None:
    """Ends the workers of this process."""
    for process in tuple(_running):
        _end(process)


def _started(key: str, path: Path, settings: Settings) -> subprocess.Popen[str]:
    """The worker sees the same packages; Twill is switched off in it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TWILL")}
    environment |= ONE_THREAD
    environment["PYTHONPATH"] = os.pathsep.join(place for place in sys.path if os.path.isabs(place))
    command = [
        sys.executable,
        "-P",
        "-m",
        "twill.triton.worker",
        key,
        str(path),
        settings.machine or "",
        str(settings.time_limit),
        str(settings.subtile or ""),
    ]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    )
    _running.add(process)
    return process


def _answer(process: subprocess.Popen[str]) -> Outcome:
    try:
        said, complaint = process.communicate()
    except BaseException:
        _end(process)
        raise
    finally:
        _running.discard(process)
    try:
        return Outcome(**json.loads(said.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        return Outcome(
            refused=f"the process that builds it ended with status {process.returncode}: {last}",
            lasting=False,
        )


def _end(process: subprocess.Popen[str]) -> None:
    """The worker and the solvers that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
