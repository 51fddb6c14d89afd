"""Steps that a loop takes once in every so many iterations.

`ptrs += where((k + 1) % n == 0, stride, 0)` moves to the next group behind every n-th iteration. How many
such steps came before an iteration follows from its number. Takes a loop and what it adds to a carried value;
gives the step, how often it is taken, and the text that counts it.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass

from twill.extract.rewrite.text.edits import added, computed, constant
from twill.extract.rewrite.text.makers import Makers
from twill.ir.loop import Loop, Scalar, Value
from twill.ops.table import role


@dataclass(frozen=True, slots=True, eq=False)
class Periodic:
    """A step that is taken where (induction variable + shift) % length == 0."""

    factors: tuple[Value, ...]
    """Loop-invariant numbers whose product is the step; none: 1."""
    length: Value
    """Loop-invariant."""
    shift: int
    lower: Value | None
    """Where the induction variable begins; None: at 0."""

    @property
    def values(self) -> tuple[Value, ...]:
        """All that it is made from."""
        return (*self.factors, self.length)


@dataclass(frozen=True, slots=True)
class _Search:
    loop: Loop
    makers: Makers
    inside: Container[int]
    """The values, by id, that come into being in the loop."""

    @property
    def lower(self) -> Value | None:
        return None if self.makers.number(self.loop.lower) == 0 else self.loop.lower


def periodic(step: Value, loop: Loop, makers: Makers, inside: Container[int]) -> Periodic | None:
    """What a step is, as a number or a tile that is the same number everywhere; None where it is not known to
    be taken at regular intervals. The loop has to count by 1."""
    search = _Search(loop, makers, inside)
    if search.makers.number(loop.step) != 1:
        return None
    spread = search.makers.of(step, "splat")
    return _product(search, spread.operands[0] if spread else step, ())


def _product(search: _Search, value: Value, factors: tuple[Value, ...]) -> Periodic | None:
    """A number times `factors`."""
    op = search.makers.of(value, "multiply", "integer_cast", "select")
    if op is None or not isinstance(value.type, Scalar):
        return None
    match role(op):
        case "multiply":
            fixed = [one for one in op.operands if one.id not in search.inside]
            varying = [one for one in op.operands if one.id in search.inside]
            return _product(search, varying[0], (*factors, *fixed)) if len(varying) == 1 else None
        case "select":
            condition, taken, other = op.operands
            plain = taken.id not in search.inside and search.makers.number(other) == 0
            return _condition(search, condition, (*factors, taken)) if plain else None
        case _:
            narrow = op.operands[0]
            if narrow.type == Scalar("i1"):
                return _condition(search, narrow, factors) if op.name.endswith("extui") else None
            return _product(search, narrow, factors) if op.name.endswith("extsi") else None


def _condition(search: _Search, value: Value, factors: tuple[Value, ...]) -> Periodic | None:
    """`(k + shift) % length == 0`."""
    compare = search.makers.of(value, "compare")
    if (
        compare is None
        or compare.attributes.get("predicate") != "eq"
        or search.makers.number(compare.operands[1]) != 0
    ):
        return None
    rest = search.makers.of(compare.operands[0], "remainder")
    if rest is None or rest.operands[1].id in search.inside or not rest.name.endswith("remsi"):
        return None
    shift = _shift(search, rest.operands[0])
    return None if shift is None or shift < 0 else Periodic(factors, rest.operands[1], shift, search.lower)


def _shift(search: _Search, value: Value) -> int | None:
    """What is added to the induction variable."""
    induction = search.loop.induction
    assert induction is not None, "a counted loop has an induction variable"
    if value.id == induction.id:
        return 0
    op = search.makers.of(value, "add")
    others = [one for one in op.operands if one.id != induction.id] if op is not None else []
    return search.makers.number(others[0]) if len(others) == 1 else None


def taken(step: Periodic, iterations: str, kind: str, lower: str | None, op: Callable[[str], str]) -> str:
    """How many steps are taken in the first `iterations` of a loop that begins at `lower`, None for 0: the
    multiples of the length from lower + shift to lower + iterations + shift - 1. Numbers are of the type
    `kind`; `op` writes an operation and gives the name of its result. The sign of the length does not matter,
    as for the remainder."""
    zero = op(constant(0, kind))
    negated = op(computed("subi", zero, step.length.name, kind))
    length = op(computed("maxsi", step.length.name, negated, kind))
    before = op(constant(step.shift - 1, kind))
    if lower is not None:
        before = op(added(lower, before, kind))
    signed = lower is not None or step.shift == 0
    ends = (op(added(before, iterations, kind)), before)
    upto, start = (_multiples(one, length, kind, op, signed=signed) for one in ends)
    return op(computed("subi", upto, start, kind))


def _multiples(number: str, length: str, kind: str, op: Callable[[str], str], *, signed: bool) -> str:
    """A number over a length, rounded down; `signed` where it may be below zero."""
    if signed:
        rest = op(added(op(computed("remsi", number, length, kind)), length, kind))
        number = op(computed("subi", number, op(computed("remsi", rest, length, kind)), kind))
    return op(computed("divsi", number, length, kind))
