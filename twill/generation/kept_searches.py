"""Results of searches, kept on disk for kernels that differ in what no search sees.

Triton compiles a kernel anew for other types of its scalar arguments, such as a 1 or a multiple of 16; the
loops of both are often the same problems. `kept` takes a search and returns one that makes no search twice,
in whatever process: of several that come to the same problem at the same time one searches, and the others
wait for what it finds. A file that cannot be read counts as missing; what is read is verified again.
"""

import fcntl
import hashlib
import pickle
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from twill.emit.files import write
from twill.generation.alike import carried, shape
from twill.generation.candidates import Solve
from twill.generation.generated import ProgressCallback
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.launch.build import cache_folder, own_cache, sources

if TYPE_CHECKING:
    from twill.pipeline import Begun


def kept(search: Solve, time_limit: float) -> Solve:
    """The search, which takes from disk what was found before for a problem alike, by the same Twill, with
    the same iterations in flight and within the same `time_limit` for a loop (of which a search may have a
    part), and keeps what it finds. Nothing is kept where the cache cannot be written."""

    def solve(
        problem: Problem, options: Options, on_progress: ProgressCallback, known: "Begun | None" = None
    ) -> Result:
        path = place(problem, options.max_in_flight, time_limit)
        with _alone(path):
            found = load(path, problem)
            if found is None:
                found = search(problem, options, on_progress, known)
                save(path, found)
        return found

    return solve


def place(problem: Problem, *parts: object) -> Path:
    """The file for the searches of all problems alike that have `parts` and Twill's sources in common."""
    named = "\n".join(map(str, (sources(), shape(problem), *parts)))
    return cache_folder() / "searches" / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.pickle"


def load(path: Path, problem: Problem) -> Result | None:
    """What is kept, where it is right for this problem. The cache is this user's alone (`own_cache`), as the
    libraries in it are."""
    from twill.verify import check_result

    try:
        own_cache()
        found = carried(pickle.loads(path.read_bytes()), problem)
        return None if check_result(found, in_flight=found.max_in_flight) else found
    except Exception:  # a damaged pickle, or result, raises whatever its parts lead to
        return None


def save(path: Path, found: Result) -> None:
    with suppress(OSError):
        write(path, pickle.dumps(replace(found, seconds=())))


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """While no other process, or thread, searches for the same. Without waiting where the cache cannot be
    written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
