"""Integers and addresses as sums of products of values.

Takes an integer or address of TTGIR, or a tile of them, and which operation makes each value; gives the
coefficient of each product of values that it is the sum of, of a tile for each element. Additions and
multiplications wrap around, and so do those of the sums. Two widths meet where a number of 32 bits is
extended: there a sum that might have wrapped counts as a value of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from twill.extract.rewrite.text.makers import Makers
from twill.ir.loop import Op, Type, Value
from twill.ops.table import role, word
from twill.ops.values import element

Terms: TypeAlias = Mapping[tuple[int, ...], int]
"""Coefficients of products of values, by the sorted ids of these; of no value: the constant term."""
ZERO: Terms = MappingProxyType({})
_NARROW = 1 << 31
"""Integers of 32 bits are below."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What values are, with some of them given."""

    makers: Makers
    given: Mapping[int, Terms] = field(default_factory=dict[int, Terms])

    def of(self, value: Value) -> Terms:
        if value.id in self.given:
            return self.given[value.id]
        if (number := self.makers.number(value)) is not None:
            return {(): number} if number else ZERO
        made = self.makers.by_value.get(value.id)
        counts = is_integer(value.type) or element(value.type) == "ptr"
        found = self._computed(made) if made is not None and counts else None
        return {(value.id,): 1} if found is None else found

    def _computed(self, op: Op) -> Terms | None:
        """What an operation gives; None where that is no such sum."""
        match role(op), op.operands:
            case "add", (one, other):
                return added(self.of(one), self.of(other))
            case "subtract", (one, other):
                return added(self.of(one), self.of(other), -1)
            case "multiply", (one, other):
                return _product(self.of(one), self.of(other))
            case "divide", (one, other) if word(op) == "divsi":
                return _quotient(self.of(one), self.of(other))
            case "address", (one, other):
                return added(self.of(one), self.extended(other))
            case "splat", (one,):
                return self.of(one)
            case "integer_cast", (one,) if word(op) == "extsi":
                return self.extended(one)
            case _:
                return None

    def extended(self, value: Value) -> Terms:
        """The terms of a value in a sum of 64 bits."""
        terms = self.of(value)
        alone = list(terms.values()) == [1] and len(next(iter(terms))) == 1
        if alone or _number(terms) is not None or element(value.type) == "i64":
            return terms
        splat = self.makers.of(value, "splat")
        return {((splat.operands[0] if splat else value).id,): 1}


def is_integer(type: Type) -> bool:
    """Of the widths that addresses and offsets have."""
    return element(type) in ("i32", "i64")


def added(one: Terms, other: Terms, factor: int = 1) -> Terms:
    """A sum, and another times a factor."""
    total = {key: one.get(key, 0) + factor * other.get(key, 0) for key in {**one, **other}}
    return {key: times for key, times in total.items() if times}


def _number(terms: Terms) -> int | None:
    """What a sum is, where that is known and needs no more than 32 bits."""
    known = not terms or (set(terms) == {()} and abs(terms[()]) < _NARROW)
    return terms.get((), 0) if known else None


def _product(one: Terms, other: Terms) -> Terms:
    found = ZERO
    for left, factor in one.items():
        for right, times in other.items():
            found = added(found, {tuple(sorted((*left, *right))): factor * times})
    return found


def _quotient(one: Terms, other: Terms) -> Terms | None:
    """None where it is not known, or there is a remainder."""
    number, divisor = _number(one), _number(other)
    if number is None or not divisor or number % divisor:
        return None
    return {(): number // divisor} if number else ZERO
