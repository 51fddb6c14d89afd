"""What a loop's load would give an iteration before the first one, beside what the loop starts from.

Takes a loop, a load of it and the initial value of what it carries of that; says whether both are the same
elements of memory, and whether the load's mask is true in each iteration that reads it one later. Addresses
are compared as sums of values with factors: offsets of 32 bits are extended with their signs, so a sum that
might wrap counts as a value of its own there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from twill.extract.rewrite.makers import Makers
from twill.ir.loop import Loop, Op, Value
from twill.ops.table import lookup, role
from twill.ops.values import element

Terms: TypeAlias = Mapping[int, int]
"""Factors by the numbers of values."""
_CONSTANT = -1
"""In place of a value's number: of the constant term."""
_NARROW = 1 << 31
"""Integers of 32 bits are below."""


@dataclass(frozen=True, slots=True)
class BeforeFirst:
    """A loop, and which operation makes each value of its function."""

    loop: Loop
    makers: Makers

    def same(self, load: Op, views: tuple[Op, ...], init: Value) -> bool:
        """Whether the load, seen through the views, gives the initial value at the iteration before the first
        and is not masked where an iteration reads it one later."""
        for view in reversed(views):
            other = self.makers.by_value.get(init.id)
            if other is None or not _alike(view, other) or len(other.operands) != 1:
                return False
            init = other.operands[0]
        first = self.makers.by_value.get(init.id)
        if first is None or not _alike(load, first) or len(first.operands) != 1:
            return False
        unmasked = len(load.operands) == 1 or self._condition(load.operands[1])
        return unmasked and self._at_first(load.operands[0]) == self._at_first(first.operands[0])

    def alike(self, value: Value, init: Value) -> bool:
        """Whether a sum, or an address, is the initial one at the iteration before the first."""
        return self._at_first(value) == self._at_first(init)

    def _condition(self, mask: Value) -> bool:
        """Whether a mask, an iteration earlier, is the loop's own condition: `lower + step * i < upper`."""
        assert self.loop.induction is not None
        assert self.loop.upper is not None
        if splat := self.makers.of(mask, "splat"):
            mask = splat.operands[0]
        compared = self.makers.by_value.get(mask.id)
        if compared is None or role(compared) != "compare" or compared.attributes.get("predicate") != "slt":
            return False
        now = self._before({self.loop.induction.id: 1})
        one, other = (self._terms(value, now) for value in compared.operands)
        return one == {self.loop.induction.id: 1} and other == self._terms(self.loop.upper, now)

    def _at_first(self, value: Value) -> Terms:
        """With the induction variable an iteration before the first."""
        assert self.loop.lower is not None
        return self._terms(value, self._before(self._terms(self.loop.lower, {})))

    def _before(self, now: Terms) -> Terms:
        assert self.loop.step is not None
        return _sum(now, self._terms(self.loop.step, {}), -1)

    def _terms(self, value: Value, now: Terms) -> Terms:
        """A value as a sum; of a tile, each element. `now`: the induction variable."""
        if self.loop.induction is not None and value.id == self.loop.induction.id:
            return now
        if (number := self.makers.number(value)) is not None:
            return {_CONSTANT: number} if number else {}
        itself: Terms = {value.id: 1}
        made = self.makers.by_value.get(value.id)
        if made is None or len(made.results) != 1:
            return itself
        parts = [self._terms(one, now) for one in made.operands]
        match role(made):
            case "add":
                found = _sum(parts[0], parts[1])
            case "subtract":
                found = _sum(parts[0], parts[1], -1)
            case "address":
                found = _sum(parts[0], self._extended(parts[1], made.operands[1]))
            case "multiply":
                found = _product(*parts)
            case "divide" if _word(made) == "divsi":
                found = _quotient(*parts)
            case "splat":
                found = parts[0]
            case "integer_cast" if _word(made) == "extsi":
                found = self._extended(parts[0], made.operands[0])
            case _:
                found = None
        return itself if found is None else found

    def _extended(self, terms: Terms, value: Value) -> Terms:
        """The terms of a value in a sum of 64 bits."""
        itself = list(terms.values()) == [1] and _CONSTANT not in terms
        if itself or _number(terms) is not None or element(value.type) == "i64":
            return terms
        splat = self.makers.of(value, "splat")
        return {(splat.operands[0] if splat else value).id: 1}


def _alike(one: Op, other: Op) -> bool:
    """The same operation on other operands."""
    return (
        one.name == other.name
        and len(other.results) == 1
        and one.result.type == other.result.type
        and _said(one) == _said(other)
    )


def _word(op: Op) -> str:
    row = lookup(op.name)
    return row.word if row else ""


def _said(op: Op) -> Mapping[str, object]:
    return {name: value for name, value in op.attributes.items() if name != "operandSegmentSizes"}


def _sum(one: Terms, other: Terms, factor: int = 1) -> Terms:
    total = {key: one.get(key, 0) + factor * other.get(key, 0) for key in {**one, **other}}
    return {key: times for key, times in total.items() if times}


def _number(terms: Terms) -> int | None:
    """What a sum is, where that is known."""
    known = not terms or (set(terms) == {_CONSTANT} and abs(terms[_CONSTANT]) < _NARROW)
    return terms.get(_CONSTANT, 0) if known else None


def _product(one: Terms, other: Terms) -> Terms | None:
    """None where no factor is known."""
    for factor, terms in ((_number(one), other), (_number(other), one)):
        if factor is not None:
            return {key: factor * times for key, times in terms.items() if factor}
    return None


def _quotient(one: Terms, other: Terms) -> Terms | None:
    """None where it is not known, or there is a remainder."""
    number, divisor = _number(one), _number(other)
    if number is None or not divisor or number % divisor:
        return None
    return {_CONSTANT: number // divisor} if number else {}
