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
    time_limit: float = 60.0
    """Seconds for scheduling each loop."""
    subtile: int | None = None
    """Sub-tiles that rows are divided into; None for what makes a kernel's loops faster."""


WORDS: Mapping[str, Mapping[str, object]] = {
    "1": {},
    "background": {"compile": "background"},
    "cached": {"compile": "cached"},
    "verify": {"verify": True},
    "trust": {"measure": False},
}
"""What TWILL may hold, separated by commas, such as `background,verify`."""


def from_environment(text: str) -> Settings | None:
    """The settings in the variable TWILL; None where it is empty, 0 or not understood (which is logged)."""
    words = [word.strip() for word in text.split(",") if word.strip() not in ("", "0")]
    unknown = [word for word in words if word not in WORDS]
    if unknown:
        log.warning("TWILL=%s is ignored: %s is none of %s", text, unknown[0], ", ".join(WORDS))
    if unknown or not words:
        return None
    return Settings(**{name: value for word in words for name, value in WORDS[word].items()})  # pyright: ignore[reportArgumentType]
