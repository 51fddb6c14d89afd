"""Who holds which elements of a tile in registers: as wgmma leaves its accumulator, so that most layout
conversions move nothing.

Takes TTGIR types; gives `Fragment`s. A warpgroup holds 64 rows. Thread t has, in register 4*j + i of a tile
of rows and columns, row 16*(t/32) + t%32/4 + 8*(i/2) and column 8*j + 2*(t%4) + i%2 (PTX ISA, register
fragments of wgmma). A vector of rows takes 2 registers, a vector of columns a quarter of the columns.

The warps of a group share a tile, `down` of them along its rows and `across` along its columns; where the
rows are more than 16 * `down`, each thread has a band of registers for every 16 * `down` of them. In a group
of less than four warps, which only moves data, a thread has every so many-th element.
"""

from dataclasses import dataclass
from math import prod

from twill.ir.loop import Blocked, DotOperand, Encoding, Linear, NvidiaMma, Op, Slice, Tensor, Type
from twill.ops.table import role


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

    def alike(self, other: "Fragment") -> bool:
        """Whether the same register is the same element."""
        rows = 0 not in self.axes or self.down == other.down
        return self.axes == other.axes and self.threads == other.threads and rows and (1 not in self.axes or self.across == other.across)


def axes(type: Tensor) -> tuple[int, ...]:
    """Rows and columns, or the one that a vector runs along (a tile of one row or column is one)."""
    *outer, inner = type.shape
    while len(outer) > 1 and outer[0] == 1:
        outer = outer[1:]
    match outer:
        case [_] if inner == 1:
            return (0,)
        case [1]:
            return (1,)
        case [_]:
            return (0, 1)
        case []:
            return (1 - type.encoding.dim if isinstance(type.encoding, Slice) else 0,)
        case _:
            raise ValueError(f"a tile of {type.shape} in registers can not be generated")


def linear(type: Tensor, threads: int) -> Fragment:
    """Every so many-th element."""
    kept = axes(type)
    return Fragment(kept, _shape(type, kept), threads=threads)


def layout(type: Tensor) -> Fragment:
    """Warps in accumulators are where wgmma has them; in other tiles as far down the rows as these go."""
    down, across = _warps(type.encoding)
    if not _accumulator(type.encoding):
        rows = _shape(type, axes(type))[0] if 0 in axes(type) else 16 * down * across
        down, across = _down(rows, down * across)
    kept = axes(type)
    return Fragment(kept, _shape(type, kept), down, across)


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


def moves(source: Type, result: Type) -> bool:
    """Whether elements change threads between two types."""
    return isinstance(source, Tensor) and isinstance(result, Tensor) and not layout(source).alike(layout(result))


def scratch(op: Op) -> int:
    """Bytes of shared memory that a group needs while it executes an operation: words of 8 bytes, whatever
    they hold."""
    source = op.operands[0].type if op.operands else None
    if not isinstance(source, Tensor) or role(op) not in ("reduce", "layout"):
        return 0
    form = layout(source)
    if role(op) == "layout":
        return 8 * prod(form.shape) if moves(source, op.result.type) else 0
    kept, sharing = (0, form.across) if op.attributes["axis"] == 1 else (1, form.down)
    return 8 * sharing * form.shape[kept] if form.axes == (0, 1) and sharing > 1 else 0


def registers(type: Tensor) -> int:
    """How many elements a thread holds."""
    return layout(type).registers
