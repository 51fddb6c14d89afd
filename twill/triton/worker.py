"""Schedules, generates and builds one kernel, in a process of its own: `python -m twill.triton.worker KEY
NAME.ttir MACHINE SECONDS SUBTILES`.

Takes TTIR with Triton's metadata beside it (`Request.save`); prints an `Outcome` as JSON, which it keeps on
disk as well. One process at a time works on a key; others wait and take what it found.
"""

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from twill.diagnostics import TwillError
from twill.triton import store
from twill.triton.store import Outcome


def work(key: str, path: Path, machine: str | None, seconds: float, subtile: int | None = None) -> Outcome:
    """What is known about the key, or else what comes out now."""
    with store.lock(key):
        return store.find(key) or store.keep(key, made(path, machine, seconds, subtile))


def made(path: Path, machine: str | None, seconds: float, subtile: int | None = None) -> Outcome:
    """Never raises: whatever goes wrong, Triton's kernel is there."""
    from twill.generation.built import built
    from twill.generation.generated import GenerateOptions
    from twill.inputs import Inputs
    from twill.launch.build import nvcc

    try:
        nvcc()
    except TwillError as error:
        return Outcome(refused=error.message, lasting=False)
    try:
        inputs = Inputs(str(path), machine=machine, persistent=None, subtile=subtile)
        return Outcome(folder=str(built(inputs, GenerateOptions(time_limit=seconds))))
    except TwillError as error:
        return Outcome(refused=error.message.splitlines()[0])
    except OSError as error:
        return Outcome(refused=f"{error.filename or 'a file'}: {error.strerror}", lasting=False)
    except ImportError as error:
        return Outcome(refused=f"{error.name} cannot be imported: {error}", lasting=False)
    except Exception as error:  # a defect of Twill must not stop the program
        return Outcome(refused=f"a defect of Twill: {type(error).__name__}: {error}")


NICE = 10
"""How much less this process counts where the program wants the processor."""
GROUP = Path("/proc/self/autogroup")
"""Linux, where it groups processes by session (sched(7)): this process leads a session, and its own niceness
would count only within that."""


def give_way() -> None:
    os.nice(NICE)
    with suppress(OSError):
        GROUP.write_text(f"{NICE}")


def main(arguments: list[str]) -> None:
    give_way()
    key, path, machine, seconds, subtile = arguments
    parts = int(subtile) if subtile else None
    print(json.dumps(asdict(work(key, Path(path), machine or None, float(seconds), parts))))


if __name__ == "__main__":
    main(sys.argv[1:])
