"""What goes wrong while a kernel runs.

A `Fault` is raised where it is noticed; the machine adds the place, as PTX line and, by .loc, as line of the
source, and gives a `HazardError`, which is a `TwillError`.
"""

from collections.abc import Sequence

from twill.diagnostics import Location, TwillError
from twill.emulate.ptx.syntax import Instruction


class Fault(Exception):  # noqa: N818
    """Something that the PTX ISA forbids or leaves undefined."""

    def __init__(self, message: str, *, line: int | None = None, help: str | None = None) -> None:
        """`line` of the PTX text, where it is not that of the current instruction."""
        super().__init__(message)
        self.message, self.line, self.help = message, line, help


class HazardError(TwillError):
    """A kernel that does what it must not do."""


class BudgetError(TwillError):
    """A launch that needs more instructions than it may execute."""


class UnknownError(TwillError):
    """An instruction that this machine does not execute."""


def place(file: str, lines: Sequence[str], number: int, column: int = 1) -> tuple[Location, str]:
    """A PTX line and its text, without what makes it too long to show."""
    text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return Location(file, number, column), text[:100]


def located(
    fault: Fault, file: str, lines: Sequence[str], instruction: Instruction | None, who: str
) -> HazardError:
    number = fault.line or (instruction.line if instruction else 1)
    where, text = place(file, lines, number)
    source = f" ({instruction.source})" if instruction and instruction.source and fault.line is None else ""
    return HazardError(f"{fault.message}, {who}{source}", where, text=text, span=len(text), help=fault.help)


def unknown(instruction: Instruction, file: str, lines: Sequence[str], what: str = "") -> UnknownError:
    where, text = place(file, lines, instruction.line)
    detail = f": {what}" if what else ""
    return UnknownError(
        f"the instruction {instruction.opcode} is not executed by this machine{detail}",
        where,
        text=text,
        span=len(text),
    )
