"""Global memory behind a kernel's pointers.

Every argument has memory that grows where it is touched, filled with random numbers that follow from the seed
and the place alone, so that two runs see the same. Out-of-bounds parts of a tile read as zero and are not
written, as by TMA.
"""

from collections.abc import Mapping
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


BlockScaled: TypeAlias = Literal["scales", "codes"]
"""scales: scale factors, positive floats or exponents. codes: 4-bit floats, two in a byte."""
EXPONENT = 127
"""Of a scale factor that is 1 (e8m0)."""


@lru_cache(maxsize=512)
def _random(seed: int, argument: str, chunk: int, type: str, exact: bool) -> Array:
    """What lies in a part of an argument's memory before a kernel runs; several runs begin with the same."""
    random = np.random.default_rng((seed, crc32(argument.encode()), chunk))
    values: Any
    if type.startswith("i"):
        values = random.integers(0, 3, _CHUNK)
    else:
        values = random.integers(-1, 2, _CHUNK) if exact else random.standard_normal(_CHUNK)
    return rounded(values, type)


def _seen(values: Array, own: str, other: str) -> Array:
    """Elements of one type as those of another, by the bytes that they take in memory."""
    bits = bits_of(values, own)
    stored = bits.view(np.uint8) if bits.dtype == np.bool_ else bits
    return stored != 0 if other == "i1" else of_bits(stored, other)


@dataclass(frozen=True, slots=True)
class Fill:
    """The contents of an array of integers: element i is `start + step * i`, and a random number below
    `spread` more. In each `run` of elements they lie in random order."""

    start: int
    step: int
    spread: int = 1
    run: int = 1


@dataclass(slots=True)
class Memory:
    """The arrays behind the pointer arguments, by name."""

    types: dict[str, str]
    """Element type of each argument's memory."""
    seed: int = 0
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    addresses: frozenset[str] = frozenset()
    """Arguments whose memory holds addresses: no two of its numbers are the same."""
    fills: Mapping[str, Fill] = field(default_factory=dict[str, Fill])
    """What arrays hold that are not filled at random."""
    block_scaled: Mapping[str, BlockScaled] = field(default_factory=dict[str, BlockScaled])
    """Arguments with operands of block-scaled MMAs."""
    exact: bool = False
    """Floats are -1, 0 and 1: their products, and sums of some hundred, are exact in every type."""

    def pointed(self, number: int, type: str) -> Pointers:
        """An address as a pointer to an array of its own."""
        name = f"*{number}"
        self.types.setdefault(name, type)
        return Pointers(name, np.asarray(0, np.int64))

    def array(self, argument: str, size: int) -> Array:
        """The memory of an argument, at least `size` elements of it."""
        have = self.arrays.get(argument, np.zeros(0, dtype(self.types[argument])))
        if len(have) < size:
            last = -(-max(size, len(have) * 5 // 4) // _CHUNK)
            more = (self._fresh(argument, chunk) for chunk in range(len(have) // _CHUNK, last))
            have = self.arrays[argument] = np.concatenate([have, *more])
        return have

    def reaching(self, argument: str, offsets: Array) -> Array:
        """The memory of an argument, with all of these elements. Raises TwillError for one before its
        beginning or too far behind it."""
        least, most = int(offsets.min()), int(offsets.max())
        if least < 0 or most >= MOST:
            raise TwillError(
                f"element {least if least < 0 else most} of {argument} is accessed, which the simulator does"
                " not have",
                help="give other scalar arguments (--arg) or another program (--pid)",
            )
        return self.array(argument, most + 1)

    def _fresh(self, argument: str, chunk: int) -> Array:
        if argument in self.addresses:
            first = ((crc32(argument.encode()) << 20) + chunk * _CHUNK) * _ALIGNMENT
            return first + _ALIGNMENT * np.arange(_CHUNK, dtype=np.int64)
        if fill := self.fills.get(argument):
            random = np.random.default_rng((self.seed, crc32(argument.encode()), chunk, 3))
            places: Any = np.arange(chunk * _CHUNK, (chunk + 1) * _CHUNK)
            if fill.run > 1:
                places = random.permuted(places.reshape(-1, fill.run), axis=1).reshape(-1)
            more: Any = random.integers(0, fill.spread, _CHUNK) if fill.spread > 1 else 0
            return rounded(fill.start + fill.step * places + more, self.types[argument])
        plain = _random(self.seed, argument, chunk, self.types[argument], self.exact)
        if what := self.block_scaled.get(argument):
            random = np.random.default_rng((self.seed, crc32(argument.encode()), chunk, 2))
            low, high = (-128, 128) if what == "codes" else (EXPONENT - 3, EXPONENT + 1)
            whole = random.integers(low, high, _CHUNK).astype(plain.dtype)
            return np.abs(plain) if plain.dtype.kind == "f" else whole
        return plain

    def read(self, pointers: Pointers, offsets: Array, mask: Array | None, other: Operand = 0) -> Array:
        """Elements at `offsets` where `mask` holds, `other` elsewhere."""
        flat = np.asarray(offsets, np.int64)
        valid = np.broadcast_to(True if mask is None else mask, flat.shape)
        if not valid.any():
            return np.full(flat.shape, other, dtype(pointers.seen_as or self.types[pointers.argument]))
        array = self.reaching(pointers.argument, flat[valid])
        found = array[np.where(valid, flat, 0)]
        if pointers.seen_as:
            found = _seen(found, self.types[pointers.argument], pointers.seen_as)
        return np.where(valid, found, np.asarray(other, found.dtype))

    def write(
        self, pointers: Pointers, offsets: Array, values: Array, mask: Array | None, *, add: bool = False
    ) -> None:
        """Store, or add to, the elements at `offsets` where `mask` holds."""
        flat = np.asarray(offsets, np.int64)
        valid = np.broadcast_to(True if mask is None else mask, flat.shape)
        if not valid.any():
            return
        array = self.reaching(pointers.argument, flat[valid])
        own = self.types[pointers.argument]
        seen_as = pointers.seen_as or own
        new = rounded(np.broadcast_to(values, flat.shape)[valid], seen_as)
        if add and seen_as == own:
            np.add.at(array, flat[valid], new)
        elif add:
            raise TwillError(f"adding to {pointers.argument} as {seen_as} can not be simulated")
        else:
            array[flat[valid]] = new if seen_as == own else _seen(new, seen_as, own)
