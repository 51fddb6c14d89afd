"""Sums, maxima and the like that a loop without MMAs carries in another layout than what it adds.

Triton carries a tile on in the layout of the MMA that made it, and changes the layout of what each iteration
adds: an exchange through shared memory between two barriers, in every iteration. Takes a module; gives the
same with the tile carried in the layout of the addends, which changes before the loop and behind it. Each
element is the same sum of the same numbers. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.retyped import changed_back, readers, with_types, yielded
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, mentions, text_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Loop, Module, Op, Value
from twill.ops.table import is_elementwise, named, role


@dataclass(frozen=True, slots=True)
class _Carried:
    """A tile that the loop carries, by its number among the carried ones."""

    number: int
    init: Value
    result: Value
    change: Op
    """Of the layout of what is added."""
    sum: Op
    old: str
    new: str
    """Its type as it is, and with the layout of what is added."""
    loop: int
    """Its index: sibling loops may have values of the same name."""

    @property
    def first(self) -> str:
        """The name of what the first iteration adds to."""
        return f"{self.sum.result.name}_first{self.loop}"

    @property
    def last(self) -> str:
        return f"{self.sum.result.name}_last{self.loop}"


def carried_as_added(module: Module) -> Module:
    """The module itself where no loop has such a tile."""
    for loop in loops(module):
        if loop.tensor_ops or loop.induction is None:
            continue
        users = loop.function.users()
        found = [one for i in range(len(loop.carried)) if (one := _carried(module, loop, users, i))]
        if found:
            return carried_as_added(edited(module, list(_edits(module, loop, users, found))))
    return module


def _carried(module: Module, loop: Loop, users: Mapping[int, Sequence[Op]], number: int) -> _Carried | None:
    """None for a tile that anything but one sum reads, or to which nothing is added in another layout."""
    one = loop.carried[number]
    add = next((op for op in loop.body.ops if one.yielded in op.results), None)
    if add is None or not _of_two(add) or one.arg not in add.operands:
        return None
    other = next((value for value in add.operands if value is not one.arg), one.arg)
    change = next((op for op in loop.body.ops if other in op.results and role(op) == "layout"), None)
    alone = [users.get(value.id, ()) for value in (one.arg, other, add.result)]
    if change is None or any(len(read) != 1 for read in alone) or alone[2][0] is not loop.body.ops[-1]:
        return None
    types = [type_text(module, value.type) for value in (one.init, change.operands[0])]
    if None in types or not _computed(loop, change.operands[0]):
        return None
    old, new = (text or "" for text in types)
    return _Carried(number, one.init, one.result, change, add, old, new, loop.op.index)


def _of_two(op: Op) -> bool:
    """Whether it combines the elements of two tiles of its own type, in whichever threads they are."""
    types = {value.type for value in (*op.operands, *op.results)}
    return is_elementwise(op) and len(types) == 1 and (len(op.operands), len(op.results)) == (2, 1)


def _computed(loop: Loop, value: Value) -> bool:
    """Whether an iteration computes a tile as it is laid out."""
    return any(value in op.results and is_elementwise(op) for op in loop.body.ops)


def _edits(
    module: Module, loop: Loop, users: Mapping[int, Sequence[Op]], found: Sequence[_Carried]
) -> Iterator[Edit]:
    first = loop.body.ops[0].span.start
    begun = (_changed(one.first, one.init.name, one.old, one.new) for one in found)
    yield Edit(loop.op.span.start, first, f"{''.join(begun)}{with_types(module, loop, found)}")
    for one in found:
        following = next(after for op, after in pairwise(loop.body.ops) if op is one.change)
        yield blanked(module, one.change.span.start, following.span.start)
        text = mentions(one.change.result.name).sub(one.change.operands[0].name, text_of(module, one.sum))
        yield Edit(one.sum.span.start, one.sum.span.end, text.replace(one.old, one.new))
    yield from _behind(module, users, found)
    yield yielded(module, loop.body.ops[-1], found)


def _changed(name: str, value: str, old: str, new: str) -> str:
    return f"{name} = {named('layout')} {value} : {old} -> {new} {UNKNOWN} "


def _behind(module: Module, users: Mapping[int, Sequence[Op]], found: Sequence[_Carried]) -> Iterator[Edit]:
    """A change of a sum's layout behind the loop begins with the new one; others read it changed back."""
    read = readers(users, found)
    for op in (op for op in read if role(op) == "layout"):
        own = next(one for one in found if one.result in op.operands)
        yield Edit(op.span.start, op.span.end, text_of(module, op).replace(own.old, own.new, 1))
    yield from changed_back(module, [op for op in read if role(op) != "layout"], found, _changed)
