"""Tiles in registers as C: declarations, and the element that a register holds as an expression.

Tiles of 16 and 8 bits are packed in pairs, four words for 16 columns, which is how wgmma takes 16-bit A from
registers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias, overload

from twill.ir.loop import Scalar, Tensor, TensorDesc, Type
from twill.ops.c import c_type
from twill.targets.cuda.expressions import argument, atom, choice
from twill.targets.cuda.registers.fragments import Fragment, axes, holding, registers
from twill.targets.cuda.registers.linear_tiles import Point as LinearPoint
from twill.targets.cuda.registers.linear_tiles import Spread, literal

PACK = {"f16": "pack_f16", "bf16": "pack_bf16", "f8E4M3FN": "pack_e4m3", "f8E5M2": "pack_e5m2"}
"""Element types kept packed in registers, with the word that packs two."""
OF_WORD = {"pack_f16": "f16_of", "pack_bf16": "bf16_of"}
"""By the word that packs two elements of 16 bits, that which gives one of them as it is stored."""
OF_BYTES = {"pack_e4m3": "e4m3_of", "pack_e5m2": "e5m2_of"}
"""The same for two bytes."""
OF_PACKED = {**OF_WORD, **OF_BYTES}
AS_STORED = {
    "pack_f16": "stored_f16",
    "pack_bf16": "stored_bf16",
    "pack_e4m3": "stored_e4m3",
    "pack_e5m2": "stored_e5m2",
}
"""By the word that packs two elements, that which leaves one as it is where it is stored so."""
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f8E4M3FN": 8, "f8E5M2": 8}


# --- elements ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """The element of a tile that one register holds."""

    layout: Fragment
    register: str
    at: tuple[str, ...] = ()
    """Row and column (or the position in a vector, twice) where they do not follow from the register."""

    def along(self, axes: tuple[int, ...]) -> "Point":
        """The element of a vector along `axes` that an element of a tile is in. Raises ValueError for one
        that does not run so."""
        whole, i = self.layout, atom(self.register)
        if axes == whole.axes:
            return self
        if self.at:
            return Point(Fragment(axes, (whole.shape[axes[0]],), threads=whole.threads), i, self.at)
        if whole.axes != (0, 1):
            raise ValueError("rows are no columns")
        (kept,) = axes
        vector = Fragment(axes, (whole.shape[kept],), whole.down, whole.across, copies=whole.copies)
        band, inside = (f"{i} / {whole.band} * 2 + ", f"{i} % {whole.band}") if whole.bands > 1 else ("", i)
        return Point(vector, f"{band}{inside} / 2 % 2" if kept == 0 else f"{inside} / 4 * 2 + {i} % 2")

    def coordinate(self) -> str:
        """The row or column of an element of a vector."""
        i, form = atom(self.register), self.layout
        if self.at:
            return f"int32_t({self.at[form.axes[0]]})"
        if form.axes == (0,):
            band = f" + {i} / 2 * {16 * form.down}" if form.bands > 1 else ""
            row = f"thread.row % {16 * form.down}" if form.beside else "thread.row"
            return f"int32_t({row} + 8 * ({i} % 2){band})" if band else f"int32_t({row} + 8 * {i})"
        part = f" + thread.row / {16 * form.down} * {form.shape[0] // form.across}" if form.across > 1 else ""
        return f"int32_t(thread.column + 8 * ({i} / 2) + {i} % 2{part})"


AnyPoint: TypeAlias = Point | LinearPoint


@overload
def point(form: Fragment, register: str) -> Point: ...
@overload
def point(form: Spread, register: str) -> LinearPoint: ...
@overload
def point(form: Fragment | Spread, register: str) -> AnyPoint: ...
def point(form: Fragment | Spread, register: str) -> AnyPoint:
    """The element that a thread holds in a register."""
    if isinstance(form, Spread):
        return form.point(register)
    if not form.threads:
        return Point(form, register)
    index = f"(thread.index + {form.threads} * {atom(register)})"
    return Point(
        form,
        register,
        (f"{index} / {form.shape[1]}", f"{index} % {form.shape[1]}")
        if form.axes == (0, 1)
        else (index, index),
    )


def linear_point(one: AnyPoint) -> LinearPoint:
    """The element as a linear layout counts it. Raises ValueError in a group of less than four warps."""
    if isinstance(one, LinearPoint):
        return one
    if one.at:
        raise ValueError("can not be generated in a group of one warp")
    return one.layout.spread().point(atom(one.register))


Elements: TypeAlias = Callable[[AnyPoint], str]
"""A tile as the C expression of each of its elements."""


def turned(form: Elements, source: Tensor, result: Tensor) -> Elements:
    """What is computed for a vector along rows, for one along columns, or the other way round: each element
    by its number. (Which way a vector runs follows from its layout.)"""
    return form if sum(size > 1 for size in source.shape) > 1 else laid(form, source, axes(result))


def laid(form: Elements, source: Tensor, there: tuple[int, ...]) -> Elements:
    """The same of a vector that lies `there`."""
    if axes(source) == there:
        return form
    place = Fragment(axes(source), (prod(source.shape),), threads=1)

    def elements(one: AnyPoint) -> str:
        if isinstance(one, LinearPoint):
            return form(one)
        number = one.along(there).coordinate()
        return form(Point(place, "0", (number, number)))

    return elements


def word(type: Type) -> str:
    """The type of a word that packs two elements."""
    assert isinstance(type, Tensor)
    assert isinstance(type.dtype, Scalar)
    return "uint32_t" if BITS[type.dtype.name] == 16 else "uint16_t"


def packed(type: Type) -> str | None:
    """The word that packs two elements of a tile kept packed; None for other values."""
    if not isinstance(type, Tensor) or not isinstance(type.dtype, Scalar):
        return None
    if literal(type):
        paired = BITS.get(type.dtype.name) == 16 and len(type.shape) > 1 and registers(type) > 1
        return PACK[type.dtype.name] if paired else None
    return PACK.get(type.dtype.name) if axes(type) == (0, 1) else None


def declaration(type: Type, name: str) -> str:
    """Of a variable; without initial value."""
    if isinstance(type, TensorDesc):
        return f"const CUtensorMap* {name};"
    if not isinstance(type, Tensor):
        return f"{c_type(type)} {name};"
    if packed(type) and literal(type):
        return f"{word(type)} {name}[{registers(type) // 2}];"
    if packed(type):
        return f"{word(type)} {name}[{registers(type) // 8}][4];"
    return f"{c_type(type)} {name}[{registers(type)}];"


def mask_declaration(type: Type, name: str) -> str:
    """Of a variable of truth values, kept as bits."""
    assert isinstance(type, Tensor)
    return f"Mask<{registers(type)}> {name};"


@dataclass(frozen=True, slots=True)
class Held:
    """The elements of a tile kept in a variable, one by one or packed in pairs, as MMAs do four words for
    sixteen columns, in a linear layout one for two registers."""

    name: str
    layout: Fragment | Spread
    pack: str | None
    halves: bool = False
    """Numbers of less than 32 bits, one by one."""

    def __call__(self, point: AnyPoint) -> str:
        """Raises ValueError where the element is in another thread."""
        register = self.register(point)
        if self.pack:
            return f"un{self.pack}({self._of_word(register)})"
        return f"float({self.name}[{register}])" if self.halves else f"{self.name}[{register}]"

    def stored(self, point: AnyPoint) -> str | None:
        """As it is stored; None where that is a conversion of the number. Raises ValueError as above."""
        register = self.register(point)
        if self.halves:
            return f"{self.name}[{register}]"
        return f"{OF_PACKED[self.pack]}({self._of_word(register)})" if self.pack else None

    def _of_word(self, register: str) -> str:
        """The word that holds an element, and which half it is."""
        i = atom(register)
        word = f"[{i} / 2]" if isinstance(self.layout, Spread) else f"[{i} / 8][{i} / 2 % 4]"
        return f"{self.name}{word}, {i} % 2"

    @property
    def fragment(self) -> Fragment:
        """How threads hold it, as MMAs do. Raises ValueError for a tile in a linear layout."""
        if isinstance(self.layout, Spread):
            raise ValueError("in a linear layout can not be stored so")
        return self.layout

    def register(self, point: AnyPoint) -> str:
        """C expression of the register that holds an element. Raises ValueError where it is in another
        thread."""
        if isinstance(point, LinearPoint):
            return self.layout.spread().index(point)
        if isinstance(self.layout, Spread):
            raise ValueError(f"{self.name} lies in other threads")
        point = point.along(self.layout.axes)
        if not self.layout.alike(point.layout) or not _of_register(point):
            raise ValueError(f"{self.name} lies in other threads")
        return point.register


def _of_register(one: Point) -> bool:
    """Whether its register says which element of a vector this is."""
    return not one.layout.threads or one == point(one.layout, one.register)


@dataclass(frozen=True, slots=True)
class Transposed:
    """A tile seen with rows and columns exchanged: it can only go to shared memory, or where each thread has
    the elements that it had."""

    source: Elements
    literal: bool = False
    """The source is in a linear layout."""

    def __call__(self, point: AnyPoint) -> str:
        if not self.literal and not isinstance(self.source, Held):
            raise ValueError("a tile in registers can only be transposed on its way to shared memory")
        return self.source(linear_point(point).permuted((1, 0)))


def held(name: str, type: Tensor) -> Held:
    """The elements of a tile kept in a variable."""
    short = isinstance(type.dtype, Scalar) and type.dtype.name in PACK
    return Held(name, holding(type), packed(type), short and not packed(type))


def number(type: Type, text: str) -> str:
    """A C value of an element type, as tiles compute with it."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    return f"float({text})" if isinstance(dtype, Scalar) and dtype.name in PACK else text


def as_stored(type: Type, elements: Elements, one: AnyPoint) -> str:
    """An element as it is stored; what a variable holds so is not converted to a number and back."""
    found = elements.stored(one) if isinstance(elements, Held) else None
    return found or cast(type, elements(one))


def together(pack: str, low: str, high: str) -> str:
    """The word of two elements as they are stored: of bytes, as they are."""
    return f"{pack if pack in OF_WORD else 'both_bytes'}({low}, {high})"


ROUNDED = {"bf16": "to_bf16"}
"""Functions that round a number to what is stored, where the type's own conversion is slow."""


def cast(type: Type, text: str) -> str:
    """The inverse of `number`: as it is stored. What is read from shared memory so, or a word holds, is not
    converted."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    if not isinstance(dtype, Scalar) or dtype.name not in PACK:
        return text
    kind = c_type(type)
    read = argument("float", text) or ""
    if argument(f"shared_at<{kind}>", read) is not None:
        return read
    return element_of(PACK[dtype.name], text) or f"{ROUNDED.get(dtype.name, kind)}({text})"


def element_of(pack: str, text: str) -> str | None:
    """A number as it is stored, where that rounds nothing: it is in a word, or was stored, or is one of two
    such. None for other numbers."""
    if (half := argument(f"un{pack}", text)) is not None:
        return f"{OF_PACKED[pack]}({half})"
    if (stored := argument("float", text)) is not None:
        return f"{AS_STORED[pack]}({stored})"
    if (found := choice(text)) is None:
        return None
    condition, *both = found
    first, second = (element_of(pack, one) for one in both)
    return None if first is None or second is None else f"({condition} ? {first} : {second})"
