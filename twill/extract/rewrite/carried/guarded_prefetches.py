"""Tiles that a loop prepares for its next iteration if there is one, prepared where they are read.

A kernel that loads indices one iteration ahead by hand guards the load of the last iteration: a branch under
the loop's own condition gives the next tiles, else the old ones. Takes a module; gives the same in which
each iteration prepares its own values and nothing of them is carried. Only where the loop starts from what
the branch would have given an iteration before the first, operation by operation, and where nothing is stored
through the arguments that it loads through. Lines stay where they are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.before_first import BeforeFirst
from twill.extract.rewrite.carried.induction import renumbered, without_carried, without_stale, yielding
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, computed, edited, mentions, text_of
from twill.extract.rewrite.text.makers import Makers
from twill.ir.loop import Loop, Module, Op, Scalar, Tensor, Value
from twill.ops.pointers import POINTERS
from twill.ops.table import lookup, repeatable, role, writes_global

_NAME = r"%[\w$.-]+(?![\w$.#:-])"


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A branch all of whose results the loop carries."""

    branch: Op
    positions: tuple[int, ...]
    """Of its results among the carried values."""
    given: tuple[Value, ...]
    """What the branch gives where an iteration follows."""


def prepared_in_place(module: Module) -> Module:
    """The module itself where no loop has such a branch."""
    for number, path in enumerate([loop.path for loop in loops(module)]):
        loop = next(one for one in loops(module) if one.path == path)
        if loop.innermost and loop.tensor_ops and role(loop.op) == "for":
            found = next(_guarded(_Around(loop)), None)
            module = edited(module, _edits(module, loop, found, number)) if found else module
    return module


class _Around:
    """A loop, and what its function says about its values."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.users = loop.function.users()
        self.makers: Mapping[int, Op] = {one.id: op for op in loop.function.walk() for one in op.results}
        self.inside = {op.index for op in loop.op.inner()}
        self.first = BeforeFirst(loop, Makers(self.makers))

    def follows(self, value: Value) -> bool:
        """Whether it is the induction variable of the next iteration."""
        made = self.makers.get(value.id)
        assert self.loop.induction is not None
        assert self.loop.step is not None
        both = {self.loop.induction.id, self.loop.step.id}
        return made is not None and role(made) == "add" and {one.id for one in made.operands} == both

    def continues(self, value: Value) -> bool:
        """Whether it is the loop's own condition for the next iteration."""
        made = self.makers.get(value.id)
        if made is None or role(made) != "compare" or made.attributes.get("predicate") != "slt":
            return False
        next_one, bound = made.operands
        return self.follows(next_one) and bound is self.loop.upper

    def begins_alike(self, value: Value, init: Value) -> bool:
        """Whether what is given to the next iteration is, of the first one, the initial value."""
        if value is init or self.first.alike(value, init):
            return True
        one, other = self.makers.get(value.id), self.makers.get(init.id)
        if one is None or other is None or one.index not in self.inside or not _alike(one, other):
            return False
        pairs = zip(one.operands, other.operands, strict=True)
        return all(self.begins_alike(mine, first) for mine, first in pairs)

    def cone(self, values: Sequence[Value]) -> tuple[Op, ...]:
        """What of the loop they follow from, in order."""
        found, waiting = dict[int, Op](), list(values)
        while waiting:
            value = waiting.pop()
            op = self.makers.get(value.id)
            if op is not None and op.index in self.inside and not self.follows(value):
                found[op.index] = op
                waiting += op.operands
        return tuple(found[index] for index in sorted(found))

    def origins(self, value: Value) -> set[int] | None:
        """The arguments that an address may be derived from; None where one of them is not known."""
        every = loops_of(self.loop)
        found, seen, waiting = set[int](), set[int](), [value]
        while waiting:
            value = waiting.pop()
            if value.id in seen:
                continue
            seen.add(value.id)
            if (op := self.makers.get(value.id)) is not None:
                if role(op) not in POINTERS or not op.operands:
                    return None
                waiting.append(op.operands[0])
            elif value.id in every:
                waiting += every[value.id]
            else:
                found.add(value.id)
        return found


def loops_of(loop: Loop) -> Mapping[int, tuple[Value, Value]]:
    """Of what the loop carries, the initial value and what is carried on."""
    return {one.arg.id: (one.init, one.yielded) for one in loop.carried}


def _alike(one: Op, other: Op) -> bool:
    """The same operation on other operands, which may be executed again."""
    row = lookup(one.name)
    return (
        row is not None
        and repeatable(row, one)
        and not one.regions
        and one.name == other.name
        and one.attributes == other.attributes
        and len(one.results) == len(other.results) == 1
        and one.result.type == other.result.type
        and len(one.operands) == len(other.operands)
    )


def _guarded(around: _Around) -> Iterator[_Guarded]:
    loop = around.loop
    positions = {one.yielded.id: i for i, one in enumerate(loop.carried)}
    for op in loop.ops:
        if role(op) != "if" or not (op.operands and op.results):
            continue
        if any(one.id not in positions for one in op.results):
            continue
        found = tuple(positions[one.id] for one in op.results)
        sides = [region.blocks[0].ops for region in op.regions]
        ended = len(sides) == 2 and all(side and len(side[-1].operands) == len(found) for side in sides)
        if not ended or not around.continues(op.operands[0]) or any(map(_effects, sides)):
            continue
        given, kept = (side[-1].operands for side in sides)
        alike = all(
            around.begins_alike(value, loop.carried[i].init)
            and old is loop.carried[i].arg
            and not around.users.get(loop.carried[i].result.id)
            for i, value, old in zip(found, given, kept, strict=True)
        )
        alone = all(len(around.users.get(one.id, ())) == 1 for one in op.results)
        tiles = all(isinstance(one.type, Tensor) for one in given)  # numbers are computed beside their loads
        if alike and alone and tiles and _unwritten(around, given):
            yield _Guarded(op, found, tuple(given))


def _effects(side: Sequence[Op]) -> bool:
    """Whether a side does more than to compute and to load."""
    return any((row := lookup(op.name)) is None or not repeatable(row, op) for op in side[:-1])


def _unwritten(around: _Around, given: Sequence[Value]) -> bool:
    """Whether nothing is stored through the arguments that the values are loaded through."""
    stores = [op for op in around.loop.function.walk() if writes_global(op)]
    loads = [op for op in around.cone(given) if role(op) == "pointer_load"]
    written, read = (
        [around.origins(op.operands[0]) if op.operands else None for op in ops] for ops in (stores, loads)
    )
    if not loads or not stores:
        return True
    if None in written or None in read:
        return False
    known = [one for one in (*written, *read) if one is not None]
    return not set().union(*known[: len(written)]) & set().union(*known[len(written) :])


def _edits(module: Module, loop: Loop, found: _Guarded, number: int) -> Iterator[Edit]:
    begin, end = loop.body.ops[0].span.start, loop.body.ops[-1].span.start
    gone = frozenset(found.positions)
    names, lines = _again(module, loop, found, number)
    yield without_carried(module, loop, gone)
    yield Edit(begin, begin, "".join(f"{line} {UNKNOWN} " for line in lines))
    following = next(after for op, after in pairwise(loop.body.ops) if op is found.branch)
    branch = range(found.branch.span.start, following.span.start)
    for position, value in zip(found.positions, found.given, strict=True):
        for place in mentions(loop.carried[position].arg.name).finditer(module.text, begin, end):
            if place.start() not in branch:
                yield Edit(place.start(), place.end(), names.get(value.name, value.name))
    yield blanked(module, branch.start, branch.stop)
    yield yielding(module, loop, gone, {})
    yield from without_stale(module, loop)
    yield from renumbered(module, loop, set(gone), {})


def _again(module: Module, loop: Loop, found: _Guarded, number: int) -> tuple[Mapping[str, str], list[str]]:
    """The names of the values of this iteration by those of the next one's, and the lines that make them,
    with the induction variable of the iteration before."""
    around = _Around(loop)
    assert loop.induction is not None
    assert loop.step is not None
    assert isinstance(loop.induction.type, Scalar)
    now, before = loop.induction.name, f"%twill_earlier{number}"
    cone = around.cone(found.given)
    names = {op.result.name: f"%twill_prepared{number}_{i}" for i, op in enumerate(cone)}
    read = [*found.given, *(one for op in cone for one in op.operands)]
    names |= {one.name: now for one in read if around.follows(one)}
    names[now] = before
    first = f"{before} = {computed('subi', now, loop.step.name, loop.induction.type.name)}"
    texts = [
        re.sub(_NAME, lambda name: names.get(name.group(), name.group()), text_of(module, op)) for op in cone
    ]
    return names, [first, *texts] if loop.induction in read else texts
