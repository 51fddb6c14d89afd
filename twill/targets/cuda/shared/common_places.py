"""Where a tile lies in shared memory between two layouts, so that threads move several elements at once.

A tile that lies row by row is written and read element by element wherever a thread's elements are no
neighbours of a row: tiles of three dimensions, for instance. Its elements may lie in any order, though: those
that a thread holds before and behind the exchange side by side, and the next bits such that lanes meet in no
bank, before or behind (Zhou et al., "Linear Layouts", 2025, optimal swizzling). Takes two layouts; gives the
order, as a basis over bits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from twill.ir.loop import Bases
from twill.targets.cuda.registers.linear_tiles import Basis, Point, Spread, flattened
from twill.targets.cuda.shared.bank_conflicts import BANKS, LANES, WORD, passes

ACCESS = 16
"""Bytes that a thread accesses at once."""


@dataclass(frozen=True, slots=True)
class Side:
    """How threads access a tile: its layout with registers that lie side by side first, and how many."""

    form: Spread
    many: int


@dataclass(frozen=True, slots=True)
class Places:
    """The order of a tile's elements: which of them lie at the powers of two."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    size: int
    """Bytes of an element."""

    def side(self, form: Spread) -> Side:
        """How threads in a layout access it."""
        own = {self._flat(vector): vector for vector in form.register}
        most = len(list(takewhile(own.__contains__, self.order[: (ACCESS // self.size).bit_length() - 1])))
        for count in range(most, -1, -1):
            first = tuple(own[place] for place in self.order[:count])
            others = tuple(vector for vector in form.register if vector not in first)
            apart = _all(map(self._place, (*others, *form.lane, *form.warp)))
            if apart % (1 << count) == 0:  # what lies side by side begins at a multiple
                return Side(replace(form, register=(*first, *others)), 1 << count)
        raise AssertionError("one element lies anywhere")

    def address(self, point: Point) -> str:
        """Bytes to an element. What a register adds to the place of a thread is known to the compiler where
        it flips no bit of that."""
        placed = point.map((1 << len(self.order),), lambda vector: (self._place(vector),))
        flips = _all(at for (at,) in chain(placed.lane, placed.warp))
        while (more := flips | _all(at for (at,) in placed.register if at & flips)) != flips:
            flips = more
        added, flipped = (
            tuple(vector if bool(vector[0] & flips) == own else (0,) for vector in placed.register)
            for own in (False, True)
        )
        here = replace(placed, register=flipped).flat()
        away = replace(placed, register=added, lane=(), warp=()).flat()
        return f"({here} + {away}) * {self.size}" if away != "0" else f"{here} * {self.size}"

    def cost(self, *forms: Spread) -> int:
        """Passes over the banks and instructions of a warp that accesses it in layouts, one after another."""
        found = 0
        for side in map(self.side, forms):
            starts = [0]
            for vector in side.form.lane:
                starts += [at ^ self._place(vector) * self.size for at in starts]
            count = side.form.registers // side.many
            found += count * (1 + passes(side.many * self.size, starts[:LANES]))
        return found

    def _flat(self, vector: tuple[int, ...]) -> int:
        return flattened(vector, self.shape)

    def _place(self, vector: tuple[int, ...]) -> int:
        found = Basis.of(self.order).coordinates(self._flat(vector))
        assert found is not None
        return found


def common_places(source: Spread, result: Spread, size: int) -> Places | None:
    """The best order for an exchange of elements of `size` bytes; None where none is better than row by row,
    or a layout holds elements more than once in a thread."""
    written, read = (_flat(form.register, form) for form in (source, result))
    for own in (written, read):
        if len(_independent(own)) != len(own):
            return None
    shared = [at for at in written if at in read]
    plain = Places(source.shape, tuple(1 << k for k in range(_flat_size(source))), size)
    firsts = [shared, [*shared, *(at for at in read if at not in shared)]]
    firsts.append([*shared, *(at for at in written if at not in shared)])
    most = (ACCESS // size).bit_length() - 1
    tried = [plain, *(_ordered(first[:most], source, result, size) for first in firsts)]
    best = min(tried, key=lambda one: one.cost(source, result))
    return None if best is plain else best


def _ordered(first: list[int], source: Spread, result: Spread, size: int) -> Places:
    """Elements `first` side by side. The lanes that access the banks at once, of one layout and of the other,
    differ in bits that choose a bank: the bits above vanish in no combination of either's lanes, since each
    is a sum of one of both."""
    count = (BANKS * WORD // (size << len(first))).bit_length() - 1
    written, read = (_independent(_flat(form.lane[:count], form), first) for form in (source, result))
    joint = _independent(
        [at for at in _combinations(written) if not _independent([at], [*first, *read])], first
    )
    one, other = (_independent(own, [*first, *joint]) for own in (written, read))
    banks = [*joint, *one, *other[len(one) :]]
    above = [a ^ b for a, b in zip(one, other, strict=False)]
    rest = _independent(
        [*_flat(source.register, source), *(1 << k for k in range(_flat_size(source)))],
        [*first, *banks, *above],
    )
    left = max(0, count - len(banks))
    return Places(source.shape, (*first, *banks, *rest[:left], *above, *rest[left:]), size)


def _flat(vectors: Bases, form: Spread) -> list[int]:
    return [flattened(vector, form.shape) for vector in vectors]


def _flat_size(form: Spread) -> int:
    """Bits of the number of an element."""
    return sum(size.bit_length() - 1 for size in form.shape)


def _independent(vectors: Iterable[int], of: Sequence[int] = ()) -> list[int]:
    """Those that no combination of the ones before them makes, nor of the vectors `of`."""
    found = list[int]()
    for vector in vectors:
        if Basis.of([*of, *found]).reduced(vector)[0]:
            found.append(vector)
    return found


def _combinations(vectors: Sequence[int]) -> list[int]:
    found = [0]
    for vector in vectors:
        found += [at ^ vector for at in found]
    return found[1:]


def _all(images: Iterable[int]) -> int:
    """The bits that one of them has."""
    total = 0
    for image in images:
        total |= image
    return total
