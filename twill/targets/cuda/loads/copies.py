"""Asynchronous copies of tiles in a loop (cp.async): which parts of their addresses and masks each thread
computes once, before the loop.

Takes a load with its scopes before and inside the loop; gives C. Offsets that are the same in every iteration
stay in registers, or, where these are few, the parts of them that take a division or a load; an iteration
adds the pointer to them. The conditions of a mask that are the same in every iteration become the bits of one
register. Where one comparison of scalars says that the whole tile is inside, no copy looks at them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from re import search, sub

from twill.ir.channels import SlotTensor
from twill.ir.loop import Op
from twill.ir.shared_places import places
from twill.ops.axis_info import AxisAnalysis, element_bytes
from twill.ops.c import c_type
from twill.ops.pointer_loads import bounds_of_copies
from twill.targets.cuda.expressions import atom, bare, needed, plus, times
from twill.targets.cuda.loads.address_analysis import (
    Analysis,
    Condition,
    Offset,
    Part,
    costly,
    summed,
    unsigned,
    varies,
)
from twill.targets.cuda.loads.crossing import ELEMENT, Crossing, crossing
from twill.targets.cuda.loads.row_numbers import Passed
from twill.targets.cuda.loads.tile_copies import copy, filling_text, joined, masked
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.registers.register_tiles import Point
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.shared_tiles import PADDED, UNROLL, Shared, operand
from twill.warp.slot_tensors import bits

WORD = 32
"""Bits of the register that keeps which copies are inside: more copies a thread does not have."""
_NAMED = r"\b(?!u?int(?:32|64)_t\b)[A-Za-z_]\w*"
"""A name in the text of an offset, other than of a type."""
_PATTERN = 8
"""Rows after which a swizzle repeats (PTX ISA, shared memory matrix layout)."""


# --- which copies a thread executes -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies that a thread executes of one tile, number `i_` from 0 to `count` - 1."""

    count: int
    vector: int
    """Bytes of each."""
    point: Point
    """The first element of copy `i_`, in terms of `row_` and `chunk_`."""
    per: int
    """Copies of a row."""
    starts: tuple[str, ...]
    """Bytes from the beginning of the tile to copies 0, 1, ...; the pattern repeats, `step` bytes further."""
    step: int
    guard: str = ""
    """Which threads have a copy; empty where all do."""
    axis: int = 0
    """Of the tile, from one row of copies to the next."""
    crossing: Crossing | None = None
    """Of copies whose lanes do not follow one another along rows."""

    @property
    def place(self) -> list[str]:
        """The declarations of `row_` and `chunk_`."""
        row, chunk = (
            self.crossing.here
            if self.crossing
            else (f"thread.index / {self.per}", f"thread.index % {self.per}")
        )
        return [f"[[maybe_unused]] const uint32_t row_ = {bare(row)}, chunk_ = {bare(chunk)};"]

    def loop(self, body: str, before: Sequence[str] = ()) -> list[str]:
        """`body` for each copy, behind what all threads execute `before` it."""
        guard = f"if ({self.guard}) " if self.guard else ""
        head = f"for (uint32_t i_ = 0; i_ < {self.count}; ++i_) "
        if not before:
            return [UNROLL, f"{head}{guard}{body}"]
        return [UNROLL, f"{head}{{", *(f"    {line}" for line in (*before, f"{guard}{body}")), "}"]


def copies(tensor: SlotTensor, vector: int, form: Fragment, crosses: bool = False) -> Copies | None:
    """How the threads of `form` share the copies of a tile of rows and columns, so that the addresses of one
    thread's copies differ by constants; None where they do not. The rows of one that `crosses` those of
    global memory are divided among lanes as `crossing` says. Raises ValueError for a tile that is not as the
    tensor core reads it."""
    size, plain = bits(tensor.dtype) // 8, tensor.encoding is None
    if form.axes != (0, 1):
        return _vector(tensor, vector, form) if plain else None
    if places(tensor.kept, tensor.encoding) is not None:
        return None
    rows, columns = form.shape[0] // tensor.repeated, form.shape[1]
    tile = (
        Shared("", rows, columns, 8 * size, columns * size)
        if plain
        else operand("", tensor.kept, tensor.dtype, tensor.encoding)
    )
    if tile.padded and vector != PADDED:
        return None
    per, threads = tile.columns // tile.room * size // vector, form.threads
    total = tile.rows * per
    if crosses and not plain and total // threads <= WORD and (lanes := crossing(tile.rows, per, threads)):
        return _crossing(tile, per, lanes, form)
    if threads % per or total % threads or total // threads > WORD:
        return None
    down, count = threads // per, total // threads
    period = 1 if plain else max(1, _PATTERN // down)
    if not plain and (_PATTERN % down if period > 1 else down % _PATTERN):
        return None
    at = (f"(row_ + {down} * i_)" if count > 1 else "row_", f"(chunk_ * {vector // size})")
    first, second = at[::-1] if tile.transposed else at
    point = Point(form, "i_", (times(first, tensor.repeated), second))
    starts = tuple(_start(tile, down * i, vector, plain) for i in range(min(period, count)))
    step = down * period * tile.width
    return Copies(count, vector, point, per, starts, step, axis=int(tile.transposed))


def _crossing(tile: Shared, per: int, lanes: Crossing, form: Fragment) -> Copies:
    """Of a tile whose rows cross those of global memory."""
    count, period = tile.rows * per // form.threads, lanes.period
    row = f"(row_ + {lanes.down} * (i_ / {period}))" if count > period else "row_"
    column = f"(chunk_ + {lanes.apart} * (i_ % {period}))" if period > 1 else "chunk_"
    at = (column, row) if tile.transposed else (row, column)
    starts = tuple(
        _start(tile, 0, ELEMENT, plain=False, chunk=plus("chunk_", lanes.apart * i)) for i in range(period)
    )
    point, step = Point(form, "i_", at), lanes.down * tile.width
    return Copies(count, ELEMENT, point, per, starts, step, axis=int(tile.transposed), crossing=lanes)


def _vector(tensor: SlotTensor, vector: int, form: Fragment) -> Copies | None:
    """Of a vector."""
    size, threads = bits(tensor.dtype) // 8, form.threads
    total = -(-tensor.bytes // vector)
    if total % threads and total > threads:
        return None
    count = max(1, total // threads)
    index = f"(thread.index + {threads} * i_)" if count > 1 else "thread.index"
    point = Point(form, "i_", (f"({index} * {vector // size})",) * 2)
    guard = f"thread.index < {total}" if total < threads else ""
    return Copies(count, vector, point, 1, (f"thread.index * {vector}",), threads * vector, guard)


def _start(tile: Shared, down: int, vector: int, plain: bool, chunk: str = "chunk_") -> str:
    if plain:
        return f"thread.index * {vector}"
    row, apart = plus("row_", down), vector * tile.room
    line = tile.width // apart
    inside = f"swizzle<{tile.width}>({atom(row)} * {tile.width} + {atom(chunk)} % {line} * {apart})"
    return inside if tile.boxes == 1 else f"{atom(chunk)} / {line} * {tile.box} + {inside}"


# --- before the loop --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of `Hoisted`: its declaration, what computes it, how a copy reads it."""

    declared: str
    computed: tuple[str, ...]
    read: str
    words: int
    step: str = ""
    """What copy `i_` adds to it, in constants alone."""
    costly: bool = False
    """It is the sum of the costly parts of an offset; a copy adds the others."""


@dataclass(frozen=True, slots=True)
class Hoisted:
    """What a thread keeps of a load throughout a loop."""

    starts: str
    """The variable that says where copies go."""
    copies: Copies
    inside: frozenset[int]
    """The operations of the loop."""
    kept: tuple[_Variable | None, ...]
    """For each offset that an address adds: the sum of its fixed parts."""
    mask: str
    """The variable whose bits are the fixed conditions; empty where there are none."""
    lines: tuple[str, ...]
    """Declarations, and what computes the variables."""
    registers: int
    beyond: int = 0
    """Of these, those for the costly parts of offsets that do not fit."""


def hoisted(
    scope: Scope,
    before: Sequence[str],
    op: Op,
    found: Copies,
    inside: frozenset[int],
    room: int,
    beyond: int,
    known: dict[Sequence[str], str],
) -> Hoisted | None:
    """What is kept of a load in at most `room` registers, beyond where its copies go, and in at most `beyond`
    others of offsets that do not fit: their costly parts. `scope` is that of the load in some iteration,
    `before` are the lines that compute the scalars that stay the same. In a lean program two numbers are kept
    of offsets that are the same distance apart. `known`: the variables of loads before, by what computes
    them, which grows; loads in both branches of an `if` share theirs. None where the pointers do not begin at
    one, or where there is no room."""
    analysis = Analysis(scope, inside, bounds=_bounds(scope, op, found))
    address = analysis.address(op.operands[0])
    name = f"kept_{scope.program.name(op.result.id)}_"
    if address is None:
        return None
    starts = _shared(found, _starts(found, name), f"{name}to", known, room)
    variables, kept = [starts], list[_Variable | None]()
    room -= starts.words
    if room < 0:
        return None
    for number, offset in enumerate(address.offsets):
        own, most = f"{name}at{number}", room
        variable = _offset(found, offset, own, scope.program.lean)
        variable = variable and _shared(found, variable, own, known, room)
        if variable and variable.words > room:
            most = beyond - sum(one.words for one in variables if one.costly)
            variable = _costly(found, _apart(analysis, op)[number], own)
            variable = variable and _shared(found, variable, own, known, most)
        fits = variable is not None and variable.words <= most
        kept.append(variable if fits else None)
        if variable and fits:
            variables.append(variable)
            room -= 0 if variable.costly else variable.words
    mask = _fixed_mask(found, analysis, op, f"{name}inside")
    variables += [mask] if mask else []
    return Hoisted(
        starts.read,
        found,
        inside,
        tuple(kept),
        mask.read if mask else "",
        _lines(found, before, variables),
        sum(variable.words for variable in variables),
        sum(variable.words for variable in variables if variable.costly),
    )


def _lines(found: Copies, before: Sequence[str], variables: Sequence[_Variable]) -> tuple[str, ...]:
    """Declares the variables and computes them, with the lines of `before` that this needs."""
    computed = [line for variable in variables for line in variable.computed]
    inside = (*needed(before, computed), *found.place, *computed)
    declared = [variable.declared for variable in variables if variable.declared]
    if not declared:
        return ()
    names = [line.split()[1].split("[")[0].rstrip(";") for line in declared]
    return (*declared, "{", *(f"    {line}" for line in inside), "}", *(f"keep({one});" for one in names))


def _shared(
    found: Copies, one: _Variable, name: str, known: dict[Sequence[str], str], room: int
) -> _Variable:
    """The variable of a load before that is computed alike, for the same rows and chunks, in the place of
    another one; else the variable, which is known then if it fits into `room` registers."""
    lines = (one.declared, *one.computed)
    how = (*found.place, *(line.replace(name, "") for line in lines))
    if (other := known.get(how)) is not None:
        return replace(one, declared="", computed=(), read=one.read.replace(name, other), words=0)
    if one.words <= room:
        known[how] = name
    return one


def _starts(found: Copies, name: str) -> _Variable:
    """Where the copies of a thread go, from the beginning of the slot."""
    count = len(found.starts)
    computed = tuple(f"{name}to[{number}] = {start};" for number, start in enumerate(found.starts))
    return _Variable(f"uint32_t {name}to[{count}];", computed, f"{name}to", count)


def _offset(found: Copies, offset: Offset, variable: str, lean: bool) -> _Variable | None:
    """The sum of the fixed parts of an offset, for each copy if it varies; None where it has none."""
    texts = [part(found.point) for part in offset.fixed]
    if not texts:
        return None
    count = found.count if any(map(varies, texts)) else 1
    number, value = unsigned(offset.bits), summed(texts, offset.bits)
    if count > 1 and offset.linear and offset.exact and not (found.crossing or found.guard):
        step = [sub(r"\b(row_|chunk_)\b", "0", sub(r"\bi_\b", each, value)) for each in ("1", "0")]
        if not search(_NAMED, step[0]):  # the same for all threads: part of each copy's instruction
            name, first = f"{variable}[0]", sub(r"\bi_\b", "0u", value)
            declared, between = f"{number} {variable}[1];", f"i_ * ({step[0]} - ({step[1]}))"
            return _Variable(declared, (f"{name} = {first};",), name, offset.bits // 32, between)
    if lean and count > 2 and offset.linear and not found.crossing:
        first, second = (sub(r"\bi_\b", each, value) for each in ("0u", "1u"))
        computed = (f"{variable}[0] = {first};", f"{variable}[1] = {second} - {variable}[0];")
        read = f"{variable}[0] + i_ * {variable}[1]"
        return _Variable(f"{number} {variable}[2];", computed, read, 2 * offset.bits // 32)
    return _each(found, variable, value, offset.bits)


def _costly(found: Copies, offset: Offset, variable: str) -> _Variable | None:
    """The sum of the costly parts of an offset that is taken apart; None where it has none."""
    own = costly(offset, found.point)
    if not own.text:
        return None
    made = _each(found, variable, own.text, own.bits)
    return replace(made, read=own.follows(made.read), costly=True)


def _each(found: Copies, variable: str, value: str, width: int) -> _Variable:
    """A number for each copy, or one for all where it does not vary."""
    count = found.count if varies(value) else 1
    read = f"{variable}[i_]" if count > 1 else f"{variable}[0]"
    declared = f"{unsigned(width)} {variable}[{count}]{' = {}' if found.guard else ''};"
    one = f"{read} = {value};"
    lines = found.loop(one) if count > 1 or found.guard else [one]
    return _Variable(declared, tuple(lines), read, count * width // 32)


def _apart(analysis: Analysis, op: Op) -> tuple[Offset, ...]:
    """The offsets of a load's address, in parts of which some are costly."""
    address = replace(analysis, divided=True).address(op.operands[0])
    assert address is not None
    return address.offsets


def _fixed_mask(found: Copies, analysis: Analysis, op: Op, mask: str) -> _Variable | None:
    """The conditions of the mask that are the same in every iteration, a bit for each copy."""
    conditions = joined(one.holds(found.point) for one in _conditions(analysis, op) if one.fixed)
    if not conditions:
        return None
    computed = found.loop(f"{mask} |= uint32_t({conditions}) << i_;")
    return _Variable(f"uint32_t {mask} = 0;", tuple(computed), mask, 1)


def _bounds(scope: Scope, op: Op, found: Copies) -> frozenset[int]:
    """The comparisons that may leave out the last elements of a copy."""
    return bounds_of_copies(AxisAnalysis(scope.program.function), op, found.vector)


def _conditions(analysis: Analysis, op: Op) -> tuple[Condition, ...]:
    return analysis.conditions(op.operands[1]) if len(op.operands) > 1 else ()


# --- in an iteration --------------------------------------------------------------------------------------


def placed(offset: Offset, fixed: list[str], moving: list[str]) -> tuple[list[str], list[str]]:
    """What an offset adds to a pointer: the same for all copies, and different for each."""
    signed = f"int{offset.bits}_t"
    if offset.exact or offset.bits == 64:
        parts = [f"{signed}({one})" for one in (*fixed, *offset.uniform, *moving)]
        return [one for one in parts if not varies(one)], [one for one in parts if varies(one)]
    whole = f"{signed}({summed((*fixed, *offset.uniform, *moving), offset.bits)})"
    return ([], [whole]) if varies(whole) else ([whole], [])


def total(sum: Sequence[str]) -> str:
    """A pointer plus offsets; one of 32 bits is added in one instruction."""
    if len(sum) == 2 and sum[1].startswith("int32_t("):
        return f"advanced({sum[0]}, {bare(sum[1][len('int32_t') :])})"
    return " + ".join(sum)


def copied(
    scope: Scope, op: Op, kept: Hoisted, slot: str, passed: Passed | None = None, wanted: int | None = None
) -> list[str]:
    """The copies of a tile to `slot`, in the scope of the load in this iteration. Where lanes pass numbers of
    rows on all threads execute the same copies. `wanted`: the scalar without which nothing reads the slot;
    where the mask joins it, copies that it excludes are not executed."""
    found = kept.copies
    analysis = Analysis(scope, kept.inside, bounds=_bounds(scope, op, found))
    address = analysis.address(op.operands[0])
    assert address is not None
    begin, each = [address.base], ["from_"]
    for number, (offset, own) in enumerate(zip(address.offsets, kept.kept, strict=True)):
        fixed = [own.read, *([own.step] if own.step else [])] if own else []
        if own is None:
            fixed = [part(found.point) for part in offset.fixed]
        elif own.costly:
            offset = _apart(analysis, op)[number]
            fixed += [one(found.point) for one in offset.fixed if not (isinstance(one, Part) and one.costly)]
        same, different = placed(offset, fixed, [part(found.point) for part in offset.moving])
        begin, each = [*begin, *same], [*each, *different]
    pointer = c_type(op.operands[0].type)
    first = " + ".join(begin)
    if found.guard and "shared_at<" in first:  # other threads would read numbers beyond those of the tile
        first = f"{found.guard} ? {first} : {address.base}"
    lines = [*found.place, f"const uint32_t to_ = {slot};", f"{pointer} from_ = {first};"]
    lines.append("keep(from_);")
    from_ = total(each)
    period = len(found.starts)
    start = f"{kept.starts}[{f'i_ % {period}' if period > 1 else '0'}]"
    to = f"to_ + {start} + {f'i_ / {period}' if period > 1 else 'i_'} * {found.step}"
    conditions = [one for one in _conditions(analysis, op) if not one.fixed]
    needless = [one.whole for one in conditions if one.scalar is not None and one.scalar == wanted]
    conditions = [one for one in conditions if one.scalar is None or one.scalar != wanted]
    masks = [f"({kept.mask} >> i_ & 1)"] if kept.mask else []
    full = [f"{kept.mask} == {(1 << found.count) - 1}u"] if kept.mask else []
    whole = [one.whole for one in conditions if one.whole]
    holds, part = masked(conditions, found.point, element_bytes(op.operands[0].type))
    all_masks = [*masks, *([holds] if holds else [])]

    other = filling_text(scope.program.function, op)

    def loop(inside: Sequence[str], room: str = "") -> list[str]:
        made = copy(found.vector, to, from_, joined(inside), other, room)
        return found.loop(made, passed.used(made) if passed else ())

    together = bool(full and passed and passed.used(from_))
    if len(whole) < len(conditions) or not (all_masks or part) or together:
        made = loop(all_masks, part)
    else:
        fast = [f"    {line}" for line in loop([])]
        slow = [f"    {line}" for line in loop(all_masks, part)]
        made = [f"if ({joined((*full, *whole))}) {{", *fast, "} else {", *slow, "}"]
    if not needless or needless[0] is None:
        return [*lines, *made]
    return [*lines, f"if ({bare(needless[0])}) {{", *(f"    {line}" for line in made), "}"]
