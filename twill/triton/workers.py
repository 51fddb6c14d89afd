"""Runs `twill.triton.worker` for a request, at once or beside the program.

A process of its own keeps the search from the interpreter that launches kernels, and a crash of a solver from
the program. It gives way to the program where both want a processor, and outlives it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from twill.triton import store
from twill.triton.request import Request
from twill.triton.settings import Settings, log
from twill.triton.slots import Slots
from twill.triton.store import Outcome

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
_builds: dict[str, Future[Outcome]] = {}
"""What is being built or is to be, by key."""

_slots = Slots()


def outcome(
    request: Request, key: str, settings: Settings, patience: float | None, form: int = 0
) -> Outcome | Future[Outcome]:
    """Waits for the build, the one that was begun before if there is one; gives the build that goes on where
    it takes more than `patience` seconds. Raises KeyboardInterrupt, after ending all builds, where the user
    interrupts."""
    build = begin(request, key, settings, form)
    if patience is None or patience > 0:
        with _slots.wanted(key), _shown(request.name, patience):
            try:
                wait([build], patience)
            except KeyboardInterrupt:
                stop()
                raise
    return build.result() if build.done() else build


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
    others = f" ({len(_builds)} kernels to go)" if len(_builds) > 1 else ""
    from rich.console import Console

    with Console(stderr=True).status(f"Twill schedules and builds {name}{others}"):
        yield


def begin(request: Request, key: str, settings: Settings, form: int = 0) -> Future[Outcome]:
    """The build of a kernel, or of another form of it under a key of its own (`store.form_of`), which has its
    turn as soon as few enough others are at work (`slots`)."""
    running = _builds.get(key)
    if running is not None:
        return running
    build = _builds[key] = Future[Outcome]()

    def work() -> None:
        try:
            with _slots.turn(key) as slot:
                found = _worked(request, key, settings, slot, form)
        except BaseException as error:
            del _builds[key]
            build.set_exception(error)
        else:
            del _builds[key]
            build.set_result(found)

    threading.Thread(target=work, name=f"twill-{key[:8]}", daemon=True).start()
    return build


def _worked(request: Request, key: str, settings: Settings, slot: IO[str] | None, form: int) -> Outcome:
    try:
        path = request.save(key)
    except OSError as error:
        return Outcome(refused=f"{store.folder_of(key)}: {error.strerror}", lasting=False)
    return _answer(_started(key, path, settings, slot, form))


def ended(build: Future[Outcome]) -> Outcome:
    """What came of a build that is done, also where it failed."""
    error = build.exception()
    return build.result() if error is None else Outcome(refused=str(error), lasting=False)


def stop() -> None:
    """Ends the workers of this process."""
    for process in tuple(_running):
        _end(process)


def _started(
    key: str, path: Path, settings: Settings, slot: IO[str] | None, form: int
) -> subprocess.Popen[str]:
    """The worker sees the same packages; Twill is switched off in it. It takes the slot along."""
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
        str(form),
        *([str(slot.fileno())] if slot else []),
    ]
    pipe, files = subprocess.PIPE, [slot.fileno()] if slot else []
    process = subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment,
        start_new_session=True,
        pass_fds=files,
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
        return store.outcome(json.loads(said.splitlines()[-1]))
    except (IndexError, *store.UNREADABLE):
        last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        return Outcome(
            refused=f"the process that builds it ended with status {process.returncode}: {last}",
            lasting=False,
        )


def _end(process: subprocess.Popen[str]) -> None:
    """The worker and the solvers that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
