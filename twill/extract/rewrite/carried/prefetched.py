"""Tiles that a loop loads for its next iteration, loaded where they are read.

A kernel that loads indices, decay factors or packed weights one iteration ahead by hand carries what it
loaded, or a view of it. The schedule loads ahead anyway, and what is carried would have to stay in the group
that reads it, which a tile that another group copies can not. Takes a module; gives the same in which each
iteration loads the tile again, with the addresses and the mask of the iteration before. The first one takes
the initial value, unless that is what the load gives there as well. Only where these follow from the
induction variable alone, and the loop stores nothing through the same arguments. Lines stay where they are.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.before_first import BeforeFirst
from twill.extract.rewrite.carried.induction import renumbered, without_carried, without_stale, yielding
from twill.extract.rewrite.control.predication import truths, with_operands
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, compared, edited, mentions, text_of
from twill.extract.rewrite.text.makers import Makers
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Carried, Loop, Module, Op, Scalar, Tensor, Value
from twill.ops.pointers import beginning
from twill.ops.table import lookup, named, repeatable, role, writes_global

_NAME = r"%[\w$.-]+(?![\w$.#:-])"


@dataclass(frozen=True, slots=True, eq=False)
class _Prefetched:
    position: int
    """Among the carried values."""
    carried: Carried
    cone: tuple[Op, ...]
    """What the next iteration's tile follows from, in order: its load, and views of that at last."""
    throughout: bool
    """The first iteration loads what the loop starts from, and no later one masks the load."""

    @property
    def loads(self) -> tuple[Op, ...]:
        """That of the tile at last, after those of its addresses."""
        return tuple(op for op in self.cone if role(op) == "pointer_load")


def loaded_in_place(module: Module) -> Module:
    """The module itself where no loop carries such a tile."""
    for number, path in enumerate([loop.path for loop in loops(module)]):
        loop = next(one for one in loops(module) if one.path == path)
        found = tuple(_prefetched(module, loop)) if loop.innermost and loop.tensor_ops else ()
        if found:
            module = edited(module, _edits(module, loop, found, number))
    return module


def _prefetched(module: Module, loop: Loop) -> Iterator[_Prefetched]:
    if role(loop.op) != "for":
        return
    users = loop.function.users()
    everywhere = {value.id: op for op in loop.function.walk() for value in op.results}
    stores = [op for op in loop.body.walk() if writes_global(op)]
    written = {_beginning(everywhere, op) for op in stores}
    makers = {value.id: op for op in loop.ops for value in op.results}
    given = {one.arg.id for one in loop.carried}
    for position, carried in enumerate(loop.carried):
        made = makers.get(carried.yielded.id)
        ops = cone(makers, made, given) if made is not None and _loaded(makers, made) else None
        last = loop.body.ops[-1]
        used = any(user is last for user in users.get(carried.arg.id, ()))
        if not ops or used or users.get(carried.result.id) or not _tile(module, carried.arg):
            continue
        one = _Prefetched(position, carried, ops, _throughout(loop, everywhere, ops, carried))
        read = {_beginning(everywhere, load) for load in one.loads}
        if not stores or (None not in read | written and not read & written):
            yield one


def _throughout(loop: Loop, everywhere: Mapping[int, Op], ops: tuple[Op, ...], carried: Carried) -> bool:
    """Whether the load, an iteration before the first, gives what the loop starts from. Nothing may be stored
    through the same argument between the two."""
    loads = [op for op in ops if role(op) == "pointer_load"]
    stores = [op for op in loop.function.walk() if writes_global(op)]
    first, *others = loads
    written = {_beginning(everywhere, op) for op in stores}
    begins = _beginning(everywhere, first)
    if others or (stores and (None in written | {begins} or begins in written)):
        return False
    views = ops[ops.index(first) + 1 :]
    return BeforeFirst(loop, Makers(everywhere)).same(first, views, carried.init)


def _loaded(makers: Mapping[int, Op], op: Op) -> bool:
    """It loads from memory, or views what an operation of the loop loads, maybe in another layout."""
    while _moves(op) and len(op.operands) == 1:
        if (before := makers.get(op.operands[0].id)) is None:
            return False
        op = before
    return role(op) == "pointer_load"


def _moves(op: Op) -> bool:
    """It only says where elements are."""
    row = lookup(op.name)
    return row is not None and (row.kind == "view" or role(op) == "layout")


def _beginning(makers: Mapping[int, Op], access: Op) -> int | None:
    """The argument of the function that the address of an access is derived from; None where that is not
    known."""
    found = beginning(access, lambda value: makers.get(value.id))
    return found.id if found is not None else None


def _tile(module: Module, value: Value) -> bool:
    return isinstance(value.type, Tensor) and type_text(module, value.type) is not None


def cone(makers: Mapping[int, Op], last: Op, carried: set[int]) -> tuple[Op, ...] | None:
    """What an operation's operands follow from, and it at last; None where that is not the induction variable
    and what stays the same."""
    found, waiting = {last.index: last}, list(last.operands)
    while waiting:
        value = waiting.pop()
        op = makers.get(value.id)
        if value.id in carried:
            return None
        if op is None or op.index in found:
            continue
        row = lookup(op.name)
        if row is None or op.regions or len(op.results) != 1 or not repeatable(row, op):
            return None
        found[op.index] = op
        waiting += op.operands
    return tuple(found[index] for index in sorted(found))


def _edits(module: Module, loop: Loop, found: tuple[_Prefetched, ...], number: int) -> Iterator[Edit]:
    gone = frozenset(one.position for one in found)
    begin = loop.body.ops[0].span.start
    yield without_carried(module, loop, gone)
    yield Edit(begin, begin, "".join(f"{line} {UNKNOWN} " for line in _lines(module, loop, found, number)))
    names = {one.carried.arg.name: _current(number, one) for one in found}
    for name, value in names.items():
        for place in mentions(name).finditer(module.text):
            if begin <= place.start() < loop.body.ops[-1].span.start:
                yield Edit(place.start(), place.end(), value)
    yield from _unread(module, loop, found)
    yield yielding(module, loop, gone, {})
    yield from without_stale(module, loop)
    yield from renumbered(module, loop, set(gone), {})


def _unread(module: Module, loop: Loop, found: tuple[_Prefetched, ...]) -> Iterator[Edit]:
    """The loads themselves, and their views, go where nothing else reads them."""
    users, last = loop.function.users(), loop.body.ops[-1]
    gone = {one.position for one in found}
    other = {one.yielded.id for position, one in enumerate(loop.carried) if position not in gone}
    unread = set[int]()
    for one in found:
        for op in reversed(one.cone[one.cone.index(one.loads[-1]) :]):
            readers = {user.index for user in users.get(op.result.id, ())}
            if op.result.id not in other and readers <= unread | {last.index}:
                unread.add(op.index)
    for op, following in pairwise(loop.body.ops):
        if op.index in unread:
            yield blanked(module, op.span.start, following.span.start)


def _current(number: int, one: _Prefetched) -> str:
    return f"%twill_current{number}_{one.position}"


def _lines(module: Module, loop: Loop, found: tuple[_Prefetched, ...], number: int) -> Iterator[str]:
    """The tiles of this iteration."""
    assert loop.induction is not None
    assert loop.lower is not None
    assert loop.step is not None
    assert isinstance(loop.induction.type, Scalar)
    now, kind = loop.induction.name, loop.induction.type.name
    before, later = f"%twill_before{number}", f"%twill_later{number}"
    yield f"{before} = {named('subtract')} {now}, {loop.step.name} : {kind}"
    yield f"{later} = {compared('ne', now, loop.lower.name, kind)}"
    for one in found:
        if one.throughout:
            yield from _unconditional(module, one, {now: before}, number)
            continue
        yield from _one(module, one, {now: before}, later, f"%twill_before{number}_{one.position}_")
        mask = truths(module, one.carried.arg.type)
        choice = f"{_current(number, one)}_later"
        loaded = f"%twill_before{number}_{one.position}_{len(one.cone) - 1}"
        yield f"{choice} = {named('splat')} {later} : i1 -> {mask}"
        yield (
            f"{_current(number, one)} = {named('select')} {choice}, {loaded}, {one.carried.init.name} :"
            f" {mask}, {type_text(module, one.carried.arg.type)}"
        )


def _unconditional(
    module: Module, one: _Prefetched, renamed: Mapping[str, str], number: int
) -> Iterator[str]:
    """The cone again, for the iteration before; the load of the tile without a mask."""
    rename = _renaming(one, renamed, f"%twill_before{number}_{one.position}_", _current(number, one))
    for op in one.cone:
        text = rename(text_of(module, op))
        loads = role(op) == "pointer_load"
        yield with_operands(text, [rename(op.operands[0].name)]) if loads else text


def _renaming(one: _Prefetched, renamed: Mapping[str, str], prefix: str, last: str) -> Callable[[str], str]:
    """A text of the cone with other names: `prefix` and a number for its results, `last` for that of all."""
    results = [op.result.name for op in one.cone]
    names = {**renamed, **{name: f"{prefix}{i}" for i, name in enumerate(results)}, results[-1]: last}
    return lambda text: re.sub(_NAME, lambda found: names.get(found.group(), found.group()), text)


def _one(
    module: Module, one: _Prefetched, renamed: Mapping[str, str], later: str, prefix: str
) -> Iterator[str]:
    """The cone again, for the iteration before; its loads under the condition that there is one."""
    rename = _renaming(one, renamed, prefix, f"{prefix}{len(one.cone) - 1}")
    for i, op in enumerate(one.cone):
        if role(op) == "pointer_load":
            which = "" if op is one.loads[-1] else str(i)
            yield from _load(module, op, rename, later, f"{prefix}{which}")
        else:
            yield rename(text_of(module, op))


def _load(module: Module, load: Op, rename: Callable[[str], str], later: str, prefix: str) -> Iterator[str]:
    """A load with other names, under the condition that there is an iteration before."""
    kind, operands = load.result.type, [rename(value.name) for value in load.operands]
    mask, there = truths(module, kind), later
    if isinstance(kind, Tensor):
        there = f"{prefix}there"
        yield f"{there} = {named('splat')} {later} : i1 -> {mask}"
    if len(operands) > 1:
        masked = f"{prefix}masked"
        types = f"{mask}, {mask}" if isinstance(kind, Tensor) else mask
        yield f"{masked} = {named('select')} {there}, {operands[1]}, {there} : {types}"
        there = masked
    yield with_operands(rename(text_of(module, load)), [operands[0], there, *operands[2:]])
