"""Asynchronous operations: copies and MMAs that were issued and have not completed.

An operation completes when a wait requires it, when no warp can progress, or, by seed, at any time before:
the memory model allows each of these moments. It reads its operands at that moment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from twill.emulate.numeric.rounding import Array


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


class Store(Operation):
    """A copy from shared to global memory. It reads at any moment before the wait for that, and writes at any
    moment from then on."""

    __slots__ = ("_data", "_read", "_write")

    def __init__(
        self, read: Callable[[], Array], write: Callable[[Array], None], line: int, what: str
    ) -> None:
        super().__init__(self._carried_out, line, what)
        self._read, self._write = read, write
        self._data: Array | None = None

    @property
    def reads(self) -> bool:
        """It still reads shared memory."""
        return self._data is None and not self.done

    def read(self) -> None:
        if self.reads:
            self._data = self._read()

    def _carried_out(self) -> None:
        self._write(self._read() if self._data is None else self._data)


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
    """Stores that a thread commits in groups and waits for by number."""

    open: list[Store] = field(default_factory=list[Store])
    committed: list[tuple[int, list[Store]]] = field(default_factory=list[tuple[int, list[Store]]])
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

    def read(self, pending: int) -> int:
        """Lets all but the last `pending` groups read their operands; the number of the last that has."""
        for _, operations in self.committed[: max(0, len(self.committed) - pending)]:
            for one in operations:
                one.read()
        return self.count - min(pending, len(self.committed))
