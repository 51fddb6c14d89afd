"""What the verifier says: one `Violation` for every broken instance of a rule."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule (named as in `twill.ir.problem`'s docstrings), who breaks it, and by how much."""

    rule: str
    message: str
    ops: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    needs: int | None = None
    has: int | None = None

    def __str__(self) -> str:
        numbers = "" if self.needs is None else f" (needs {self.needs}, has {self.has})"
        return f"{self.rule}: {self.message}{numbers}"
