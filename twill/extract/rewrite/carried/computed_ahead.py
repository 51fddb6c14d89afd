"""Addresses and offsets that a loop computes for its next iterations, computed where they are read.

A kernel that is pipelined by hand carries the pointers of the next iterations, and each iteration computes
one more from the induction variable. Takes a module; gives the same in which each iteration computes its own,
with the induction variable of the iteration before, and nothing of it is carried. Only where the initial
value is what an iteration before the first would have computed, as sums (`sums`). Lines stay where
they are.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.induction import renumbered, without_carried, without_stale, yielding
from twill.extract.rewrite.carried.prefetched import cone
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, edited, mentions, text_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.sums import ZERO, Sums, added, is_integer
from twill.ir.loop import Carried, Loop, Module, Op, Scalar, Value
from twill.ops.table import lookup, named, repeatable, role

_NAME = r"%[\w$.-]+(?![\w$.#:-])"


@dataclass(frozen=True, slots=True, eq=False)
class _Ahead:
    position: int
    """Among the carried values."""
    carried: Carried
    cone: tuple[Op, ...]
    """What the next iteration's value follows from, it at last, in order."""


def computed_in_place(module: Module) -> Module:
    """The module itself where no loop carries such a value."""
    for path in [loop.path for loop in loops(module)]:
        while found := tuple(_ahead(loop := next(one for one in loops(module) if one.path == path))):
            module = edited(module, _edits(module, loop, found))
    return module


def _ahead(loop: Loop) -> Iterator[_Ahead]:
    if role(loop.op) != "for" or loop.induction is None or not isinstance(loop.induction.type, Scalar):
        return
    users = loop.function.users()
    inside = {value.id: op for op in loop.ops for value in op.results}
    makers = makers_of(loop.function.walk())
    given = {one.arg.id for one in loop.carried}
    for position, carried in enumerate(loop.carried):
        op = inside.get(carried.yielded.id)
        row = lookup(op.name) if op is not None else None
        if op is None or row is None or op.regions or not repeatable(row, op):
            continue
        found = cone(inside, op, given)
        if found and not users.get(carried.result.id) and _begins_so(makers, loop, op, carried.init):
            yield _Ahead(position, carried, found)


# --- the initial value ------------------------------------------------------------------------------------


def _begins_so(makers: Makers, loop: Loop, op: Op, init: Value) -> bool:
    """Whether an operation would have given the initial value in an iteration before the first."""
    assert loop.induction is not None
    assert loop.lower is not None
    assert loop.step is not None
    sums = Sums(makers)
    before = added(sums.of(loop.lower), sums.of(loop.step), -1)
    first = Sums(makers, {loop.induction.id: before})
    if role(op) != "address":
        return is_integer(init.type) and first.of(op.result) == sums.of(init)
    base, offset = op.operands[0], first.of(op.operands[1])
    if init.id == base.id:
        return offset == ZERO
    other = makers.of(init, "address")
    same = other is not None and other.operands[0].id == base.id
    return same and other is not None and sums.of(other.operands[1]) == offset


# --- the text ---------------------------------------------------------------------------------------------


def _edits(module: Module, loop: Loop, found: tuple[_Ahead, ...]) -> Iterator[Edit]:
    gone = frozenset(one.position for one in found)
    begin, end = loop.body.ops[0].span.start, loop.body.ops[-1].span.start
    prefix = f"%twill_ahead{loop.op.index}_{len(loop.carried)}"
    names = {one.carried.arg.name: f"{prefix}_{one.position}_{len(one.cone) - 1}" for one in found}
    yield without_carried(module, loop, gone)
    yield Edit(begin, begin, "".join(f"{line} {UNKNOWN} " for line in _lines(module, loop, found, prefix)))
    for name, value in names.items():
        for place in mentions(name).finditer(module.text, begin, end):
            yield Edit(place.start(), place.end(), value)
    yield yielding(module, loop, gone, names)
    yield from without_stale(module, loop)
    yield from renumbered(module, loop, set(gone), {})


def _lines(module: Module, loop: Loop, found: tuple[_Ahead, ...], prefix: str) -> Iterator[str]:
    """What an iteration before would have computed."""
    assert loop.induction is not None
    assert loop.step is not None
    assert isinstance(loop.induction.type, Scalar)
    now, kind = loop.induction.name, loop.induction.type.name
    yield f"{prefix} = {named('subtract')} {now}, {loop.step.name} : {kind}"
    for one in found:
        own = {op.result.name: f"{prefix}_{one.position}_{i}" for i, op in enumerate(one.cone)}
        yield from _again(module, one.cone, {now: prefix, **own})


def _again(module: Module, ops: tuple[Op, ...], names: Mapping[str, str]) -> Iterator[str]:
    """Operations with other names."""
    for op in ops:
        yield re.sub(_NAME, lambda name: names.get(name.group(), name.group()), text_of(module, op))
