"""Who holds which elements of a tile in registers: as wgmma leaves its accumulator, so that most layout
conversions move nothing.

Takes TTGIR types; gives `Fragment`s. A warpgroup holds 64 rows. Thread t has, in register 4*j + i of a tile
of rows and columns, row 16*(t/32) + t%32/4 + 8*(i/2) and column 8*j + 2*(t%4) + i%2 (PTX ISA, register
fragments of wgmma). A vector of rows takes 2 registers, a vector of columns a quarter of the columns.

The warps of a group share a tile, `down` of them along its rows and `across` along its columns; where the
rows are more than 16 * `down`, each thread has a band of registers for every 16 * `down` of them. In a group
of less than four warps, which only moves data, a thread has every so many-th element.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from twill.ir.distribution import powers
from twill.ir.loop import (
    Bases,
    Blocked,
    DotOperand,
    Encoding,
    Linear,
    NvidiaMma,
    Op,
    Scalar,
    Slice,
    Tensor,
    Type,
    Value,
)
from twill.ops.axis import axis_of
from twill.ops.table import role
from twill.targets.cuda.registers.linear_tiles import Spread, literal, spread
from twill.warp.slot_tensors import bits, tile_bytes

NARROW = 4 * 8
"""Bytes of a scalar for each warp of a group that only moves data."""
SHUFFLED = ("f32", "i32", "f64", "i64")
"""Element types that a shuffle passes, of which no two share a register."""
ALIGNED = 16
"""Bytes to which each of several tiles in a scratch buffer is aligned."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Which elements of a tile or vector each thread of a group holds."""

    axes: tuple[int, ...]
    """(0, 1) for rows and columns, or the one that a vector runs along."""
    shape: tuple[int, ...]
    down: int = 0
    across: int = 0
    threads: int = 0
    """Of a group of less than four warps."""
    copies: int = 1
    """How many times the warps down and across hold the tile: an operand of MMAs whose warps lie side by side
    too."""

    @property
    def beside(self) -> bool:
        """Warps that hold the same rows follow those down the rows."""
        return self.across * self.copies > 1

    @property
    def bands(self) -> int:
        """How often the warps go down the rows."""
        return max(1, self.shape[0] // (16 * self.down)) if 0 in self.axes else 1

    @property
    def band(self) -> int:
        """Registers of one band."""
        match self.axes:
            case (0,):
                return 2
            case (1,):
                return self.shape[0] // self.across // 4
            case _:
                return self.shape[1] // self.across // 2

    @property
    def registers(self) -> int:
        """How many elements a thread holds."""
        return -(-prod(self.shape) // self.threads) if self.threads else self.bands * self.band

    def spread(self) -> Spread:
        """The same as a linear layout. Raises ValueError for sizes that are no powers of two, or less than
        four warps."""
        sizes = (*self.shape, self.down, self.across)
        if self.threads or any(size & (size - 1) for size in sizes):
            raise ValueError("its elements lie in other threads")
        rows, columns = (0 in self.axes, 1 in self.axes)
        wide = self.shape[-1] // self.across

        def vectors(bits: Sequence[tuple[int, int]]) -> Bases:
            return tuple(
                tuple(v for v, kept in zip(bit, (rows, columns), strict=True) if kept) for bit in bits
            )

        register = [(0, 1)] * columns + [(8, 0)] * rows + [(0, c) for c in powers(8, wide) if columns]
        register += [(r, 0) for r in powers(16 * self.down, self.shape[0]) if rows]
        lane = vectors([(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)])
        warp = [(r, 0) for r in powers(16, 16 * self.down)] + [
            (0, c) for c in powers(wide, wide * self.across)
        ]
        warp += [(0, 0) for _ in powers(1, self.copies)]
        return Spread(self.shape, vectors(register), lane, vectors(warp))

    def alike(self, other: "Fragment | Spread") -> bool:
        """Whether the same register is the same element."""
        if isinstance(other, Spread):
            return False
        rows = 0 not in self.axes or self.down == other.down
        return (
            self.axes == other.axes
            and self.threads == other.threads
            and rows
            and (1 not in self.axes or self.across == other.across)
        )


def axes(type: Tensor) -> tuple[int, ...]:
    """Rows and columns, or the one that a vector runs along (a tile of one row or column is one)."""
    *outer, inner = type.shape
    while len(outer) > 1 and outer[0] == 1:
        outer = outer[1:]
    match outer:
        case [_] if inner == 1:
            return (0,)
        case [1]:
            return (1 if _ends_rows(type) else 0,)
        case [_]:
            return (0, 1)
        case []:
            return (1 if isinstance(type.encoding, Slice) and _ends_rows(type) else 0,)
        case _:
            raise ValueError(f"a tile of {type.shape} in registers can not be generated")


def lies_along(source: Tensor, result: Tensor) -> tuple[int, ...] | None:
    """The axis that a vector lies along which is broadcast to a tile of rows and columns; None for other
    broadcasts. It need not be the one that the vector's layout says: columns of a tile whose layout is itself
    a slice, without the last dimension, are rows of what that is a slice of."""
    vector, tile = source.shape[-2:], result.shape[-2:]
    if len(tile) != 2 or min(tile) == 1 or prod(result.shape) != prod(tile) or min(vector) > 1:
        return None
    return None if prod(vector) == 1 else (0,) if vector[0] > 1 else (1,)


def _ends_rows(type: Tensor) -> bool:
    """Whether its last dimension is also the last one of the tile that its layout is a slice of."""
    gone, encoding = list[int](), type.encoding
    while isinstance(encoding, Slice):
        gone.append(encoding.dim)
        encoding = encoding.parent
    every = len(type.shape) + len(gone)
    left = list(range(every))
    for dim in reversed(gone):
        del left[dim]
    return left[-1] == every - 1


def linear(type: Tensor, threads: int) -> Fragment:
    """Every so many-th element. Raises ValueError for a size that is no power of two, and the threads do not
    divide."""
    if prod(type.shape) % threads:
        _refuse_odd(type)
    return numbered(type, threads)


def numbered(type: Tensor, threads: int) -> Fragment:
    """Of a group of so many threads, which share a tile as its load says."""
    kept = axes(type)
    return Fragment(kept, _shape(type, kept), threads=threads)


def holding(type: Tensor) -> Fragment | Spread:
    """How a group of four warps and more holds a tile: as its encoding says where that is a linear layout,
    else as MMAs do."""
    return spread(type) if literal(type) else layout(type)


def rows_by_warpgroup(type: Tensor) -> bool:
    """Whether each warp of a group has 16 rows of a tile, one warp behind the other."""
    form = holding(type)
    return isinstance(form, Fragment) and form.axes == (0, 1) and form.across == 1 and form.bands == 1


def layout(type: Tensor) -> Fragment:
    """Warps in accumulators are where wgmma has them; in other tiles as far down the rows as these go. Raises
    ValueError for sizes that are no powers of two, and the warps do not divide."""
    down, across = _warps(type.encoding)
    if not _accumulator(type.encoding):
        rows = _shape(type, axes(type))[0] if 0 in axes(type) else 16 * down * across
        down, across = _down(rows, down * across)
    kept = axes(type)
    made = Fragment(kept, _shape(type, kept), down, across, copies=_copies(type.encoding))
    rows, columns = made.shape[0] if 0 in kept else 0, made.shape[-1] if 1 in kept else 0
    if rows % (16 * down) or columns % (8 * across):
        _refuse_odd(type)
    return made


def _refuse_odd(type: Tensor) -> None:
    if any(size & (size - 1) for size in type.shape):
        raise ValueError(f"a tile of {type.shape} in registers can not be generated")


def _shape(type: Tensor, kept: tuple[int, ...]) -> tuple[int, ...]:
    """Without the dimensions of one element."""
    return type.shape[-2:] if kept == (0, 1) else (prod(type.shape),)


def _down(rows: int, warps: int) -> tuple[int, int]:
    down = max(1, min(warps, rows // 16))
    return down, warps // down


def _accumulator(encoding: Encoding | None) -> bool:
    match encoding:
        case Slice(_, parent):
            return _accumulator(parent)
        case DotOperand(_, parent, _):
            return _accumulator(parent)
        case NvidiaMma():
            return True
        case _:
            return False


def _warps(encoding: Encoding | None) -> tuple[int, int]:
    """Along rows and along columns."""
    match encoding:
        case NvidiaMma(_, warps, _):
            return warps[0], prod(warps[1:])
        case Slice(_, parent) | DotOperand(1, parent, _):
            return _warps(parent)
        case DotOperand(_, parent, _):
            return _warps(parent)[0], 1
        case Blocked(_, _, warps, _):
            return prod(warps), 1
        case Linear(_, _, warps, _):
            return 2 ** len(warps), 1
        case _:
            return 4, 1


def _copies(encoding: Encoding | None) -> int:
    """Of the left operand of MMAs: warps along their columns."""
    match encoding:
        case Slice(_, parent):
            return _copies(parent)
        case DotOperand(0, NvidiaMma(_, warps, _), _):
            return prod(warps[1:])
        case _:
            return 1


def moves(source: Type, result: Type) -> bool:
    """Whether elements change threads between two types, or registers that MMAs number otherwise."""
    if not (isinstance(source, Tensor) and isinstance(result, Tensor)):
        return False
    one, other = holding(source), holding(result)
    if isinstance(one, Fragment) and isinstance(other, Fragment):
        return not one.alike(other)
    try:
        one.spread().index(other.spread().point())
    except ValueError:
        return True
    return isinstance(other, Fragment)


def renumbered(source: Type, result: Type) -> bool:
    """Whether a tile in an exact linear layout goes to registers as MMAs number them, each element in the
    thread that holds it."""
    if not (isinstance(source, Tensor) and isinstance(result, Tensor) and source.shape == result.shape):
        return False
    one, other = holding(source), holding(result)
    if not (isinstance(one, Spread) and isinstance(other, Fragment)):
        return False
    try:
        one.index(other.spread().point())
    except ValueError:
        return False
    return True


def together(op: Op) -> bool:
    """Whether a reduction is of several tiles, by several operations, or to a scalar."""
    region = op.regions[0].blocks[0].ops
    return len(op.results) > 1 or len(region) != 2 or not isinstance(op.result.type, Tensor)


def scratch(op: Op) -> int:
    """Bytes of shared memory that a group needs while it executes an operation; of a reduction, words of 8
    bytes, whatever they hold."""
    match role(op):
        case "scan":
            form = scan_layout(op)
            alone = form and len(form.shape) > 1 and not form.along(axis_of(op))[1]
            return 0 if alone else sum(map(tile_room, op.operands))
        case "gather":
            return tile_room(op.operands[0])
        case "histogram" | "concatenate":
            return tile_room(op.result)
        case "atomic" | "atomic_exchange":
            return tile_room(op.result) or ALIGNED
        case "dot":
            return sum(map(tile_room, {one.id: one for one in staged(op)}.values()))
        case _:
            return _exchanged(op)


def staged(op: Op) -> tuple[Value, ...]:
    """What a dot without a tensor core reads from shared memory (`extract.rewrite.mma.staged_tiles`)."""
    return tuple(
        value
        for value in op.operands[:2]
        if isinstance(value.type, Tensor) and not isinstance(value.type.encoding, DotOperand)
    )


def scan_layout(op: Op) -> Spread | None:
    """The layout in which threads scan what they hold; None for a tile that goes through shared memory, line
    by line: one whose elements no shuffle passes, or share registers, or whose threads share its lines
    otherwise than by single bits of their numbers."""
    source = op.operands[0].type
    scalars = [value.type.dtype for value in op.operands if isinstance(value.type, Tensor)]
    if not isinstance(source, Tensor) or any(
        not isinstance(one, Scalar) or one.name not in SHUFFLED for one in scalars
    ):
        return None
    try:
        found = holding(source).spread()
    except ValueError:
        return None
    return found if found.counted(axis_of(op)) else None


def tile_room(value: Value) -> int:
    """Bytes of a tile that lies row by row in shared memory, with what aligns the next one."""
    kind = value.type
    return -(-tile_bytes(kind.shape, kind.dtype) // ALIGNED) * ALIGNED if isinstance(kind, Tensor) else 0


def _exchanged(op: Op) -> int:
    """Of a reduction or a change of layout."""
    source = op.operands[0].type if op.operands else None
    if not isinstance(source, Tensor) or role(op) not in ("reduce", "layout"):
        return 0
    form = holding(source)
    if role(op) == "layout":
        through = moves(source, op.result.type) and not renumbered(source, op.result.type)
        return -(-bits(source.dtype) // 8) * prod(form.shape) if through else 0
    if together(op):
        room = len(op.results) * form.spread().exchange(axis_of(op))
        return room if isinstance(op.results[0].type, Tensor) else max(room, NARROW)
    if isinstance(form, Spread):
        return form.exchange(axis_of(op))
    if form.axes != (0, 1):
        return 0
    part, kept, sharing = remainder(op, form)
    assert isinstance(op.result.type, Tensor)
    alone = sharing == 1 and part.alike(holding(op.result.type))
    return 0 if alone else 8 * sharing * form.shape[kept]


def remainder(op: Op, form: Fragment) -> tuple[Fragment, int, int]:
    """What each thread has of the result of a reduction of rows or columns before warps exchange theirs; the
    dimension that remains; and how many warps share what they reduced. A vector of columns lies in every
    warp; where the tile has too few rows for all warps, the remainder is a part of it."""
    kept, sharing = (0, form.across) if op.attributes["axis"] == 1 else (1, form.down)
    return Fragment((kept,), (form.shape[kept],), form.down, form.across, copies=form.copies), kept, sharing


def registers(type: Tensor) -> int:
    """How many elements a thread holds."""
    return holding(type).registers
