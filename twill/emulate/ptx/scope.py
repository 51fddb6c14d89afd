"""The names of a PTX function: registers, variables and labels by block."""

from dataclasses import dataclass, field

from twill.emulate.ptx.syntax import (
    Register,
    Variable,
)


@dataclass(slots=True)
class Scope:
    """The names of a { } block of a function."""

    parent: "Scope | None"
    names: dict[str, Register | Variable] = field(default_factory=dict[str, "Register | Variable"])
    ranges: dict[str, tuple[int, int, int]] = field(default_factory=dict[str, tuple[int, int, int]])
    """%r<8>: bits, first index, how many."""
    labels: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Labels of a .branchtargets by its name."""

    def find(self, name: str) -> Register | Variable | None:
        scope: Scope | None = self
        prefix = name.rstrip("0123456789")
        while scope:
            if found := scope.names.get(name):
                return found
            if (span := scope.ranges.get(prefix)) and prefix != name and int(name[len(prefix) :]) < span[2]:
                return Register(name, span[0], span[1] + int(name[len(prefix) :]))
            scope = scope.parent
        return None

    def table(self, name: str) -> tuple[str, ...]:
        return self.tables.get(name) or (self.parent.table(name) if self.parent else ())

    def label(self, name: str) -> int | None:
        scope: Scope | None = self
        while scope:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None
