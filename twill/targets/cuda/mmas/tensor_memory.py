"""Tiles between registers and tensor memory: each thread has columns of one row of the tile.

Takes the address of a buffer and tiles in linear layouts; gives C. Tensor memory has 128 lanes, and warp w
reaches the 32 from 32 * (w % 4) on (PTX ISA, tcgen05.ld). So a tile of 128 rows is held with row l in lane l
(shape 32x32b), its columns in consecutive registers, and the columns divided among the warpgroups. A tile of
64 rows has 16 in the first lanes of each warp's 32 (PTX ISA, "Layout F"): threads 0 to 15 of a warp hold the
first half of a row's columns, threads 16 to 31 the second (shape 16x32bx2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from re import fullmatch

from twill.ir.distribution import powers
from twill.ir.loop import MemDesc, Scalar, Tensor, TensorMemory, Type
from twill.ops.c import c_type
from twill.targets.cuda.expressions import plus
from twill.targets.cuda.registers.fragments import Fragment, holding
from twill.targets.cuda.registers.linear_tiles import Point, Spread
from twill.targets.cuda.registers.register_tiles import BITS as FLOATS
from twill.targets.cuda.registers.register_tiles import PACK, AnyPoint, Elements, Held
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values.element_pairs import Paired, pair

ROWS = (64, 128)
"""Of a tile; the last is the number of lanes of tensor memory."""
BITS = {**FLOATS, "i32": 32}
STRIDES = frozenset({*((name, 1) for name in BITS), ("f16", 2)})
"""Element types, and by how many elements columns are apart: sums of 16 bits have each a word of 32."""
CHUNK = 32
"""Registers of one load or store."""
LEAST = 4
"""The same at least."""
STREAMED = 16
"""The same where a tile is loaded while what was loaded before is stored: two are in registers."""


def row_groups(form: object) -> int | None:
    """Among how many groups of threads a tile's columns are divided, each thread with columns of one row;
    None for another layout."""
    if not isinstance(form, Spread) or len(form.shape) != 2 or form.shape[0] not in ROWS:
        return None
    height, width = form.shape
    own = form.registers
    rows = tuple((r, 0) for r in powers(1, height))
    columns = tuple((0, c) for c in powers(1, width))
    lanes = 5 if height == ROWS[-1] else 4
    placed = rows == (*form.lane[:lanes], *form.warp[:2])
    placed = placed and columns == (*form.register, *form.lane[lanes:], *form.warp[2:])
    return width // own if placed else None


def leaves(tile: Tensor) -> bool:
    """Whether a tile can be stored as registers hold it: fragments of an MMA, or a row in each thread."""
    form = holding(tile)
    return isinstance(form, Fragment) or row_groups(form) is not None


@dataclass(frozen=True, slots=True)
class _Place:
    """How a tile lies in tensor memory."""

    bits: int
    """Of an element."""
    step: int
    """Columns of a word: of sums of 16 bits, an element lies in each column (PTX ISA, .pack::16b)."""
    apart: int
    """Columns between warpgroups; 0 where there is one."""
    half: int
    """Columns between the two halves of a warp's threads; 0 where each has a lane of its own."""

    @property
    def halves(self) -> str:
        """The template argument of loads and stores."""
        return f"<{self.half}>" if self.half else ""


def _place(buffer: Type, tile: Tensor) -> _Place:
    """Raises ValueError for a tile that is not as described above."""
    assert isinstance(buffer, MemDesc)
    form = holding(tile)
    groups = row_groups(form)
    encoding, dtype = buffer.encoding, buffer.dtype
    plain = (
        isinstance(encoding, TensorMemory)
        and encoding.block_m == tile.shape[0]
        and not encoding.two_ctas
        and isinstance(dtype, Scalar)
        and (dtype.name, encoding.col_stride) in STRIDES
    )
    if groups is None or not plain or prod(buffer.shape[:-1]) != tile.shape[0]:
        raise ValueError(f"a tile of {tile.shape} in tensor memory, or its layout, can not be generated")
    assert isinstance(dtype, Scalar)
    assert isinstance(encoding, TensorMemory)
    bits, halves = BITS[dtype.name], 1 if tile.shape[0] == ROWS[-1] else 2
    own = tile.shape[1] // groups * bits * encoding.col_stride // 32
    apart, half = own * halves if groups > halves else 0, own if halves > 1 else 0
    return _Place(bits, encoding.col_stride, apart, half)


def _own(address: str, apart: int) -> str:
    """The address of a thread's own lanes and columns."""
    lanes = plus(address, "(thread.warp % 4 << 21)")
    return plus(lanes, f"thread.warp / 4 * {apart}") if apart else lanes


def load(buffer: Type, tile: Tensor, address: str, name: str) -> list[str]:
    """Into the variable `name`; complete when done. Raises ValueError as `_place`."""
    place = _place(buffer, tile)
    if place.bits * place.step != 32:
        raise ValueError("a tile whose columns hold several elements can not be loaded from tensor memory")
    word = "load_packed_tile" if place.step > 1 else "load_tile"
    return [f"tensor_memory_{word}{place.halves}({name}, {_own(address, place.apart)});"]


@dataclass(frozen=True, slots=True)
class Stream:
    """A tile that is loaded chunk by chunk, as what is computed from it is stored."""

    name: str
    form: Spread
    element: str
    """C type."""
    address: str
    halves: str

    def __call__(self, point: AnyPoint) -> str:
        """An element of the chunk that is stored. Raises ValueError for one of another chunk."""
        step = point.step if isinstance(point, Point) else ""
        alone = fullmatch(r"\(\d+ \* (\d+) \+ (i_|2 \* i_|2 \* i_ \+ 1)\)", step)
        packed = fullmatch(r"\((\d+) \* \(\d+ \* (\d+) \+ i_\) \+ (\d+)\)", step)
        if (alone is None and packed is None) or point != self.form.point(step):
            raise ValueError("a tile from tensor memory that is not stored there chunk by chunk")
        if packed is not None:
            return f"{self.name}{packed[2]}_[{packed[1]} * i_ + {packed[3]}]"
        assert alone is not None
        return f"{self.name}{alone[1]}_[{alone[2]}]"

    def begun(self, chunk: int, size: int) -> list[str]:
        """Start to load one chunk of `size` elements."""
        part = f"{self.name}{chunk}_"
        return [
            f"{self.element} {part}[{size}];",
            f"tensor_memory_load{self.halves}({part}, {plus(self.address, size * chunk)});",
        ]


def streamed(buffer: Type, tile: Tensor, address: str, name: str) -> Stream:
    """Raises ValueError as `_place`."""
    place = _place(buffer, tile)
    form = holding(tile)
    assert isinstance(form, Spread)
    if place.bits != 32 or form.registers < LEAST:
        raise ValueError(f"a tile of {tile.shape} can not be loaded from tensor memory in chunks")
    return Stream(name, form, c_type(tile), _own(address, place.apart), place.halves)


def store(
    buffer: Type, tile: Tensor, address: str, elements: Elements, streams: Sequence[Stream] = ()
) -> list[str]:
    """Elements of 16 bits two to a column, of 8 bits four; complete when done. While a chunk of `streams` is
    loaded, the one before is computed and stored. Raises ValueError as `_place`."""
    place = _place(buffer, tile)
    form = holding(tile)
    assert isinstance(form, Spread)
    assert isinstance(tile.dtype, Scalar)
    per = 32 // place.bits
    words = form.registers // per
    count = min(STREAMED if streams and per == 1 else CHUNK // per, words)
    if words % count or count < LEAST:
        raise ValueError(f"a tile of {tile.shape} in tensor memory can not be generated")
    own, chunks, across = _own(address, place.apart), words // count, count * place.step
    store = f"tensor_memory_store{'_packed' if place.step > 1 else ''}{place.halves}"
    if not streams:
        loop = f"for (int j_ = 0; j_ < {chunks}; ++j_) {{"
        chunk = _chunk(tile, form, elements, count, "j_", f"{store}({own} + {across} * j_")
        return [UNROLL, loop, *(f"    {line}" for line in chunk), "}", "tensor_memory_wait_store();"]
    lines = [line for stream in streams for line in stream.begun(0, count * per)]
    for j in range(chunks):
        lines += [f"tensor_memory_wait_load({stream.name}{j}_);" for stream in streams]
        lines += (
            [line for stream in streams for line in stream.begun(j + 1, count * per)]
            if j + 1 < chunks
            else []
        )
        chunk = _chunk(tile, form, elements, count, str(j), f"{store}({plus(own, across * j)}")
        lines += ["{", *(f"    {line}" for line in chunk), "}"]
    factor = _factor(elements, streams, own, form)
    return _unless_one(factor, [*lines, "tensor_memory_wait_store();"])


def _factor(elements: Elements, streams: Sequence[Stream], own: str, form: Spread) -> str | None:
    """By what a thread multiplies its row of a tile that it stores where it loaded it from; None for other
    tiles."""
    if not isinstance(elements, Paired) or elements.function != "multiply_pair":
        return None
    factors = [one for one in elements.operands if not isinstance(one, Stream)]
    alone = len(streams) == 1 and streams[0] in elements.operands and streams[0].address == own
    if not alone or len(factors) != 1:
        return None
    try:
        found = {factors[0](form.point(register)) for register in ("0", "i_")}
    except ValueError:  # computed from the tile itself
        return None
    return found.pop() if len(found) == 1 else None


def _unless_one(factor: str | None, lines: list[str]) -> list[str]:
    """Nothing changes where the factors of all rows of a warp are 1: attention's, where no maximum grows."""
    if factor is None:
        return lines
    return [f"if (__any_sync(~0u, {factor} != 1.0f)) {{", *(f"    {line}" for line in lines), "}"]


def _chunk(tile: Tensor, form: Spread, elements: Elements, count: int, number: str, store: str) -> list[str]:
    """Compute and store the words of one chunk; `store` is the call up to the address."""
    assert isinstance(tile.dtype, Scalar)
    per = 32 // BITS[tile.dtype.name]
    index = f"({count} * {number} + i_)"
    if isinstance(elements, Paired) and per == 1:
        low, high = (form.point(f"({count} * {number} + {plus('2 * i_', half)})") for half in (0, 1))
        return [
            f"float words_[{count}];",
            UNROLL,
            f"for (int i_ = 0; i_ < {count // 2}; ++i_)",
            f"    unpair({pair(tile.dtype.name, elements, low, high)}, words_[2 * i_], words_[2 * i_ + 1]);",
            f"{store}, words_);",
        ]
    if per == 1:
        text, kind = elements(form.point(index)), c_type(tile)
    else:
        text, kind = _word(elements, form, index, tile.dtype.name), "uint32_t"
    return [
        f"{kind} words_[{count}];",
        UNROLL,
        f"for (int i_ = 0; i_ < {count}; ++i_) words_[i_] = {text};",
        f"{store}, words_);",
    ]


def _word(elements: Elements, form: Spread, index: str, dtype: str) -> str:
    """Two elements of 16 bits, four of 8; the word itself where a variable holds the tile so."""
    if isinstance(elements, Held) and elements.pack == PACK[dtype] and elements.layout == form:
        return f"{elements.name}[{index}]"
    per = 32 // BITS[dtype]
    points = [form.point(f"({per} * {index} + {place})") for place in range(per)]
    first, *others = (
        pair(dtype, elements, low, high) for low, high in zip(points[::2], points[1::2], strict=True)
    )
    return " | ".join((first, *(f"uint32_t({word}) << 16" for word in others)))
