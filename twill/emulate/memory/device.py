"""Global memory: NumPy arrays at device addresses.

Addresses are the machine's own; an array keeps its own bytes, so that what a kernel writes is visible to the
caller. Between two arrays lies room that no access may touch.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from twill.emulate.faults import Fault
from twill.emulate.memory.clocks import Array

FIRST = 0x1_0000_0000
GAP = 1 << 20
ALIGNMENT = 512
"""Of cudaMalloc's addresses at least 256 (CUDA programming guide)."""


@dataclass(slots=True)
class Allocation:
    name: str
    base: int
    data: Array
    """Bytes."""
    valid: Array | None = None
    """Of bytes that were never written; None where all were."""

    @property
    def end(self) -> int:
        return self.base + len(self.data)


@dataclass(slots=True)
class Device:
    """Global memory."""

    allocations: list[Allocation] = field(default_factory=list[Allocation])
    bases: list[int] = field(default_factory=list[int])

    def register(self, array: Array, name: str, *, poison: bool = False, align: int = ALIGNMENT) -> int:
        """The address of an array, which must be contiguous. With `poison`, what it holds now must not be
        read."""
        if not array.flags.c_contiguous:
            raise Fault(f"the array {name} is not contiguous")
        data = array.reshape(-1).view(np.uint8) if array.size else np.zeros(0, np.uint8)
        last = self.allocations[-1].end if self.allocations else FIRST
        base = -(-(last + GAP) // align) * align
        self.allocations.append(
            Allocation(name, base, data, np.zeros(len(data), np.bool_) if poison else None)
        )
        self.bases.append(base)
        return base

    def find(self, first: int, last: int) -> Allocation:
        """The allocation with the bytes first..last-1. Raises Fault where there is none."""
        position = bisect_right(self.bases, first) - 1
        if position < 0 or last > self.allocations[position].end:
            near = self.allocations[position] if position >= 0 else None
            detail = (
                f": {first - near.base:#x} bytes from the start of {near.name}, which has {len(near.data):#x}"
                if near
                else ""
            )
            raise Fault(f"global memory is accessed out of bounds at {first:#x}{detail}")
        return self.allocations[position]

    def read(self, at: int, size: int) -> Array:
        """Bytes from one place."""
        one = self.find(at, at + size)
        return one.data[at - one.base : at - one.base + size]

    def write(self, at: int, bytes: Array) -> None:
        one = self.find(at, at + len(bytes))
        one.data[at - one.base : at - one.base + len(bytes)] = bytes
        if one.valid is not None:
            one.valid[at - one.base : at - one.base + len(bytes)] = True
