"""Tensor maps: how TMA finds a box of a tensor.

A map's 128 bytes are opaque on a GPU; here they hold the fields below, in a layout of this machine's own, so
that maps made by `TensorMap.encode`, by the launcher's cuTensorMapEncodeTiled and by tensormap.replace are
the same thing. Dimensions are innermost first. Rules: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA,
"Tensors" and "tensormap.replace".
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from twill.emulate.faults import Fault

TYPES = (
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("s32", 4),
    ("u64", 8),
    ("s64", 8),
    ("f16", 2),
    ("f32", 4),
    ("f32.ftz", 4),
    ("f64", 8),
    ("bf16", 2),
    ("tf32", 4),
    ("tf32.ftz", 4),
    ("b4x16", 0),
    ("b4x16_p64", 0),
    ("b6x16_p32", 0),
)
"""Element types with their bytes, by the number that tensormap.replace gives them (PTX ISA,
tensormap.replace, .elemtype); 0 for those of less than a byte."""
PADDED = "b4x16_p64"
"""Sixteen elements of 4 bits, eight bytes, take sixteen bytes of shared memory (CUDA driver API,
CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B)."""
_PADDED_LINE = 128
"""Elements of a line of a box, and what the innermost size and coordinate are multiples of
(cuTensorMapEncodeTiled; PTX ISA, "Tensors")."""

SWIZZLES = (0, 32, 64, 128)
"""Bytes of a line of the pattern, by the number of .swizzle_mode."""

_ALIGNMENT = 16
"""Bytes of a line of a box in global memory begin at a multiple."""

_LAYOUT = struct.Struct("<QBBBB5I4Q5H5B")
BYTES = 128


@dataclass(frozen=True, slots=True)
class TensorMap:
    address: int
    """Of the first element, a multiple of 16."""
    type: str
    shape: tuple[int, ...]
    """Elements, innermost first."""
    strides: tuple[int, ...]
    """Bytes from one to the next of every dimension but the innermost."""
    box: tuple[int, ...]
    """Elements."""
    swizzle: int = 0
    """Bytes of a line: 0, 32, 64 or 128."""
    steps: tuple[int, ...] = ()
    """Element strides; 1 where not given."""
    nan: bool = False
    """What lies outside is NaN, not 0."""
    atom: int = 16
    """Bytes that the swizzle moves as one."""

    @property
    def padding(self) -> int:
        """Bytes that each byte takes in shared memory."""
        return 2 if self.type == PADDED else 1

    def bytes_of(self, elements: int) -> int:
        """Of elements side by side in global memory."""
        return elements // 2 if self.type == PADDED else elements * dict(TYPES)[self.type]

    @property
    def step(self) -> int:
        """What the first coordinate of a box is a multiple of: from elsewhere a copy is an illegal
        instruction (an H200; triton-lang/triton, issue 7385)."""
        size = dict(TYPES)[self.type]
        return _PADDED_LINE if self.type == PADDED else max(1, _ALIGNMENT // size) if size else 1

    @property
    def box_bytes(self) -> int:
        """Of a box in global memory, which is what counts on an mbarrier."""
        return self.bytes_of(prod(self.box))

    @property
    def room(self) -> int:
        """Bytes of a box in shared memory."""
        return self.box_bytes * self.padding

    def encode(self) -> bytes:
        names = [name for name, _ in TYPES]
        rank = len(self.shape)
        pad = (0,) * (5 - rank)
        flags = SWIZZLES.index(self.swizzle) | (4 if self.nan else 0) | (8 if self.atom == 32 else 0)
        steps = self.steps or (1,) * rank
        header = (self.address, rank, names.index(self.type), flags, 1)
        fields = (
            *header,
            *(extent - 1 for extent in self.shape),
            *pad,
            *self.strides,
            *(0,) * (5 - rank),
            *self.box,
            *pad,
            *steps,
            *pad,
        )
        return _LAYOUT.pack(*fields).ljust(BYTES, b"\0")


@dataclass(frozen=True, slots=True)
class Raw:
    """The fields as they lie in memory, some of which may not be set yet."""

    address: int
    rank: int
    type: int
    flags: int
    made: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]

    @staticmethod
    def read(data: bytes) -> "Raw":
        address, rank, kind, flags, made, *more = _LAYOUT.unpack_from(data)
        return Raw(
            address,
            rank,
            kind,
            flags,
            made,
            tuple(more[:5]),
            tuple(more[5:9]),
            tuple(more[9:14]),
            tuple(more[14:19]),
        )

    def write(self) -> bytes:
        head = (self.address, self.rank, self.type, self.flags, self.made)
        return _LAYOUT.pack(*head, *self.shape, *self.strides, *self.box, *self.steps).ljust(BYTES, b"\0")

    def changed(self, field: str, index: int, value: int) -> "Raw":
        """With a field as tensormap.replace sets it. Raises KeyError."""
        match field:
            case "global_address":
                return replace(self, address=value)
            case "rank":
                return replace(self, rank=value + 1, made=1)
            case "elemtype":
                return replace(self, type=value)
            case "swizzle_mode":
                return replace(self, flags=self.flags & ~3 | value & 3)
            case "fill_mode":
                return replace(self, flags=self.flags & ~4 | (value & 1) << 2)
            case "interleave_layout":
                return self._interleaved(value)
            case "swizzle_atomicity":
                return replace(self, flags=self.flags & ~8 | (value & 1) << 3)
            case _:
                return self._listed(field, index, value)

    def _interleaved(self, value: int) -> "Raw":
        if value:
            raise Fault("interleaved layouts of tensor maps are not supported")
        return self

    def _listed(self, field: str, index: int, value: int) -> "Raw":
        name, amount = _LISTS[field]
        held = getattr(self, name)
        kept = (value - amount) % (1 << 32) if amount else value
        return replace(self, **{name: (*held[:index], kept, *held[index + 1 :])})


NOTHING = 1 << 32
"""What a size of 0 means in a tensor map, which holds sizes less 1 in 32 bits."""
_LISTS: Mapping[str, tuple[str, int]] = {
    "global_dim": ("shape", 1),
    "global_stride": ("strides", 0),
    "box_dim": ("box", 0),
    "element_stride": ("steps", 0),
}


def decode(data: bytes) -> TensorMap:
    """The map in 128 bytes. Raises Fault where it breaks a rule of the hardware."""
    raw = Raw.read(data)
    if raw.made != 1 or not 1 <= raw.rank <= 5 or raw.type >= len(TYPES):
        raise Fault("what is used as a tensor map is none")
    rank = raw.rank
    found = TensorMap(
        raw.address,
        TYPES[raw.type][0],
        tuple(extent + 1 for extent in raw.shape[:rank]),
        raw.strides[: rank - 1],
        raw.box[:rank],
        SWIZZLES[raw.flags & 3],
        raw.steps[:rank],
        bool(raw.flags & 4),
        32 if raw.flags & 8 else 16,
    )
    validate(found)
    return found


def validate(map: TensorMap) -> None:
    """Raises Fault for what cuTensorMapEncodeTiled refuses."""
    if not dict(TYPES)[map.type]:
        _validate_padded(map)
    inner = map.bytes_of(map.box[0]) * map.padding
    if map.address % 16:
        raise Fault(f"a tensor map's address {map.address:#x} is not a multiple of 16")
    if wrong := [stride for stride in map.strides if stride % 16 or not 0 <= stride < 1 << 40]:
        raise Fault(f"a tensor map's stride of {wrong[0]} bytes is not a multiple of 16 below 2^40")
    if NOTHING in map.shape:
        raise Fault("a tensor map has no elements along a dimension, and the hardware takes 2^32 for that")
    if wrong := [extent for extent in map.box if not 1 <= extent <= 256]:
        raise Fault(f"a tensor map's box has {wrong[0]} elements along a dimension: 1 to 256 are allowed")
    if inner % 16 or (map.swizzle and inner > map.swizzle):
        limit = f", at most the swizzle's {map.swizzle}" if map.swizzle else ""
        raise Fault(f"a line of a tensor map's box has {inner} bytes: a multiple of 16 is expected{limit}")
    if wrong := [step for step in map.steps if not 1 <= step <= 8]:
        raise Fault(f"a tensor map's element stride is {wrong[0]}: 1 to 8 are allowed")


def _validate_padded(map: TensorMap) -> None:
    """Of elements of less than a byte. Raises Fault."""
    if map.type != PADDED:
        raise Fault(f"tensor maps of type {map.type} are not supported")
    if map.box[0] != _PADDED_LINE or map.shape[0] % _PADDED_LINE or map.swizzle not in (0, 128):
        raise Fault(
            f"a tensor map of type {map.type} has lines of {map.box[0]} in {map.shape[0]} elements and a"
            f" swizzle of {map.swizzle}: {_PADDED_LINE} in a multiple of {_PADDED_LINE}, and 128 or none, are"
            " expected"
        )
    if any(one % 32 for one in (map.address, *map.strides)):
        raise Fault(f"address and strides of a tensor map of type {map.type} are multiples of 32")
