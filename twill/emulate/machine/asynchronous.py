"""Asynchronous operations: copies and MMAs that were issued and have not completed.

An operation completes when a wait requires it, when no warp can progress, or, by seed, at any time before:
the memory model allows each of these moments. It reads its operands at that moment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Operation:
    """One copy."""

    act: Callable[[], None]
    line: int
    """PTX line of its issue."""
    what: str
    done: bool = False

    def complete(self) -> None:
        if not self.done:
            self.done = True
            self.act()


@dataclass(slots=True)
class Pending:
    """Operations of a cluster that are in flight and complete without a wait."""

    operations: list[Operation] = field(default_factory=list[Operation])

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)

    def tidy(self) -> None:
        self.operations = [one for one in self.operations if not one.done]


@dataclass(slots=True)
class Groups:
    """Operations that a warp commits in groups and waits for by number."""

    open: list[Operation] = field(default_factory=list[Operation])
    committed: list[tuple[int, list[Operation]]] = field(default_factory=list[tuple[int, list[Operation]]])
    count: int = 0
    """Groups ever committed."""

    def commit(self) -> None:
        self.count += 1
        self.committed.append((self.count, self.open))
        self.open = []

    def wait(self, pending: int) -> int:
        """Completes all but the last `pending` groups; the number of the last that is complete."""
        while len(self.committed) > pending:
            _, operations = self.committed.pop(0)
            for one in operations:
                one.complete()
        return self.count - len(self.committed)
