"""Progress of the search on standard error: a live line on a terminal, log lines elsewhere."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING

from twill.ir.search import Progress, Report

if TYPE_CHECKING:
    from rich.text import Text

PATIENCE = 1.0
"""Seconds before the first log line, and between two log lines."""

TICK = 5.0
"""Seconds between two lines of `ticking`."""

TICKING = "twill: how long it has taken"
"""The name of its thread."""


@dataclass
class _Log:
    """Log lines, at most one per `PATIENCE` seconds."""

    name: str
    printed: float = field(default_factory=lambda: time.monotonic())

    def __call__(self, event: Progress) -> None:
        now = time.monotonic()
        if now - self.printed >= PATIENCE:
            self.printed = now
            print(f"{self.name}: {event.seconds:6.1f} s  {phrase(event)}", file=sys.stderr, flush=True)


def phrase(event: Progress) -> str:
    """An event as a phrase."""
    detail = f" ({event.detail})" if event.detail else ""
    match event.what:
        case "trying":
            return f"trying interval {event.interval} with {event.engine}{detail}"
        case "feasible" | "improved":
            return f"interval {event.interval} works, by {event.engine}{detail}"
        case "infeasible":
            return f"interval {event.interval} refuted by {event.engine}{detail}"
        case "timeout":
            return f"{event.engine} gives up interval {event.interval}{detail}"
        case "note":
            return event.detail


@dataclass
class _Line:
    """The state of the search on one line that is redrawn in place."""

    name: str
    began: float = field(default_factory=time.monotonic)
    best: int | None = None
    doing: str = "starting"

    def __call__(self, event: Progress) -> None:
        self.doing = phrase(event)
        if event.what in ("feasible", "improved"):
            self.best = event.interval if self.best is None else min(self.best, event.interval)

    def __rich__(self) -> "Text":
        from rich.text import Text

        best = "" if self.best is None else f"  best {self.best}"
        rest = f"  {time.monotonic() - self.began:.1f} s{best}  {self.doing}"
        return Text.assemble((self.name, "bold"), rest, overflow="ellipsis", no_wrap=True)


@contextmanager
def shown(name: str) -> Generator[Report]:
    """A progress callback that shows the events of the search for loop `name`. It starts no thread before the
    first event."""
    if not sys.stderr.isatty():
        yield _Log(name)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    line = _Line(name)
    live = Live(Spinner("dots", line), console=Console(stderr=True), transient=True, refresh_per_second=8)

    def on_event(event: Progress) -> None:
        line(event)
        live.start()

    try:
        yield on_event
    finally:
        live.stop()


@contextmanager
def shown_by_name() -> Generator[Callable[[tuple[str, Progress]], None]]:
    """As `shown`, for several loops one after the other; each event comes with the name of its loop."""
    reports = dict[str, Report]()
    with ExitStack() as stack:

        def on_event(named: tuple[str, Progress]) -> None:
            name, event = named
            if name not in reports:
                stack.close()
                reports[name] = stack.enter_context(shown(name))
            reports[name](event)

        yield on_event


@contextmanager
def ticking(text: str) -> Generator[None]:
    """Prints the text, and then every `TICK` seconds how long it has taken: for what reports no events."""
    began, over = time.monotonic(), Event()

    def tick() -> None:
        while not over.wait(TICK):
            print(f"{text}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    print(text, file=sys.stderr, flush=True)
    thread = Thread(target=tick, daemon=True, name=TICKING)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
