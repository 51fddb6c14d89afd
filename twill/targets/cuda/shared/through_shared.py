"""Tiles that pass through shared memory: written to a slot of a channel, or converted to another layout.

Takes a `Scope` and a value or a `ttg.convert_layout`; appends lines of C to the scope.
"""

from collections.abc import Sequence
from dataclasses import replace

from twill.ir.channels import Channel, SlotTensor
from twill.ir.loop import MemDesc, Op, Tensor, Value
from twill.ops.c import c_type
from twill.targets.cuda.registers.elements import (
    by_thread,
    guard,
    once,
    plain,
    thread_words,
    word_array,
    written,
)
from twill.targets.cuda.registers.fragments import Fragment, holding, moves, renumbered
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import (
    Elements,
    Held,
    Transposed,
    as_stored,
    declaration,
    held,
    linear_point,
    number,
    packed,
    point,
    turned,
    word,
)
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.bank_conflicts import LANES, passes, swizzle
from twill.targets.cuda.shared.bytes_of_words import bytes_of_words
from twill.targets.cuda.shared.common_places import Places, Side, common_places
from twill.targets.cuda.shared.shared_stores import (
    bytes_stored,
    matrices_stored,
    scattered,
    stored,
    stored_by_columns,
)
from twill.targets.cuda.shared.shared_tiles import (
    UNROLL,
    Shared,
    addressed,
    bases_of,
    contiguous,
    loaded,
    matrix_rows,
    unrolled,
)
from twill.warp.slot_tensors import bits

MATRICES = 4 * 8 * 16
"""Bytes of the matrices that a warp reads or writes by one instruction."""
OF_LANE = 16
"""Bytes of the row of a matrix whose address a lane gives."""
SWIZZLES = (128, 64, 32)
"""Bytes of a line of a swizzle pattern."""


def write_tile(scope: Scope, value: int, tensor: SlotTensor, channel: Channel, address: str) -> None:
    """Write a value to a slot. Raises ValueError for a tile that a slot can not hold."""
    found, form = scope.program.value(value), scope.values[value]
    if isinstance(form, str) and not isinstance(found.type, Tensor):
        scope.lines.append(f"if (thread.leader) shared_at<{c_type(found.type)}>({address}) = {form};")
        return
    maker = scope.program.op(found.producer) if found.producer is not None else None
    kind = maker.operands[0].type if maker is not None and isinstance(found.type, MemDesc) else found.type
    assert isinstance(kind, Tensor)
    transposed, elements = isinstance(form, Transposed), scope.elements(found)
    source = form.source if isinstance(form, Transposed) else elements
    fragment = source.layout if isinstance(source, Held) else scope.layout(kind)
    if tensor.encoding is None and scope.alike(channel) and (words := thread_words(kind)):
        made, name = word_array(kind, elements, f"words_{len(scope.lines)}")
        scope.lines += [*made, *words.write(name, address)]
        return
    if tensor.encoding is None and scope.alike(channel) and (to := by_thread(kind, address)):
        form = holding(kind)
        one = point(form, "i_")
        scope.lines += [UNROLL, f"for (int i_ = 0; i_ < {form.registers}; ++i_)"]
        scope.lines.append(f"    {to(one)} = {as_stored(kind, elements, one)};")
        return
    if tensor.encoding is None:
        one = point(fragment, "i_")
        body = f"{guard(once(fragment))}{plain(kind, address, one)} = {as_stored(kind, elements, one)};"
        scope.lines += [
            unrolled(fragment),
            f"for (int i_ = 0; i_ < {fragment.registers}; ++i_)",
            f"    {body}",
        ]
        return
    tile = addressed(address, tensor)
    tile = replace(tile, transposed=tile.transposed != transposed)
    written = maker.operands[0] if maker is not None and isinstance(found.type, MemDesc) else found
    words = bytes_of_words(scope, written) if tile.bits == 8 and not transposed else None
    if words is not None and (lines := bytes_stored(words, fragment, tile)):
        scope.lines += lines
        return
    _write_swizzled(scope, source, fragment, tile, kind)


def convert(scope: Scope, op: Op) -> None:
    """Through shared memory where elements change threads; from where they lie there, if they were read. What
    every thread can compute where it goes is not moved."""
    source, result = op.operands[0].type, op.result.type
    if op.operands[0].id in scope.loads:
        assert isinstance(result, Tensor)
        scope.values[op.result.id] = scope.converted(op.operands[0], result)
        return
    form = scope.form(op.operands[0])
    if isinstance(form, str | Shared | Transposed) or (isinstance(form, Held) and not moves(source, result)):
        scope.values[op.result.id] = form
        return
    assert isinstance(source, Tensor)
    assert isinstance(result, Tensor)
    seen = form if isinstance(form, Held) else turned(form, source, result)
    computed = not isinstance(seen, Held) and _known(seen, result)
    if scope.narrow or not moves(source, result) or computed:
        scope.values[op.result.id] = seen
        return
    if renumbered(source, result):
        _renumber(scope, op.result, result, seen)
    elif (tile := scope.read_from.get(op.operands[0].id)) is not None:
        scope.values[op.result.id] = _read_again(scope, op.result, result, tile)
    elif (tile := _swizzled_scratch(form, source, result)) is not None:
        room = scope.room(op)
        tile = replace(tile, address=room.address)
        scope.lines += room.before
        _write_once(scope, form, source, tile)
        scope.lines.append(room.barrier)
        lines, scope.values[op.result.id] = loaded(result, tile, f"read_{len(scope.lines)}")
        scope.lines += lines
    else:
        _convert_by_elements(scope, op, source, result, form)


def _renumber(scope: Scope, value: Value, kind: Tensor, elements: Elements) -> None:
    """Each thread keeps its elements, in the registers in which MMAs have them."""
    name = scope.name(value)
    scope.lines += [] if value.id in scope.targets else [declaration(kind, name)]
    scope.lines += written(kind, name, lambda one: elements(linear_point(one)))
    scope.values[value.id] = held(name, kind)


def _convert_by_elements(scope: Scope, op: Op, source: Tensor, result: Tensor, form: Elements) -> None:
    value, room, fragment = op.result, scope.room(op), holding(source)
    name, one = scope.name(value), point(fragment, "i_")
    scope.lines += room.before
    if (found := _side_by_side(source, result)) is not None:
        places, *sides = found
        scope.lines += _stored_together(places, sides[0], source, form, room.address)
        reading = _read_together(places, sides[1], result, name, room.address)
    else:
        scope.lines += [UNROLL, f"for (int i_ = 0; i_ < {fragment.registers}; ++i_)"]
        scope.lines.append(
            f"    {guard(once(fragment))}{plain(source, room.address, one)} = {as_stored(source, form, one)};"
        )
        reading = written(result, name, lambda one: number(result, plain(result, room.address, one)))
    if scope.read_late is not None and value.id in scope.targets:
        scope.halves.forget()
        scope.read_late += reading
    else:
        scope.lines += [room.barrier, *([] if value.id in scope.targets else [declaration(result, name)])]
        scope.lines += reading
    scope.values[value.id] = held(name, result)


def _side_by_side(source: Tensor, result: Tensor) -> tuple[Places, Side, Side] | None:
    """The order of a tile's elements in shared memory in which threads move several at once, and how those
    that write and those that read it do. None where none is better than row by row."""
    writing, reading, size = holding(source), holding(result), bits(source.dtype) // 8
    if not (isinstance(writing, Spread) and isinstance(reading, Spread) and size in (1, 2, 4, 8)):
        return None
    places = common_places(writing, reading, size)
    return None if places is None else (places, places.side(writing), places.side(reading))


def _stored_together(places: Places, side: Side, kind: Tensor, elements: Elements, address: str) -> list[str]:
    form, many = side.form, side.many
    to = f"{address} + {places.address(form.point(f'(i_ * {many})' if many > 1 else 'i_'))}"
    steps = [f"(i_ * {many} + {n})" for n in range(many)] if many > 1 else ["i_"]
    made = [as_stored(kind, elements, form.point(step)) for step in steps]
    owner, loop = guard(once(form)), f"for (int i_ = 0; i_ < {form.registers // many}; ++i_)"
    if many == 1:
        return [UNROLL, loop, f"    {owner}shared_at<{c_type(kind)}>({to}) = {made[0]};"]
    return [
        UNROLL,
        f"{loop} {{",
        f"    const {c_type(kind)} part_[{many}] = {{{', '.join(made)}}};",
        f"    {owner}store_elements<{many}>({to}, part_, 0);",
        "}",
    ]


def _read_together(places: Places, side: Side, kind: Tensor, name: str, address: str) -> list[str]:
    form, many, found = side.form, side.many, f"{name}_found"
    at = f"{address} + {places.address(form.point(f'(i_ * {many})' if many > 1 else 'i_'))}"
    pack, halves = (packed(kind), False) if many > 1 else (None, packed(kind) is not None)
    words = many // 2 if pack else many
    array = f"{word(kind) if pack else c_type(kind)} {found}[{form.registers // many * words}];"
    read = f"load_elements<{words}>({found}, i_ * {words}, {at});"
    if many == 1:
        read = f"{found}[i_] = shared_at<{c_type(kind)}>({at});"
    loop = f"for (int i_ = 0; i_ < {form.registers // many}; ++i_)"
    return [array, UNROLL, f"{loop} {read}", *written(kind, name, Held(found, form, pack, halves))]


def _swizzled_scratch(elements: Elements, kind: Tensor, result: Tensor) -> Shared | None:
    """How a tile lies in the scratch buffer in a swizzle, so that several elements move at once and without
    bank conflicts: the elements of its rows or of its columns side by side, as that takes fewer passes over
    the banks. None for a tile that is no matrix of whole lines. Matrices of 16-bit elements are stored either
    way at once: there, passes of those that read count."""
    size, form = bits(kind.dtype), holding(kind)
    if len(kind.shape) != 2 or 1 in kind.shape or size not in (16, 32):
        return None
    columns = form.shape[1] // (form.across if isinstance(form, Fragment) else 1)
    found = _in_lines(kind.shape, columns, size, transposed=False)
    if not isinstance(form, Spread) and not (size == 16 and _in_matrices(elements)):
        return found
    turned = _in_lines(kind.shape[::-1], kind.shape[0], size, transposed=True)
    tiles = [tile for tile in (found, turned) if tile is not None]
    writing = form if isinstance(form, Spread) else None
    return min(tiles, key=lambda tile: _costs(writing, holding(result), tile), default=None)


def _in_matrices(elements: Elements) -> bool:
    """Whether threads hold a tile in pairs, as an MMA has it."""
    return isinstance(elements, Held) and bool(elements.pack) and isinstance(elements.layout, Fragment)


def _in_lines(shape: tuple[int, ...], columns: int, size: int, *, transposed: bool) -> Shared | None:
    """`columns`: which no line crosses the end of."""
    width = next((one for one in SWIZZLES if columns * size // 8 % one == 0), None)
    return Shared("", shape[0], shape[1], size, width, transposed) if width else None


def _costs(source: Spread | None, result: Fragment | Spread, tile: Shared) -> tuple[int, int]:
    """Passes over the banks, then instructions, of a warp that writes a tile, if that depends on how it lies,
    and reads it again."""
    read = result if isinstance(result, Spread) else bases_of(result)
    written = (0, 0)
    if source is not None:
        written = _accesses(source, tile) if _stores_matrices(source, tile) else _by_elements(source, tile)
    found = (result.registers, result.registers) if read is None else _accesses(read, tile)
    return written[0] + found[0], written[1] + found[1]


def _accesses(form: Spread, tile: Shared) -> tuple[int, int]:
    """Passes and instructions of a warp that accesses its elements, as matrices if it can, else neighbours of
    a thread together."""
    return _by_matrices(form, tile) or _by_elements(form, tile)


def _by_matrices(form: Spread, tile: Shared) -> tuple[int, int] | None:
    """Rows of a matrix need not be neighbours: then some of them lie on the same banks."""
    matrices = matrix_rows(form, tile)
    if matrices is None:
        return None
    count = form.registers * LANES * tile.bits // 8 // MATRICES
    return count * passes(OF_LANE, _places(matrices[0].lane, tile)), count


def _by_elements(form: Spread, tile: Shared) -> tuple[int, int]:
    many = _neighbours(form, tile)
    count = form.registers // many
    return count * passes(many * tile.bits // 8, _places(form.lane, tile)), count


def _stores_matrices(form: Spread, tile: Shared) -> bool:
    """Whether it is written as matrices: where that takes no more."""
    matrices = _by_matrices(form, tile) if tile.bits == 16 else None
    return matrices is not None and matrices <= _by_elements(form, tile)


def _neighbours(form: Spread, tile: Shared) -> int:
    return form.neighbours(contiguous(form, tile), 16 * 8 // tile.bits)


def _together(form: Spread, tile: Shared) -> bool:
    """Whether an instruction writes several elements of a thread."""
    return _neighbours(form, tile) > 1 or _stores_matrices(form, tile)


def _places(lanes: Sequence[Sequence[int]], tile: Shared) -> list[int]:
    """Bytes to the first element of each lane of the first warp, by what each bit of its number adds to the
    coordinates."""
    return [_place([at for bit, at in enumerate(lanes) if lane >> bit & 1], tile) for lane in range(LANES)]


def _place(own: Sequence[Sequence[int]], tile: Shared) -> int:
    row, column = (sum(vector[axis] for vector in own) for axis in (0, 1))
    row, column = (column, row) if tile.transposed else (row, column)
    byte = column * tile.bits // 8
    return byte // tile.width * tile.box + swizzle(tile.width, row * tile.width + byte % tile.width)


def _write_once(scope: Scope, form: Elements, kind: Tensor, tile: Shared) -> None:
    """Of a tile that threads hold more than once, one of them writes each element: the operands and results
    of MMAs of warps side by side. (An output of fla's in tiles of 32 x 32 whose four warps are two copies:
    rows of 128 bytes, element by element, had eight lanes of a warp on one bank.)"""
    owner, begin = once(holding(kind)), len(scope.lines)
    _write_scratch(scope, form, kind, tile)
    if owner != "true":
        scope.lines[begin:] = [f"if ({owner}) {{", *(f"    {line}" for line in scope.lines[begin:]), "}"]


def _write_scratch(scope: Scope, form: Elements, kind: Tensor, tile: Shared) -> None:
    """Of a tile that threads see otherwise than they hold it (transposed, or its columns exchanged),
    neighbours come together in registers first."""
    layout = form.layout if isinstance(form, Held) else holding(kind)
    if not isinstance(form, Held) and isinstance(layout, Spread) and _together(layout, tile):
        lines, name = word_array(kind, form, f"written_{len(scope.lines)}")
        scope.lines += lines
        form = held(name, kind)
    _write_swizzled(scope, form, layout, tile, kind)


def _write_swizzled(
    scope: Scope, form: Elements, layout: Fragment | Spread, tile: Shared, kind: Tensor
) -> None:
    """Write a tile to lines of a swizzle pattern: pairs or matrices where the lines stay whole, else element
    by element."""
    if isinstance(form, Held) and _in_matrices(form) and tile.transposed and tile.bits == 16:
        scope.lines += stored_by_columns(form, tile)
        return
    if isinstance(form, Held) and isinstance(layout, Fragment) and not tile.transposed and not tile.places:
        try:
            scope.lines += stored(form, tile)
            return
        except ValueError:  # a line would be torn, or the elements are not in pairs
            pass
    lines = None
    if isinstance(form, Held) and isinstance(layout, Spread) and _stores_matrices(layout, tile):
        lines = matrices_stored(form, layout, tile)
    scope.lines += lines or scattered(form, layout, tile, kind)


def _known(form: Elements, kind: Tensor) -> bool:
    """Whether each thread can compute the elements that it holds of a tile."""
    try:
        form(point(holding(kind), "i_"))
    except ValueError:
        return False
    return True


def _read_again(scope: Scope, value: Value, kind: Tensor, tile: str | Shared) -> Held:
    """A tile that lies in shared memory, in another layout than it was read in."""
    if isinstance(tile, Shared):
        lines, found = loaded(kind, tile, f"read_{len(scope.lines)}")
        scope.lines += [*lines, f"await_reads({found.name});"]
        return found
    name = scope.name(value)
    scope.lines += [] if value.id in scope.targets else [declaration(kind, name)]
    scope.lines += written(kind, name, lambda one: number(kind, plain(kind, tile, one)))
    return held(name, kind)
