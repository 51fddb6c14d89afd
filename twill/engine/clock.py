"""Seconds that are counted from the work done, not measured, so that a time limit ends a search at the same
step whatever else the machine does.

A solver's call counts for as many seconds as it takes on an idle core, about: by the size of its model and by
the solver's own count of its work. What is measured only ends a search that counts wrong, or that gets next
to nothing of a core: once `WRONG` times the limit of processor time, or `PATIENCE` times the limit of time,
have passed.
"""

import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass

WRONG = 5.0
"""Seconds of processor time of this process, in all threads, for each second of a limit: two sides of a race
take twice what counts, and a second of a busy core does up to half as much."""

PATIENCE = 20.0
"""Measured seconds for each second of a limit."""

STATED = 60e-6
"""Seconds that a constraint of a CP-SAT model counts for, which is stated and presolved (5 to 70 microseconds
of an idle core)."""

SEARCHED = 4.0
"""Seconds that a deterministic second of CP-SAT counts for (2 to 7 in models of 20 to 60 operations)."""

STARTED = 0.5
"""Seconds that a process of its own counts for, which imports a solver."""

NOTHING = 1e-3
"""Counted seconds of which nothing is done any more. (What sums of what probes count leave of a limit that is
spent may be 1e-15: a search went on for thousands of probes that state nothing.)"""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment."""

    counted: float
    processor: float
    measured: float

    @property
    def ago(self) -> float:
        """Measured seconds since then, which progress events have."""
        return time.monotonic() - self.measured


class Clock:
    """What all searches of one kernel have taken."""

    def __init__(self) -> None:
        self._counted = 0.0
        self._changing = threading.Lock()

    def count(self, seconds: float) -> None:
        """Add seconds of work."""
        with self._changing:
            self._counted += seconds

    def mark(self, ago: float = 0.0) -> Mark:
        """This moment, or one so many seconds before."""
        return Mark(self._counted - ago, time.process_time() - ago, time.monotonic() - ago)

    def since(self, mark: Mark) -> float:
        """Counted seconds from a moment on."""
        return self._counted - mark.counted

    def left(self, limit: float, mark: Mark) -> float:
        """What is left of a time limit that began at a moment: none once what is measured is too long. Until
        then nothing measured is in it."""
        processor, measured = time.process_time() - mark.processor, mark.ago
        if processor > WRONG * limit or measured > PATIENCE * limit:
            return 0.0
        rest = limit - self.since(mark)
        return rest if rest > NOTHING else 0.0


_OWN: ContextVar[Clock] = ContextVar("_OWN")


def own_clock() -> Clock:
    """The clock of this thread: kernels that are made beside each other do not count each other's work."""
    found = _OWN.get(None)
    if found is None:
        found = Clock()
        _OWN.set(found)
    return found


class Limit:
    """A time limit that begins now, on the clock of this thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._clock = seconds, own_clock()
        self.began = self._clock.mark()

    @property
    def left(self) -> float:
        """Counted seconds until its end: 0 from then on."""
        return self._clock.left(self._seconds, self.began)
