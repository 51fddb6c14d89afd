"""Tiles in registers, written to shared memory by the threads that hold them; gives C."""

from twill.ir.loop import Tensor, Type
from twill.ops.c import c_type
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.registers.linear_tiles import Point as LinearPoint
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import Elements, Held, as_stored, point
from twill.targets.cuda.shared.bank_conflicts import Exchange, exchange
from twill.targets.cuda.shared.shared_tiles import (
    UNROLL,
    Shared,
    base,
    bases_of,
    byte_of,
    contiguous,
    coordinates,
    divided_place,
    element_place,
    matrix_place,
    matrix_rows,
    neighbours,
    owned,
    pair_place,
    places_again,
    tile_row,
    unrolled,
)


def stored(source: Held, tile: Shared, first: int = 0) -> list[str]:
    """Write the columns of a tile in registers from `first` on, as many as the tile has. Pairs of 32 bits
    are written in the order that spares bank conflicts (stmatrix has none). Raises ValueError where a line of
    the pattern would be torn, and for elements of less than 32 bits that are not kept in pairs."""
    if tile.padded:
        raise ValueError("of 4-bit floats beside 8-bit ones is padded: it is stored element by element")
    if tile.places:
        raise ValueError("without a swizzle is stored element by element")
    if isinstance(source.layout, Spread):
        return _rows_stored(source, source.layout, tile, first)
    if tile.bits < 32 and not source.pack:
        raise ValueError("is stored element by element")
    whole = source.fragment
    part = Fragment(whole.axes, (whole.shape[0], tile.columns), whole.down, whole.across, copies=whole.copies)
    if tile.bits == 16:
        j = _from("j", whole, part, 8, first)
        four = ", ".join(f"{source.name}[{j}][{i}]" for i in range(4))
        body = f"stmatrix_x4({tile.address} + {matrix_place(tile, part)}, {four});"
        return [UNROLL, f"for (int j = 0; j < {part.registers // 8}; ++j)", f"    {body}"]
    plain = neighbours(source.name, tile, _from("p", whole, part, 2, first))
    how = exchange(tile.width, tile.bits // 8) if tile.bits == 32 else Exchange()
    loop = f"for (int p = 0; p < {part.registers // 2}; ++p)"
    if not how.row:
        return [UNROLL, loop, f"    store_shared({tile.address} + {pair_place(tile, part)}, {plain});"]
    odd = f"thread.row / {how.row} % 2" if how.row > 1 else "thread.row % 2"
    other = neighbours(source.name, tile, _from(f"(p ^ {how.bytes // 16})", whole, part, 2, first))
    both = (f"{odd} ? {a} : {b}" for a, b in zip(other.split(", "), plain.split(", "), strict=True))
    address = pair_place(tile, part, f" ^ {odd} * {how.bytes}")
    return [UNROLL, loop, f"    store_shared({tile.address} + {address}, {', '.join(both)});"]


def stored_by_columns(source: Held, tile: Shared) -> list[str]:
    """Write a tile of 16 bits whose columns lie one after the other. Raises ValueError as `loaded`."""
    form = source.fragment
    line = form.band // 8
    j, band = ("j", "") if form.bands == 1 else (f"j % {line}", f" + j / {line} * {16 * form.down}")
    row = f"{tile_row('thread.row', form)} - thread.lane / 4 + thread.lane / 8 % 2 * 8{band}"
    part = f" + thread.row / {16 * form.down} * {form.shape[1] // form.across}" if form.across > 1 else ""
    column = f"({j} * 16 + thread.lane / 16 * 8 + thread.lane % 8{part})"
    four = ", ".join(f"{source.name}[j][{i}]" for i in range(4))
    body = f"stmatrix_x4_transposed({tile.address} + {byte_of(tile, f'({row})', column)}, {four});"
    return [UNROLL, f"for (int j = 0; j < {form.registers // 8}; ++j)", f"    {body}"]


def matrices_stored(source: Held, form: Spread, tile: Shared) -> list[str] | None:
    """Write a tile that threads hold in pairs of 16 bits, as MMAs of warps do, by matrices, as `loaded` reads
    it; None where matrices do not have whole rows of it."""
    matrices = matrix_rows(form, tile) if tile.bits == 16 and source.pack and source.layout == form else None
    if matrices is None:
        return None
    one, transposed = matrices
    store = "stmatrix_x4_transposed" if transposed else "stmatrix_x4"
    four = ", ".join(f"{source.name}[4 * i_ + {i}]" for i in range(4))
    body = f"{store}({tile.address} + {element_place(tile, one)}, {four});"
    return [UNROLL, f"for (int i_ = 0; i_ < {form.registers // 8}; ++i_)", f"    {body}"]


def _rows_stored(source: Held, form: Spread, tile: Shared, first: int) -> list[str]:
    """Of a tile that has a row in each thread (`tensor_memory.row_groups`): as many registers from `first` on
    as the tile has columns for each of its warpgroups, neighbours in one access."""
    groups = form.shape[1] // form.registers
    own = tile.columns // groups
    many = 16 * 8 // tile.bits
    if tile.transposed or own % many:
        raise ValueError("is cut inside a line of the swizzle pattern")
    threads = "0" if groups == 1 else f"{_column_group(form)} * {own}"
    at = divided_place(tile, ("0", f"i_ * {many}"), (form.point().coordinate(0), threads))
    address = f"{tile.address} + {at}"
    words = many // 2 if source.pack else many
    begin = first * words // many
    index = f"{begin} + i_ * {words}" if first else f"i_ * {words}"
    write = f"store_elements<{words}>({address}, {source.name}, {index});"
    return [UNROLL, f"for (int i_ = 0; i_ < {own // many}; ++i_) {write}"]


def _column_group(form: Spread) -> str:
    """Which of the groups among which a row's columns are divided a thread belongs to: by its warpgroup, and
    by its half of the warp where a warp has 16 rows."""
    halves = any(vector[1] for vector in form.lane)
    return "(thread.warp / 4 * 2 + thread.lane / 16)" if halves else "thread.warp / 4"


def scattered(elements: Elements, form: Fragment | Spread, tile: Shared, kind: Tensor) -> list[str]:
    """Write a tile of a type one by one, each element where it belongs."""
    one = point(form, "i_")
    bases = form if isinstance(form, Spread) else bases_of(form)
    if bases and isinstance(elements, Held) and elements.layout == form and not tile.places:
        many = bases.neighbours(contiguous(bases, tile), 16 * 8 // tile.bits // tile.room)
        if many > 1:
            address = f"to_ + {element_place(tile, bases.point(f'(i_ * {many})'))}"
            words = many // 2 if elements.pack else many
            source, first = elements.name, f"i_ * {words}"
            if elements.pack and isinstance(form, Fragment):
                source, first = f"{elements.name}[i_ / 4]", "i_ % 4"
            store = f"store_elements<{words}>({address}, {source}, {first});"
            count = form.registers // many
            lines = [UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_) {store}"]
            return _to(tile, lines, again=places_again(tile, bases.point(), count))
    if bases and (together := _neighbours_stored(elements, form, bases, tile, kind)):
        return together
    if bases:
        place = element_place(tile, bases.point("i_"))
    else:
        assert isinstance(form, Fragment)
        place = byte_of(tile, *coordinates(form, "i_"))
    write = f"shared_at<{c_type(kind)}>(to_ + {place}) = {as_stored(kind, elements, one)};"
    loop = f"for (int i_ = 0; i_ < {form.registers}; ++i_)"
    again = bases is not None and places_again(tile, bases.point(), form.registers)
    return _to(tile, [unrolled(form), loop, f"    {owned(form, 'i_')}{write}"], again=again)


def _neighbours_stored(
    elements: Elements, form: Fragment | Spread, bases: Spread, tile: Shared, kind: Tensor
) -> list[str] | None:
    """The same, what is computed for neighbours in one access; None where a thread's registers have none."""
    many = bases.neighbours(contiguous(bases, tile), 16 * 8 // tile.bits)
    if many == 1 or tile.places or tile.padded or owned(form, "i_"):
        return None
    made = [as_stored(kind, elements, point(form, f"(i_ * {many} + {n})")) for n in range(many)]
    return _parts_stored(tile, bases, many, f"{c_type(kind)} part_[{many}] = {{{', '.join(made)}}}")


def bytes_stored(words: Elements, form: Fragment | Spread, tile: Shared) -> list[str] | None:
    """Write a tile of bytes of words; None where a thread's registers have fewer than four neighbours, or
    words are in no registers."""
    bases = form if isinstance(form, Spread) else bases_of(form)
    many = bases.neighbours(contiguous(bases, tile), 16 * 8 // tile.bits) if bases else 1
    if bases is None or many < 4 or tile.places or tile.padded or owned(form, "i_"):
        return None
    try:
        made = [words(point(form, f"(i_ * {many} + {n})")) for n in range(many)]
    except ValueError:
        return None
    return _parts_stored(tile, bases, many, f"ByteOfWord part_[{many}] = {{{', '.join(made)}}}")


def _parts_stored(tile: Shared, bases: Spread, many: int, part: str) -> list[str]:
    """Accesses of neighbours, which are listed."""
    address = f"to_ + {element_place(tile, bases.point(f'(i_ * {many})'))}"
    count = bases.registers // many
    lines = [
        UNROLL,
        f"for (int i_ = 0; i_ < {count}; ++i_) {{",
        f"    const {part};",
        f"    store_elements<{many}>({address}, part_, 0);",
        "}",
    ]
    return _to(tile, lines, again=places_again(tile, bases.point(), count))


def _to(tile: Shared, accesses: list[str], *, again: bool) -> list[str]:
    """Accesses to a tile whose address is `to_`, in a variable of its own where `places_again`."""
    if again:
        return ["{", *(f"    {line}" for line in (*base("to_", tile.address), *accesses)), "}"]
    return [line.replace("(to_ + ", f"({tile.address} + ") for line in accesses]


def picked(source: Held, tile: Shared, part: int, kind: Type) -> list[str]:
    """Write part number `part` of the columns of a tile of a type in registers, as many as `tile` has, one by
    one."""
    form = source.layout
    one = point(form, "i_")
    if isinstance(one, LinearPoint):
        row, column = (one.lines().coordinate(axis) for axis in (0, 1))
    else:
        row, column = (f"({at})" for at in coordinates(one.layout, "i_"))
    whole = form.shape[-1] == tile.columns
    inside = column if whole else f"({column} % {tile.columns})"
    chosen = "" if whole else f"if ({column} / {tile.columns} == {part}) "
    place = f"{tile.address} + {byte_of(tile, row, inside)}"
    written = f"shared_at<{c_type(kind)}>({place}) = {as_stored(kind, source, one)};"
    body = f"{chosen}{owned(form, 'i_')}{written}"
    return [unrolled(form), f"for (int i_ = 0; i_ < {form.registers}; ++i_) {body}"]


def _from(index: str, whole: Fragment, part: Fragment, unit: int, first: int) -> str:
    """The number of the word, of `unit` registers, that goes to position `index` of a part of a tile."""
    begin = f"{first // 2 // unit} + " if first else ""
    if whole.bands == 1 or whole.shape == part.shape:
        return f"{begin}{index}"
    return f"{index} / {part.band // unit} * {whole.band // unit} + {begin}{index} % {part.band // unit}"
