"""Asynchronous copies of tiles in a loop (cp.async): which parts of their addresses and masks each thread
computes once, before the loop.

Takes a load with its scopes before and inside the loop; gives C. A pointer is the sum of one that is the same
for all elements, of offsets that are the same in every iteration, and of others. Offsets that are the same in
every iteration stay in registers; an iteration adds the pointer to them. A mask is a conjunction: the
conditions that are the same in every iteration become the bits of one register. Where comparisons with bounds
hold for the whole tile, which one comparison of scalars says, no copy looks at them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from re import search, sub

from twill.ir.channels import SlotTensor
from twill.ir.loop import Op, Tensor, Value
from twill.ops.c import c_type
from twill.ops.table import role
from twill.ops.values import element
from twill.targets.cuda.expressions import atom, bare, plus
from twill.targets.cuda.fragments import Fragment, axes
from twill.targets.cuda.polynomials import AND, SIGN_EXTENSION
from twill.targets.cuda.register_tiles import AnyPoint, Elements, Point
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared_tiles import UNROLL, Shared, copy, filling_text, shared
from twill.warp.channels import bits

WORD = 32
"""Bits of the register that keeps which copies are inside: more copies a thread does not have."""
_VIEWS = frozenset({"broadcast", "expand", "layout"})
_COSTLY = frozenset({"remainder", "divide", "pointer_load"})
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

    @property
    def place(self) -> list[str]:
        """The declarations of `row_` and `chunk_`."""
        return [
            f"[[maybe_unused]] const uint32_t row_ = thread.index / {self.per},"
            f" chunk_ = thread.index % {self.per};"
        ]

    def loop(self, body: str) -> list[str]:
        """`body` for each copy."""
        guard = f"if ({self.guard}) " if self.guard else ""
        return [UNROLL, f"for (uint32_t i_ = 0; i_ < {self.count}; ++i_) {guard}{body}"]


def copies(tensor: SlotTensor, vector: int, form: Fragment) -> Copies | None:
    """How the threads of `form` share the copies of a tile of rows and columns, so that the addresses of one
    thread's copies differ by constants; None where they do not. Raises ValueError for a tile that is not as
    the tensor core reads it."""
    size, plain = bits(tensor.dtype) // 8, tensor.encoding is None
    if form.axes != (0, 1):
        return _vector(tensor, vector, form) if plain else None
    rows, columns = form.shape
    tile = (
        Shared("", rows, columns, 8 * size, columns * size)
        if plain
        else shared("", tensor.shape, tensor.dtype, tensor.encoding)
    )
    per, threads = tile.columns * size // vector, form.threads
    total = tile.rows * per
    if threads % per or total % threads or total // threads > WORD:
        return None
    down, count = threads // per, total // threads
    turns = 1 if plain else max(1, _PATTERN // down)
    if not plain and (_PATTERN % down if turns > 1 else down % _PATTERN):
        return None
    row = f"(row_ + {down} * i_)" if count > 1 else "row_"
    at = (row, f"(chunk_ * {vector // size})")
    point = Point(form, "i_", at[::-1] if tile.transposed else at)
    starts = tuple(_start(tile, down * turn, vector, plain) for turn in range(min(turns, count)))
    return Copies(count, vector, point, per, starts, down * turns * tile.width)


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


def _start(tile: Shared, down: int, vector: int, plain: bool) -> str:
    if plain:
        return f"thread.index * {vector}"
    row, line = plus("row_", down), tile.width // vector
    inside = f"swizzle<{tile.width}>({atom(row)} * {tile.width} + chunk_ % {line} * {vector})"
    return inside if tile.boxes == 1 else f"chunk_ / {line} * {tile.box} + {inside}"


# --- what a pointer and a mask consist of -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offset:
    """A tile of integers, or what several add to a pointer: the sum of all parts, in `bits` bits."""

    bits: int
    fixed: tuple[Elements, ...] = ()
    """The same in every iteration."""
    uniform: tuple[str, ...] = ()
    """The same for all elements."""
    moving: tuple[Elements, ...] = ()
    exact: bool = True
    """No part is outside of the type where the sum is not; otherwise parts and sum wrap around."""
    linear: bool = False
    """It grows by the same number from each row to the next, and from each column to the next."""

    def __add__(self, other: "Offset") -> "Offset":
        return Offset(
            self.bits,
            (*self.fixed, *other.fixed),
            (*self.uniform, *other.uniform),
            (*self.moving, *other.moving),
            self.exact and other.exact,
        )


@dataclass(frozen=True, slots=True)
class Address:
    """A tile of pointers."""

    base: str
    """The same for all elements."""
    offsets: tuple[Offset, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the conditions that a mask joins."""

    holds: Elements
    fixed: bool
    """The same in every iteration."""
    whole: str | None = None
    """A condition on scalars under which it holds for every element."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the parts of an offset that are the same in every iteration."""

    elements: Elements
    costly: bool
    """It divides, or loads."""

    def __call__(self, point: AnyPoint) -> str:
        return self.elements(point)


@dataclass(frozen=True, slots=True)
class Analysis:
    """Takes tiles apart, in the scope of a statement."""

    scope: Scope
    inside: frozenset[int]
    """The operations of the loop, by their index."""
    divided: bool = False
    """Offsets that are the same in every iteration are taken apart too, into `Part`s."""

    def maker(self, value: Value) -> Op | None:
        """None for an argument, and for what another group computes in each iteration."""
        if value.producer is None or self._received(value):
            return None
        return self.scope.program.op(value.producer)

    def _received(self, value: Value) -> bool:
        return value.id in self.scope.received and value.producer in self.inside

    def invariant(self, value: Value) -> bool:
        """The same in every iteration."""
        maker = self.maker(value)
        if maker is None:
            return any(value is arg for arg in self.scope.program.function.args)
        if maker.index not in self.inside:
            return True
        pure = not maker.regions and role(maker) not in ("pointer_load", "atomic") and maker.operands
        return bool(pure) and all(map(self.invariant, maker.operands))

    def address(self, value: Value) -> Address | None:
        """None where the pointers do not begin at one."""
        maker = self.maker(value)
        if maker is None:
            return None
        if _view(maker):
            return self.address(maker.operands[0])
        if role(maker) == "splat":
            return Address(self.scope.scalar(maker.operands[0]))
        if role(maker) == "address":
            begin = self.address(maker.operands[0])
            offset = replace(self.offset(maker.operands[1]), linear=self.linear(maker.operands[1]))
            return Address(begin.base, (*begin.offsets, offset)) if begin else None
        return None

    def offset(self, value: Value) -> Offset:
        """The parts of a tile of integers."""
        maker, width = self.maker(value), 64 if element(value.type) == "i64" else 32
        kind = role(maker) if maker else None
        if self._received(value):
            return Offset(width, moving=(self.scope.elements(value),))
        if maker is None or kind == "constant":
            return Offset(width, (self.scope.elements(value),))
        if _view(maker):
            return self.offset(maker.operands[0])
        if kind == "splat":
            return Offset(width, uniform=(self.scope.scalar(maker.operands[0]),))
        if self.invariant(value) and not (self.divided and kind in ("add", "multiply", "integer_cast")):
            return Offset(width, (self._part(value),))
        if kind == "add":
            return self.offset(maker.operands[0]) + self.offset(maker.operands[1])
        if kind == "multiply":
            return self._product(maker, width)
        if kind == "integer_cast" and width == 64:
            return self._widened(maker)
        return Offset(width, moving=(self.scope.elements(value),))

    def linear(self, value: Value) -> bool:
        """Whether a tile of integers grows by the same number from each row to the next, and from each column
        to the next, in arithmetic that wraps around."""
        maker = self.maker(value)
        if maker is None or self._uniform(value):
            return maker is not None
        kind, operands = role(maker), maker.operands
        if kind == "range":
            return True
        if _view(maker) or (maker.name == SIGN_EXTENSION and self.offset(operands[0]).exact):
            return self.linear(operands[0])
        if kind == "multiply":
            return any(map(self._uniform, operands)) and all(map(self.linear, operands))
        return kind in ("add", "subtract") and all(map(self.linear, operands))

    def _uniform(self, value: Value) -> bool:
        """Whether a tile has the same number everywhere."""
        maker = self.maker(value)
        if maker is None:
            return False
        if role(maker) == "constant":
            return isinstance(maker.attributes.get("value"), int)
        return role(maker) == "splat" or (_view(maker) and self._uniform(maker.operands[0]))

    def _part(self, value: Value) -> Elements:
        elements = self.scope.elements(value)
        return Part(elements, self._costly(value)) if self.divided else elements

    def _costly(self, value: Value) -> bool:
        maker = self.maker(value)
        if maker is None or role(maker) == "splat":
            return False
        return role(maker) in _COSTLY or any(map(self._costly, maker.operands))

    def _product(self, op: Op, width: int) -> Offset:
        """Of a sum and a number that is the same in every iteration: the products of its parts."""
        for tile, factor in (op.operands, op.operands[::-1]):
            by = self.offset(factor)
            if len(by.uniform) == 1 and not by.fixed and not by.moving and self.invariant(factor):
                parts, c = self.offset(tile), f"{_unsigned(width)}({by.uniform[0]})"
                return Offset(
                    width,
                    tuple(_times(one, width, c) for one in parts.fixed),
                    tuple(f"{_unsigned(width)}({one}) * {c}" for one in parts.uniform),
                    tuple(_times(one, width, c) for one in parts.moving),
                    False,
                )
        return self._whole_offset(op.result, width)

    def _whole_offset(self, value: Value, width: int) -> Offset:
        """Not taken apart."""
        if self.invariant(value):
            return Offset(width, (self._part(value),))
        return Offset(width, moving=(self.scope.elements(value),))

    def _widened(self, op: Op) -> Offset:
        """In 64 bits, where no part leaves its type unless the sum does."""
        parts = self.offset(op.operands[0])
        if op.name != SIGN_EXTENSION or not parts.exact:
            return self._whole_offset(op.result, 64)
        uniform = tuple(f"int64_t({one})" for one in parts.uniform)
        return Offset(64, tuple(map(_wide, parts.fixed)), uniform, tuple(map(_wide, parts.moving)))

    def conditions(self, value: Value) -> tuple[Condition, ...]:
        """What a mask joins."""
        maker = self.maker(value)
        kind = role(maker) if maker else None
        if maker is not None and maker.name == AND:
            return tuple(one for operand in maker.operands for one in self.conditions(operand))
        if maker is not None and _view(maker):
            return self.conditions(maker.operands[0])
        if maker is not None and kind == "constant" and maker.attributes.get("value") is True:
            return ()
        fixed = self.invariant(value)
        whole = self._whole(maker) if maker is not None and kind == "compare" and not fixed else None
        if maker is not None and kind == "splat":
            whole = self.scope.scalar(maker.operands[0])
        return (Condition(self.scope.elements(value), fixed, whole),)

    def _whole(self, op: Op) -> str | None:
        """Where a comparison of a tile with an upper bound holds for its largest element."""
        predicate = str(op.attributes.get("predicate"))
        sides = {"slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}
        if predicate not in sides:
            return None
        small, bound = op.operands if predicate[1] == "l" else op.operands[::-1]
        most, limit = self.most(small), self.offset(bound)
        if most is None or limit.fixed or limit.moving or len(limit.uniform) != 1 or not limit.exact:
            return None
        return f"{most} {sides[predicate].replace('>', '<')} {limit.uniform[0]}"

    def most(self, value: Value) -> str | None:
        """An upper bound of a tile, the same for all its elements."""
        maker = self.maker(value)
        match role(maker) if maker else None:
            case "broadcast" | "expand" | "layout":
                assert maker
                return self.most(maker.operands[0])
            case "range":
                assert maker
                return str(int(str(maker.attributes["end"])) - 1)
            case "splat":
                assert maker
                return atom(self.scope.scalar(maker.operands[0]))
            case "constant":
                assert maker
                number = maker.attributes.get("value")
                return str(number) if isinstance(number, int) else None
            case "integer_cast" if maker is not None and maker.name == SIGN_EXTENSION:
                most = self.most(maker.operands[0])
                return f"int64_t({most})" if most else None
            case "add":
                assert maker
                one, other = (self.most(operand) for operand in maker.operands)
                return plus(one, other) if one and other else None
            case _:
                return None


def _view(op: Op) -> bool:
    """Whether its result has the elements of its operand at the same rows and columns."""
    source, result = (value.type for value in (op.operands[0], op.result)) if op.operands else (None, None)
    vectors = isinstance(source, Tensor) and isinstance(result, Tensor) and len(source.shape) == 1
    if role(op) == "layout" and vectors:
        assert isinstance(source, Tensor)
        assert isinstance(result, Tensor)
        return axes(source) == axes(result)
    return role(op) in _VIEWS


def _unsigned(width: int) -> str:
    return f"uint{width}_t"


def _times(elements: Elements, width: int, factor: str) -> Elements:
    return _like(elements, lambda point: f"{_unsigned(width)}({elements(point)}) * {factor}")


def _wide(elements: Elements) -> Elements:
    return _like(elements, lambda point: f"int64_t({elements(point)})")


def _like(part: Elements, elements: Elements) -> Elements:
    """As costly as the part that it follows from."""
    return Part(elements, part.costly) if isinstance(part, Part) else elements


def varies(text: str) -> bool:
    """Whether it depends on which copy it is for."""
    return bool(search(r"\bi_\b", text))


def summed(texts: Iterable[str], width: int) -> str:
    """Wraps around."""
    return " + ".join(f"{_unsigned(width)}({bare(one)})" for one in texts) or "0"


# --- before the loop --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hoisted:
    """What a thread keeps of a load throughout a loop, in variables whose names begin with `name`."""

    name: str
    copies: Copies
    inside: frozenset[int]
    """The operations of the loop."""
    kept: tuple[str, ...]
    """For each offset that an address adds: the sum of its fixed parts; empty where none is kept."""
    mask: str
    """The variable whose bits are the fixed conditions; empty where there are none."""
    lines: tuple[str, ...]
    """Declarations, and what computes the variables."""
    registers: int


def hoisted(
    scope: Scope, before: Sequence[str], op: Op, found: Copies, inside: frozenset[int], room: int
) -> Hoisted | None:
    """What is kept of a load in at most `room` registers, beyond where its copies go. `scope` is that of the
    load in some iteration, `before` are the lines that compute the scalars that stay the same. In a lean
    program two numbers are kept of offsets that are the same distance apart. None where the pointers do not
    begin at one, or where there is no room."""
    analysis = Analysis(scope, inside)
    address = analysis.address(op.operands[0])
    room -= len(found.starts)
    if address is None or room < 0:
        return None
    name = f"kept_{scope.program.name(op.result.id)}_"
    declared = [f"uint32_t {name}to[{len(found.starts)}];"]
    computed = [f"{name}to[{turn}] = {start};" for turn, start in enumerate(found.starts)]
    kept, used = list[str](), len(found.starts)
    for number, offset in enumerate(address.offsets):
        texts = [part(found.point) for part in offset.fixed]
        count = found.count if any(map(varies, texts)) else 1
        even = scope.program.lean and count > 2 and offset.linear
        words = (2 if even else count) * offset.bits // 32
        if not texts or words > room:
            kept.append("")
            continue
        room, used, variable = room - words, used + words, f"{name}at{number}"
        if even:
            first, second = (sub(r"\bi_\b", each, summed(texts, offset.bits)) for each in ("0u", "1u"))
            kept.append(f"{variable}[0] + i_ * {variable}[1]")
            declared.append(f"{_unsigned(offset.bits)} {variable}[2];")
            computed += [f"{variable}[0] = {first};", f"{variable}[1] = {second} - {variable}[0];"]
            continue
        kept.append(f"{variable}[i_]" if count > 1 else f"{variable}[0]")
        declared.append(f"{_unsigned(offset.bits)} {variable}[{count}]{' = {}' if found.guard else ''};")
        one = f"{kept[-1]} = {summed(texts, offset.bits)};"
        computed += found.loop(one) if count > 1 or found.guard else [one]
    conditions = joined(one.holds(found.point) for one in _conditions(analysis, op) if one.fixed)
    mask = f"{name}inside" if conditions else ""
    if mask:
        declared.append(f"uint32_t {mask} = 0;")
        computed += found.loop(f"{mask} |= uint32_t({conditions}) << i_;")
    names = [line.split()[1].split("[")[0].rstrip(";") for line in declared]
    kept_so = [f"keep({one});" for one in names]
    inside_block = (*needed(before, computed), *found.place, *computed)
    lines = (*declared, "{", *(f"    {line}" for line in inside_block), "}", *kept_so)
    return Hoisted(name, found, inside, tuple(kept), mask, lines, used + bool(mask))


def needed(declarations: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The declarations, one a line, of what the lines use, in order."""
    kept = list(lines)
    for line in reversed(declarations):
        name = line.partition(" = ")[0].split()[-1]
        if any(search(rf"\b{name}\b", other) for other in kept):
            kept.insert(0, line)
    return kept[: len(kept) - len(lines)]


def _conditions(analysis: Analysis, op: Op) -> tuple[Condition, ...]:
    return analysis.conditions(op.operands[1]) if len(op.operands) > 1 else ()


def joined(texts: Iterable[str]) -> str:
    return " && ".join(texts)


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


def copied(scope: Scope, op: Op, kept: Hoisted, slot: str) -> list[str]:
    """The copies of a tile to `slot`, in the scope of the load in this iteration."""
    analysis, found = Analysis(scope, kept.inside), kept.copies
    address = analysis.address(op.operands[0])
    assert address is not None
    begin, each = [address.base], ["from_"]
    for offset, name in zip(address.offsets, kept.kept, strict=True):
        fixed = [name] if name else [part(found.point) for part in offset.fixed]
        same, different = placed(offset, fixed, [part(found.point) for part in offset.moving])
        begin, each = [*begin, *same], [*each, *different]
    pointer = c_type(op.operands[0].type)
    lines = [*found.place, f"const uint32_t to_ = {slot};", f"{pointer} from_ = {' + '.join(begin)};"]
    lines.append("keep(from_);")
    from_ = total(each)
    turns = len(found.starts)
    start = f"{kept.name}to[{f'i_ % {turns}' if turns > 1 else '0'}]"
    to = f"to_ + {start} + {f'i_ / {turns}' if turns > 1 else 'i_'} * {found.step}"
    conditions = [one for one in _conditions(analysis, op) if not one.fixed]
    masks = [f"({kept.mask} >> i_ & 1)"] if kept.mask else []
    full = [f"{kept.mask} == {(1 << found.count) - 1}u"] if kept.mask else []
    whole = [one.whole for one in conditions if one.whole]
    all_masks = [*masks, *(one.holds(found.point) for one in conditions)]

    other = filling_text(scope.program.function, op)

    def loop(inside: Sequence[str]) -> list[str]:
        return found.loop(copy(found.vector, to, from_, joined(inside), other))

    if len(whole) < len(conditions) or not all_masks:
        return [*lines, *loop(all_masks)]
    fast = [f"    {line}" for line in loop([])]
    slow = [f"    {line}" for line in loop(all_masks)]
    return [*lines, f"if ({joined((*full, *whole))}) {{", *fast, "} else {", *slow, "}"]
