"""Tiles of any rank and layout, spread over the threads of a group as a linear layout says.

Takes TTGIR types; gives `Spread`s, which name the element that each register of each thread holds, and the C
expressions for its coordinates. A linear layout maps the bits of the register, lane and warp numbers to
coordinates by exclusive or (Zhou et al., "Linear Layouts", 2025). Everything that moves nothing,
`expand_dims`, `broadcast`, `trans`, `reshape`, `join`, `split`, is a map from a point of the result to a
point of the operand. Shapes are powers of two.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from twill.ir.distribution import distribution, root
from twill.ir.loop import Bases, DotOperand, Linear, NvidiaMma, Slice, Tensor, Type

Vector = tuple[int, ...]
"""Coordinates of an element, or what one bit of a number adds to them."""


@dataclass(frozen=True, slots=True)
class Point:
    """The element that a thread meets in step `register` of a loop over registers.

    The coordinates are `constant`, exclusive-or, for every bit that is set in the step, the lane or the warp,
    its vector.
    """

    shape: tuple[int, ...]
    register: Bases
    """One vector for each bit of the step."""
    lane: Bases
    warp: Bases
    constant: Vector
    step: str = "i_"
    """C expression of the step, known to the compiler once the loop is unrolled."""

    def map(self, shape: tuple[int, ...], change: Callable[[Vector], Vector]) -> "Point":
        """Another way to count the same elements; `change` is linear."""
        register, lane, warp = (
            tuple(change(vector) for vector in bits) for bits in (self.register, self.lane, self.warp)
        )
        return replace(
            self, shape=shape, register=register, lane=lane, warp=warp, constant=change(self.constant)
        )

    def without(self, axis: int) -> "Point":
        """The element of a tile that was expanded along `axis`."""
        return self.map(_without(self.shape, axis), lambda vector: _without(vector, axis))

    def collapsed(self, shape: tuple[int, ...]) -> "Point":
        """The element of a tile of `shape` that was broadcast: dimensions of size 1 have coordinate 0."""
        return self.map(
            shape,
            lambda vector: tuple(0 if size == 1 else at for at, size in zip(vector, shape, strict=True)),
        )

    def permuted(self, order: Sequence[int]) -> "Point":
        """The element of a tile whose dimension `order[d]` became dimension d."""
        where = [list(order).index(d) for d in range(len(order))]
        return self.map(tuple(self.shape[d] for d in where), lambda vector: tuple(vector[d] for d in where))

    def reshaped(self, shape: tuple[int, ...]) -> "Point":
        """The element of a tile of `shape` at the same place in row-major order."""
        return self.map(shape, lambda vector: unflattened(flattened(vector, self.shape), shape))

    def lines(self) -> "Point":
        """The element of the same tile as two dimensions: all but the last are rows."""
        return self if len(self.shape) <= 2 else self.reshaped((prod(self.shape[:-1]), self.shape[-1]))

    def halved(self, axis: int) -> "Point":
        """The element of a tile that holds two neighbours along `axis` together."""
        shape = tuple(size // 2 if d == axis else size for d, size in enumerate(self.shape))
        return self.map(
            shape, lambda vector: tuple(at >> 1 if d == axis else at for d, at in enumerate(vector))
        )

    def parity(self, axis: int) -> str:
        """C expression of the lowest bit of one coordinate."""
        return _expression(self, lambda vector: vector[axis] & 1)

    def extended(self, last: int, size: int = 2) -> "Point":
        """The element of a tile with one more dimension, of `size`, at `last` in it."""
        longer = self.map((*self.shape, size), lambda vector: (*vector, 0))
        return replace(longer, constant=(*self.constant, last))

    def coordinate(self, axis: int) -> str:
        """C expression of one coordinate, an int32_t."""
        return _expression(self, lambda vector: vector[axis])

    def parts(self) -> tuple["Point", "Point"]:
        """What the step adds to the coordinates, with the constant, and what lane and warp add."""
        here = (0,) * len(self.shape)
        return replace(self, lane=(), warp=()), replace(self, register=(), constant=here)

    def span(self, axis: int) -> int:
        """The bits of one coordinate that are set for some step, lane or warp."""
        total = self.constant[axis]
        for vector in (*self.register, *self.lane, *self.warp):
            total |= vector[axis]
        return total

    def flat(self) -> str:
        """C expression of the element's place in row-major order."""
        return _expression(self, lambda vector: flattened(vector, self.shape))


@dataclass(frozen=True, slots=True)
class Spread:
    """Which elements of a tile each thread of a group holds, one in each register."""

    shape: tuple[int, ...]
    register: Bases
    """A vector for each bit of the register number."""
    lane: Bases
    warp: Bases

    @property
    def registers(self) -> int:
        """Elements that a thread holds."""
        return 1 << len(self.register)

    def spread(self) -> "Spread":
        """Itself, as of the layout of an accumulator the linear one."""
        return self

    def point(self, step: str = "i_") -> Point:
        """The element in register `step`."""
        return Point(self.shape, self.register, self.lane, self.warp, (0,) * len(self.shape), step)

    def index(self, point: Point) -> str:
        """C expression of the register that holds a point.

        Raises ValueError where a lane or warp would need an element that another thread holds.
        """
        basis = Basis.of([flattened(vector, self.shape) for vector in self.register])
        for bits, own in ((point.lane, self.lane), (point.warp, self.warp)):
            if _padded(bits, own, self.shape) != _padded(own, bits, self.shape):
                raise ValueError("its elements lie in other threads")
        images = [basis.coordinates(flattened(vector, self.shape)) for vector in point.register]
        start = basis.coordinates(flattened(point.constant, self.shape))
        if start is None or None in images:
            raise ValueError("its elements lie in other threads")
        return _linear([(point.step, [image or 0 for image in images])], start)

    def along(self, axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The bits of the lane and of the warp that move along `axis`: who shares a row along it.

        Raises ValueError where one of them moves along another dimension too.
        """
        found = tuple(
            tuple(k for k, vector in enumerate(bits) if vector[axis]) for bits in (self.lane, self.warp)
        )
        moved = [bits[k] for bits, own in ((self.lane, found[0]), (self.warp, found[1])) for k in own]
        if any(sum(map(bool, vector)) > 1 for vector in (*moved, *(v for v in self.register if v[axis]))):
            raise ValueError("threads share its rows in a pattern that can not be reduced")
        return found[0], found[1]

    def counted(self, axis: int) -> tuple[tuple[str, int], ...] | None:
        """What counts the coordinate along `axis`, its lowest bit first: bits of the numbers of the register,
        the lane and the warp. None where one of them moves it otherwise than by one bit, or along another
        dimension too, or two move it by the same."""
        kinds = (("register", self.register), ("lane", self.lane), ("warp", self.warp))
        moved = [(vector, (kind, k)) for kind, bits in kinds for k, vector in enumerate(bits) if vector[axis]]
        sizes = sorted((vector[axis], bit) for vector, bit in moved)
        straight = all(sum(map(bool, vector)) == 1 for vector, _ in moved)
        whole = [size for size, _ in sizes] == [1 << k for k in range(self.shape[axis].bit_length() - 1)]
        return tuple(bit for _, bit in sizes) if straight and whole else None

    def neighbours(self, axis: int, most: int) -> int:
        """How many elements along `axis`, `most` at most, lie side by side in consecutive registers, the
        first at a multiple."""
        count = 1
        for k, vector in enumerate(self.register):
            if count >= most or vector != tuple(1 << k if d == axis else 0 for d in range(len(self.shape))):
                break
            count *= 2
        return count

    def exchange(self, axis: int) -> int:
        """Bytes of shared memory through which warps exchange what they reduced along `axis`, 8 for each
        element."""
        _, warps = self.along(axis)
        return 8 * (prod(self.shape) // self.shape[axis] << len(warps)) if warps else 0

    def owner(self) -> str:
        """C condition that holds in one of the threads that hold the same element; "true" where no two do."""
        spare = [
            (name, _mask(bits)) for name, bits in (("thread.lane", self.lane), ("thread.warp", self.warp))
        ]
        return " && ".join(f"({name} & {mask}) == 0" for name, mask in spare if mask) or "true"


def literal(type: Type) -> bool:
    """Whether a tile is held exactly as its encoding says: one in an exact linear layout, a slice of one, or
    an A operand of wgmma whose elements of a thread lie one by one, before they are unpacked in pairs."""
    if not isinstance(type, Tensor):
        return False
    encoding, layout = type.encoding, root(type.encoding)
    while isinstance(encoding, Slice):
        encoding = encoding.parent
    match encoding:
        case DotOperand(0, NvidiaMma(), 1):
            return True
        case _:
            return isinstance(layout, Linear) and layout.exact


def spread(type: Tensor) -> Spread:
    """How its encoding spreads a tile. Raises ValueError for an encoding that is not known."""
    made = distribution(type.encoding, type.shape)
    if made is None or any(size & (size - 1) for size in type.shape):
        raise ValueError(f"a tile of {type.shape} in layout {type.encoding} can not be generated")
    return Spread(type.shape, made.register, made.lane, made.warp)


def flattened(vector: Vector, shape: tuple[int, ...]) -> int:
    """Row-major place of an element."""
    place = 0
    for at, size in zip(vector, shape, strict=True):
        place = place * size + at
    return place


def unflattened(place: int, shape: tuple[int, ...]) -> Vector:
    """The element at a row-major place."""
    found = list[int]()
    for size in reversed(shape):
        place, at = divmod(place, size)
        found.append(at)
    return tuple(reversed(found))


def _without(vector: Vector, axis: int) -> Vector:
    return (*vector[:axis], *vector[axis + 1 :])


def _padded(bits: Bases, other: Bases, shape: tuple[int, ...]) -> list[Vector]:
    """With zero vectors for the bits that only the other has."""
    return [*bits, *[(0,) * len(shape)] * max(0, len(other) - len(bits))]


def _mask(bits: Bases) -> int:
    """The bits that move nothing: threads that differ in them alone hold the same elements."""
    return sum(1 << k for k, vector in enumerate(bits) if not any(vector))


# --- linear algebra over bits -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Basis:
    """Row-reduced vectors, as integers, each with the combination of the given vectors that it is."""

    rows: tuple[tuple[int, int], ...]

    @staticmethod
    def of(vectors: Iterable[int]) -> "Basis":
        basis = Basis(())
        for k, vector in enumerate(vectors):
            rest, combination = basis.reduced(vector)
            if rest:
                basis = Basis(tuple(sorted((*basis.rows, (rest, combination ^ 1 << k)), reverse=True)))
        return basis

    def reduced(self, vector: int) -> tuple[int, int]:
        """What is left of a vector, and the given vectors taken from it, as bits."""
        combination = 0
        for row, own in self.rows:
            if vector ^ row < vector:
                vector, combination = vector ^ row, combination ^ own
        return vector, combination

    def coordinates(self, vector: int) -> int | None:
        """Which of the given vectors make it, as bits; None where they do not."""
        rest, combination = self.reduced(vector)
        return None if rest else combination


# --- expressions ------------------------------------------------------------------------------------------


def _expression(point: Point, value: Callable[[Vector], int]) -> str:
    parts = [(point.step, point.register), ("thread.lane", point.lane), ("thread.warp", point.warp)]
    return _linear(
        [(name, [value(vector) for vector in bits]) for name, bits in parts], value(point.constant)
    )


def _linear(inputs: Sequence[tuple[str, Sequence[int]]], constant: int) -> str:
    """The exclusive or of a constant and, for each input, of the images of its bits. Sums where no two share
    a bit."""
    terms = [term for name, images in inputs for term in _terms(name, images)]
    images = [image for _, images in inputs for image in images if image]
    overlap = sum(images) + constant != _joined([*images, constant])
    parts = [*terms, *([str(constant)] if constant else [])]
    return f"({(' ^ ' if overlap else ' + ').join(parts)})" if parts else "0"


def _joined(images: Iterable[int]) -> int:
    """The exclusive or of all."""
    total = 0
    for image in images:
        total ^= image
    return total


def _terms(name: str, images: Sequence[int]) -> list[str]:
    """One term for each run of bits whose images double from bit to bit."""
    used = [k for k, image in enumerate(images) if image]
    starts = [k for k in used if not (k and images[k - 1] and images[k] == 2 * images[k - 1])]
    found = list[str]()
    for start, after in pairwise([*starts, len(images)]):
        width = next((k for k in range(start + 1, after) if not images[k]), after) - start
        bits = name if not start else f"({name} >> {start})"
        whole = start + width == len(images) and name != "thread.warp"
        field = f"({bits} & {(1 << width) - 1})" if not whole or start else f"({name} & {(1 << width) - 1})"
        found.append(field if images[start] == 1 else f"{field} * {images[start]}")
    return found
