"""Other forms of a kernel, which were generated beside it: predicted to be slower, and perhaps faster.

`others` takes a generated kernel; `save` and `load` keep the forms in the folder of the built one, which one
Twill alone reads (its sources are part of the folder's name).
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from twill.emit.files import write
from twill.generation.generated import APART, SEVERAL, Generated

MOST = 2
"""Forms that are kept: each takes nvcc and the checks as long as the first one."""
FILE = "forms.pickle"
LOADS = "its computing group loads"


@dataclass(frozen=True, slots=True)
class Form:
    """A form that is not built."""

    what: str
    """How it differs, in words."""
    made: Generated
    """Without its CUDA, where that was not printed."""


def others(made: Generated) -> tuple[Form, ...]:
    """What was generated beside a kernel, in the order in which it is tried: its other forms, best first,
    then the kernel and these with their loads in another group, or with the groups that compute before one
    took their place."""
    return tuple(islice(_all(made), MOST))


def _all(made: Generated) -> Iterator[Form]:
    for form in made.others:
        yield Form(form.form or f"not {made.form}", _alone(form))
    for form in (made, *made.others):
        before = "" if form is made else f"{form.form or f'not {made.form}'}, "
        for what, other in ((LOADS, form.loading), (APART, form.loading_apart), (SEVERAL, form.several)):
            if other is not None:
                yield Form(f"{before}{what}", _alone(other))


def _alone(made: Generated) -> Generated:
    """Without what building it does not need."""
    return replace(made, others=(), searched=(), dumps={}, loading=None, loading_apart=None, several=None)


def save(forms: Sequence[Form], folder: Path) -> None:
    if forms:
        write(folder / FILE, pickle.dumps(tuple(forms)))


def load(folder: Path) -> tuple[Form, ...]:
    """What was saved in the folder of a kernel that is whole (`launch.build.cached`)."""
    path = folder / FILE
    return pickle.loads(path.read_bytes()) if path.exists() else ()
