"""Schedules, generates and builds one kernel, in a process of its own: `python -m twill.triton.worker KEY
NAME.ttir MACHINE SECONDS SUBTILES FORM [SLOT]`.

Takes TTIR with Triton's metadata beside it (`Request.save`); prints an `Outcome` as JSON, which it keeps on
disk as well. One process at a time works on a key; others wait and take what it found.
"""

import json
import os
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from twill.diagnostics import TwillError
from twill.launch.one_at_a_time import Aside
from twill.triton import store
from twill.triton.slots import Slot
from twill.triton.store import Outcome

if TYPE_CHECKING:
    from twill.generation.generated import GenerateOptions
    from twill.inputs import Inputs


def work(
    key: str,
    path: Path,
    machine: str | None,
    seconds: float,
    subtile: int | None = None,
    aside: Aside = nullcontext,
    form: int = 0,
) -> Outcome:
    """What is known about the key, or else what comes out now. `aside` is entered while it waits for another
    process."""
    with store.lock(key, aside):
        return store.find(key) or store.keep(key, made(path, machine, seconds, subtile, aside, form))


def made(
    path: Path,
    machine: str | None,
    seconds: float,
    subtile: int | None = None,
    aside: Aside = nullcontext,
    form: int = 0,
) -> Outcome:
    """A kernel, or another form of one that was built (its number). Never raises: whatever goes wrong,
    Triton's kernel is there. Its searches end without the proofs that nobody reads here."""
    from twill.generation.generated import GenerateOptions
    from twill.inputs import Inputs
    from twill.launch.build import nvcc

    try:
        nvcc()
    except TwillError as error:
        return Outcome(refused=error.message, lasting=False)
    try:
        inputs = Inputs(str(path), machine=machine, persistent=None, subtile=subtile)
        options = GenerateOptions(time_limit=seconds, proofs=False)
        return _built(inputs, options, aside, form)
    except TwillError as error:
        return Outcome(refused=error.message.splitlines()[0])
    except OSError as error:
        return Outcome(refused=f"{error.filename or 'a file'}: {error.strerror}", lasting=False)
    except ImportError as error:
        return Outcome(refused=f"{error.name} cannot be imported: {error}", lasting=False)
    except Exception as error:  # a defect of Twill must not stop the program
        return Outcome(refused=f"a defect of Twill: {type(error).__name__}: {error}")


def _built(inputs: "Inputs", options: "GenerateOptions", aside: Aside, form: int) -> Outcome:
    from twill.generation.builds import built, forms
    from twill.triton.callee import of

    folder = built.built(inputs, options, aside=aside)
    others = forms.load(folder)
    if not form:
        return Outcome(of(str(folder)), forms=len(others))
    if form > len(others):
        return Outcome(refused="it has no such form")
    other = others[form - 1]
    return Outcome(replace(of(str(built.built_form(folder, other, options))), form=other.what))


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
    key, path, machine, seconds, subtile, form, *slots = arguments
    parts, slot = int(subtile) if subtile else None, Slot(*map(int, slots))
    found = work(key, Path(path), machine or None, float(seconds), parts, slot.aside, int(form))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
