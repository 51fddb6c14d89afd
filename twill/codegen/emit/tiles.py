"""How tiles lie in registers: all of them as wgmma leaves its accumulator, so that no layout conversion moves anything.

Takes TTGIR types; gives C declarations and, for an element that a thread holds, its register, row and column as C expressions.

A warpgroup holds 64 rows. Thread t has, in register 4*j + i of a tile of rows and columns, row 16*(t/32) + t%32/4 + 8*(i/2) and column
8*j + 2*(t%4) + i%2 (PTX ISA, register fragments of wgmma). A vector of rows takes 2 registers, a vector of columns a quarter of the
columns. 16-bit tiles are packed in pairs, four words for 16 columns, which is how wgmma takes A from registers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from twill.ir.loop import Encoding, Pointer, Scalar, Slice, Tensor, Type

C_TYPES = {
    "i1": "bool",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "f32": "float",
    "f64": "double",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f8E4M3FN": "__nv_fp8_e4m3",
    "f8E5M2": "__nv_fp8_e5m2",
    "index": "int64_t",
}
PACK = {"f16": "pack_f16", "bf16": "pack_bf16"}
"""Element types kept packed in registers, with the word that packs two."""
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f8E4M3FN": 8, "f8E5M2": 8}


def c_type(type: Type) -> str:
    """Of a scalar, a pointer, or the elements of a tile. Raises KeyError for what has none."""
    match type:
        case Scalar(name):
            return C_TYPES[name]
        case Pointer(pointee):
            return f"{c_type(pointee)}*"
        case Tensor(_, dtype):
            return c_type(dtype)
        case _:
            raise KeyError(str(type))


@dataclass(frozen=True, slots=True)
class Point:
    """The element of a tile that one register holds; `axes` says which of row (0) and column (1) tell its place."""

    axes: tuple[int, ...]
    register: str

    def without(self, axis: int) -> "Point":
        """The element of the vector that is left when `axis` (of both) is dropped."""
        return Point((0,), f"({self.register}) / 2 % 2") if axis == 1 else Point((1,), f"({self.register}) / 4 * 2 + ({self.register}) % 2")

    def coordinate(self) -> str:
        """The row or column of an element of a vector."""
        i = self.register
        if self.axes == (0,):
            return f"int32_t(place.row + 8 * ({i}))"
        return f"int32_t(place.column + 8 * (({i}) / 2) + ({i}) % 2)"


Elements: TypeAlias = Callable[[Point], str]
"""A tile as the C expression of each of its elements."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A tile in shared memory, in 128-byte swizzle: columns of 128 bytes, one behind the other."""

    address: str
    rows: int
    columns: int
    bits: int
    transposed: bool = False
    """Seen with rows and columns exchanged; `rows` and `columns` are those of the memory."""


def axes(type: Tensor) -> tuple[int, ...]:
    """Rows and columns, or the one that a vector runs along."""
    if len(type.shape) == 2:
        return (0, 1)
    return (1 - _sliced(type.encoding),)


def _sliced(encoding: Encoding | None) -> int:
    return encoding.dim if isinstance(encoding, Slice) else 1


def registers(type: Tensor) -> int:
    """How many elements a thread holds."""
    match axes(type):
        case (0, 1):
            return type.shape[1] // 2
        case (0,):
            return 2
        case _:
            return type.shape[0] // 4


def packed(type: Type) -> str | None:
    """The word that packs two elements of a tile kept packed; None for other values."""
    if isinstance(type, Tensor) and len(type.shape) == 2 and isinstance(type.dtype, Scalar):
        return PACK.get(type.dtype.name)
    return None


def declaration(type: Type, name: str) -> str:
    """Of a variable; without initial value."""
    if not isinstance(type, Tensor):
        return f"{c_type(type)} {name};"
    if packed(type):
        return f"uint32_t {name}[{type.shape[1] // 16}][4];"
    return f"{c_type(type)} {name}[{registers(type)}];"


@dataclass(frozen=True, slots=True)
class Packed:
    """The elements of a tile kept in pairs, four words for sixteen columns."""

    name: str
    pack: str

    def __call__(self, point: Point) -> str:
        i = point.register
        return f"un{self.pack}({self.name}[({i}) / 8][({i}) / 2 % 4], ({i}) % 2)"


def held(name: str, type: Tensor) -> Elements:
    """The elements of a tile kept in a variable."""
    if pack := packed(type):
        return Packed(name, pack)
    return lambda point: f"{name}[{point.register}]"
