"""How many kernels are built at the same time, by all processes of a user on this machine.

Programs that run side by side share its processors. A build has one of a number of lock files while it works,
a `Slot`, and takes it along into the process that builds, which may outlive the program. `Slots` gives them
to the builds of this process in the order in which they were begun; the build that a launch waits for needs
none.
"""

import fcntl
import os
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO

from twill.launch.folders import cache_folder
from twill.launch.one_at_a_time import locked

WHILE_WAITING = max(1, (os.cpu_count() or 1) - 1)
"""Processes that build at the same time while a launch waits: a search is short beside the build, which has
one thread."""
BESIDE = max(1, (os.cpu_count() or 1) // 2)
"""The same while the program runs on, to which they give way."""
POLL = 0.2
"""Seconds between looks for a slot that another program has given back."""

Turn = AbstractContextManager[IO[str] | None]
"""Held while a build works: a lock file, or nothing for one that needs none."""


def free(count: int) -> IO[str] | None:
    """One of the first `count` slots, where one is free. Raises OSError where there can be none."""
    paths = (cache_folder() / "slots" / f"{number}.lock" for number in range(count))
    return next((file for path in paths if (file := locked(path))), None)


class Slots:
    """Of the builds of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[str] = []
        self._wanted: list[str] = []
        """Builds that launches wait for."""

    @contextmanager
    def wanted(self, key: str) -> Generator[None]:
        """While a launch waits for a build: it begins at once, and more others beside it."""
        with self._changed:
            self._wanted.append(key)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._wanted.remove(key)

    @contextmanager
    def turn(self, key: str) -> Generator[IO[str] | None]:
        """For a build: its slot, if it needs one."""
        with self._turn(key) as slot:
            yield slot
        with self._changed:
            self._changed.notify_all()

    def _turn(self, key: str) -> Turn:
        with self._changed:
            self._queue.append(key)
            try:
                while (turn := self._free(key)) is None:
                    self._changed.wait(POLL if self._next == key else None)
            finally:
                self._queue.remove(key)
                self._changed.notify_all()
        return turn

    @property
    def _next(self) -> str:
        return self._queue[0]

    def _free(self, key: str) -> Turn | None:
        """The turn of a build that is in the queue; None where it has to wait."""
        if key in self._wanted:
            return nullcontext()
        if self._next != key:
            return None
        try:
            return free(WHILE_WAITING if self._wanted else BESIDE)
        except OSError:
            return nullcontext()


class Slot:
    """In the process that builds: the slot that it was given, by the number of its open file."""

    def __init__(self, number: int | None = None) -> None:
        self._file = None if number is None else os.fdopen(number, "w")

    @contextmanager
    def aside(self) -> Generator[None]:
        """While this process waits for another one, a third one may build."""
        if self._file is None:
            yield
            return
        fcntl.flock(self._file, fcntl.LOCK_UN)  # for the program as well, whose file it is, too
        self._file.close()
        try:
            yield
        finally:
            while (taken := free(WHILE_WAITING)) is None:
                time.sleep(POLL)
            self._file = taken
