"""Reads of one slot by several statements, awaited together.

Reads of a slot that TMA fills again are awaited before the slot is released (`await_reads` of the runtime).
Where several statements read the same tile, each would wait for its own reads, and the compiler could not
read the tile once for all. So each joins what it has read to a word, which is awaited behind the last of
them. Takes statements in order; gives where such words are declared, awaited, and used.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from twill.ir.operands import Slot
from twill.ir.statements import SLICES, Compute, Statement


@dataclass(frozen=True, slots=True)
class Together:
    """Statements, by their positions, that read the same tile of a slot one behind the other."""

    slot: Slot
    statements: tuple[int, ...]

    def word(self, number: int) -> str:
        """The variable of what they have read."""
        return f"gathered{number}_"


def together(statements: Sequence[Statement], awaited: Callable[[Compute, Slot], bool]) -> list[Together]:
    """Runs of whole operations alone: what else stands between them may release a slot. `awaited`: reads of a
    slot are, at the end of the statement."""
    found = list[Together]()
    for run in _runs(statements):
        reading = dict[Slot, list[int]]()
        for position in run:
            one = statements[position]
            assert isinstance(one, Compute)
            for slot in {read.location: None for read in one.reads if isinstance(read.location, Slot)}:
                if awaited(one, slot):
                    reading.setdefault(slot, []).append(position)
        found += [Together(slot, tuple(some)) for slot, some in reading.items() if len(some) > 1]
    return found


def _runs(statements: Sequence[Statement]) -> Iterator[list[int]]:
    run = list[int]()
    for position, one in enumerate(statements):
        if isinstance(one, Compute) and not one.slots and (one.begin, one.end) == (0, SLICES):
            run.append(position)
        elif run:
            yield run
            run = []
    if run:
        yield run
