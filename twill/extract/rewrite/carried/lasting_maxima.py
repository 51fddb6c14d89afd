"""Running maxima that last until they grow by much, as FlashAttention-4 has it.

An online softmax subtracts a running maximum of each row from its scores, so that no exponential overflows;
any number near the maximum will do, and where it stays, what has been accumulated need not be rescaled.
Takes a module and a threshold; gives the module in which a running maximum that a loop carries is replaced
only where it grows by more than the threshold. Weights are then up to exp2(threshold) instead of 1, so values
are rounded otherwise (with a threshold of 0 they are the same); what a kernel computes is compared with the
module as it was. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twill.diagnostics import TwillError
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, computed, constant, edited, mentions
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Block, Function, Module, Op, Scalar, Tensor, Value
from twill.ops.table import named, role, row

LARGEST = 8.0
"""Weights up to exp2 of it are numbers of every type that an MMA multiplies (e4m3 ends at 448)."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A maximum that the next iteration carries on with."""

    op: Op
    carried: Value
    """The maximum up to the iteration before."""
    following: Op


def lasting(module: Module, threshold: float) -> Module:
    """The module with maxima that last. Raises TwillError where the threshold is below 0 or too large for
    weights of 8 bits, and where there is no such maximum."""
    if not 0 <= threshold <= LARGEST:
        raise TwillError(f"a threshold of rescaling must be from 0 to {LARGEST:g}, not {threshold:g}")
    edits = [edit for function in module.functions for edit in _edits(module, function, threshold)]
    if not edits:
        raise TwillError(
            f"{module.file} has no running maximum whose growth rescales what a loop accumulates",
            help="leave --rescale-threshold out",
        )
    return edited(module, edits)


def _edits(module: Module, function: Function, threshold: float) -> Iterator[Edit]:
    users, makers = function.users(), makers_of(function.walk())
    for one in _running(function, users, makers):
        text = _written(module, one, threshold)
        if text is None:
            continue
        yield Edit(one.following.span.start, one.following.span.start, text)
        for user in users[one.op.result.id]:
            yield from _renamed(module, user, one.op.result.name)


def _running(function: Function, users: Mapping[int, Sequence[Op]], makers: Makers) -> Iterator[_Running]:
    for loop in function.walk():
        if role(loop) != "for":
            continue
        (block,) = loop.regions[0].blocks
        if not block.args[1:]:  # then it may end without a yield
            continue
        following = {op.index: after for op, after in pairwise(block.ops)}
        for carried, yielded in zip(block.args[1:], block.ops[-1].operands, strict=True):
            op = makers.by_value.get(yielded.id)
            if op is None or op.index not in following or not _is_maximum(op, carried, block):
                continue
            if _rescales(users, carried, op.result):
                yield _Running(op, carried, following[op.index])


def _is_maximum(op: Op, carried: Value, block: Block) -> bool:
    """Of float32 numbers and the carried one: what a reduction by it begins with is the least."""
    identity, kind = row(op).identity, carried.type
    least = isinstance(identity, Mapping) and identity.get("f32") == "-INFINITY"
    floats = isinstance(kind, Tensor) and kind.dtype == Scalar("f32")
    return least and floats and op in block.ops and carried in op.operands


def _rescales(users: Mapping[int, Sequence[Op]], carried: Value, raised: Value) -> bool:
    """Whether exponentials, and nothing else, are taken of carried - raised."""
    growths = [
        op for op in users.get(raised.id, ()) if op.name == "arith.subf" and op.operands == (carried, raised)
    ]
    readers = [user for op in growths for user in users.get(op.result.id, ())]
    return bool(readers) and all(row(user).polynomial for user in readers)


def _written(module: Module, one: _Running, threshold: float) -> str | None:
    """Comparison and selection, in front of what follows the maximum; None for a type without text."""
    kind = type_text(module, one.carried.type)
    if kind is None:
        return None
    raised, carried, bits = one.op.result.name, one.carried.name, kind.replace("f32", "i1", 1)
    difference, limit, far = (f"{raised}_{word}" for word in ("growth", "limit", "far"))
    lines = (
        f"{difference} = {computed('subf', carried, raised, kind)}",
        f"{limit} = {constant(f'dense<{-threshold:.6e}>', kind)}",
        f"{far} = {computed('cmpf olt,', difference, limit, kind)}",
        f"{_kept(raised)} = {named('select')} {far}, {raised}, {carried} : {bits}, {kind}",
    )
    return "".join(f"{line} {UNKNOWN} " for line in lines)


def _kept(name: str) -> str:
    return f"{name}_kept"


def _renamed(module: Module, user: Op, name: str) -> Iterator[Edit]:
    """The operation with the maximum that lasts; of an operation with regions, its own operands alone."""
    inside = [op.span.start for op in user.inner()]
    end = min(inside, default=user.span.end)
    for found in mentions(name).finditer(module.text, user.span.start, end):
        yield Edit(found.start(), found.end(), _kept(name))
