"""Where built kernels lie, and what names this Twill among them.

Imported by programs that launch kernels which were built before, so it imports nothing of Twill but the place
of the machine files.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from twill.costs.machine_files import folder as machines

SOURCE, LIBRARY, MANIFEST, LOG = "kernel.cu", "kernel.so", "kernel.json", "ptxas.txt"
"""What is in the folder of a built kernel."""

PACKAGE = Path(__file__).parents[1]
KINDS = (".py", ".cuh", ".toml")


def cache_folder() -> Path:
    """Where built kernels are kept; may be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twill"


def stamp(path: str | Path) -> str:
    """Size and time of change of a file: as long as both are the same, so are its contents. Python trusts the
    same of its compiled modules. Empty where there is no such file."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return ""


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_size} {found.st_mtime_ns}"


@cache
def sources() -> str:
    """What this Twill is, in short: the SHA-256 of its files and of the machines that come with it. It is
    kept in the cache beside the stamps of the files, since reading them all takes longer than all the rest
    that is done for a kernel which is built already."""
    files = dict(sorted([*_files(PACKAGE), *_files(machines())]))
    stamps = hashlib.sha256("\n".join(map(" ".join, files.items())).encode()).hexdigest()
    kept = cache_folder() / "sources" / hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:16]
    try:
        known, digest = kept.read_text().split()
    except (OSError, ValueError):
        known, digest = "", ""
    if known != stamps:
        digest = _contents(files)
        _keep(kept, f"{stamps} {digest}\n")
    return digest


def _files(folder: str | Path) -> Iterator[tuple[str, str]]:
    """Paths and stamps."""
    for entry in os.scandir(folder):
        if entry.name.endswith(KINDS):
            yield entry.path, _stamp(entry.stat())
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry.path)


def _contents(paths: Iterable[str]) -> str:
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


def _keep(path: Path, text: str) -> None:
    from twill.emit.files import write  # needed once for each version of Twill

    with suppress(OSError):  # then it is computed again
        write(path, text)
