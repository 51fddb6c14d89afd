"""Branches with several independent results as several branches.

A branch is one operation of the dependence graph, so what it results in for one sub-tile would wait for, and
stay in one group with, what it results in for another (Triton makes one branch of two with the same
condition). Takes a module; gives the same with a branch for each set of results that share no more than
elementwise operations, which are repeated: masks, say. Branches with effects, and those outside of loops to
be scheduled, stay as they are. Lines stay where they are.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.control.predication import body_of, read_instead, trailing_location
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, edited, text_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Function, Module, Op, Value
from twill.ir.slicing import all_operands, backward_slice
from twill.ops.table import lookup, named, repeatable, role, row

_REPEATED = ("elementwise", "view", "scalar")
"""Kinds of operations that are executed for each set of results."""


def split_branches(module: Module) -> Module:
    """The module itself where no loop to be scheduled has such a branch. In rounds: a branch may read what
    another one results in, which its text then names anew."""
    for number in count():
        edits = _round(module, f"_{number}" if number else "")
        if not edits:
            break
        module = edited(module, edits)
    return module


def _round(module: Module, suffix: str) -> list[Edit]:
    """Of branches that can be divided at the same time."""
    edits, scheduled = list[Edit](), (one for one in loops(module) if one.innermost and one.tensor_ops)
    inner = ((one, number, op) for one in scheduled for number, op in enumerate(one.op.inner()))
    for loop, number, op in inner:
        parts = _parts(module, op) if role(op) == "if" else ()
        if len(parts) > 1:
            found = list(_edits(module, loop.function, op, parts, f"%twill_part{op.index}_{number}{suffix}"))
            if all(_apart(one, other) for one in found for other in edits):
                edits += found
    return edits


def _apart(one: Edit, other: Edit) -> bool:
    return one.end <= other.begin or other.end <= one.begin


# --- which results belong together ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Results of a branch, by number, and what each side executes for them."""

    results: tuple[int, ...]
    bodies: tuple[tuple[Op, ...], ...]


def _parts(module: Module, op: Op) -> tuple[_Part, ...]:
    """Sets of results that no operation connects but those to repeat; none where the branch can not be
    divided."""
    sides = [body_of(region.blocks[0]) for region in op.regions if region.blocks]
    plain = len(sides) == 2 and all(_repeatable(inner) for body in sides for inner in body)
    if not plain or any(type_text(module, value.type) is None for value in op.results):
        return ()
    needed = [[_needed(op, side, body, i) for i in range(len(op.results))] for side, body in enumerate(sides)]
    shared = [
        (i, j)
        for of_side in needed
        for i, one in enumerate(of_side)
        for j, other in enumerate(of_side[:i])
        if any(row(inner).kind not in _REPEATED for inner in one if inner in other)
    ]
    return tuple(
        _Part(
            members,
            tuple(
                tuple(inner for inner in body if any(inner in needed[side][i] for i in members))
                for side, body in enumerate(sides)
            ),
        )
        for members in _connected(len(op.results), shared)
    )


def _connected(most: int, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The numbers below `most` that pairs connect, each with the first of them."""
    first = list(range(most))
    for one, other in pairs:
        low, high = sorted((first[one], first[other]))
        first = [low if number == high else number for number in first]
    return [tuple(i for i in range(most) if first[i] == own) for own in sorted(set(first))]


def _repeatable(op: Op) -> bool:
    known = lookup(op.name)
    return known is not None and repeatable(known, op) and role(op) != "if"


def _needed(op: Op, side: int, body: Sequence[Op], result: int) -> list[Op]:
    """The operations of a side that a result follows from."""
    makers = {value.id: inner for inner in body for value in inner.results}
    yielded = op.regions[side].blocks[0].ops[-1].operands[result]
    return list(backward_slice([yielded], lambda value: makers.get(value.id), all_operands).values())


# --- their text -------------------------------------------------------------------------------------------


def _edits(module: Module, function: Function, op: Op, parts: Iterable[_Part], name: str) -> Iterator[Edit]:
    """The branches, one after the other, in the place of one."""
    end = op.span.end + len(trailing_location(module, op))
    names, texts = dict[int, str](), list[str]()
    for number, part in enumerate(parts):
        own = f"{name}_{number}"
        several = len(part.results) > 1
        names |= {result: f"{own}#{i}" if several else own for i, result in enumerate(part.results)}
        texts.append(_text(module, op, part, own))
    lines = "\n" * (module.text.count("\n", op.span.start, end) - sum(text.count("\n") for text in texts))
    yield Edit(op.span.start, end, " ".join(texts) + lines)
    yield from read_instead(module, function, op, [names[i] for i in range(len(op.results))])


def _text(module: Module, op: Op, part: _Part, name: str) -> str:
    """One branch; its operations keep their names, which hold in its regions alone."""
    kinds = [str(type_text(module, op.results[i].type)) for i in part.results]
    sides = [
        " ".join(
            [
                *(
                    f"{_one_line(text_of(module, inner))} {trailing_location(module, inner)}"
                    for inner in body
                ),
                _yield(op, side, part, kinds),
            ]
        )
        for side, body in enumerate(part.bodies)
    ]
    several = f":{len(kinds)}" if len(kinds) > 1 else ""
    head = f"{name}{several} = {named('if')} {op.operands[0].name} -> ({', '.join(kinds)})"
    return f"{head} {{ {sides[0]} }} else {{ {sides[1]} }} {UNKNOWN}"


def _yield(op: Op, side: int, part: _Part, kinds: Sequence[str]) -> str:
    last = op.regions[side].blocks[0].ops[-1]
    given: list[Value] = [last.operands[i] for i in part.results]
    return f"{last.name} {', '.join(value.name for value in given)} : {', '.join(kinds)} {UNKNOWN}"


def _one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text)
