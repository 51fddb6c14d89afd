"""Accumulators that a loop carries transposed, carried as the MMA adds to them.

Triton computes the transposed product where only the second operand has to be unpacked or scaled in registers
(`tl.dot_scaled` of bf16 by fp4): the accumulator is transposed in front of each MMA and back behind it, which
moves nothing, but is no accumulator that stays where it is. Takes a module; gives the same with the tile
carried as it is between both transpositions, and transposed before the loop and behind it. Lines stay where
they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.retyped import changed_back, own_end, readers, with_types, yielded
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, mentions, text_of
from twill.extract.rewrite.text.type_text import type_text, zero_text
from twill.ir.loop import Loop, Module, Op, Value
from twill.ops.table import named, role

ORDER = "{order = array<i32: 1, 0>}"


@dataclass(frozen=True, slots=True)
class _Carried:
    """A tile that the loop carries, by its number among the carried ones."""

    number: int
    init: Value
    arg: Value
    result: Value
    entry: Op
    """The transposition that alone reads it in the loop."""
    exit: Op
    """The one that makes the next iteration's."""
    old: str
    new: str
    """Its type as it is, and between the transpositions."""
    loop: int

    @property
    def first(self) -> str:
        return f"{self.entry.result.name}_first{self.loop}"

    @property
    def last(self) -> str:
        return f"{self.entry.result.name}_last{self.loop}"


def carried_as_computed(module: Module) -> Module:
    """The module itself where no loop has such a tile."""
    for loop in loops(module):
        users = loop.function.users()
        found = [one for i in range(len(loop.carried)) if (one := _carried(module, loop, users, i))]
        if found:
            return carried_as_computed(edited(module, list(_edits(module, loop, users, found))))
    return module


def _carried(module: Module, loop: Loop, users: Mapping[int, Sequence[Op]], number: int) -> _Carried | None:
    """None for a tile that anything but transpositions reads and makes in the loop."""
    one = loop.carried[number]
    last = next((op for op in loop.body.ops if one.yielded in op.results), None)
    readers = users.get(one.arg.id, ())
    if last is None or loop.induction is None or len(readers) != 1 or not _turns(last):
        return None
    entry = readers[0]
    if not _turns(entry) or entry not in loop.body.ops or entry.result.type != last.operands[0].type:
        return None
    if list(users.get(last.result.id, ())) != [loop.body.ops[-1]]:
        return None
    old, new = (type_text(module, value.type) for value in (one.arg, entry.result))
    if old is None or new is None:
        return None
    return _Carried(number, one.init, one.arg, one.result, entry, last, old, new, loop.op.index)


def _turns(op: Op) -> bool:
    """Whether it exchanges two dimensions."""
    order = op.attributes.get("order")
    axes = [int(str(axis)) for axis in order] if isinstance(order, tuple) else [1, 0]
    return role(op) == "transpose" and axes == [1, 0]


def _edits(
    module: Module, loop: Loop, users: Mapping[int, Sequence[Op]], found: Sequence[_Carried]
) -> Iterator[Edit]:
    first = loop.body.ops[0].span.start
    begun = (_begun(module, loop, one) for one in found)
    yield Edit(loop.op.span.start, first, f"{''.join(begun)}{with_types(module, loop, found)}")
    gone = {op.index: op for one in found for op in (one.entry, one.exit)}
    for op, after in pairwise(loop.body.ops):
        if op.index in gone:
            yield blanked(module, op.span.start, after.span.start)
    renamed = {one.entry.result.id: (one.entry.result.name, one.arg.name) for one in found}
    inner = {op.index: op for value in renamed for op in users.get(value, ()) if op.index not in gone}
    for op in inner.values():
        yield Edit(op.span.start, own_end(op), _with_names(op, module, renamed))
    yield _last(module, loop.body.ops[-1], found)
    yield from changed_back(module, readers(users, found), found, _turned)


def _begun(module: Module, loop: Loop, one: _Carried) -> str:
    """What the first iteration begins with: zeros are zeros either way."""
    maker = next((op for op in loop.function.walk() if one.init in op.results), None)
    zeros = maker is not None and role(maker) == "constant" and "dense<0.0" in text_of(module, maker)
    zero = zero_text(module, one.entry.result.type) if zeros else None
    if zero is not None:
        return f"{one.first} = {named('constant')} {zero} {UNKNOWN} "
    return _turned(one.first, one.init.name, one.old, one.new)


def _turned(name: str, value: str, old: str, new: str) -> str:
    return f"{name} = {named('transpose')} {value} {ORDER} : {old} -> {new} {UNKNOWN} "


def _with_names(op: Op, module: Module, renamed: Mapping[int, tuple[str, str]]) -> str:
    text = module.text[op.span.start : own_end(op)]
    for value in op.operands:
        if value.id in renamed:
            old, new = renamed[value.id]
            text = mentions(old).sub(new, text)
    return text


def _last(module: Module, op: Op, found: Sequence[_Carried]) -> Edit:
    """The yield, of what is not transposed back."""
    edit = yielded(module, op, found)
    text = edit.text
    for one in found:
        text = mentions(one.exit.result.name).sub(one.exit.operands[0].name, text)
    return Edit(edit.begin, edit.end, text)
