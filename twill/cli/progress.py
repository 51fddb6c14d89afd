"""What the search is doing, live on a terminal, as a line now and then elsewhere; always on standard error."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twill.ir.search import Progress, Report

if TYPE_CHECKING:
    from rich.text import Text

PATIENCE = 1.0
"""Seconds before anything is said where nobody watches live, and between two lines about the same interval."""


@dataclass
class _Log:
    """Plain lines: nothing in the first second, then whatever has changed."""

    name: str
    said: float = field(default_factory=lambda: time.monotonic())

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


@dataclass
class _Line:
    """The state of the search on one line, written anew whenever the terminal is."""

    name: str
    began: float = field(default_factory=time.monotonic)
    best: int | None = None
    doing: str = "starting"

    def __call__(self, event: Progress) -> None:
        self.doing = words(event)
        if event.what in ("feasible", "improved"):
            self.best = event.interval if self.best is None else min(self.best, event.interval)

    def __rich__(self) -> "Text":
        from rich.text import Text

        best = "" if self.best is None else f"  best {self.best}"
        rest = f"  {time.monotonic() - self.began:.1f} s{best}  {self.doing}"
        return Text.assemble((self.name, "bold"), rest, overflow="ellipsis", no_wrap=True)


@contextmanager
def shown(name: str) -> Generator[Report]:
    """A report function that shows events of the search for loop `name` while the block lasts. No thread before the first event."""
    if not sys.stderr.isatty():
        yield _Log(name)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    line = _Line(name)
    live = Live(Spinner("dots", line), console=Console(stderr=True), transient=True, refresh_per_second=8)

    def tell(event: Progress) -> None:
        line(event)
        live.start()

    try:
        yield tell
    finally:
        live.stop()


@contextmanager
def shown_by_name() -> Generator[Callable[[tuple[str, Progress]], None]]:
    """As `shown`, for one loop after the other: with every event, the name of its loop."""
    reports = dict[str, Report]()
    with ExitStack() as stack:

        def tell(named: tuple[str, Progress]) -> None:
            name, event = named
            if name not in reports:
                stack.close()
                reports[name] = stack.enter_context(shown(name))
            reports[name](event)

        yield tell
