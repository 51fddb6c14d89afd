"""How launches of Triton kernels are handled; given to `install`, or in the environment variable TWILL."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Compile = Literal["now", "background", "cached"]
"""When a new kernel is scheduled and built: at its first launch, beside the program, or never (only what is
on disk is used)."""

log = logging.getLogger("twill.triton")


@dataclass(frozen=True, slots=True)
class Settings:
    """For all kernels of a process."""

    compile: Compile = "now"
    verify: bool = False
    """Use no kernel whose first launch was not compared with Triton's."""
    measure: bool = True
    """Time both kernels at the first launch, and keep Triton's where it is faster. Compares their results
    too."""
    machine: str | None = None
    """To schedule for; None for the default machine of the architecture."""
    time_limit: float = 20.0
    """Seconds for scheduling each loop; its other forms have as much again together."""
    subtile: int | None = None
    """Sub-tiles that rows are divided into; None for what makes a kernel's loops faster."""
    patience: float | None = 60.0
    """Seconds that the launches of a program wait in all for kernels to be built; after that Triton's run
    until Twill's are there. None: as long as it takes."""


WORDS: Mapping[str, Mapping[str, object]] = {
    "1": {},
    "background": {"compile": "background"},
    "cached": {"compile": "cached"},
    "verify": {"verify": True},
    "trust": {"measure": False},
}
"""What TWILL may hold, separated by commas, such as `background,verify`; and `patience=SECONDS`."""
PATIENCE = "patience="


def from_environment(text: str) -> Settings | None:
    """The settings in the variable TWILL; None where it is empty, 0 or not understood (which is logged)."""
    words = [word.strip() for word in text.split(",") if word.strip() not in ("", "0")]
    found: dict[str, object] = {}
    for word in words:
        given = _given(word)
        if given is None:
            known = ", ".join((*WORDS, f"{PATIENCE}SECONDS"))
            log.warning("TWILL=%s is ignored: %s is none of %s", text, word, known)
            return None
        found.update(given)
    return Settings(**found) if words else None  # pyright: ignore[reportArgumentType]


def _given(word: str) -> Mapping[str, object] | None:
    """What one word sets; None where it is none."""
    if not word.startswith(PATIENCE):
        return WORDS.get(word)
    try:
        seconds = float(word.removeprefix(PATIENCE))
    except ValueError:
        return None
    return {"patience": seconds} if seconds >= 0 else None
