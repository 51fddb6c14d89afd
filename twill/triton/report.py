"""What became of every kernel that was launched."""

from collections.abc import Iterable
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
    """All kernels, in the order of their first launches; prints as a table."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        cells = [("kernel", "runs", "interval", "speed", "configuration", "reason"), *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(_line(row, widths) for row in cells)

    def __iter__(self):
        return iter(self.rows)


def _cells(row: Row) -> tuple[str, ...]:
    speed = f"{row.speed:.2f}" if row.speed else "-"
    return row.kernel, row.choice, row.interval or "-", speed, row.configuration, row.reason


def _line(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
