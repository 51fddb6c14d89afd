"""Global memory behind a kernel's pointers.

Every argument has memory of which those parts are made that are touched, filled with random numbers that
follow from the seed and the place alone, so that two runs see the same. Out-of-bounds parts of a tile read as
zero and are not written, as by TMA.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from zlib import crc32

import numpy as np

from twill.diagnostics import TwillError
from twill.ops.values import Array, Operand, Pointers, bits_of, dtype, of_bits, rounded

_CHUNK = 1 << 16
_ALIGNMENT = 16
"""Of addresses in memory, bytes."""
MOST = 1 << 28
"""Elements of an array at most: a gigabyte of float32."""
CLOSE = 4
"""Parts of an array, one behind the other, that are made together."""
ROOM = 4
"""How many times as much memory is taken as an array needs, so that it may grow: pages that are not touched
cost nothing."""


Kind: TypeAlias = Literal["scales", "codes", "floats"]
"""scales: scale factors, positive floats or exponents. codes: 4-bit floats, two in a byte. floats: bytes that
are also read as floats of several bytes."""
EXPONENT = 127
"""Of a scale factor that is 1 (e8m0)."""


@lru_cache(maxsize=2048)
def _random(seed: int, argument: str, chunk: int, type: str, exact: bool) -> Array:
    """What lies in a part of an argument's memory before a kernel runs; several runs begin with the same."""
    random = np.random.default_rng((seed, crc32(argument.encode()), chunk))
    values: Any
    if type.startswith("i"):
        values = random.integers(0, 3, _CHUNK)
    else:
        values = random.integers(-1, 2, _CHUNK) if exact else random.standard_normal(_CHUNK)
    return rounded(values, type)


def _of_kind(kind: Kind, plain: Array, name: str, place: tuple[int, str, int]) -> Array:
    """A part of an argument's memory with numbers of a kind; `plain` is what would be there without."""
    seed, argument, chunk = place
    random = np.random.default_rng((seed, crc32(argument.encode()), chunk, 2))
    match kind:
        case "codes":
            return random.integers(-128, 128, _CHUNK).astype(plain.dtype)
        case "scales":
            if plain.dtype.kind == "f":
                return np.abs(plain)
            return random.integers(EXPONENT - 3, EXPONENT + 1, _CHUNK).astype(plain.dtype)
        case "floats":
            words = random.integers(0, 64, (_CHUNK // 4, 4)).astype(np.uint8)
            words[:, 3] = 63  # the exponent of numbers around 0.5
            return of_bits(words.reshape(-1), name)


def _stored(values: Array, own: str) -> Array:
    """What elements are in memory, as unsigned integers."""
    bits = bits_of(values, own)
    return bits.view(np.uint8) if bits.dtype == np.bool_ else bits


def _of_stored(stored: Array, name: str) -> Array:
    return stored != 0 if name == "i1" else of_bits(stored, name)


def last_of(argument: str, offsets: Array) -> int:
    """The last of some elements of an argument. Raises TwillError for one before its beginning or too far
    behind it."""
    least, most = int(offsets.min()), int(offsets.max())
    if least < 0 or most >= MOST:
        raise TwillError(
            f"element {least if least < 0 else most} of {argument} is accessed, which the simulator does"
            " not have",
            help="give other scalar arguments (--arg) or another program (--pid)",
        )
    return most


def _chunks(offsets: Array) -> Iterable[int]:
    """The parts of an array that have some elements, and few others."""
    first, last = int(offsets.min()) // _CHUNK, int(offsets.max()) // _CHUNK
    if last - first < CLOSE:
        return range(first, last + 1)
    return map(int, np.unique(offsets // _CHUNK))


def places(within: Array, chunks: Iterable[int]) -> Array:
    """Where elements lie in an array, from their places in some of its parts (`Memory.parts`)."""
    firsts = _CHUNK * np.asarray(sorted(chunks), np.int64)
    return firsts[within // _CHUNK] + within % _CHUNK


def _span(chunk: int) -> slice:
    return slice(chunk * _CHUNK, (chunk + 1) * _CHUNK)


def _bytes(name: str) -> int:
    """That an element takes in memory."""
    return _stored(np.zeros(1, dtype(name)), name).itemsize


@dataclass(frozen=True, slots=True)
class Fill:
    """The contents of an array of integers: element i is `start + step * i`, and a random number below
    `spread` more. In each `run` of elements they lie in random order."""

    start: int
    step: int
    spread: int = 1
    run: int = 1


@lru_cache(maxsize=256)
def _by_fill(fill: Fill, seed: int, argument: str, chunk: int, type: str) -> Array:
    """A part of an argument's memory with the contents of an array of integers."""
    random = np.random.default_rng((seed, crc32(argument.encode()), chunk, 3))
    places: Any = np.arange(chunk * _CHUNK, (chunk + 1) * _CHUNK)
    if fill.run > 1:
        places = random.permuted(places.reshape(-1, fill.run), axis=1).reshape(-1)
    more: Any = random.integers(0, fill.spread, _CHUNK) if fill.spread > 1 else 0
    return rounded(fill.start + fill.step * places + more, type)


@dataclass(slots=True)
class Memory:
    """The arrays behind the pointer arguments, by name."""

    types: dict[str, str]
    """Element type of each argument's memory."""
    seed: int = 0
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    """As far as they are touched; zeros in the parts between that are not."""
    made: dict[str, set[int]] = field(default_factory=lambda: defaultdict[str, set[int]](set))
    """The parts of each array that are made: a program may touch few of what lies between its first element
    and its last."""
    room: dict[str, Array] = field(default_factory=dict[str, Array])
    """What the arrays are the first parts of."""
    written: set[str] = field(default_factory=set[str])
    """Arguments whose memory is written to."""
    addresses: frozenset[str] = frozenset()
    """Arguments whose memory holds addresses: no two of its numbers are the same."""
    fills: Mapping[str, Fill] = field(default_factory=dict[str, Fill])
    """What arrays hold that are not filled at random."""
    kinds: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    """Arguments whose numbers are of a kind of their own (`twill.simulate.number_kinds`)."""
    undefined: set[str] = field(default_factory=set[str])
    """Why numbers of this run follow from what Triton does not define, if any do."""
    exact: bool = False
    """Floats are -1, 0 and 1: their products, and sums of some hundred, are exact in every type."""

    def pointed(self, number: int, type: str) -> Pointers:
        """An address as a pointer to an array of its own."""
        name = f"*{number}"
        self.types.setdefault(name, type)
        return Pointers(name, np.asarray(0, np.int64))

    def array(self, argument: str, size: int) -> Array:
        """The memory of an argument, at least `size` elements of it, with all of its parts."""
        have = self._grown(argument, size)
        self._make(argument, range(len(have) // _CHUNK))
        return have

    def reaching(self, argument: str, offsets: Array) -> Array:
        """The memory of an argument, with all of these elements. Raises TwillError for one before its
        beginning or too far behind it."""
        have = self._grown(argument, last_of(argument, offsets) + 1)
        self._make(argument, _chunks(offsets))
        return have

    def parts(self, argument: str, chunks: Iterable[int]) -> Array:
        """These parts of the memory of an argument, one behind the other."""
        wanted = sorted(chunks)
        have = self._grown(argument, (wanted[-1] + 1) * _CHUNK if wanted else 0)
        self._make(argument, wanted)
        return np.concatenate([have[:0], *(have[_span(chunk)] for chunk in wanted)])

    def _grown(self, argument: str, size: int) -> Array:
        """With room for at least `size` elements."""
        have = self.arrays.get(argument, np.zeros(0, dtype(self.types[argument])))
        if len(have) >= size:
            return have
        last = -(-max(size, len(have) * 5 // 4) // _CHUNK) * _CHUNK
        if last > len(self.room.get(argument, ())):
            room = self.room[argument] = np.zeros(ROOM * last, have.dtype)
            for chunk in self.made[argument]:
                room[_span(chunk)] = have[_span(chunk)]
        grown = self.arrays[argument] = self.room[argument][:last]
        return grown

    def _make(self, argument: str, chunks: Iterable[int]) -> None:
        """Fill parts of the memory of an argument that are not made yet."""
        made, have = self.made[argument], self.arrays.get(argument)
        for chunk in chunks:
            if have is not None and chunk not in made:
                have[_span(chunk)] = self._fresh(argument, chunk)
                made.add(chunk)

    def elements(self, argument: str, offsets: Array) -> Array:
        """What lies at these places. Raises what `reaching` raises."""
        return self.reaching(argument, offsets)[offsets]

    def _fresh(self, argument: str, chunk: int) -> Array:
        if argument in self.addresses:
            first = ((crc32(argument.encode()) << 20) + chunk * _CHUNK) * _ALIGNMENT
            return first + _ALIGNMENT * np.arange(_CHUNK, dtype=np.int64)
        if fill := self.fills.get(argument):
            return _by_fill(fill, self.seed, argument, chunk, self.types[argument])
        plain = _random(self.seed, argument, chunk, self.types[argument], self.exact)
        what = self.kinds.get(argument)
        return (
            plain
            if what is None
            else _of_kind(what, plain, self.types[argument], (self.seed, argument, chunk))
        )

    def read(self, pointers: Pointers, offsets: Array, mask: Array | None, other: Operand = 0) -> Array:
        """Elements at `offsets` where `mask` holds, `other` elsewhere."""
        flat = np.asarray(offsets, np.int64)
        valid = np.broadcast_to(True if mask is None else mask, flat.shape)
        if not valid.any():
            return np.full(flat.shape, other, dtype(pointers.seen_as or self.types[pointers.argument]))
        own = self.types[pointers.argument]
        seen_as = pointers.seen_as or own
        if seen_as == own:
            last_of(pointers.argument, flat[valid])
            found = self.elements(pointers.argument, np.where(valid, flat, 0))
        else:
            found = np.zeros(flat.shape, dtype(seen_as))
            found[valid] = self._seen(pointers.argument, flat[valid], seen_as)
        return np.where(valid, found, np.asarray(other, found.dtype))

    def _seen(self, argument: str, flat: Array, name: str) -> Array:
        """Elements of another type than the array has, by the bytes that they take in memory; `flat` counts
        elements of that type."""
        own = self.types[argument]
        size, wanted = _bytes(own), _bytes(name)
        places = _parts(flat, size, wanted)
        stored = _stored(self.elements(argument, places), own)
        if wanted >= size:
            return _of_stored(stored.view(f"uint{8 * wanted}")[:, 0], name)
        parts = stored.view(f"uint{8 * wanted}")
        return _of_stored(parts[np.arange(len(flat)), flat % (size // wanted)], name)

    def _replace(self, argument: str, flat: Array, new: Array, name: str) -> None:
        """Store elements of another type than the array has."""
        own = self.types[argument]
        size, wanted = _bytes(own), _bytes(name)
        places, stored = _parts(flat, size, wanted), _stored(new, name)
        array = self.reaching(argument, places)
        if wanted >= size:
            array[places] = _of_stored(stored[:, None].view(f"uint{8 * size}"), own)
            return
        changed, which = np.unique(places[:, 0], return_inverse=True)
        parts = _stored(array[changed][:, None], own).view(f"uint{8 * wanted}")
        parts[which, flat % (size // wanted)] = stored
        array[changed] = _of_stored(parts.view(f"uint{8 * size}")[:, 0], own)

    def write(
        self, pointers: Pointers, offsets: Array, values: Array, mask: Array | None, *, add: bool = False
    ) -> None:
        """Store, or add to, the elements at `offsets` where `mask` holds."""
        flat = np.asarray(offsets, np.int64)
        valid = np.broadcast_to(True if mask is None else mask, flat.shape)
        if not valid.any():
            return
        self.written.add(pointers.argument)
        own = self.types[pointers.argument]
        seen_as = pointers.seen_as or own
        new = rounded(np.broadcast_to(values, flat.shape)[valid], seen_as)
        if seen_as != own:
            if add:
                raise TwillError(f"adding to {pointers.argument} as {seen_as} can not be simulated")
            self._replace(pointers.argument, flat[valid], new, seen_as)
            return
        array = self.reaching(pointers.argument, flat[valid])
        if add:
            np.add.at(array, flat[valid], new)
        else:
            array[flat[valid]] = new


class Unwritten(Memory):
    """Memory that is only read: of what lies far apart, only the parts that are read are made."""

    __slots__ = ()

    def elements(self, argument: str, offsets: Array) -> Array:
        last_of(argument, offsets)
        chunks, within = np.divmod(offsets, _CHUNK)
        touched, which = np.unique(chunks, return_inverse=True)
        parts = (self._fresh(argument, int(chunk)) for chunk in touched)
        held = np.concatenate([np.zeros(0, dtype(self.types[argument])), *parts])
        return held[which.reshape(offsets.shape) * _CHUNK + within]


def _parts(flat: Array, size: int, wanted: int) -> Array:
    """The elements of `size` bytes that hold each element of `wanted` bytes: several, or one."""
    if wanted < size:
        return (flat * wanted // size)[:, None]
    return (flat * (wanted // size))[:, None] + np.arange(wanted // size)
