"""Work that one process at a time does, for all processes of a user that share the cache.

`tried` takes the path of a lock file and says whether the work is this process's now; `alone` waits until it
is. Locks are given back when a process ends, however it ends. A process that waits for another one steps
`aside` meanwhile: it gives back what others could use (`twill.triton.slots`).
"""

import fcntl
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

Aside = Callable[[], AbstractContextManager[None]]
"""Entered while this process waits for another one."""


def locked(path: Path) -> IO[str] | None:
    """The lock file, which is this process's until it is closed; None where it is another one's. Raises
    OSError where there can be none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


@contextmanager
def tried(path: Path) -> Generator[bool]:
    """Whether the work is this process's meanwhile; also where the file cannot be written."""
    try:
        file = locked(path)
    except OSError:
        yield True
        return
    if file is None:
        yield False
        return
    with file:
        yield True


def until_free(path: Path) -> None:
    """Wait until no process has the lock; others may be faster to take it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def _never() -> bool:
    return False


@contextmanager
def alone(path: Path, aside: Aside, done: Callable[[], bool] = _never) -> Generator[None]:
    """While no other process, or thread, does the same; several may where it is `done` already."""
    while not done():
        with tried(path) as mine:
            if mine:
                yield
                return
        with aside():
            until_free(path)
    yield
