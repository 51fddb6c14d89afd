"""Results of searches, kept on disk for kernels that differ in what no search sees.

Triton compiles a kernel anew for other types of its scalar arguments, such as a 1 or a multiple of 16; the
loops of both are often the same problems. `load` and `save` take the name of a file in the user's cache. A
file that cannot be read counts as empty; what is read is verified again.
"""

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from twill.emit.files import write
from twill.ir.schedule import Result
from twill.launch.build import cache_folder, own_cache, sources

MOST = 32
"""Results in a file, the latest."""


def place(*parts: object) -> Path:
    """The file for searches that have all of this in common, and Twill's sources."""
    named = "\n".join(map(str, (sources(), *parts)))
    return cache_folder() / "searches" / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.pickle"


def load(path: Path) -> tuple[Result, ...]:
    """What is kept and right. The cache is this user's alone (`own_cache`), as the libraries in it are."""
    from twill.verify import check_result

    try:
        return tuple(one for one in _read(path) if not check_result(one, in_flight=one.max_in_flight))
    except Exception:  # a damaged result raises whatever its parts lead to
        return ()


def _read(path: Path) -> tuple[Result, ...]:
    """What is kept, as it is."""
    try:
        own_cache()
        return cast("tuple[Result, ...]", pickle.loads(path.read_bytes()))
    except Exception:  # a damaged pickle raises whatever its bytes lead to
        return ()


def save(path: Path, found: Sequence[Result]) -> None:
    """Adds the results that are new. Nothing is kept where the file cannot be written. What is there already
    is verified when it is loaded."""
    before = _read(path)
    fresh = [result for result in found if all(result.problem != one.problem for one in before)]
    lean = tuple(replace(result, seconds=()) for result in (*before, *fresh))
    try:
        write(path, pickle.dumps(lean[-MOST:]))
    except OSError:
        return
