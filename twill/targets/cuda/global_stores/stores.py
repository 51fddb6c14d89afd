"""Loads and stores of tiles through pointers, and atomic additions to them, several elements at once.

Takes a load, a store or an atomic addition (nobody reads what it finds) whose value lies in registers as an
MMA leaves it; gives C, or nothing where its elements are to be moved one by one. A thread holds pairs of
neighbouring elements. Four neighbouring threads, which hold the columns of one line between them, exchange
words of 16-bit or 8-bit elements, so that each moves 16 bytes; of 32-bit elements two of them do, and fill 64
bytes of a row in the place of 32: L2 takes as long for a part of a line as for all of it. So do those that
store only 16 columns of 16 bits, for two rows: pairs would fill half a sector at a time. Where addresses are
consecutive but not known to be aligned (a base or stride that the kernel loads), each such store is as wide
as its address allows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from twill.ir.loop import Function, Op, Tensor, Value
from twill.ops.axis_info import AxisAnalysis, moved_together, run_bytes
from twill.ops.c import c_type
from twill.ops.table import lookup, role
from twill.targets.cuda.registers.elements import all_of, guard, once
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import Held, Point, as_stored, packed, point
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.warp.slot_tensors import bits

_WORDS = 4
"""That one store takes: 16 bytes."""
_EXCHANGE = {False: "transpose_quad", True: "transpose_bytes"}
"""The runtime's function by which four threads exchange words; whether these hold bytes."""
_TOGETHER = 4
"""Stores of 16 bytes of a tile, at most, whose words are exchanged together, in 16 registers."""


@cache
def pointer_analysis(function: Function) -> AxisAnalysis:
    """What is known of the pointers and masks of a function."""
    return AxisAnalysis(function)


def vector_store(scope: Scope, op: Op) -> list[str] | None:
    """The store of a tile, or the addition, in 16 bytes, or in pairs of elements; None where pointers or
    masks of neighbours do not belong together, or the tile lies otherwise."""
    pointers, value, *masks = op.operands
    assert isinstance(value.type, Tensor)
    source = scope.elements(value)
    if not isinstance(source, Held) or not isinstance(source.layout, Fragment) or len(value.type.shape) != 2:
        return None
    form, size = source.layout, bits(value.type.dtype) // 8
    if form.axes != (0, 1) or form.threads or size not in (1, 2, 4):
        return None
    analysis = pointer_analysis(scope.program.function)
    together = moved_together(analysis, pointers, masks, 1)
    run = run_bytes(analysis, pointers, masks, 1)
    exchanged = source.pack is not None and size == 2 and form.band % 16 == 0
    of_bytes = source.pack is not None and size == 1 and form.band % 32 == 0
    try:
        if of_bytes and together == 16 and not adds(op):
            return _sixteen_bytes(scope, op, source, form, _words(op))
        if exchanged and together == 16:
            return _sixteen_bytes(scope, op, source, form, _words(op))
        if size == 4 and together == 16 and form.band % 8 == 0:
            return _quads(scope, op, source, form)
        if source.pack is not None and size == 2 and together == 16 and form.band % 8 == 0 and not adds(op):
            return _sixteen_columns(scope, op, source, form)
        if together >= max(4, 2 * size):
            return _pairs(scope, op, source, form)
        if exchanged and run and run % 16 == 0 and not adds(op):
            return _sixteen_bytes(scope, op, source, form, "store_words_anywhere")
    except ValueError:
        return None
    return None


def uniform(scope: Scope, masks: Sequence[Value]) -> list[str]:
    """Conditions on scalars that masks join: of a branch that became a mask. Where one does not hold, no
    thread looks at what the other conditions need, which may have to be loaded."""
    found = [text for mask in masks for text in _scalars(scope, mask)]
    return list(dict.fromkeys(found))


def _scalars(scope: Scope, mask: Value) -> Iterator[str]:
    maker = scope.program.op(mask.producer) if mask.producer is not None else None
    if maker is None:
        return
    known = lookup(maker.name)
    both = known is not None and known.word == "andi"
    if both or role(maker) in ("broadcast", "expand", "layout"):
        for value in maker.operands:
            yield from _scalars(scope, value)
    elif role(maker) == "splat" and not isinstance(maker.operands[0].type, Tensor):
        yield scope.scalar(maker.operands[0])


def adds(op: Op) -> bool:
    """Whether it adds to what is there, and does not replace it."""
    return role(op) == "atomic"


def _words(op: Op) -> str:
    """The runtime's function that moves four words."""
    return "add_words" if adds(op) else "store_words"


def _moved_where(scope: Scope, op: Op, form: Fragment, one: Point) -> tuple[str, str]:
    """The pointer, and the condition under which an element is stored or added: only one of the threads that
    hold it adds it."""
    pointer, condition = _placed(scope, op.operands[0], op.operands[2:], one)
    return pointer, all_of(once(form), condition) if adds(op) else condition


@dataclass(frozen=True, slots=True)
class _Moved(Point):
    """An element that is in another column of the same row after an exchange: `at` has the column alone."""

    row: str = ""
    """The register of a vector of rows that belongs to it."""

    def along(self, axes: tuple[int, ...]) -> Point:
        """As of a point: a vector of rows is where it was, one of columns in other threads."""
        whole = self.layout
        if axes == (0,):
            return Point(
                Fragment(axes, (whole.shape[0],), whole.down, whole.across, copies=whole.copies), self.row
            )
        return (
            self if axes == whole.axes else Point(Fragment(axes, (whole.shape[1],)), self.register, self.at)
        )


def vector_load(scope: Scope, op: Op, name: str) -> list[str] | None:
    """The load of a tile to the array `name`, as `vector_store`; None also where its mask leaves out
    something other than zero."""
    pointers, *rest = op.operands
    kind = op.result.type
    assert isinstance(kind, Tensor)
    form, size = scope.layout(kind), bits(kind.dtype) // 8
    if isinstance(form, Spread):
        return _neighbours_loaded(scope, op, name, form) if scope.keeps(op.result) else None
    if form.axes != (0, 1) or form.threads or len(kind.shape) != 2:
        return None
    together = moved_together(pointer_analysis(scope.program.function), pointers, rest[:1], 1)
    if len(rest) > 1 and not _zero(scope, rest[1]):
        return None
    try:
        if together == 16 and packed(kind) and size == 2 and form.band % 16 == 0:
            return _sixteen_bytes_loaded(scope, op, name, form)
        return _pairs_loaded(scope, op, name, form) if together >= 8 and size == 4 else None
    except ValueError:
        return None


def _neighbours_loaded(scope: Scope, op: Op, name: str, form: Spread) -> list[str] | None:
    """Of a tile that threads hold as it is laid out: elements side by side in one load."""
    rest, kind = op.operands[1:], op.result.type
    assert isinstance(kind, Tensor)
    many = max(_side_by_side(scope, op, form, axis) for axis in range(len(kind.shape)))
    if many == 1 or (len(rest) > 1 and not _zero(scope, rest[1])):
        return None
    first = form.point(f"(i_ * {many})")
    pointer, *masks = (scope.elements(value)(first) for value in op.operands[:2])
    words = many // 2 if packed(kind) else many
    begin = f"reinterpret_cast<const uint32_t*>({pointer})" if packed(kind) else pointer
    load = f"load_neighbours<{words}>({', '.join((name, f'i_ * {words}', begin, *masks))});"
    return [UNROLL, f"for (int i_ = 0; i_ < {form.registers // many}; ++i_) {load}"]


def _side_by_side(scope: Scope, op: Op, form: Spread, axis: int) -> int:
    """How many elements along an axis a thread loads in one access of whole words."""
    pointers, *rest = op.operands
    size = bits(op.result.type.dtype) // 8 if isinstance(op.result.type, Tensor) else 0
    if size not in (1, 2, 4, 8):
        return 1
    together = moved_together(pointer_analysis(scope.program.function), pointers, rest[:1], axis)
    many = form.neighbours(axis, together // size)
    return many if many * size % 4 == 0 else 1


def _zero(scope: Scope, value: Value) -> bool:
    maker = scope.program.op(value.producer) if value.producer is not None else None
    if maker is not None and role(maker) == "layout":
        return _zero(scope, maker.operands[0])
    return maker is not None and maker.attributes.get("value") in (0, 0.0, False)


def _sixteen_bytes_loaded(scope: Scope, op: Op, name: str, form: Fragment) -> list[str]:
    """All loads are under way before the first exchange."""
    pointer, condition = _placed(scope, op.operands[0], op.operands[1:2], _moved(form))
    parts = [f"{name}[g_ / 2 * 2 + {i // 2}][g_ % 2 + {i % 2 * 2}] = words_[g_][{i}];" for i in range(_WORDS)]
    each = f"for (int g_ = 0; g_ < {form.registers // 8}; ++g_)"
    return [
        f"uint32_t words_[{form.registers // 8}][{_WORDS}] = {{}};",
        UNROLL,
        f"{each} {guard(condition)}load_words(words_[g_], {pointer});",
        UNROLL,
        f"{each} {{",
        "    transpose_quad(words_[g_]);",
        *(f"    {one}" for one in parts),
        "}",
    ]


def _pairs_loaded(scope: Scope, op: Op, name: str, form: Fragment) -> list[str]:
    """The two neighbouring elements of a thread in one load."""
    pointer, condition = _placed(scope, op.operands[0], op.operands[1:2], point(form, "(2 * i_)"))
    return [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers // 2}; ++i_) {{",
        *([f"    {name}[2 * i_] = {name}[2 * i_ + 1] = 0;"] if op.operands[1:2] else []),
        f"    {guard(condition)}load_pair({name}[2 * i_], {name}[2 * i_ + 1], {pointer});",
        "}",
    ]


def _placed(scope: Scope, pointers: Value, masks: Sequence[Value], one: Point) -> tuple[str, str]:
    """The pointer of an element, and the condition under which it is loaded or stored. Raises ValueError
    where another thread knows them."""
    condition = all_of(*(scope.elements(mask)(one) for mask in masks))
    return scope.elements(pointers)(one), condition


def _moved(form: Fragment) -> _Moved:
    """The first of eight elements that a thread moves in step `g_`. Words 0 to 3 of a thread are pairs in
    columns 0, 8, 16 and 24; transposed among the four threads of a row, they are the eight columns from 8
    times the thread's position on."""
    groups = form.band // 16
    return _in_step(form, groups, f"g_ / 2 % {groups} * 32 + thread.lane % 4 * 8")


def _moved_bytes(form: Fragment) -> _Moved:
    """The first of sixteen elements of a byte that a thread moves in step `g_`: as `_moved`, with two such
    pairs in each word."""
    groups = form.band // 32
    return _in_step(form, groups, f"g_ / 2 % {groups} * 64 + thread.lane % 4 * 16")


def _moved_quad(form: Fragment) -> _Moved:
    """The first of four elements of 32 bits that a thread moves in step `g_`. Of the columns from 0 and from
    8 on, threads 0 and 2 of a row have those of the first, 1 and 3 those of the second."""
    groups = form.band // 8
    own = "thread.lane % 2 * 8 + thread.lane % 4 / 2 * 4"
    return _in_step(form, groups, f"g_ / 2 % {groups} * 16 + {own}")


def _in_step(form: Fragment, groups: int, column: str) -> _Moved:
    """The element in this column that a thread moves in step `g_`: of the row of its first registers, then of
    that eight further down, for each of `groups` of columns, band after band."""
    return _in_row(form, column, f"(g_ / {2 * groups} * 2 + g_ % 2)" if form.bands > 1 else "(g_ % 2)")


def _in_row(form: Fragment, column: str, row: str) -> _Moved:
    """The element in this column, of those that its warp holds, of the row of this register."""
    part = f" + thread.row / {16 * form.down} * {form.shape[1] // form.across}" if form.across > 1 else ""
    return _Moved(form, "g_", ("", column + part), row)


def _sixteen_bytes(scope: Scope, op: Op, source: Held, form: Fragment, store: str) -> list[str]:
    """Four neighbouring threads exchange the words of each row."""
    kind = op.operands[1].type
    assert isinstance(kind, Tensor)
    of_bytes = bits(kind.dtype) == 8
    pointer, condition = _moved_where(scope, op, form, _moved_bytes(form) if of_bytes else _moved(form))
    groups, exchange = form.registers // (16 if of_bytes else 8), _EXCHANGE[of_bytes]
    words = [_pairs_of_bytes(source, i) if of_bytes else _pair(source, i) for i in range(_WORDS)]
    return _exchanged(groups, words, exchange, (store, pointer, condition))


def _sixteen_columns(scope: Scope, op: Op, source: Held, form: Fragment) -> list[str]:
    """Four neighbouring threads exchange the words of two rows, 8 apart: two of them then have 16 columns of
    the first, the others of the second. Where a row is, a thread knows of both. (On an H200, fla's
    chunk_fwd_kernel_h in tiles of 64 x 32, eight warps: 0.76 of Triton's speed with pairs, 0.92 so.)"""
    groups = form.band // 8
    column = f"g_ % {groups} * 16 + thread.lane % 2 * 8"
    band = f"g_ / {groups} * 2 + " if form.bands > 1 else ""
    (pointer, condition), (lower, below) = (
        _moved_where(scope, op, form, _in_row(form, column, f"({band}{row})")) for row in range(2)
    )
    first = "thread.lane % 4 < 2"
    pointer = f"({first} ? {pointer} : {lower})"
    condition = condition if condition == below else f"({first} ? {condition} : {below})"
    words = [f"{source.name}[g_][{word}]" for word in (0, 2, 1, 3)]
    return _exchanged(form.registers // 8, words, _EXCHANGE[False], ("store_words", pointer, condition))


def _exchanged(groups: int, words: Sequence[str], exchange: str, stored: tuple[str, str, str]) -> list[str]:
    """Exchanges of words in steps `g_` and what `stored` names: a function, the pointer and the condition.
    The exchanges of a few stores overlap: a branch around each store would end them one by one. Those of a
    large tile have branches, else the addresses of all its stores would be computed before the first."""
    store, pointer, condition = stored
    each = f"for (int g_ = 0; g_ < {groups}; ++g_)"
    if groups > _TOGETHER:
        return [
            UNROLL,
            f"{each} {{",
            f"    uint32_t words_[{_WORDS}] = {{{', '.join(words)}}};",
            f"    {exchange}(words_);",
            f"    {guard(condition)}{store}({pointer}, words_, true);",
            "}",
        ]
    return [
        f"uint32_t words_[{groups}][{_WORDS}];",
        UNROLL,
        f"{each} {{",
        *(f"    words_[g_][{i}] = {word};" for i, word in enumerate(words)),
        f"    {exchange}(words_[g_]);",
        "}",
        UNROLL,
        f"{each} {store}({pointer}, words_[g_], {condition});",
    ]


def _pair(source: Held, word: int) -> str:
    """The two elements of 16 bits that a thread holds in the columns from 8 times the word on."""
    return f"{source.name}[g_ / 2 * 2 + {word // 2}][g_ % 2 + {word % 2 * 2}]"


def _pairs_of_bytes(source: Held, word: int) -> str:
    """The two elements of a byte in the columns from 16 times the word on, and those 8 columns further."""
    first, second = (f"{source.name}[g_ / 2 * 4 + {word}][g_ % 2{more}]" for more in ("", " + 2"))
    return f"{first} | uint32_t({second}) << 16"


def _quads(scope: Scope, op: Op, source: Held, form: Fragment) -> list[str]:
    """16 bytes of 32-bit elements: pairs of two groups of columns become four neighbours in one of them. The
    exchanges of a few stores overlap."""
    value = op.operands[1]
    pointer, condition = _moved_where(scope, op, form, _moved_quad(form))
    at = [f"(g_ / 2 * 8 + g_ % 2 * 2{more})" for more in ("", " + 1", " + 4", " + 5")]
    four = ", ".join(as_stored(value.type, source, point(form, text)) for text in at)
    groups = form.registers // _WORDS
    batch = min(groups, _TOGETHER)
    assert groups % batch == 0, "pairs of two columns, of rows 8 apart"
    each = f"for (int g_ = b_; g_ < b_ + {batch}; ++g_)"
    return [
        UNROLL,
        f"for (int b_ = 0; b_ < {groups}; b_ += {batch}) {{",
        f"    uint32_t words_[{batch}][{_WORDS}];",
        f"    {UNROLL}",
        f"    {each} exchange_pairs<{c_type(value.type)}>(words_[g_ - b_], {four});",
        f"    {UNROLL}",
        f"    {each} {_words(op)}({pointer}, words_[g_ - b_], {condition});",
        "}",
    ]


def _pairs(scope: Scope, op: Op, source: Held, form: Fragment) -> list[str]:
    """The two neighbouring elements of a thread in one store."""
    value = op.operands[1]
    pointer, condition = _moved_where(scope, op, form, point(form, "(2 * i_)"))
    two = [as_stored(value.type, source, point(form, text)) for text in ("(2 * i_)", "(2 * i_ + 1)")]
    moved, kind = ", ".join((pointer, *two)), c_type(value.type)
    one = f"add_pair<{kind}>({moved}, {condition});" if adds(op) else f"store_pair<{kind}>({moved});"
    return [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers // 2}; ++i_)",
        f"    {'' if adds(op) else guard(condition)}{one}",
    ]
