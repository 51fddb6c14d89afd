"""What a launch must know of a built kernel.

The process that builds a kernel keeps it (`of`) in one record with the outcome of the build, so that a
program whose kernels are there reads no manifest and imports no reader of manifests. `current` says whether
the library is the one that was checked then.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from twill.launch.folders import LIBRARY, stamp


@dataclass(frozen=True, slots=True)
class Callee:
    """A built kernel."""

    folder: str
    stamp: str
    """Of its library, when that was compared with its source."""
    name: str
    """NAME_launch is the C function that launches it."""
    arguments: tuple[tuple[str, str], ...]
    """Name and type in TTGIR of each C argument, in order; `*` before the type of a pointer's elements."""
    apart: tuple[tuple[str, str, bool], ...]
    """As in `twill.ir.apart.Apart`."""
    interval: str
    """Cycles per iteration of each scheduled loop."""
    form: str = ""
    """How it differs from the kernel that is predicted to be fastest, in words."""

    @property
    def current(self) -> bool:
        """Whether the library is as it was."""
        return stamp(Path(self.folder, LIBRARY)) == self.stamp

    def function(self) -> Callable[..., int]:
        """Raises OSError where the library cannot be loaded."""
        return self._library()[f"{self.name}_launch"]

    def text(self, status: int) -> str:
        """CUDA's words for an error."""
        from twill.launch.runtime import Runtime  # of use only where a launch has failed

        return Runtime(self._library()).text(status)

    def _library(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(Path(self.folder, LIBRARY).resolve()))


def of(folder: str) -> Callee:
    """Of the kernel in a folder. Raises TwillError where its library is not built of its source."""
    from twill.launch.load import described  # reads manifests, which takes longer than the rest of a launch

    before = stamp(Path(folder, LIBRARY))
    manifest = described(folder)
    return Callee(
        folder,
        before,
        manifest.name,
        tuple((one.name, one.type) for one in manifest.arguments),
        tuple((one.stored, one.other, one.in_place) for one in manifest.apart),
        "/".join(str(loop.scheduled) for loop in manifest.loops),
    )


def from_json(members: dict[str, object]) -> Callee:
    """What `dataclasses.asdict` made of it, from JSON, which has no tuples. Raises KeyError or TypeError for
    anything else."""
    pairs = {name: tuple(map(tuple, members[name])) for name in ("arguments", "apart")}  # pyright: ignore
    return Callee(**{**members, **pairs})  # pyright: ignore[reportArgumentType]
