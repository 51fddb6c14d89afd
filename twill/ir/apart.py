"""What a kernel takes for granted of its arguments' memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Apart:
    """Two arguments of a kernel that must not point to the same memory."""

    stored: str
    """The kernel stores to this one."""
    other: str
    """It accesses this one."""
    in_place: bool = False
    """They may be the same array: what is stored to an element is computed from that element."""
