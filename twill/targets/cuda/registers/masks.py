"""Tiles of truth values that a group keeps while it waits: as bits, 32 to a register.

Takes the statements of a group; gives the variables to declare so. A schedule counts a bit for each element;
ptxas keeps each bool in a register of its own. Those that are read before the group waits or issues an MMA
stay as they are: they become predicates, and packing would cost instructions.
"""

from collections.abc import Iterator

from twill.ir.effects import effects
from twill.ir.loop import Scalar, Tensor
from twill.ir.operands import Register
from twill.ir.program import Variable, WarpProgram
from twill.ir.statements import (
    BarrierWait,
    ConsumerWait,
    For,
    If,
    MmaIssue,
    MmaWait,
    OrderBarrierWait,
    Pipelined,
    Statements,
    While,
    inner,
)
from twill.targets.cuda.registers.fragments import registers as held

FEWEST = 8
"""Elements of a thread that are worth packing (estimate)."""
_APART = (MmaIssue, MmaWait, ConsumerWait, OrderBarrierWait, BarrierWait, Pipelined, For, While, If)


def kept_masks(group: WarpProgram) -> frozenset[str]:
    """The variables of truth values that live across a wait, an MMA or an iteration."""
    masks = frozenset(one.id for one in group.variables if _mask(one))
    older = {one.id for one in group.variables if one.id in masks and one.ages > 1}
    return frozenset(older).union(*(_across(body, masks) for body in _bodies(group.body))) if masks else masks


def _mask(one: Variable) -> bool:
    kind = one.type
    return isinstance(kind, Tensor) and kind.dtype == Scalar("i1") and held(kind) >= FEWEST


def _bodies(body: Statements) -> Iterator[Statements]:
    """A list of statements, and all that are inside of it."""
    yield body
    for statement in body:
        for inside in inner(statement):
            yield from _bodies(inside)


def _across(body: Statements, masks: frozenset[str]) -> set[str]:
    """Those that a list reads behind such a statement, or never writes before."""
    found, fresh = set[str](), set[str]()
    for statement in body:
        found |= _named(effects(statement).reads, masks) - fresh
        if isinstance(statement, _APART):
            fresh.clear()
        fresh |= _named(effects(statement).writes, masks)
    return found


def _named(locations: tuple[object, ...], masks: frozenset[str]) -> set[str]:
    return {one.variable for one in locations if isinstance(one, Register)} & masks
