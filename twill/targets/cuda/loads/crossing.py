"""Which lanes copy which elements of a tile whose rows in shared memory cross its rows in global memory.

Such a tile is copied element by element: what lies next to each other in one memory lies far apart in the
other. Takes the size of a tile in shared memory; gives rows and columns as C. A warp copies a block of 8 rows
and 4 elements of each: 8 elements that follow one another in global memory fill a sector of 32 bytes, and the
places of a block are in all banks, since rows of a swizzle have their 16 bytes at 8 different places.
"""

from dataclasses import dataclass

from twill.ir.channels import SlotTensor
from twill.ir.loop import Function, NvmmaShared, Op
from twill.ops.axis_info import AxisAnalysis, copied_together, element_bytes
from twill.ops.steps import closer

ELEMENT = 4
"""Bytes of an element, as cp.async copies at least."""
DOWN, ALONG = 8, 4
"""Rows, and elements of a row, of the block that a warp copies at a time."""
LANES = DOWN * ALONG


def crosses(function: Function, op: Op, tensor: SlotTensor, vector: int) -> bool:
    """Whether each copy of a load is of one element, and elements follow one another in global memory, or
    are known to be closer there, from row to row of shared memory."""
    encoding = tensor.encoding
    if not isinstance(encoding, NvmmaShared) or vector != ELEMENT or len(tensor.shape) != 2:
        return False
    along = 0 if encoding.transposed else 1
    if element_bytes(op.operands[0].type) != ELEMENT or tensor.repeated > 1:
        return False
    analysis = AxisAnalysis(function)
    together, across = (copied_together(analysis, op, axis) for axis in (along, 1 - along))
    return across > together or (across == together and closer(analysis, op.operands[0], 1 - along, along))


@dataclass(frozen=True, slots=True)
class Crossing:
    """Blocks of a tile, row of blocks by row of blocks, of which each warp copies every so many-th."""

    across: int
    """Blocks of a row of blocks."""
    warps: int

    @property
    def period(self) -> int:
        """Copies of a thread in one row of blocks; the next ones are further down by `down` rows."""
        return max(1, self.across // self.warps)

    @property
    def down(self) -> int:
        return DOWN * max(1, self.warps // self.across)

    @property
    def apart(self) -> int:
        """Elements from a copy of a thread to its next one in the same row."""
        return ALONG * self.warps

    @property
    def here(self) -> tuple[str, str]:
        """Row and element of a thread's first copy."""
        return self.of("thread.index")

    def of(self, copy: str) -> tuple[str, str]:
        """Row and element of a copy by its number in the tile, a term."""
        block = f"{copy} / {LANES}"
        row = (
            f"{copy} % {DOWN}" if self.across == 1 else f"{block} / {self.across} * {DOWN} + {copy} % {DOWN}"
        )
        column = f"{copy} / {DOWN} % {ALONG}"
        return f"({row})", f"({block} % {self.across} * {ALONG} + {column})"


def crossing(rows: int, columns: int, threads: int) -> Crossing | None:
    """For a tile of so many rows and elements of each; None where blocks do not divide it evenly."""
    across, warps = columns // ALONG, threads // LANES
    whole = columns % ALONG == 0 and warps > 0 and (across % warps == 0 or warps % across == 0)
    if not whole or rows % (DOWN * max(1, warps // across)):
        return None
    return Crossing(across, warps)
