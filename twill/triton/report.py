"""What became of every kernel that was launched."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

Choice = Literal["twill", "triton", "pending"]


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel with one set of types, constants and options."""

    kernel: str
    configuration: str
    choice: Choice
    """Whose kernel is launched; pending: Triton's, until Twill's is built."""
    reason: str
    interval: str = ""
    """Cycles per iteration of each scheduled loop."""
    speed: float | None = None
    """How many times as fast as Triton's kernel, where both were measured."""

    def line(self) -> str:
        """For the log."""
        chosen = {
            "twill": "Twill's kernel",
            "triton": "Triton's kernel",
            "pending": "Triton's kernel for now",
        }[self.choice]
        interval = f", {self.interval} cycles per iteration" if self.interval else ""
        speed = f", {self.speed:.2f} times as fast as Triton's" if self.speed else ""
        return f"{self.kernel} ({self.configuration}): {chosen}: {self.reason}{interval}{speed}"


@dataclass(frozen=True, slots=True)
class Report:
    """All kernels, in the order of their first launches; prints as a table with a count below it."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        """Of a configuration, what all rows of a kernel have in common is left out."""
        same = {row.kernel: _same(self.rows, row.kernel) for row in self.rows}
        cells = [
            ("kernel", "runs", "interval", "speed", "reason", "configuration"),
            *(_cells(row, same[row.kernel]) for row in self.rows),
        ]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join((*(_line(row, widths) for row in cells), self._count()))

    def _count(self) -> str:
        total, ours = len(self.rows), sum(row.choice == "twill" for row in self.rows)
        pending = sum(row.choice == "pending" for row in self.rows)
        later = f", {pending} pending: the next run uses what is built until then" if pending else ""
        return f"{ours} of {total} kernel{'s' if total != 1 else ''} on Twill's code{later}"

    def __iter__(self):
        return iter(self.rows)


def _same(rows: Iterable[Row], kernel: str) -> frozenset[str]:
    """The parts of its configuration that a kernel has in all of several rows."""
    first, *others = (_parts(row) for row in rows if row.kernel == kernel)
    return frozenset(first).intersection(*others) if others else frozenset()


def _parts(row: Row) -> list[str]:
    return row.configuration.split(", ")


def _cells(row: Row, same: Collection[str]) -> tuple[str, ...]:
    speed = f"{row.speed:.2f}" if row.speed else "-"
    configuration = ", ".join(part for part in _parts(row) if part not in same)
    return row.kernel, row.choice, row.interval or "-", speed, row.reason, configuration


def _line(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
