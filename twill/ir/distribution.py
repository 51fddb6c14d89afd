"""How a tile is spread over the registers of a group's threads, as a linear layout.

Takes an encoding and a shape; gives the basis vectors of registers, lanes and warps. A zero vector means
replication: that lane or warp holds the same elements as its neighbour. Registers that would only repeat
others are left out, as the compiler leaves them out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from twill.ir.loop import Bases, Blocked, DotOperand, Encoding, Linear, NvidiaMma, Slice

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """Where each bit of the register, lane and warp number moves the element a thread holds."""

    register: Bases
    lane: Bases
    warp: Bases
    repeats: Shape = ()
    """By dimension, how many times registers repeat all this: the odd part of a size that is no power of two.
    Empty where every size is one."""

    @property
    def per_thread(self) -> int:
        """Elements in the registers of one thread."""
        return prod(self.repeats) << len(self.register)

    @property
    def held(self) -> int:
        """Elements that all threads hold together, replicas counted."""
        return self.per_thread << (len(self.lane) + len(self.warp))

    def serial_along(self, axis: int) -> int:
        """Elements of one row along `axis` that a thread holds."""
        repeats = self.repeats[axis] if self.repeats else 1
        return repeats << sum(1 for basis in self.register if basis[axis])

    def side_by_side(self, axis: int) -> int:
        """Elements along `axis` that a thread holds side by side in consecutive registers."""
        count = 1
        for basis in self.register:
            if basis != tuple(count if d == axis else 0 for d in range(len(basis))):
                break
            count *= 2
        return count

    def lanes_along(self, axis: int) -> int:
        """log2 of how many lanes of a warp share one row along `axis`."""
        return sum(1 for basis in self.lane if basis[axis])

    def warps_along(self, axis: int) -> int:
        """log2 of how many warps share one row along `axis`."""
        return sum(1 for basis in self.warp if basis[axis])

    def moves_nothing_to(self, other: "Distribution") -> bool:
        """Every thread already holds what it holds in `other`, if in other registers."""
        return (
            self.lane == other.lane
            and self.warp == other.warp
            and len(self.register) == len(other.register)
            and self.repeats == other.repeats
        )


@lru_cache(maxsize=4096)
def distribution(encoding: Encoding | None, shape: Shape) -> Distribution | None:
    """The distribution of a tile of `shape`; None for an encoding whose layout is not known here or has other
    dimensions, or whose lanes or warps do not divide a size that is no power of two."""
    odd = tuple(size // (size & -size or 1) or 1 for size in shape)
    if all(part == 1 for part in odd):
        return _of_powers(encoding, shape)
    divided = _of_powers(encoding, tuple(size & -size for size in shape))
    whole = _of_powers(encoding, tuple(1 << (size - 1).bit_length() for size in shape))
    fits = divided and whole and (divided.lane, divided.warp) == (whole.lane, whole.warp)
    return replace(divided, repeats=odd) if divided and fits else None


def _of_powers(encoding: Encoding | None, shape: Shape) -> Distribution | None:
    """The distribution of a tile whose sizes are powers of two."""
    match encoding:
        case Blocked() if len(shape) == len(encoding.order):
            return _fit(bases(encoding), shape)
        case Linear(register, lane, warp, _) if all(
            len(basis) == len(shape) for basis in (*register, *lane, *warp)
        ):
            return _fit(Distribution(register, lane, warp), shape)
        case NvidiaMma() if len(shape) == 2 and len(encoding.instr_shape) >= 2:
            return _fit(_accumulator(encoding), shape)
        case DotOperand(0, NvidiaMma() as parent, int(width)) if len(shape) == 2:
            return _fit(_left_operand(parent, width), shape)
        case DotOperand(index, Linear(_, _, warp, _), int(width)) if len(shape) == 2:
            return _fit(_warp_operand(index, warp, width), shape)
        case DotOperand(index, Linear() as parent, None) if len(shape) == 2:
            return _fit(_whole_operand(index, parent), shape)
        case Slice(dim, parent) if dim <= len(shape):
            return _drop(_of_powers(parent, (*shape[:dim], 1, *shape[dim:])), dim)
        case _:
            return None


def root(encoding: Encoding | None) -> Encoding | None:
    """The layout of the tile that a vector is a slice of, or an operand belongs to."""
    while isinstance(encoding, Slice | DotOperand):
        encoding = encoding.parent
    return encoding


def bases(encoding: Blocked | NvidiaMma) -> Distribution:
    """Each thread's elements, then the lanes, then the warps, each along the dimensions in `order`; of an
    accumulator, those of its instruction."""
    if isinstance(encoding, NvidiaMma):
        return _accumulator(encoding)
    reached = [1] * len(encoding.order)
    levels = (encoding.size_per_thread, encoding.threads_per_warp, encoding.warps_per_cta)
    register, lane, warp = (tuple(_extend(reached, sizes, encoding.order)) for sizes in levels)
    return Distribution(register, lane, warp)


def _accumulator(mma: NvidiaMma) -> Distribution:
    """A warp's 16 x N part: pairs of columns, lanes four to a row, rows 8 apart, then groups of 8 columns
    (PTX ISA, wgmma). Warps follow each other along the rows; of mma.sync, version 2, along the columns."""
    columns, order = mma.instr_shape[1], (0, 1) if mma.version[0] > 2 else (1, 0)
    lane = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    register = ((0, 1), (8, 0), *((0, c) for c in powers(8, columns)))
    return Distribution(register, lane, tuple(_extend([16, columns], mma.warps_per_cta, order)))


def _left_operand(mma: NvidiaMma, width: int) -> Distribution:
    """The A operand: like an accumulator with `width` elements of K side by side; warps along N hold
    copies."""
    lane = ((0, width), (0, 2 * width), (1, 0), (2, 0), (4, 0))
    register = (*((0, c) for c in powers(1, width)), (8, 0), (0, 4 * width))
    rows, columns = mma.warps_per_cta
    warps = (*((r, 0) for r in powers(16, 16 * rows)), *((0, 0) for _ in powers(1, columns)))
    return Distribution(register, lane, warps)


def _warp_operand(index: int, warp: Bases, width: int) -> Distribution:
    """An operand of mma.sync whose accumulator's warps are spread so: `width` elements of K side by side,
    lanes along K, then along M or N; A has two rows of a thread 8 apart, each two parts of K (PTX ISA,
    fragments of mma.sync). Warps along the other dimension hold copies."""
    k, side = (1, 0) if index == 0 else (0, 1)

    def along(dim: int, sizes: Iterable[int]) -> Iterator[tuple[int, ...]]:
        return (_unit(dim, size, 2) for size in sizes)

    rows = along(side, [8]) if index == 0 else ()
    register = (*along(k, powers(1, width)), *rows, *along(k, [4 * width]))
    lane = (*along(k, [width, 2 * width]), *along(side, [1, 2, 4]))
    return Distribution(register, lane, tuple(_unit(side, vector[side], 2) for vector in warp))


def _whole_operand(index: int, parent: Linear) -> Distribution:
    """An operand of a dot without the tensor core: a thread holds all of K for the rows, or columns, of its
    elements of the result."""

    def kept(bases: Bases) -> Bases:
        return tuple(_unit(index, vector[index], 2) for vector in bases)

    return Distribution(kept(parent.register), kept(parent.lane), kept(parent.warp))


def _fit(layout: Distribution, shape: Shape) -> Distribution:
    """Repeat a layout in registers until it covers `shape`, and wrap what reaches beyond it."""
    register, lane, warp = (
        tuple(_wrap(b, shape) for b in bases) for bases in (layout.register, layout.lane, layout.warp)
    )
    reach = [2 * max((b[d] for b in (*register, *lane, *warp)), default=0) or 1 for d in range(len(shape))]
    more = (
        _unit(d, size, len(shape)) for d in reversed(range(len(shape))) for size in powers(reach[d], shape[d])
    )
    return Distribution((*(b for b in register if any(b)), *more), lane, warp)


def _wrap(basis: tuple[int, ...], shape: Shape) -> tuple[int, ...]:
    return tuple(step if step < size else 0 for step, size in zip(basis, shape, strict=True))


def _drop(layout: Distribution | None, dim: int) -> Distribution | None:
    """Forget a dimension of size 1."""
    if layout is None:
        return None
    register, lane, warp = (
        tuple((*b[:dim], *b[dim + 1 :]) for b in bases)
        for bases in (layout.register, layout.lane, layout.warp)
    )
    return Distribution(register, lane, warp)


def _extend(reached: list[int], sizes: Shape, order: Shape) -> Iterator[tuple[int, ...]]:
    """Basis vectors that multiply the extent `reached` along each dimension by `sizes`, in `order`."""
    for dim in order:
        for size in powers(reached[dim], reached[dim] * sizes[dim]):
            yield _unit(dim, size, len(reached))
        reached[dim] *= sizes[dim]


def _unit(dim: int, size: int, rank: int) -> tuple[int, ...]:
    return tuple(size if d == dim else 0 for d in range(rank))


def powers(start: int, stop: int) -> Iterator[int]:
    """start, 2 start, 4 start, ... below `stop`."""
    while start < stop:
        yield start
        start *= 2
