"""Results of searches, kept on disk for kernels that differ in what no search sees.

Triton compiles a kernel anew for other types of its scalar arguments, such as a 1 or a multiple of 16; the
loops of both are often the same problems. `kept` takes a search and returns one that makes no search twice,
in whatever process: of several that come to the same problem at the same time one searches, and the others
wait for what it finds. A file that cannot be read counts as missing; what is read is verified again.
"""

import hashlib
import pickle
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from twill.emit.files import write
from twill.engine.clock import Clock, own_clock
from twill.generation.generated import ProgressCallback
from twill.generation.known.alike import carried, shape
from twill.generation.searches import Solve
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.launch.build import own_cache
from twill.launch.folders import cache_folder, sources
from twill.launch.one_at_a_time import Aside, tried, until_free

if TYPE_CHECKING:
    from twill.pipeline import Begun


def kept(search: Solve, time_limit: float, aside: Aside = nullcontext) -> Solve:
    """The search, which takes from disk what was found before for a problem alike, by the same Twill, with
    the same iterations in flight, with or without proofs, for few iterations or many, and within the same
    `time_limit` for a loop (of which a search may have a part), and keeps what it finds. Nothing is kept
    where the cache cannot be written. `aside` is entered while another process searches for the same."""

    def solve(
        problem: Problem, options: Options, on_progress: ProgressCallback, known: "Begun | None" = None
    ) -> Result:
        path = place(problem, options.max_in_flight, time_limit, options.proofs, options.few)
        lock = path.with_suffix(".lock")
        clock = own_clock()
        while (found := load(path, problem, clock)) is None:
            with tried(lock) as mine:
                if mine:
                    return _found(path, problem, clock, lambda: search(problem, options, on_progress, known))
            with aside():
                until_free(lock)
        return found

    return solve


def _found(path: Path, problem: Problem, clock: Clock, search: Callable[[], Result]) -> Result:
    """What another process has kept since, or else what is found now."""
    found = load(path, problem, clock)
    if found is None:
        began = clock.mark()
        found = search()
        save(path, found, clock.since(began))
    return found


def place(problem: Problem, *parts: object) -> Path:
    """The file for the searches of all problems alike that have `parts` and Twill's sources in common."""
    named = "\n".join(map(str, (sources(), shape(problem), *parts)))
    return cache_folder() / "searches" / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.pickle"


def load(path: Path, problem: Problem, clock: Clock | None = None) -> Result | None:
    """What is kept, where it is right for this problem; on the clock it counts as much as the search did, so
    that what is searched after it does not depend on what was kept. The cache is this user's alone
    (`own_cache`), as the libraries in it are."""
    from twill.verify import check_result

    try:
        own_cache()
        kept, seconds = pickle.loads(path.read_bytes())
        found = carried(kept, problem)
        if check_result(found, in_flight=found.max_in_flight):
            return None
        if clock is not None:
            clock.count(seconds)
        return found
    except Exception:  # a damaged pickle, or result, raises whatever its parts lead to
        return None


def save(path: Path, found: Result, seconds: float = 0.0) -> None:
    """Keep a result, and the seconds that its search counted for."""
    with suppress(OSError):
        write(path, pickle.dumps((replace(found, seconds=()), seconds)))
