"""What was found out about Triton's kernels, kept on disk for all processes of a user.

A folder for each key, `~/.cache/twill/triton/KEY/`: the request (NAME.ttir, NAME.json), `outcome.json` (the
built kernel as its launches need it, or why there is none), `late` (no launch waits for it again) and
`trial.*.json` (how it did beside Triton's on a kind of GPU). Other forms of a kernel have folders of their
own, `KEY.1` and so on (`form_of`). Files are replaced atomically; a lock lets one process at a time build a
kernel. A file that cannot be read counts as missing.
"""

import hashlib
import json
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from twill.launch.folders import LIBRARY, cache_folder
from twill.triton.callee import Callee, from_json

if TYPE_CHECKING:
    from twill.launch.one_at_a_time import Aside

LATE = "late"
"""An empty file beside the outcome."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What Twill makes of a kernel."""

    callee: Callee | None = None
    """The built kernel; None where it is refused."""
    refused: str | None = None
    forms: int = 0
    """How many other forms of it can be built."""
    lasting: bool = True
    """Whether a later process would come to the same: not where a tool is missing."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The first launch of a kernel beside Triton's, on the same arguments."""

    wrong: str | None = None
    """What differs; None where the results agree."""
    triton_ms: float | None = None
    twill_ms: float | None = None
    """Medians; None where they were not measured."""

    @property
    def speed(self) -> float | None:
        """How many times as fast as Triton's kernel."""
        return self.triton_ms / self.twill_ms if self.triton_ms and self.twill_ms else None


class NoTrialError(Exception):
    """Triton's kernel and Twill's cannot be compared here; says why."""


def folder_of(key: str) -> Path:
    return cache_folder() / "triton" / key


def form_of(key: str, number: int) -> str:
    """The key of another form of a kernel, counted from 1; 0 is the kernel itself."""
    return f"{key}.{number}" if number else key


def find(key: str) -> Outcome | None:
    """What is known; None where nothing is, or where the built kernel has been deleted."""
    found = recorded(key)
    return found if found and (found.callee is None or Path(found.callee.folder, LIBRARY).exists()) else None


def recorded(key: str) -> Outcome | None:
    """The same, whatever became of the built kernel."""
    try:
        return outcome(_read(folder_of(key) / "outcome.json"))
    except UNREADABLE:
        return None


def outcome(members: dict[str, Any]) -> Outcome:
    """From JSON. Raises one of UNREADABLE for anything else."""
    callee: Any = members.get("callee") and from_json(members["callee"])
    return Outcome(**{**members, "callee": callee})


def keep(key: str, outcome: Outcome) -> Outcome:
    if outcome.lasting:
        _write(folder_of(key) / "outcome.json", json.dumps(asdict(outcome)))
    return outcome


def keep_callee(key: str, callee: Callee) -> None:
    """In the place of what was known of the same kernel."""
    known = recorded(key)
    if known is not None:
        keep(key, replace(known, callee=callee))


def late(key: str) -> bool:
    """Whether a launch, of this process or an earlier one, went on before the kernel was built."""
    return (folder_of(key) / LATE).exists()


def keep_late(key: str) -> None:
    with suppress(OSError):  # then the next process waits for it
        _write(folder_of(key) / LATE, "")


def find_trial(key: str, beside: str) -> Trial | None:
    """`beside` names the GPU and Triton's kernel."""
    try:
        return Trial(**_read(_trial(key, beside)))
    except UNREADABLE:
        return None


def keep_trial(key: str, beside: str, trial: Trial) -> None:
    with suppress(OSError):  # then the next process tries it again
        _write(_trial(key, beside), json.dumps(asdict(trial)))


def _trial(key: str, beside: str) -> Path:
    """Names of GPUs have spaces and slashes."""
    return folder_of(key) / f"trial.{hashlib.sha256(beside.encode()).hexdigest()[:16]}.json"


UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError)
"""What reading a file raises that is missing or damaged."""


def _read(path: Path) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(path.read_text()))


def _write(path: Path, text: str) -> None:
    from twill.emit.files import write  # a program whose kernels are there writes nothing

    write(path, text)


def lock(key: str, aside: "Aside") -> AbstractContextManager[None]:
    """Held by one process at a time; given back when the process ends, however it ends."""
    from twill.launch.one_at_a_time import alone  # for processes that build

    return alone(folder_of(key) / "lock", aside)
