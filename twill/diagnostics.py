"""Errors that point at their location.

Takes a message and, where there is one, the `Location` it concerns; gives one printable diagnostic. Every
error that a user's input can cause is a `TwillError`; the command line prints it and exits with status 2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A location in a text file; `line` and `column` count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class TwillError(Exception):
    """An error in the input, with its location, the source text and a suggestion."""

    def __init__(
        self,
        message: str,
        location: Location | None = None,
        *,
        text: str | None = None,
        span: int = 1,
        help: str | None = None,
    ) -> None:
        """`text` is the whole source line at `location`; `span` is how many characters of it are marked."""
        super().__init__(message)
        self.message = message
        self.location = location
        self.text = text
        self.span = span
        self.help = help

    def __str__(self) -> str:
        head = (
            f"error: {self.message}" if self.location is None else f"{self.location}: error: {self.message}"
        )
        return "\n".join([head, *self._excerpt(), *([f"  help: {self.help}"] if self.help else [])])

    def _excerpt(self) -> list[str]:
        """The source line with a caret under the location; tabs become spaces so that the caret lines up."""
        if self.text is None or self.location is None:
            return []
        line, column = self.text.expandtabs(1).rstrip("\n"), self.location.column
        start = max(0, column - 60)
        shown = line[start : start + 120]
        width = max(1, min(self.span, len(shown) - (column - 1 - start)))
        return [f"    {shown}", "    " + " " * (column - 1 - start) + "^" * width]


class JointError(TwillError):
    """All errors of one input, in the order of their lines."""

    def __init__(self, errors: Sequence[TwillError]) -> None:
        first, more = errors[0], len(errors) - 1
        super().__init__(
            f"{first.message} (and {more} more)",
            first.location,
            text=first.text,
            span=first.span,
            help=first.help,
        )
        self.errors = tuple(errors)

    def __reduce__(self) -> tuple[type["JointError"], tuple[tuple[TwillError, ...]]]:
        """From one process to another."""
        return JointError, (self.errors,)

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


def together(errors: Iterable[TwillError]) -> TwillError | None:
    """One error for several, without repetitions; None where there are none."""
    distinct = dict[str, TwillError]()
    for error in errors:
        distinct.setdefault(str(error), error)
    found = sorted(distinct.values(), key=lambda error: error.location or Location("", 0))
    return JointError(found) if len(found) > 1 else found[0] if found else None


class InternalError(TwillError):
    """A defect of Twill that an input has uncovered, with the operation that was worked on where that is
    known."""

    def __init__(
        self, message: str, location: Location | None = None, *, text: str | None = None, details: str = ""
    ) -> None:
        """`details` is the Python traceback."""
        way_out = (
            f"this is a defect in Twill: please report it with the input ({TRACEBACK}=1 shows where it"
            " happened)"
        )
        super().__init__(message, location, text=text, help=way_out)
        self.details = details


class DefectError(TwillError):
    """What Twill has generated for one schedule is wrong; for another one it may be right."""

    def __init__(self, message: str, location: Location | None = None, *, text: str | None = None) -> None:
        way_out = "this is a defect in Twill: please report it with the TTGIR"
        super().__init__(message, location, text=text, help=way_out)


TRACEBACK = "TWILL_TRACEBACK"
"""The environment variable that shows tracebacks."""
