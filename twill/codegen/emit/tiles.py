"""How tiles lie in registers: all of them as wgmma leaves its accumulator, so that most layout conversions move nothing.

Takes TTGIR types; gives C declarations and, for an element that a thread holds, its register, row and column as C expressions.

A warpgroup holds 64 rows. Thread t has, in register 4*j + i of a tile of rows and columns, row 16*(t/32) + t%32/4 + 8*(i/2) and column
8*j + 2*(t%4) + i%2 (PTX ISA, register fragments of wgmma). A vector of rows takes 2 registers, a vector of columns a quarter of the
columns. Tiles of 16 and 8 bits are packed in pairs, four words for 16 columns, which is how wgmma takes 16-bit A from registers.

The warps of a group share a tile, `down` of them along its rows and `across` along its columns; where the rows are more than 16 * `down`,
each thread has a band of registers for every 16 * `down` of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from twill.ir.loop import Blocked, DotOperand, Encoding, Linear, NvidiaMma, Pointer, Scalar, Slice, Tensor, Type

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
PACK = {"f16": "pack_f16", "bf16": "pack_bf16", "f8E4M3FN": "pack_e4m3", "f8E5M2": "pack_e5m2"}
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


# --- who holds what ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """Which elements of a tile or vector each thread of a group holds."""

    axes: tuple[int, ...]
    """(0, 1) for rows and columns, or the one that a vector runs along."""
    shape: tuple[int, ...]
    down: int
    across: int

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
        return self.bands * self.band

    def alike(self, other: "Layout") -> bool:
        """Whether the same register is the same element."""
        rows = 0 not in self.axes or self.down == other.down
        return self.axes == other.axes and rows and (1 not in self.axes or self.across == other.across)


def axes(type: Tensor) -> tuple[int, ...]:
    """Rows and columns, or the one that a vector runs along (a tile of one row or column is one)."""
    match type.shape:
        case (_, 1):
            return (0,)
        case (1, _):
            return (1,)
        case (_, _):
            return (0, 1)
        case _:
            return (1 - type.encoding.dim if isinstance(type.encoding, Slice) else 0,)


def layout(type: Tensor) -> Layout:
    """Warps in accumulators are where wgmma has them; in other tiles as far down the rows as these go."""
    down, across = _warps(type.encoding)
    if not _accumulator(type.encoding):
        rows = type.shape[0] if 0 in axes(type) else 16 * down * across
        down, across = _down(rows, down * across)
    kept = axes(type)
    return Layout(kept, type.shape if len(kept) == len(type.shape) else (prod(type.shape),), down, across)


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


def registers(type: Tensor) -> int:
    """How many elements a thread holds."""
    return layout(type).registers


# --- elements ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """The element of a tile that one register holds."""

    layout: Layout
    register: str

    def along(self, axes: tuple[int, ...]) -> "Point":
        """The element of a vector along `axes` that an element of a tile is in. Raises ValueError for one that does not run so."""
        whole, i = self.layout, self.register
        if axes == whole.axes:
            return self
        if whole.axes != (0, 1):
            raise ValueError("rows are no columns")
        (kept,) = axes
        vector = Layout(axes, (whole.shape[kept],), whole.down, whole.across)
        band, inside = (f"({i}) / {whole.band} * 2 + ", f"({i}) % {whole.band}") if whole.bands > 1 else ("", f"({i})")
        return Point(vector, f"{band}{inside} / 2 % 2" if kept == 0 else f"{inside} / 4 * 2 + ({i}) % 2")

    def coordinate(self) -> str:
        """The row or column of an element of a vector."""
        i, form = self.register, self.layout
        if form.axes == (0,):
            band = f" + ({i}) / 2 * {16 * form.down}" if form.bands > 1 else ""
            row = f"place.row % {16 * form.down}" if form.across > 1 else "place.row"
            return f"int32_t({row} + 8 * (({i}) % 2){band})" if band else f"int32_t({row} + 8 * ({i}))"
        part = f" + place.row / {16 * form.down} * {form.shape[0] // form.across}" if form.across > 1 else ""
        return f"int32_t(place.column + 8 * (({i}) / 2) + ({i}) % 2{part})"


Elements: TypeAlias = Callable[[Point], str]
"""A tile as the C expression of each of its elements."""


def word(type: Type) -> str:
    """The type of a word that packs two elements."""
    assert isinstance(type, Tensor)
    assert isinstance(type.dtype, Scalar)
    return "uint32_t" if BITS[type.dtype.name] == 16 else "uint16_t"


def packed(type: Type) -> str | None:
    """The word that packs two elements of a tile kept packed; None for other values."""
    if isinstance(type, Tensor) and axes(type) == (0, 1) and isinstance(type.dtype, Scalar):
        return PACK.get(type.dtype.name)
    return None


def declaration(type: Type, name: str) -> str:
    """Of a variable; without initial value."""
    if not isinstance(type, Tensor):
        return f"{c_type(type)} {name};"
    if packed(type):
        return f"{word(type)} {name}[{registers(type) // 8}][4];"
    return f"{c_type(type)} {name}[{registers(type)}];"


@dataclass(frozen=True, slots=True)
class Held:
    """The elements of a tile kept in a variable, one by one or packed in pairs, four words for sixteen columns."""

    name: str
    layout: Layout
    pack: str | None

    def __call__(self, point: Point) -> str:
        """Raises ValueError where the element is in another thread."""
        point = point.along(self.layout.axes)
        if not self.layout.alike(point.layout):
            raise ValueError(f"{self.name} lies in other threads")
        i = point.register
        if self.pack:
            return f"un{self.pack}({self.name}[({i}) / 8][({i}) / 2 % 4], ({i}) % 2)"
        return f"{self.name}[{i}]"


def held(name: str, type: Tensor) -> Held:
    """The elements of a tile kept in a variable."""
    return Held(name, layout(type), packed(type))
