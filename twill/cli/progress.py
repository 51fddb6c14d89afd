"""What the search is doing, live on a terminal, as a line now and then elsewhere; always on standard error."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from twill.ir.search import Progress, Report

PATIENCE = 1.0
"""Seconds before anything is said where nobody watches live, and between two lines about the same interval."""


@dataclass
class _Log:
    """Plain lines: nothing in the first second, then whatever has changed."""

    name: str
    said: float = field(default_factory=time.monotonic)

    def __call__(self, event: Progress) -> None:
        now = time.monotonic()
        if now - self.said >= PATIENCE:
            self.said = now
            print(f"{self.name}: {event.seconds:6.1f} s  {words(event)}", file=sys.stderr, flush=True)


def words(event: Progress) -> str:
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


@contextmanager
def shown(name: str) -> Generator[Report]:
    """A report function that shows events of the search for loop `name` while the block lasts. No thread before the first event."""
    if not sys.stderr.isatty():
        yield _Log(name)
        return
    from rich.console import Console

    status = Console(stderr=True).status(name)

    def tell(event: Progress) -> None:
        status.update(f"[bold]{name}[/]  {event.seconds:.1f} s  {words(event)}")
        status.start()

    try:
        yield tell
    finally:
        status.stop()
