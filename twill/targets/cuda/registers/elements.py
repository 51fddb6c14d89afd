"""Names, iterations and elements of tiles as C: what the texts of all statements share."""

from dataclasses import dataclass
from math import prod

from twill.diagnostics import TwillError
from twill.ir.loop import Op, Scalar, Tensor, Type
from twill.ir.operands import Iteration, Register
from twill.ir.program import Program
from twill.ops.c import c_type
from twill.ops.values import element
from twill.targets.cuda.expressions import atom, plus
from twill.targets.cuda.names import c_name, count
from twill.targets.cuda.registers import linear_tiles
from twill.targets.cuda.registers.fragments import Fragment, holding
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import (
    AnyPoint,
    Elements,
    Held,
    Point,
    cast,
    declaration,
    packed,
    point,
    together,
    word,
)
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values.element_pairs import Paired, pair
from twill.targets.cuda.values.exchange import WHOLE, ColumnRange, each, pairs
from twill.warp.slot_tensors import bits


def refuse(program: Program, op: Op, what: str) -> TwillError:
    """An error at the operation's line."""
    return TwillError(
        f"{op.name}: {what}", op.location, text=program.module.text.splitlines()[op.location.line - 1]
    )


def variable(register: Register) -> str:
    """The name of an instance: older ones carry their age."""
    name = c_name(register.variable)
    return name if register.age == 0 else f"{name}_age{register.age}"


def iteration(where: Iteration) -> str:
    """The iteration as an expression of the loop counter i and the trip count n."""
    match where.base:
        case "first":
            return str(where.offset)
        case "newest":
            return plus("i", -where.offset)
        case "last":
            return plus("n", -1 - where.offset)
        case "once":
            return "0"


def sequence(name: str, where: Iteration) -> str:
    """The sequence number of a slot."""
    return plus(count(name), iteration(where))


def written(type: Tensor, name: str, elements: Elements, span: ColumnRange = WHOLE) -> list[str]:
    """Assign some slices of the elements of a tile in registers. Raises ValueError where another thread has
    them."""
    form, pack = holding(type), packed(type)
    rows = isinstance(form, Fragment) and form.axes == (0, 1) and form.bands == 1
    loop = each(form.registers // 2, span, 1 if rows else 0)
    if isinstance(elements, Held) and pack and _same_words(elements, form, pack):
        at = "i_" if isinstance(form, Spread) else "i_ / 4][i_ % 4"
        return [UNROLL, f"{loop} {name}[{at}] = {elements.name}[{at}];"]
    if pack and isinstance(form, Fragment):
        low, high = (point(form, plus("2 * i_", half)) for half in (0, 1))
        return [UNROLL, f"{loop} {name}[i_ / 4][i_ % 4] = {pair(element(type), elements, low, high)};"]
    if isinstance(form, Spread) and (pack or (isinstance(elements, Paired) and pairs(form.registers, span))):
        low, high = (form.point(f"({plus('2 * i_', half)})") for half in (0, 1))
        both = pair(element(type), elements, low, high)
        made = f"{name}[i_] = {both}" if pack else f"unpair({both}, {name}[2 * i_], {name}[2 * i_ + 1])"
        return [UNROLL, f"{loop} {made};"]
    loop = each(form.registers, span, 2 if rows else 0)
    return [UNROLL, f"{loop} {name}[i_] = {cast(type, elements(point(form, 'i_')))};"]


def _same_words(tile: Held, form: Fragment | Spread, pack: str | None) -> bool:
    """Whether each word of a tile is one of `form`."""
    layout = tile.layout
    alike = layout.alike(form) if isinstance(layout, Fragment) else layout == form
    return alike and tile.pack == pack


def plain(type: Tensor, address: str, one: AnyPoint) -> str:
    """An element of a tile that lies row by row in shared memory; of a tile of one element, that."""
    if prod(type.shape) == 1:
        return f"shared_at<{c_type(type)}>({address})"
    if isinstance(one, linear_tiles.Point):
        return f"shared_at<{c_type(type)}>({address} + {one.flat()} * sizeof({c_type(type)}))"
    along = one.layout.axes
    row, column = (
        (one.along((axis,)).coordinate() for axis in (0, 1)) if along == (0, 1) else ("0", one.coordinate())
    )
    index = f"({row} * {type.shape[-1]} + {column})" if along == (0, 1) else column
    return f"shared_at<{c_type(type)}>({address} + {index} * sizeof({c_type(type)}))"


def read_together(type: Tensor, name: str) -> list[str] | None:
    """Read a tile that lies row by row from `name`_at on, several neighbours in one access; None where a
    thread's registers have none."""
    form, size = holding(type), bits(type.dtype) // 8
    if not isinstance(form, Spread) or size == 0 or 1 << (size.bit_length() - 1) != size:
        return None
    many = form.neighbours(len(type.shape) - 1, 16 // size)
    count = many // 2 if packed(type) else many
    if count * (2 if packed(type) else 1) < 2:
        return None
    address = f"{name}_at + {form.point(f'(i_ * {many})').flat()} * {size}"
    return [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers // many}; ++i_)",
        f"    load_elements<{count}>({name}, i_ * {count}, {address});",
    ]


def read_repeated(type: Tensor, name: str, repeated: int) -> list[str]:
    """Read a tile of which every row that begins `repeated` equal ones lies in shared memory from `name`_at
    on, row by row; several neighbours in one access. Raises ValueError for one that threads do not hold in
    powers of two."""
    held_by, pack, size = holding(type), packed(type), bits(type.dtype) // 8
    form, kind = held_by.spread(), c_type(type)
    shape, shift = (type.shape[0] // repeated, type.shape[1]), repeated.bit_length() - 1

    def address(register: str) -> str:
        one = form.point(register).map(shape, lambda at: (at[0] >> shift, at[1]))
        return f"{name}_at + {one.flat()} * {size}"

    if pack:
        at = "i_ / 4][i_ % 4" if isinstance(held_by, Fragment) else "i_"
        low, high = (f"shared_at<{kind}>({address(one)})" for one in ("(2 * i_)", "(2 * i_ + 1)"))
        both = f"shared_at<{word(type)}>({address('(2 * i_)')})"
        value = both if form.neighbours(1, 2) == 2 else together(pack, low, high)
        return [UNROLL, f"for (int i_ = 0; i_ < {form.registers // 2}; ++i_)", f"    {name}[{at}] = {value};"]
    many = form.neighbours(1, 4)
    loop = f"for (int i_ = 0; i_ < {form.registers // many}; ++i_)"
    if many > 1:
        return [UNROLL, loop, f"    load_elements<{many}>({name}, i_ * {many}, {address(f'(i_ * {many})')});"]
    return [UNROLL, loop, f"    {name}[i_] = shared_at<{kind}>({address('i_')});"]


def by_thread(type: Tensor, address: str) -> Elements | None:
    """The elements of a tile that lies in shared memory as threads hold it, each word of a warp beside the
    others; None for a tile that is too small, or held otherwise, for that to matter."""
    form = holding(type)
    if isinstance(form, Spread):
        return _spread_by_thread(type, form, address)
    if form.axes != (0, 1) or bits(type.dtype) != 32:
        return None
    threads = 32 * form.down * form.across

    def elements(one: AnyPoint) -> str:
        assert isinstance(one, Point)
        index = f"({atom(one.register)} * {threads} + thread.index)"
        return f"shared_at<{c_type(type)}>({address} + {index} * sizeof({c_type(type)}))"

    return elements


def _spread_by_thread(type: Tensor, form: Spread, address: str) -> Elements | None:
    """The same for a linear layout without copies of an element."""
    bases = (*form.lane, *form.warp)
    if len(form.shape) < 2 or bits(type.dtype) != 32 or not all(map(any, bases)):
        return None

    def elements(one: AnyPoint) -> str:
        assert isinstance(one, linear_tiles.Point)
        index = f"({form.index(one)} * {1 << len(bases)} + thread.index)"
        return f"shared_at<{c_type(type)}>({address} + {index} * sizeof({c_type(type)}))"

    return elements


@dataclass(frozen=True, slots=True)
class ThreadWords:
    """A tile of elements of 16 bits or 8 that lies in shared memory as threads hold it: words of two elements
    or bytes, `unit` of them in one access, those of a warp beside each other (no bank conflicts).
    Accumulators keep their words in rows of four."""

    words: int
    unit: int
    threads: int
    rows: bool
    size: int = 4
    """Bytes of a word."""

    def read(self, name: str, address: str) -> list[str]:
        return self._each(f"load_elements<{self.unit}>({self._own(name)}, {self._at(address)});")

    def write(self, name: str, address: str) -> list[str]:
        return self._each(f"store_elements<{self.unit}>({self._at(address)}, {self._own(name)});")

    def _own(self, name: str) -> str:
        return f"{name}[i_], 0" if self.rows else f"{name}, i_ * {self.unit}"

    def _at(self, address: str) -> str:
        return f"{address} + (i_ * {self.threads} + thread.index) * {self.size * self.unit}"

    def _each(self, body: str) -> list[str]:
        return [UNROLL, f"for (int i_ = 0; i_ < {self.words // self.unit}; ++i_) {body}"]


def thread_words(type: Tensor) -> ThreadWords | None:
    """None for a tile that is held otherwise, or of which several threads have an element."""
    form = holding(type)
    rows, words = isinstance(form, Fragment), form.registers // 2
    threads = (
        32 * form.down * form.across if isinstance(form, Fragment) else 1 << len((*form.lane, *form.warp))
    )
    if 2 * words * threads != prod(type.shape):
        return None
    if not packed(type) and type.dtype == Scalar("i8") and words % 2 == 0:
        unit = next(unit for unit in (16, 8, 4) if form.registers % unit == 0)
        return ThreadWords(form.registers, unit, threads, rows=False, size=1)
    if not packed(type) or (rows and words % 4):
        return None
    unit = next(unit for unit in (4, 2, 1) if words % unit == 0)
    return ThreadWords(words, unit, threads, rows, size=bits(type.dtype) // 4)


def word_array(type: Tensor, elements: Elements, name: str) -> tuple[list[str], str]:
    """What makes the array of words of a packed tile, and its name: `name` where there is none yet."""
    form, pack = holding(type), packed(type)
    if isinstance(elements, Held) and _same_words(elements, form, pack):
        return [], elements.name
    return [declaration(type, name), *written(type, name, elements)], name


def once(form: Fragment | Spread) -> str:
    """Which of the threads that hold the same element stores it."""
    if isinstance(form, Spread):
        return form.owner()
    if form.threads:
        count = prod(form.shape)
        return f"thread.index + {form.threads} * i_ < {count}" if count % form.threads else "true"
    match form.axes:
        case (0,):
            return "thread.lane % 4 == 0" + (f" && thread.row < {16 * form.down}" if form.beside else "")
        case (1,):
            return f"thread.row % {16 * form.down} == 0" if form.across > 1 else "thread.row == 0"
        case _:
            return f"thread.row < {16 * form.down}" if form.copies > 1 else "true"


def all_of(*conditions: str) -> str:
    """What holds where all of them do."""
    return " && ".join(one for one in conditions if one != "true") or "true"


def guard(*conditions: str) -> str:
    """In front of a statement: only where all of them hold."""
    condition = all_of(*conditions)
    return f"if ({condition}) " if condition != "true" else ""


def constant_type(type: Type) -> str:
    """Of a scalar that does not change."""
    name = c_type(type)
    return f"{name} const" if name.endswith("*") else f"const {name}"


def barrier_name(group: int) -> str:
    """The named barrier of a group's own warps."""
    return f"group_{group}_barrier"
