"""Branches with loads or MMAs as straight-line code (if-conversion).

A scheduler places the operations of a loop one by one, so a branch that loads tiles or runs MMAs is taken
apart: both sides are executed, their loads, stores and atomics under the branch's condition, and each result
is selected by it. Takes a module; gives the same without such branches. A condition that is the same in
every execution leaves one side. A tile that both sides load is loaded once, with the pointers and the mask
of the side that is taken; sides that differ in nothing else, as one for whole tiles and one for the last
tile of a row, are one. An MMA that would update a value which the other side passes on adds to zeros
first, since it updates its accumulator in place. Lines stay where they are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from twill.extract.dependence.loops import LOOPS, loops
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, accumulated, constant, edited, text_of
from twill.extract.rewrite.text.type_text import type_text, zero_text
from twill.ir.loop import Block, Function, Module, Op, Pointer, Scalar, Tensor, Type, Value
from twill.ir.slicing import all_operands, backward_slice
from twill.ops.ranges import Ranges
from twill.ops.row import Role
from twill.ops.table import is_mma, lookup, named, repeatable, role

_NAME = r"%[\w$.-]+"
_LOCATION = re.compile(r"[ \t]*loc\((?:[^()]|\([^()]*\))*\)")
_NUMBER = re.compile(r"_(?:then|else)(\d+)\b")
"""In names that an earlier run gave."""
_MMAS: frozenset[Role] = frozenset({"wgmma", "dot"})
_MEMORY: frozenset[Role] = frozenset({"pointer_load", "tma_load", "pointer_store", "atomic"})
_MASKS: Mapping[Role | None, int] = {"pointer_load": 1, "pointer_store": 2, "atomic": 2}
"""Which operand of an access through pointers is its mask, if it has one."""
_TENSOR_MEMORY: frozenset[Role] = frozenset(
    {"tensor_memory_alloc", "tensor_memory_mma", "tensor_memory_store", "tensor_memory_load"}
)
_PLAIN: frozenset[Role] = frozenset({"alloc", "buffer_transpose", "constant"})


def predicated(module: Module) -> Module:
    """The module itself where no loop has such a branch."""
    branches = sum(role(op) == "if" for function in module.functions for op in function.walk())
    taken = (int(number) for number in _NUMBER.findall(module.text)) if branches else ()
    first = 1 + max(taken, default=-1)
    for number in range(first, first + branches):
        found = next(_branches(module), None)
        if found is None:
            break
        module = edited(module, _edits(module, *found, number))
    return module


# --- which branches ---------------------------------------------------------------------------------------


def _branches(module: Module) -> Iterator[tuple[Function, Op]]:
    """Branches that can be taken apart, inner ones first: with MMAs, with tiles of pointers as results and no
    access to memory, or, in a loop to be scheduled, with accesses or with nothing but pointers as results."""
    scheduled = [loop for loop in loops(module) if loop.innermost and loop.tensor_ops]
    for function in module.functions:
        inside = {op.index for loop in scheduled if loop.function is function for op in loop.op.inner()}
        for op in function.walk():
            if role(op) != "if" or any(role(inner) in LOOPS for inner in op.inner()):
                continue
            mma = any(is_mma(inner) for inner in op.inner())
            memory = any(role(inner) in _MEMORY for inner in op.inner())
            used = any(role(inner) == "atomic" and _read(function, inner) for inner in op.inner())
            moving = memory or (bool(op.results) and all(map(_points, op.results)))
            chosen = not memory and any(isinstance(one.type, Tensor) and _points(one) for one in op.results)
            taken = mma or chosen or (moving and op.index in inside)
            if taken and not used and _convertible(module, op):
                yield function, op


def _points(value: Value) -> bool:
    dtype = value.type.dtype if isinstance(value.type, Tensor) else value.type
    return isinstance(dtype, Pointer)


def _read(function: Function, op: Op) -> bool:
    """Whether a result is read: of an atomic operation that is masked, it is no number."""
    return any(value in user.operands for value in op.results for user in function.walk())


def _convertible(module: Module, op: Op) -> bool:
    bodies = [body_of(region.blocks[0]) for region in op.regions if region.blocks]
    plain = all(_executable(module, inner) for body in bodies for inner in body)
    own = {value.id for body in bodies for inner in body for value in inner.results}
    apart = all(_own_buffer(inner, own) for body in bodies for inner in body)
    return plain and apart and all(type_text(module, value.type) is not None for value in op.results)


def _own_buffer(op: Op, own: Set[int]) -> bool:
    """What it writes to tensor memory is a buffer of the branch itself, which nothing else sees."""
    written = {"tensor_memory_mma": op.operands[2:3], "tensor_memory_store": op.operands[:1]}
    return all(value.id in own for value in written.get(role(op), ()))


def _executable(module: Module, op: Op) -> bool:
    """It may be executed where the condition does not hold, or under it."""
    row = lookup(op.name)
    if row is None or not all(_known(module, value) for value in op.results):
        return False
    if role(op) == "if":
        return all(role(inner) in ("yield", "combine") or _computes(inner) for inner in op.inner())
    if role(op) == "wgmma":
        return zero_text(module, op.result.type) is not None
    return repeatable(row, op) or role(op) in (*_MMAS, *_MEMORY, *_TENSOR_MEMORY, *_PLAIN)


def _computes(op: Op) -> bool:
    """It computes values alone: inside a branch of its own it may stay there."""
    row = lookup(op.name)
    return row is not None and row.access == "none" and repeatable(row, op)


def _known(module: Module, value: Value) -> bool:
    """Masks are made for tiles whose layouts have names."""
    return not isinstance(value.type, Tensor) or type_text(module, value.type) is not None


def body_of(block: Block) -> tuple[Op, ...]:
    """The operations of a side without what it yields."""
    return block.ops[:-1] if block.ops and role(block.ops[-1]) == "yield" else block.ops


# --- the sides of a branch --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One side of a branch."""

    op: Op
    region: int
    condition: str
    """The branch's condition."""
    renamed: Mapping[str, str]
    """New names of its values, which those of the other side may repeat."""

    @property
    def body(self) -> tuple[Op, ...]:
        blocks = self.op.regions[self.region].blocks if self.region < len(self.op.regions) else ()
        return body_of(blocks[0]) if blocks else ()

    @property
    def yielded(self) -> tuple[Value, ...]:
        blocks = self.op.regions[self.region].blocks if self.region < len(self.op.regions) else ()
        return blocks[0].ops[-1].operands if blocks and self.op.results else ()

    def name(self, value: Value) -> str:
        return self.rename(value.name)

    def rename(self, text: str) -> str:
        return re.sub(_NAME, lambda found: self.renamed.get(found.group(), found.group()), text)

    def maker(self, value: Value) -> Op | None:
        return next((op for op in self.body if any(made is value for made in op.results)), None)


def _side(op: Op, region: int, condition: str, number: int) -> _Side:
    bare = _Side(op, region, condition, {})
    own = {value.name.partition("#")[0] for inner in bare.body for value in inner.results}
    word = ("then", "else")[region]
    return replace(bare, renamed={name: f"{name}_{word}{number}" for name in sorted(own)})


@dataclass(slots=True)
class _Writer:
    """The text that takes a branch's place: each operation on its line."""

    module: Module
    prefix: str
    line: int
    text: str = ""
    count: int = 0
    made: dict[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str])
    """Whether a side is taken, by side and type."""

    def op(self, text: str) -> str:
        """Append an operation; the name of its result."""
        name, self.count = f"{self.prefix}{self.count}", self.count + 1
        self.text += f"{name} = {text} {UNKNOWN} "
        return name

    def original(self, op: Op, text: str) -> None:
        """Append an operation of the branch with its location, on its line."""
        self.advance(op.location.line)
        self.beside(op, text)
        self.line += text.count("\n")

    def beside(self, op: Op, text: str) -> None:
        """Append an operation of the branch with its location, on the line of the one before."""
        self.text += f"{text} {trailing_location(self.module, op).strip() or UNKNOWN} "

    def advance(self, line: int) -> None:
        self.text += "\n" * max(0, line - self.line)
        self.line = max(line, self.line)

    def taken(self, side: _Side, type: Type) -> str:
        """Whether a side is taken, for each element of a tile of `type`, or as a scalar."""
        key = side.region, truths(self.module, type)
        if key not in self.made:
            self.made[key] = self._taken(side, type)
        return self.made[key]

    def _taken(self, side: _Side, type: Type) -> str:
        if isinstance(type, Tensor):
            scalar = self.taken(side, Scalar("i1"))
            return self.op(f"{named('splat')} {scalar} : i1 -> {truths(self.module, type)}")
        if side.region == 0:
            return side.condition
        return self.op(f"arith.xori {side.condition}, {self.op(constant('true', 'i1'))} : i1")

    def both(self, word: str, one: str, other: str, type: Type) -> str:
        return self.op(f"arith.{word} {one}, {other} : {truths(self.module, type)}")

    def select(self, side: _Side, one: str, other: str, type: Type) -> str:
        kinds = [type_text(self.module, type)]
        if isinstance(type, Tensor):
            kinds.insert(0, truths(self.module, type))
        return self.op(
            f"{named('select')} {self.taken(side, type)}, {one}, {other} : {', '.join(filter(None, kinds))}"
        )


def truths(module: Module, type: Type) -> str:
    """The type of a mask for a tile."""
    truth = replace(type, dtype=Scalar("i1")) if isinstance(type, Tensor) else Scalar("i1")
    text = type_text(module, truth)
    assert text is not None
    return text


# --- the text of a branch ---------------------------------------------------------------------------------


def _edits(module: Module, function: Function, op: Op, number: int) -> Iterator[Edit]:
    known, condition = Ranges(function).truth(op.operands[0]), op.operands[0].name
    end = op.span.end + len(trailing_location(module, op))
    out = _Writer(module, f"%twill_if{number}_", op.location.line)
    if known is not None:
        side = _side(op, 0 if known else 1, condition, number)
        for inner in side.body:
            out.original(inner, side.rename(text_of(module, inner)))
        results = [side.name(value) for value in side.yielded]
    else:
        results = _both_sides(
            out, function, (_side(op, 0, condition, number), _side(op, 1, condition, number))
        )
    out.advance(op.location.line + module.text.count("\n", op.span.start, end))
    yield Edit(op.span.start, end, out.text)
    yield from read_instead(module, function, op, results)


def trailing_location(module: Module, op: Op) -> str:
    """The location behind an operation, with the blanks before it; empty where there is none."""
    located = _LOCATION.match(module.text, op.span.end)
    return located.group() if located else ""


def read_instead(module: Module, function: Function, op: Op, results: Sequence[str]) -> Iterator[Edit]:
    """Readers of a branch's results read what was selected."""
    given = {value.id: (value.name, new) for value, new in zip(op.results, results, strict=True)}
    for user in function.walk():
        read = dict(given[value.id] for value in user.operands if value.id in given)
        first = next(user.inner(), None)
        begin, end = user.span.start, user.span.end if first is None else first.span.start
        for found in re.finditer(rf"{_NAME}(?:#\d+)?", module.text[begin:end]) if read else ():
            if found.group() in read:
                yield Edit(begin + found.start(), begin + found.end(), read[found.group()])


def _both_sides(out: _Writer, function: Function, sides: tuple[_Side, _Side]) -> list[str]:
    """Both sides, one after the other, and the names of the selected results."""
    one, two = sides
    pairs = list(zip(one.yielded, two.yielded, strict=True))
    if alike := _alike(sides, pairs):
        return _as_one(out, sides, alike)
    loads = [_merged(function, sides, pair) for pair in pairs]
    wanted = _wanted(sides, pairs, loads)
    for side, other in (sides, sides[::-1]):
        passed = {value.id for value in other.yielded}
        for inner in side.body:
            if inner.index in wanted:
                _under_condition(out, side, inner, passed)
    return [
        _selected(out, sides, pair) if load is None else _loaded_once(out, sides, *load)
        for pair, load in zip(pairs, loads, strict=True)
    ]


def _wanted(
    sides: tuple[_Side, _Side],
    pairs: Sequence[tuple[Value, Value]],
    loads: Sequence[tuple[Op, Op] | None],
) -> set[int]:
    """The operations of both sides, by index, that results and stores need; loads that become one aside."""
    stores = [op for side in sides for op in side.body if role(op) in ("pointer_store", "atomic")]
    values = [value for op in stores for value in all_operands(op)]
    for pair, load in zip(pairs, loads, strict=True):
        values += pair if load is None else (*load[0].operands, *load[1].operands)
    makers = {value.id: op for side in sides for op in side.body for value in op.results}
    needed = backward_slice(values, lambda value: makers.get(value.id), all_operands)
    return {op.index for op in stores} | needed.keys()


def _selected(out: _Writer, sides: tuple[_Side, _Side], pair: tuple[Value, Value]) -> str:
    one, two = (side.name(value) for side, value in zip(sides, pair, strict=True))
    return one if one == two else out.select(sides[0], one, two, pair[0].type)


def _under_condition(out: _Writer, side: _Side, op: Op, passed: set[int]) -> None:
    """An operation of a side so that it does no harm where the other is taken."""
    text, operands = side.rename(text_of(out.module, op)), [side.name(value) for value in op.operands]
    if role(op) in _MASKS:
        at, mask = _MASKS[role(op)], out.taken(side, op.operands[0].type)
        if len(operands) > at:
            mask = out.both("andi", operands[at], mask, op.operands[0].type)
        text = with_operands(text, [*operands[:at], mask, *operands[at + 1 :]])
    elif role(op) in _MMAS and op.operands[2].id in passed:
        _apart(out, side, op, text)
        return
    out.original(op, text)


def _apart(out: _Writer, side: _Side, op: Op, text: str) -> None:
    """An MMA that adds to zeros, and the sum of that and its accumulator."""
    kind, zero = type_text(out.module, op.result.type), zero_text(out.module, op.result.type)
    assert kind, "only tiles that can be named are predicated"
    zeros = out.op(f"{named('constant')} {zero}")
    result, part = side.name(op.result), f"{side.name(op.result)}_part"
    operands = [side.name(value) for value in op.operands]
    text = with_operands(text, [*operands[:2], zeros, *operands[3:]])
    out.original(op, text.replace(result, part, 1))
    out.text += f"{result} = {accumulated(operands[2], part, op.result.type, kind)} {UNKNOWN} "


def with_operands(text: str, operands: Sequence[str]) -> str:
    """An operation with other operands behind its name and its words."""
    head = rf"^((?:{_NAME}\s*=\s*)?[\w.]+\s+(?:\w+,\s*)*)"
    listed = rf"{_NAME}(?:#\d+)?(?:\s*,\s*{_NAME}(?:#\d+)?)*"
    return re.sub(head + listed, lambda found: found.group(1) + ", ".join(operands), text, count=1)


# --- tiles that both sides load ---------------------------------------------------------------------------


def _merged(
    function: Function, sides: tuple[_Side, _Side], pair: tuple[Value, Value]
) -> tuple[Op, Op] | None:
    """The loads of a result that each side loads through pointers, and uses for nothing else; None where they
    can not be one."""
    one, two = (side.maker(value) for side, value in zip(sides, pair, strict=True))
    if one is None or two is None or {role(one), role(two)} != {"pointer_load"}:
        return None
    stored = any(role(op) in ("pointer_store", "atomic") for side in sides for op in side.body)
    users = [op for op in function.walk() for value in op.operands if value in (one.result, two.result)]
    return (one, two) if _one_load(sides, one, two) and not stored and len(users) == 2 else None


def _one_load(sides: tuple[_Side, _Side], one: Op, two: Op) -> bool:
    """Two loads can be one, with the pointers and the mask of the side that is taken."""
    others = [load.operands[2] for load in (one, two) if len(load.operands) > 2]
    return one.attributes == two.attributes and (len(others) < 2 or _same(sides, others[0], others[1]))


def _same(sides: tuple[_Side, _Side], one: Value, two: Value) -> bool:
    """Both sides compute the same value."""
    a, b = sides[0].maker(one), sides[1].maker(two)
    if one is two or a is None or b is None:
        return one is two
    row = lookup(a.name)
    pure = row is not None and repeatable(row, a) and not a.regions and role(a) not in _MEMORY
    alike = (a.name, a.attributes, one.type, one.position) == (b.name, b.attributes, two.type, two.position)
    operands = zip(a.operands, b.operands, strict=False)
    return (
        pure
        and alike
        and len(a.operands) == len(b.operands)
        and all(_same(sides, *pair) for pair in operands)
    )


def _alike(
    sides: tuple[_Side, _Side], pairs: Sequence[tuple[Value, Value]]
) -> Mapping[int, tuple[Op, Op]] | None:
    """The loads of both sides that become one, by the index of the first side's, where the sides compute the
    same from these; None where they do not, or load nothing."""
    if any(role(op) in ("pointer_store", "atomic") for side in sides for op in side.body):
        return None
    loads, other = dict[int, tuple[Op, Op]](), dict[int, int]()

    def matches(one: Value, two: Value) -> bool:
        if one is two or other.get(one.id) == two.id:
            return True
        a, b = sides[0].maker(one), sides[1].maker(two)
        if a is None or b is None or one.id in other or not _one_operation(a, b, one, two):
            return False
        if role(a) == "pointer_load":
            found = _one_load(sides, a, b)
            loads[a.index] = a, b
        else:
            found = len(a.operands) == len(b.operands) and all(map(matches, a.operands, b.operands))
        other[one.id] = two.id
        return found

    found = all(matches(*pair) for pair in pairs) and bool(loads)
    return loads if found and all(map(_placed, sides, zip(*loads.values(), strict=True))) else None


def _one_operation(a: Op, b: Op, one: Value, two: Value) -> bool:
    """Two operations do the same with their operands."""
    known = _computes(a) or role(a) in (*_MMAS, *_PLAIN, "pointer_load")
    alike = (a.name, a.attributes, one.type, one.position) == (b.name, b.attributes, two.type, two.position)
    return known and alike and not a.regions


def _placed(side: _Side, loads: Sequence[Op]) -> bool:
    """Pointers and masks of these loads are computed from what is there before the branch."""
    needed = _makers(side, [value for load in loads for value in load.operands])
    return all(_computes(op) and not op.regions for op in needed)


def _makers(side: _Side, values: Sequence[Value]) -> tuple[Op, ...]:
    """The operations of a side that values follow from, in their order."""
    found = backward_slice(values, side.maker)
    return tuple(op for op in side.body if op.index in found)


def _as_one(out: _Writer, sides: tuple[_Side, _Side], loads: Mapping[int, tuple[Op, Op]]) -> list[str]:
    """What both sides compute, once, and the names of the results."""
    one, two = sides
    for op in _makers(two, [value for _, load in loads.values() for value in load.operands]):
        out.beside(op, two.rename(text_of(out.module, op)))
    for op in _makers(one, one.yielded):
        if op.index in loads:
            _loaded_once(out, sides, *loads[op.index])
        else:
            out.original(op, one.rename(text_of(out.module, op)))
    return [one.name(value) for value in one.yielded]


def _loaded_once(out: _Writer, sides: tuple[_Side, _Side], one: Op, two: Op) -> str:
    """The load of the side that is taken."""
    first, second = (side.name(load.operands[0]) for side, load in zip(sides, (one, two), strict=True))
    if not _same(sides, one.operands[0], two.operands[0]):
        first = out.select(sides[0], first, second, one.operands[0].type)
    others = [
        side.name(op.operands[2]) for side, op in zip(sides, (one, two), strict=True) if len(op.operands) > 2
    ]
    mask = _either_mask(out, sides, (one, two))
    operands = [first] if mask is None else [first, mask, *others[:1]]
    text = sides[0].rename(text_of(out.module, one))
    out.original(one, with_operands(text, operands))
    return sides[0].name(one.result)


def _either_mask(out: _Writer, sides: tuple[_Side, _Side], loads: tuple[Op, Op]) -> str | None:
    """The mask of the side that is taken; None where neither has one. Beside a side without a mask that of
    the other one need not say that it is taken."""
    kind, taken = loads[0].operands[0].type, list[str]()
    if all(len(load.operands) == 1 for load in loads):
        return None
    both = all(len(load.operands) > 1 for load in loads)
    for side, load in zip(sides, loads, strict=True):
        own = side.name(load.operands[1]) if len(load.operands) > 1 else None
        if own is None:
            taken.append(out.taken(side, kind))
        else:
            taken.append(out.both("andi", own, out.taken(side, kind), kind) if both else own)
    return out.both("ori", taken[0], taken[1], kind)
