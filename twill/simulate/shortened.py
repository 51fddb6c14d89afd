"""Loops of constant trip counts, with fewer iterations.

A recurrence such as a solver's iteration can carry the rounding of its sums from one iteration to the next
and magnify it, until sums in another order give another result and nothing can be compared. Where arguments
decide how often a loop runs, other trials have fewer iterations; a constant has to be replaced for that.
"""

from collections.abc import Mapping
from dataclasses import replace

from twill.ir.loop import Function, Op
from twill.ops.table import role

VALUE = "value"
"""The attribute of a constant that is its number."""


def shortened(function: Function, most: int) -> Function | None:
    """The function with loops that begin at the constant 0, have a step of 1 and more than `most` iterations,
    a constant that bounds nothing else, executed `most` times; None where it has none."""
    counts = {
        op.index: replace(op, attributes={**op.attributes, VALUE: most}) for op in _counts(function, most)
    }
    if not counts or function.body is None:
        return None
    first, *others = function.body.blocks
    ops = tuple(counts.get(op.index, op) for op in first.ops)
    return replace(function, body=replace(function.body, blocks=(replace(first, ops=ops), *others)))


def _counts(function: Function, most: int) -> tuple[Op, ...]:
    """The constants that are such trip counts alone."""
    makers, users = {op.index: op for op in function.walk()}, function.users()
    return tuple(
        op
        for op in (function.body.blocks[0].ops if function.body else ())
        if role(op) == "constant"
        and (number := _number(op)) is not None
        and number > most
        and users.get(op.result.id)
        and all(_is_count(makers, user, op) for user in users[op.result.id])
    )


def _is_count(makers: Mapping[int, Op], loop: Op, bound: Op) -> bool:
    """Whether a constant is the upper bound of a loop that counts from 0 in steps of 1, and nothing else of
    it."""
    if role(loop) != "for":
        return False
    lower, upper, step, *carried = loop.operands
    makes = (None if one.producer is None else makers.get(one.producer) for one in (lower, step))
    alone = upper.id == bound.result.id and all(one.id != upper.id for one in carried)
    return alone and [op and _number(op) for op in makes] == [0, 1]


def _number(op: Op) -> int | None:
    value = op.attributes.get(VALUE) if role(op) == "constant" else None
    return value if isinstance(value, int) else None
