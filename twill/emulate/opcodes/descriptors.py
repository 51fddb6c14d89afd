"""Descriptors of tcgen05: shared-memory and instruction descriptors, decoded by their bits (PTX ISA, "Matrix
Descriptors")."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from twill.emulate.faults import Fault
from twill.emulate.numeric.formats import FORMATS
from twill.emulate.opcodes.operands import Descriptor

_SWIZZLES: Mapping[int, tuple[int, int]] = {0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}
_RESERVED = 0x3 << 14 | 0x3 << 30 | 0xFF << 53


def descriptor(word: int, strict: bool = True) -> Descriptor:
    """A shared-memory descriptor (PTX ISA, "Shared memory descriptor"). Raises Fault for what no descriptor
    has. Without `strict`, 0 may stand for the constant 0b001, as Triton 3.5 has it."""
    if word & _RESERVED or word >> 46 & 7 not in ((1,) if strict else (0, 1)):
        raise Fault(
            f"the shared-memory descriptor {word:#018x} has wrong constant bits: 0b001 is expected in 46-48,"
            " 0 in 53-60"
        )
    if word >> 61 not in _SWIZZLES:
        raise Fault(f"the shared-memory descriptor {word:#018x} has the invalid swizzle mode {word >> 61}")
    if word >> 49 & 15:
        raise Fault("shared-memory descriptors with a base offset or an absolute address are not supported")
    swizzle, atom = _SWIZZLES[word >> 61]
    start, leading, stride = ((word >> low & 0x3FFF) << 4 for low in (0, 16, 32))
    return Descriptor(start, leading, stride, swizzle, atom)


_F8F6F4: Mapping[int, str] = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a .kind fixes (PTX ISA, "Various combinations of .kind and shapes", "Instruction descriptor")."""

    depth: int
    """K of one instruction, 32 bytes where elements are not padded."""
    types: Mapping[int, str]
    sums: Mapping[int, str]
    reserved: int
    """Bits of the instruction descriptor that must be 0."""
    scales: Mapping[int, str] = field(default_factory=dict[int, str])
    """Of scale factors, by bit 23."""
    packed: bool = False
    """4-bit elements lie two in a byte."""


_PLAIN, _SCALED = 1 << 6 | 1 << 23 | 1 << 29 | 3 << 30, 3 | 1 << 3 | 1 << 6 | 7 << 24
KINDS: Mapping[str, Kind] = {
    "f16": Kind(16, {0: "f16", 1: "bf16"}, {0: "f16", 1: "f32"}, _PLAIN | 8),
    "tf32": Kind(8, {2: "tf32"}, {1: "f32"}, _PLAIN | 8),
    "f8f6f4": Kind(32, _F8F6F4, {0: "f16", 1: "f32"}, _PLAIN | 8),
    "i8": Kind(32, {0: "u8", 1: "s8"}, {2: "s32"}, _PLAIN | 3 << 13),
    "mxf8f6f4": Kind(32, _F8F6F4, {}, _SCALED | 1 << 31, {1: "ue8m0"}),
    "mxf4": Kind(64, {1: "e2m1"}, {}, _SCALED, {1: "ue8m0"}, True),
    "mxf4nvf4": Kind(64, {1: "e2m1"}, {}, _SCALED, {0: "ue4m3", 1: "ue8m0"}, True),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """An instruction descriptor, decoded."""

    a_type: str
    b_type: str
    sums: str
    a_transposed: bool
    b_transposed: bool
    negative: bool
    m: int
    n: int
    saturate: bool = False
    scale: str = ""
    a_scale: int = 0
    """Number of the first byte of a word with scale factors of A."""
    b_scale: int = 0


def shape(word: int, name: str, group: int) -> Shape:
    """Raises Fault for bits and shapes that a kind does not have."""
    kind = KINDS[name]
    if word & 4:
        raise Fault("sparse MMAs are not supported")
    if word & kind.reserved or (name.startswith("mxf4") and word >> 31):
        raise Fault(f"the instruction descriptor {word:#010x} has bits that .kind::{name} does not have here")
    a, b, d = word >> 7 & 7, word >> 10 & 7, word >> 4 & 3
    if a not in kind.types or b not in kind.types or (not kind.scales and d not in kind.sums):
        raise Fault(f"the instruction descriptor {word:#010x} has a type that .kind::{name} does not have")
    found = Shape(
        kind.types[a],
        kind.types[b],
        "f32" if kind.scales else kind.sums[d],
        bool(word >> 15 & 1),
        bool(word >> 16 & 1),
        bool((word >> 13 ^ word >> 14) & 1),
        (word >> 24 & 31) * 16,
        (word >> 17 & 63) * 8,
    )
    found = _scaled(found, word, kind) if kind.scales else replace(found, saturate=bool(word >> 3 & 1))
    _valid(found, name, group)
    return found


def _scaled(found: Shape, word: int, kind: Kind) -> Shape:
    kept = word >> 23 & 1
    if kept not in kind.scales:
        raise Fault(
            f"the instruction descriptor {word:#010x} has a type of scale factors that is not allowed"
        )
    return replace(
        found,
        m=(word >> 27 & 3) * 128,
        scale=kind.scales[kept],
        a_scale=word >> 29 & 3,
        b_scale=word >> 4 & 3,
    )


def _valid(one: Shape, name: str, group: int) -> None:
    """PTX ISA, "Various combinations of .kind and shapes", "Various combinations of N shape with .cta_group
    qualifier for 8bit transpose B", "Transpose and Negate operation for various MMA-Kind"."""
    rows = {1: (128,) if one.scale else (64, 128), 2: (128, 256)}[group]
    least = 8 * group
    if name == "i8":
        least = 32 if group == 2 else 16 if one.n > 32 else 8
    if one.b_transposed and KINDS[name].depth == 32:
        least = max(least, 16 * group)
    if one.m not in rows or not 0 < one.n <= 256 or one.n % least:
        raise Fault(f"an MMA of {one.m} x {one.n} does not exist for .kind::{name}.cta_group::{group}")
    narrow = [name for name in (one.a_type, one.b_type) if name in FORMATS and FORMATS[name].bits < 8]
    if (one.a_transposed or one.b_transposed) and narrow:
        raise Fault(f"operands of {narrow[0]} cannot be transposed")
