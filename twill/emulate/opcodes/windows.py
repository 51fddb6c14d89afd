"""Generic addresses: which part of them belongs to which space.

Global memory keeps its own addresses. The others lie in windows above all of it, each at a multiple of 2^32,
so that the low half of a generic address of shared memory is its shared address, as on a GPU.
"""

from collections.abc import Mapping

CVTA: Mapping[str, int] = {
    "global": 0,
    "const": 0,
    "shared": 0x7001 << 48,
    "local": 0x7002 << 48,
    "param": 0x7003 << 48,
}
"""What is added to an address of a space."""

WINDOWS: Mapping[int, str] = {0: "global", 0x7001: "shared", 0x7002: "local", 0x7003: "param"}
"""The space by the upper 16 bits of a generic address."""
