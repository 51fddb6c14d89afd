"""Names of sub-tiles.

Takes a `Division`; gives the name of each value's parts: `%acc` becomes `%acc_s0` and `%acc_s1`. Results of
control flow are numbered anew, since one loop or branch then has more of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from re import search

from twill.extract.rewrite.subtile.dimensions import Cut
from twill.extract.rewrite.subtile.division import WHOLE, Division, Facts, free_cuts
from twill.ir.loop import Op, Value
from twill.ops.table import role


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the parts of values."""

    made: Division
    suffix: str
    numbered: Mapping[int, tuple[str, ...]]
    """The parts of each result of a loop or branch that has divided ones, by id of the value."""
    shared: frozenset[tuple[int, int]]
    """The values, with the dimension, whose parts are all alike: one is made for all sub-tiles."""

    def part(self, value: Value, dim: int | None, number: int) -> str:
        """Of a value that an operation reads, or makes, divided along `dim`; None for the whole value."""
        if value.id in self.numbered:
            parts = self.numbered[value.id]
            return parts[min(number, len(parts) - 1)]
        base, mark, position = value.name.partition("#")
        base = f"%_{base[1:]}" if base[1:].isdecimal() else base  # MLIR has no %12_s0
        if value.id in self.made.dims or value.id in self.made.tokens:
            return f"{base}{self.suffix}{number}{mark}{position}"
        if dim is None or dim == WHOLE or value.producer is None:
            return value.name
        several = len(self.made.needs.get(value.id, frozenset[int | None]()) - {None}) > 1
        along = f"{dim}_" if several else ""
        which = "" if (value.id, dim) in self.shared else str(number)
        return f"{base}{self.suffix}{along}{which}{mark}{position}"

    def parts(self, value: Value) -> list[str]:
        """All parts of a value that control flow carries; the value itself where it is whole."""
        dim = self.made.dims.get(value.id)
        return [self.part(value, dim, i) for i in range(self.count(value))]

    def count(self, value: Value) -> int:
        divided = value.id in self.made.dims or value.id in self.made.tokens
        return self.made.count if divided else 1


def names(known: Facts, made: Division) -> Names:
    text, suffix = known.module.text, "_s"
    while search(rf"%[\w$.-]*{suffix}\d*(?![\w$.-])", text):
        suffix += "_"
    numbered = dict[int, tuple[str, ...]]()
    for op in known.ops:
        if role(op) in ("for", "if"):
            numbered.update(_numbered(op, made))
    return Names(made, suffix, numbered, _shared(known, made))


def _numbered(op: Op, made: Division) -> Iterator[tuple[int, tuple[str, ...]]]:
    counts = [made.count if value.id in made.dims or value.id in made.tokens else 1 for value in op.results]
    if made.count in counts:
        firsts = accumulate(counts, initial=0)
        for value, count, first in zip(op.results, counts, firsts, strict=False):
            base = value.name.partition("#")[0]
            yield value.id, tuple(f"{base}#{first + i}" for i in range(count))


def _shared(known: Facts, made: Division) -> frozenset[tuple[int, int]]:
    found = set[tuple[int, int]]()
    free = (op for op in known.ops if any(value.id in known.free for value in op.results))
    for op, cut in ((one, cut) for one in free for cut in free_cuts(one, made.needs)):
        if cut is not None and _alike(op, cut, found):
            found |= {(op.results[-1 - slot].id, dim) for slot, dim in cut.dims if slot < 0}
    return frozenset(found)


def _alike(op: Op, cut: Cut, shared: set[tuple[int, int]]) -> bool:
    """Whether every sub-tile of an operation on indices and constants is the same."""
    read = ((op.operands[slot].id, dim) for slot, dim in cut.dims if slot >= 0)
    return role(op) != "range" and all(one in shared for one in read)
