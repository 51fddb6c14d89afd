"""Tiles that stay in shared memory: each element is read where it is used."""

from dataclasses import dataclass

from twill.ir.loop import Tensor
from twill.ir.operands import Slot
from twill.ops.c import c_type
from twill.targets.cuda.registers.elements import plain
from twill.targets.cuda.registers.linear_tiles import Point
from twill.targets.cuda.registers.register_tiles import AnyPoint, number
from twill.targets.cuda.shared.shared_tiles import PATTERN, Shared, element_place
from twill.warp.slot_tensors import bits

CHUNK = 16
"""Bytes that each swizzle leaves side by side (PTX ISA, shared memory matrix layout)."""


@dataclass(frozen=True, slots=True)
class InShared:
    """The elements of a matrix in shared memory."""

    type: Tensor
    address: str
    tile: Shared | None = None
    """None for one that lies row by row."""
    slot: Slot | None = None
    """That it lies in; None in the scratch buffer of a group."""

    def __call__(self, one: AnyPoint) -> str:
        if self.tile is None or not isinstance(one, Point):
            return number(self.type, plain(self.type, self.address, one))
        return number(self.type, f"shared_at<{c_type(self.type)}>({self.place(one)})")

    def place(self, one: Point) -> str:
        """The address of an element."""
        if self.tile is None:
            return f"{self.address} + {one.flat()} * {bits(self.type.dtype) // 8}"
        return f"{self.address} + {element_place(self.tile, one)}"

    @property
    def contiguous(self) -> int:
        """The dimension along which elements lie side by side."""
        return 0 if self.tile and self.tile.transposed else 1

    @property
    def side_by_side(self) -> int:
        """How many elements from a multiple of that number on one access may read."""
        match self.tile:
            case None:
                return self.type.shape[1]
            case Shared(places=()) as tile if not tile.padded:
                return 8 * CHUNK // bits(self.type.dtype)
            case _:
                return 1

    def period(self, axis: int) -> tuple[int, int]:
        """After how many elements along a dimension each one lies by the same number of bytes further, and
        that number."""
        size, along = bits(self.type.dtype) // 8, axis == self.contiguous
        match self.tile:
            case None:
                return 1, size if along else size * self.type.shape[1]
            case Shared(places=()) as tile if not tile.padded:
                return (tile.width // size, tile.box) if along else (PATTERN, PATTERN * tile.width)
            case _:
                return self.type.shape[axis], 0
