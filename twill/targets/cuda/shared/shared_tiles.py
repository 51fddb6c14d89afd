"""How tiles lie in shared memory, and how they get from and to registers.

Takes a tile's address, shape and swizzle; gives C. A tile is cut into boxes of as many columns as fill a line
of the swizzle pattern (128, 64 or 32 bytes), all rows of one box before the next, which is how TMA moves it
and wgmma reads it (PTX ISA, shared memory matrix layout).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import takewhile
from math import prod

from twill.ir.channels import SlotTensor
from twill.ir.distribution import powers
from twill.ir.loop import Bases, Encoding, NvmmaShared, Scalar, SharedLinear, Tensor, Type
from twill.ir.shared_places import places
from twill.ops.c import c_type
from twill.targets.cuda.expressions import atom, plus, times
from twill.targets.cuda.registers.fragments import Fragment, holding, layout
from twill.targets.cuda.registers.linear_tiles import Point as LinearPoint
from twill.targets.cuda.registers.linear_tiles import Spread, literal, spread
from twill.targets.cuda.registers.register_tiles import (
    Held,
    declaration,
    held,
    packed,
    point,
    together,
    word,
)
from twill.targets.cuda.shared.bank_conflicts import passes, swizzle
from twill.targets.cuda.shared.linear_memory import place
from twill.warp.slot_tensors import bits

UNROLL = "#pragma unroll"
_PADDED_LINE = 128
"""4-bit floats of a line that TMA pads (CUDA driver API, cuTensorMapEncodeTiled)."""
MOST_ELEMENTS = 256
"""Of a box, along each dimension (CUDA driver API, cuTensorMapEncodeTiled)."""
PADDED = 8
"""Bytes of 4-bit floats that lie side by side where others pad them."""
FEW = "#pragma unroll 4"
"""Of a group that only moves data and has few registers."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A tile in shared memory; more dimensions than two are rows too."""

    address: str
    rows: int
    columns: int
    bits: int
    width: int
    """Bytes of a row of a box."""
    transposed: bool = False
    """Seen with rows and columns exchanged; `rows` and `columns` are those of the memory."""
    places: Bases = ()
    """Of a tile in no swizzle that is addressed through a linear layout (`linear_memory`)."""
    padded: bool = False
    """Behind each eight bytes of a line there are eight that hold nothing: 4-bit floats for an MMA with 8-bit
    ones (PTX ISA, packing formats of .kind::mxf8f6f4). `columns` counts them."""

    @property
    def room(self) -> int:
        """Bytes that each byte takes."""
        return 2 if self.padded else 1

    def byte(self, text: str) -> str:
        """From the beginning of a line to its byte number `text`, a term."""
        return f"({text} / {PADDED} * {2 * PADDED} + {text} % {PADDED})" if self.padded else text

    @property
    def box(self) -> int:
        """Bytes of one box."""
        return self.rows * self.width

    @property
    def boxes(self) -> int:
        return self.columns * self.bits // 8 // self.width


def shared(address: str, shape: tuple[int, ...], dtype: Type, encoding: Encoding | None) -> Shared:
    """A tile whose elements threads read or write. Raises ValueError for one that is not as TMA moves it."""
    if isinstance(encoding, NvmmaShared) and encoding.fp4_padded:
        raise ValueError("of 4-bit floats beside 8-bit ones is padded: MMAs alone read it")
    if isinstance(encoding, NvmmaShared) and dense(shape, encoding):
        tile = boxed(address, shape, dtype, encoding)
        return replace(tile, places=tuple(powers_along((tile.rows, tile.columns))))
    return operand(address, shape, dtype, encoding)


def operand(address: str, shape: tuple[int, ...], dtype: Type, encoding: Encoding | None) -> Shared:
    """A tile as MMAs read it, with a byte for each 4-bit float of a padded one. Raises ValueError as
    `shared`."""
    size = bits(dtype) if isinstance(dtype, Scalar) and dtype.name != "i1" else 0
    if not (size and isinstance(encoding, NvmmaShared) and encoding.swizzle_bytes >= 32 and len(shape) >= 2):
        raise ValueError("in shared memory is in no swizzle of 128, 64 or 32 bytes")
    rows, columns = prod(shape[:-1]), shape[-1]
    if encoding.transposed:
        rows, columns = columns, rows
    columns *= encoding.room
    width, padded = encoding.swizzle_bytes, encoding.fp4_padded
    return Shared(address, rows, columns, size, width, encoding.transposed, padded=padded)


def addressed(address: str, tensor: SlotTensor) -> Shared:
    """A tile that threads write, element by element at least. Raises ValueError as `shared`."""
    if (found := places(tensor.kept, tensor.encoding)) is None:
        return operand(address, tensor.kept, tensor.dtype, tensor.encoding)
    rows, columns = tensor.kept
    size = bits(tensor.dtype)
    return Shared(address, rows, columns, size, columns * size // 8, places=found)


def dense(shape: tuple[int, ...], encoding: Encoding | None) -> bool:
    """Whether a tile lies row by row, without a swizzle."""
    match encoding:
        case None:
            return True
        case NvmmaShared():
            return encoding.swizzle_bytes == 0 and not encoding.transposed
        case SharedLinear():
            return encoding.offset == tuple(powers_along(shape))
        case _:
            return False


def powers_along(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The element at each bit of an offset in a tile that lies row by row."""
    for axis in reversed(range(len(shape))):
        for power in powers(1, shape[axis]):
            yield tuple(power if i == axis else 0 for i in range(len(shape)))


def boxed(address: str, shape: tuple[int, ...], dtype: Type, encoding: Encoding | None) -> Shared:
    """A tile as TMA moves it: in boxes of the lines of a swizzle, or, of rows that lie one behind the other,
    whole; a single row in as many boxes as it takes. Raises ValueError as `shared`."""
    rows, columns = prod(shape[:-1]), shape[-1]
    most = min(columns, MOST_ELEMENTS) if rows == 1 else columns
    line = most * bits(dtype) // 8
    row_by_row = isinstance(encoding, NvmmaShared) and dense(shape, encoding)
    if row_by_row and most <= MOST_ELEMENTS and columns % most == 0 and line % 16 == 0:
        return Shared(address, rows, columns, bits(dtype), line)
    if isinstance(encoding, NvmmaShared) and encoding.fp4_padded and encoding.swizzle_bytes != _PADDED_LINE:
        raise ValueError(f"of 4-bit floats beside 8-bit ones has lines of less than {_PADDED_LINE}")
    return operand(address, shape, dtype, encoding)


def matrix_place(tile: Shared, form: Fragment) -> str:
    """Bytes to this lane's row of sixteen columns of 16 bits, number j of a thread's registers, for stmatrix
    and ldmatrix."""
    per, line = tile.width // 32, form.band // 8
    j = f"j % {line}" if form.bands > 1 else "j"
    row = tile_row("thread.row - thread.lane / 4 + thread.lane % 16", form)
    first = f"{_first(form, tile)}{j} / {per} * {tile.box}{_band(tile, form, f'j / {line}')}"
    return f"{first} + {_swizzled(tile, row, 'thread.lane / 16 * 16', f'{j} % {per} * 32')}"


def pair_place(tile: Shared, form: Fragment, exchanged: str = "") -> str:
    """Bytes to the two columns in registers 2 * p and 2 * p + 1; `exchanged` flips bits of it."""
    size = tile.bits // 8
    per, line = tile.width // (8 * size), form.band // 2
    p = f"p % {line}" if form.bands > 1 else "p"
    first = (
        f"{_first(form, tile)}{p} / {2 * per} * {tile.box} + {p} % 2 *"
        f" {8 * tile.width}{_band(tile, form, f'p / {line}')}"
    )
    chunk = f"{p} / 2 % {per} * {8 * size}{exchanged}"
    return f"{first} + {_swizzled(tile, tile_row('thread.row', form), f'thread.column * {size}', chunk)}"


def _swizzled(tile: Shared, row: str, column: str, chunk: str) -> str:
    """Bytes to an element of a box. Eight rows are a whole pattern, and `chunk`, a multiple of what `column`
    stays below, only flips bits. Both stay outside of the swizzle, so that a thread's addresses all follow
    from one number."""
    return f"(swizzle<{tile.width}>(({row}) * {tile.width} + {column}) ^ {chunk})"


def tile_row(row: str, form: Fragment) -> str:
    """The row of a thread in a tile, whose warps may lie beside each other."""
    return row.replace("thread.row", f"thread.row % {16 * form.down}") if form.beside else row


def _band(tile: Shared, form: Fragment, band: str) -> str:
    return f" + {band} * {16 * form.down * tile.width}" if form.bands > 1 else ""


def _first(form: Fragment, tile: Shared) -> str:
    """Bytes to the first column of this thread's warps."""
    if form.across == 1:
        return ""
    part = form.shape[1] // form.across * tile.bits // 8
    if part % tile.width:
        raise ValueError("is cut inside a line of the swizzle pattern")
    return f"thread.row / {16 * form.down} * {part // tile.width * tile.box} + "


def loaded(type: Tensor, tile: Shared, name: str) -> tuple[list[str], Held]:
    """Read a tile into registers: by matrices or pairs where these are whole lines of the pattern."""
    if literal(type):
        return _loaded_one_by_one(type, tile, name)
    form, first = layout(type), declaration(type, name)
    at, known = f"{name}_at", f"const uint32_t {name}_at = {tile.address};"
    try:
        return [first, known, UNROLL, *_whole(type, form, tile, name)], held(name, type)
    except ValueError:
        read = _elements(type, form, tile, name)
        begin = base(at, tile.address) if _one_place_again(type, form, tile) else [known]
        return [first, *begin, UNROLL, *read], held(name, type)


def read_kept(type: Tensor, tile: Shared, name: str, repeated: int) -> list[str]:
    """Read a tile of 32-bit elements of which `tile` has every row that begins `repeated` equal ones; its
    neighbours in one access, whose elements may lie in registers that are no neighbours. Raises ValueError
    for one that threads do not hold in powers of two."""
    form, shift = holding(type).spread(), repeated.bit_length() - 1
    kept = (type.shape[0] // repeated, type.shape[1])
    point = form.point().map(kept, lambda at: (at[0] >> shift, at[1]))
    steps = [(1, 0), (2, 0)] if tile.transposed else [(0, 1), (0, 2)]
    found = takewhile(lambda bit: bit is not None, (_bit(point.register, step) for step in steps))
    bits = [bit for bit in found if bit is not None]
    many, kind = 1 << len(bits), c_type(type)
    accesses = form.registers // many
    again = places_again(tile, point, accesses)
    first = base(f"{name}_at", tile.address) if again else [f"const uint32_t {name}_at = {tile.address};"]
    register = reduce(_without_bit, sorted(bits), "j_")
    parts = [sum(1 << bit for i, bit in enumerate(bits) if n >> i & 1) for n in range(many)]
    body = [
        f"const int i_ = {register};",
        f"{kind} part_[{many}];",
        f"load_elements<{many}>(part_, 0, {name}_at + {element_place(tile, point)});",
        *(f"{name}[{plus('i_', part)}] = part_[{n}];" for n, part in enumerate(parts)),
    ]
    loop = f"for (int j_ = 0; j_ < {accesses}; ++j_) {{"
    return [*first, UNROLL, loop, *(f"    {line}" for line in body), "}"]


def _bit(register: Bases, step: tuple[int, ...]) -> int | None:
    """The bit of a register's number that moves its element by `step`."""
    return next((bit for bit, vector in enumerate(register) if vector == step), None)


def _without_bit(number: str, bit: int) -> str:
    """C expression of a number whose `bit` is 0 and whose others count `number`."""
    low = f"({number} & {(1 << bit) - 1}) | " if bit else ""
    return f"({low}({number} >> {bit}) << {bit + 1})"


def base(name: str, address: str) -> list[str]:
    """The variable of a tile's address where `places_again`. The compiler is not to know that it is a
    multiple of the swizzle pattern: it would join it with what is flipped in a logic operation for each
    access. (Products of 4-bit weights: 32 of these for 32 elements of a thread, 2 without.)"""
    return [f"uint32_t {name} = {address};", f"keep({name});"]


def places_again(tile: Shared, one: LinearPoint, accesses: int) -> bool:
    """Whether most of the accesses to a thread's elements flip bits of its place as another one does, and
    differ from that in an offset which is known (`element_place`)."""
    one = one.lines()
    if tile.places or tile.padded or _overlap(tile, *one.parts()):
        return False
    moving = one.register[len(one.register) - (accesses - 1).bit_length() :]
    return 2 << sum(_flips(tile, vector) for vector in moving) < accesses


def _flips(tile: Shared, vector: tuple[int, ...]) -> bool:
    """Whether a bit of a register's number flips bits of a place, besides what it adds."""
    row, column = reversed(vector) if tile.transposed else vector
    return bool(row % PATTERN or column * tile.bits // 8 % tile.width)


def _one_place_again(type: Tensor, form: Fragment, tile: Shared) -> bool:
    """The same of elements that are accessed one by one, or in pairs."""
    bases = bases_of(form)
    if bases is None or (packed(type) and matrix_rows(bases, tile) is not None):
        return False
    many = 2 if packed(type) or bases.neighbours(contiguous(bases, tile), 2) == 2 else 1
    return places_again(tile, bases.point(), form.registers // many)


def _whole(type: Tensor, form: Fragment, tile: Shared, name: str) -> list[str]:
    """By matrices or pairs. Raises ValueError where a line of the pattern would be torn."""
    if tile.transposed or tile.places or (tile.bits < 32 and not packed(type)):
        raise ValueError("is read element by element")
    if tile.bits == 16:
        at = f"{name}_at + {matrix_place(tile, form)}"
        return [f"for (int j = 0; j < {form.registers // 8}; ++j) ldmatrix_x4({name}[j], {at});"]
    return [
        f"for (int p = 0; p < {form.registers // 2}; ++p)",
        f"    load_shared({name}_at + {pair_place(tile, form)}, {neighbours(name, tile, 'p')});",
    ]


def _elements(type: Tensor, form: Fragment, tile: Shared, name: str) -> list[str]:
    """By matrices whose rows a line of the pattern holds, by neighbours, or element by element."""
    pack, bases = packed(type), bases_of(form)
    if bases is None:
        return _by_coordinates(type, form, tile, name)
    if pack and (matrices := matrix_rows(bases, tile)) is not None:
        one, transposed = matrices
        read = (
            f"load_matrices<{str(transposed).lower()}>({name}[i_], 0, {name}_at + {element_place(tile, one)})"
        )
        return [f"for (int i_ = 0; i_ < {form.registers // 8}; ++i_) {read};"]
    if tile.bits in (8, 16, 32) and bases.neighbours(contiguous(bases, tile), 2) == 2:
        address = f"{name}_at + {element_place(tile, bases.point('(i_ * 2)'))}"
        read = f"{name}[i_ / 4][i_ % 4] = shared_at<{word(type)}>({address});" if pack else ""
        read = read or f"load_elements<2>({name}, i_ * 2, {address});"
        return [f"for (int i_ = 0; i_ < {form.registers // 2}; ++i_) {read}"]

    def at(register: str) -> str:
        return f"shared_at<{c_type(type)}>({name}_at + {element_place(tile, bases.point(register))})"

    return _each(form, pack, name, at)


def bases_of(form: Fragment) -> Spread | None:
    """A tile that is held as MMAs have it, as a linear layout; None for vectors and where it is none."""
    try:
        return form.spread() if form.axes == (0, 1) else None
    except ValueError:
        return None


def _by_coordinates(type: Tensor, form: Fragment, tile: Shared, name: str) -> list[str]:
    """Element by element, each at the row and the column that it has."""

    def at(register: str) -> str:
        row, column = coordinates(form, register)
        return f"shared_at<{c_type(type)}>({name}_at + {byte_of(tile, row, column)})"

    return _each(form, packed(type), name, at)


def _each(form: Fragment, pack: str | None, name: str, at: Callable[[str], str]) -> list[str]:
    """Every element as `at` has that of a register."""
    if pack is None:
        return [f"for (int i_ = 0; i_ < {form.registers}; ++i_)", f"    {name}[i_] = {at('i_')};"]
    low, high = (at(f"({register})") for register in ("2 * i_", "2 * i_ + 1"))
    return [
        f"for (int i_ = 0; i_ < {form.registers // 2}; ++i_)",
        f"    {name}[i_ / 4][i_ % 4] = {together(pack, low, high)};",
    ]


def _loaded_one_by_one(type: Tensor, tile: Shared, name: str) -> tuple[list[str], Held]:
    """Read a tile into the registers of a linear layout; neighbours in one access where the layout keeps them
    together."""
    form = spread(type)
    if (matrices := matrix_rows(form, tile)) is not None:
        point, transposed = matrices
        address = f"{name}_at + {element_place(tile, point)}"
        all_four, turned = 4 * 32 // tile.bits, str(transposed).lower()
        step = f"{4 if packed(type) else all_four} * i_"
        word_by_word = f"load_matrices<{turned}>({name}, {step}, {address});"
        lines = [declaration(type, name), f"const uint32_t {name}_at = {tile.address};", UNROLL]
        loop = f"for (int i_ = 0; i_ < {form.registers // all_four}; ++i_) {word_by_word}"
        return [*lines, loop], held(name, type)
    many = form.neighbours(contiguous(form, tile), 16 * 8 // tile.bits)
    one = form.point(f"(i_ * {many})") if many > 1 else form.point()
    address = f"{name}_at + {element_place(tile, one)}"
    found, kind, count = held(name, type), c_type(type), form.registers // many
    after = list[str]()
    if many > 1:
        words = many // 2 if found.pack else many
        read = f"load_elements<{words}>({name}, i_ * {words}, {address});"
    elif found.pack:
        pair = (form.point(f"({plus('2 * i_', half)})") for half in (0, 1))
        places = (f"{name}_at + {element_place(tile, at)}" for at in pair)
        low, high = (f"shared_at<{kind}>({place})" for place in places)
        read, count = f"{name}[i_] = {together(found.pack, low, high)};", form.registers // 2
    else:
        lane = _exchanging_lanes(form, tile)
        address = (
            address if lane is None else f"{name}_at + {element_place(tile, _exchanged(form, lane).point())}"
        )
        after = [] if lane is None else [f"exchange_neighbours({name}, thread.lane & {1 << lane});"]
        read = f"{name}[i_] = shared_at<{kind}>({address});"
    again = places_again(tile, form.point(), count)
    begin = base(f"{name}_at", tile.address) if again else [f"const uint32_t {name}_at = {tile.address};"]
    loop = f"for (int i_ = 0; i_ < {count}; ++i_)"
    return [declaration(type, name), *begin, UNROLL, loop, f"    {read}", *after], found


def _exchanging_lanes(form: Spread, tile: Shared) -> int | None:
    """The bit of the lane's number with which threads read each two neighbours among their bytes in the other
    order, so that fewer of a warp meet in a bank; None where none does, in order. (Four lines of bytes, each
    four lines behind the one before, in a swizzle of eight: the first and the third meet.)"""
    if tile.bits != 8 or tile.places or tile.padded or not form.register or len(form.lane) != 5:
        return None
    return min((None, *range(5)), key=lambda lane: _passes(_exchanged(form, lane), tile))


def _exchanged(form: Spread, lane: int | None) -> Spread:
    """What threads read as their first registers, where those with a bit of the lane's number begin with the
    second."""
    if lane is None:
        return form
    other = tuple(own ^ step for own, step in zip(form.lane[lane], form.register[0], strict=True))
    return replace(form, lane=(*form.lane[:lane], other, *form.lane[lane + 1 :]))


def _passes(form: Spread, tile: Shared) -> int:
    """How many passes over the banks an access of all lanes to a byte takes."""
    places = [(0, 0)]
    for row, column in form.point().lines().lane:
        places += [(one ^ row, other ^ column) for one, other in places]
    return passes(1, [_offset(tile, *at) for at in places])


def _offset(tile: Shared, row: int, column: int) -> int:
    line, byte = (column, row) if tile.transposed else (row, column)
    return byte // tile.width * tile.box + swizzle(tile.width, line * tile.width + byte % tile.width)


def contiguous(form: Spread, tile: Shared) -> int:
    """The dimension along which elements lie side by side in shared memory."""
    return len(form.shape) - (2 if tile.transposed else 1)


_IN_A_WORD = {8: 2, 16: 1, 32: 0}
"""Bits of the number of an element in a word of a matrix, by the bits of an element."""


def matrix_rows(form: Spread, tile: Shared) -> tuple[LinearPoint, bool] | None:
    """The row of a matrix of 8 x 8 elements of 16 bits whose address each lane gives, and whether matrices
    are transposed, where four of them are eight registers of each thread, sixteen of a byte or four of 32
    bits, whose halves stay together (PTX ISA, ldmatrix). Transposed, the two elements of a word and the four
    lanes beside each other have the rows that their lanes name, which need not be neighbours: operands of
    mma.sync that a thread holds four consecutive elements of. None where warps or registers exchange elements
    of a row, of which there are 16 bytes side by side: an accumulator of fewer than eight columns for each
    warp."""
    if tile.bits not in _IN_A_WORD or len(form.shape) != 2:
        return None
    first, line_size = _IN_A_WORD[tile.bits], 16 * 8 // tile.bits
    if len(form.register) < first + 2:
        return None
    for along in (0, 1):
        sizes = tuple(1 << k for k in range(first + 2))
        unit = tuple((size, 0) if along == 0 else (0, size) for size in sizes)
        other = tuple((0, size) if along == 0 else (size, 0) for size in (1, 2, 4))
        own = (*form.register[:first], *form.lane[:2])
        contiguous = along == (0 if tile.transposed else 1)
        turned = tile.bits == 16 and all(at[along] and not at[1 - along] for at in own)
        line = along if contiguous else 1 - along
        whole = all(at[line] % line_size == 0 for at in (*form.register[first:], *form.warp))
        if (own == unit if contiguous else turned) and whole and form.lane[2:] == other:
            lane = (*(other if contiguous else own), *form.register[first : first + 2])
            here = LinearPoint(form.shape, form.register[first + 2 :], lane, form.warp, (0, 0))
            return here, not contiguous
    return None


def byte_of(tile: Shared, row: str, column: str) -> str:
    """Bytes to an element."""
    if tile.transposed:
        row, column = column, row
    if tile.places:
        return times(place(tile.places, row, column), tile.bits // 8)
    byte = tile.byte(f"{column} * {tile.bits // 8}")
    return (
        f"{byte} / {tile.width} * {tile.box} + swizzle<{tile.width}>({row} * {tile.width} + {byte} %"
        f" {tile.width})"
    )


def element_place(tile: Shared, one: LinearPoint) -> str:
    """Bytes to an element. Where no bit of a coordinate depends on both register and thread, their parts are
    found apart (`divided_place`)."""
    one = one.lines()
    if tile.places or tile.padded:
        return byte_of(tile, one.coordinate(0), one.coordinate(1))
    registers, threads = one.parts()
    if _overlap(tile, registers, threads):
        return byte_of(tile, one.coordinate(0), one.coordinate(1))
    first, second = (tuple(part.coordinate(axis) for axis in (0, 1)) for part in (registers, threads))
    whole = registers.span(1 if tile.transposed else 0) % PATTERN == 0
    return divided_place(tile, (first[0], first[1]), (second[0], second[1]), whole)


def _overlap(tile: Shared, registers: LinearPoint, threads: LinearPoint) -> bool:
    """Whether a bit of a coordinate depends on both, but for lines of a pattern: registers flip these."""
    both = [registers.span(axis) & threads.span(axis) for axis in (0, 1)]
    both[1 if tile.transposed else 0] &= -PATTERN
    return any(both)


PATTERN = 8
"""Rows after which each swizzle repeats."""


def divided_place(
    tile: Shared, registers: tuple[str, str], threads: tuple[str, str], whole: bool = True
) -> str:
    """Bytes to the element at the sum of two coordinates, without a carry: what registers add only flips bits
    of the swizzled place of the thread, or is an offset known to the compiler, so that all addresses of a
    thread follow from one. `whole`: registers add whole patterns of rows; a part of one flips bits too, since
    the swizzle of an exclusive or is that of the swizzled ones."""
    row, column = reversed(registers) if tile.transposed else registers
    line, start = reversed(threads) if tile.transposed else threads
    size, width = tile.bits // 8, tile.width
    boxes = [f"{place} * {size} / {width} * {tile.box}" for place in (column, start) if place != "0"]
    patterns = f"{row} * {width}" if whole else f"{row} / {PATTERN} * {PATTERN * width}"
    rows = [patterns] if row != "0" else []
    inside = plus(f"{line} * {width}", f"{start} * {size} % {width}" if start != "0" else 0)
    flipped = f"{column} * {size} % {width}" if column != "0" else ""
    if not whole:
        part = plus(f"{row} % {PATTERN} * {width}", flipped or 0)
        flipped = f"swizzle<{width}>({part})"
    return " + ".join([*boxes, *rows, f"(swizzle<{width}>({inside}){f' ^ {flipped}' if flipped else ''})"])


def coordinates(form: Fragment, register: str) -> tuple[str, str]:
    """The row and the column of the element in a register; a vector has one of them."""
    one = point(form, register)
    row, column = (one.along((axis,)).coordinate() if axis in form.axes else "0" for axis in (0, 1))
    return row, column


def owned(form: Fragment | Spread, register: str) -> str:
    """The condition on which a thread has an element in a register, where some have none."""
    if isinstance(form, Spread) or not form.threads or prod(form.shape) % form.threads == 0:
        return ""
    return f"if (thread.index + {form.threads} * {register} < {prod(form.shape)}) "


def unrolled(form: Fragment | Spread) -> str:
    """The line before a loop over the elements that a thread holds."""
    return FEW if isinstance(form, Fragment) and form.threads else UNROLL


def neighbours(name: str, tile: Shared, pair: str) -> str:
    """Two neighbours in registers."""
    if tile.bits == 32:
        return f"{name}[2 * {atom(pair)}], {name}[2 * {atom(pair)} + 1]"
    return f"{name}[{atom(pair)} / 4][{atom(pair)} % 4]"
