"""Between which numbers a scalar or each element of a tile lies, from constants, programs' numbers, bounds of
loops and masks of bits.

Takes a `Function`; gives an interval for an integer, and the truth of a comparison where intervals decide it.
Arithmetic that might overflow gives every number of its type, so an interval holds for wrapping arithmetic
too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from twill.ir.loop import Function, Op, Scalar, Type, Value
from twill.ops.axis_info import AxisAnalysis
from twill.ops.table import lookup, role
from twill.ops.values import element

LAST_PROGRAM = (1 << 31) - 2
"""Number of a program at most (CUDA, maximum x-dimension of a grid of thread blocks: 2**31 - 1)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, both included."""

    low: int
    high: int


class Ranges:
    """Intervals of the integers of one function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._found: dict[int, Interval] = {}

    @cached_property
    def _makers(self) -> Mapping[int, Op]:
        return {value.id: op for op in self.function.walk() for value in op.results}

    @cached_property
    def _axes(self) -> AxisAnalysis:
        return AxisAnalysis(self.function)

    @cached_property
    def _inductions(self) -> Mapping[int, Op]:
        """The counted loop of each induction variable, by the variable's id."""
        loops = (op for op in self.function.walk() if role(op) == "for")
        return {op.regions[0].blocks[0].args[0].id: op for op in loops}

    def of(self, value: Value) -> Interval:
        """All numbers of its type where nothing else is known."""
        if value.id not in self._found:
            every = _every(value.type)
            self._found[value.id] = every
            found = self._derived(value)
            fits = found is not None and every.low <= found.low <= found.high <= every.high
            self._found[value.id] = found if found is not None and fits else every
        return self._found[value.id]

    def _derived(self, value: Value) -> Interval | None:
        loop = self._inductions.get(value.id)
        if loop is not None:
            lower, upper = self.of(loop.operands[0]), self.of(loop.operands[1])
            return Interval(lower.low, max(lower.low, upper.high - 1))
        op = self._makers.get(value.id)
        row = lookup(op.name) if op is not None else None
        if op is None or row is None or op.regions:
            return None
        match row.role:
            case "constant":
                number = op.attributes.get("value")
                return Interval(int(number), int(number)) if isinstance(number, int) else None
            case "program_id":
                return Interval(0, LAST_PROGRAM)
            case "num_programs":
                return Interval(1, LAST_PROGRAM + 1)
            case shape if shape in _SEEN:
                return _either(*map(self.of, op.operands)) if _signed(value) else None
            case "select":
                return _either(*map(self.of, op.operands[1:])) if _signed(value) else None
            case _:
                return self._computed(row.word, op.operands) if all(map(_signed, op.operands)) else None

    def _remaining(self, one: Value, other: Value) -> Interval | None:
        """The upper bound of a loop minus its induction variable: at least 1, and at least a step where the
        loop ends at its bound."""
        loop = self._inductions.get(other.id)
        if loop is None or loop.operands[1].id != one.id:
            return None
        lower, upper, step = map(self.of, loop.operands[:3])
        divisors = [self._axes.of(bound).divisibility[0] for bound in loop.operands[:2]]
        whole = step.low == step.high > 0 and all(divisor % step.low == 0 for divisor in divisors)
        least = step.low if whole else 1
        return Interval(least, max(least, upper.high - lower.low))

    def _computed(self, word: str, operands: tuple[Value, ...]) -> Interval | None:
        if word in _CASTS:
            return self.of(operands[0])
        if word in ("extui", "shrui", "shrsi"):
            one, every = self.of(operands[0]), _every(operands[0].type)
            one = _natural(one, every) if word != "shrsi" else one
            return one if word == "extui" else _shifted(one, self.of(operands[1]), every)
        if word == "subi" and (found := self._remaining(operands[0], operands[1])) is not None:
            return found
        rule = _RULES.get(word)
        return rule(self.of(operands[0]), self.of(operands[1])) if rule is not None else None

    def truth(self, value: Value) -> bool | None:
        """What a condition is in every execution; None where that is not known."""
        op = self._makers.get(value.id)
        scalar = op is not None and all(isinstance(operand.type, Scalar) for operand in op.operands)
        if op is None or role(op) != "compare" or not scalar or not all(map(_signed, op.operands)):
            return None
        one, other = map(self.of, op.operands)
        match str(op.attributes.get("predicate")):
            case "slt":
                return _below(one, other)
            case "sle":
                return _negated(_below(other, one))
            case "sgt":
                return _below(other, one)
            case "sge":
                return _negated(_below(one, other))
            case _:
                return None


def _signed(value: Value) -> bool:
    return element(value.type) in ("i8", "i16", "i32", "i64", "index")


def _below(one: Interval, other: Interval) -> bool | None:
    return True if one.high < other.low else False if one.low >= other.high else None


def _negated(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _every(type: Type) -> Interval:
    name = element(type)
    bits = int(name[1:]) if name[:1] == "i" and name[1:].isdigit() else 64
    return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if bits > 1 else Interval(0, 1)


# --- arithmetic -------------------------------------------------------------------------------------------


def _either(*found: Interval) -> Interval:
    return Interval(min(one.low for one in found), max(one.high for one in found))


def _natural(found: Interval, every: Interval) -> Interval:
    """The bits of a signed integer as a number without a sign, of more bits."""
    return found if found.low >= 0 else Interval(0, every.high - every.low)


def _masked(one: Interval, other: Interval) -> Interval | None:
    """Bits that both have: no more than a number that is not negative has."""
    natural = [found.high for found in (one, other) if found.low >= 0]
    return Interval(0, min(natural)) if natural else None


def _united(one: Interval, other: Interval) -> Interval | None:
    """Bits that one of both has."""
    if min(one.low, other.low) < 0:
        return None
    return Interval(max(one.low, other.low), (1 << max(one.high, other.high).bit_length()) - 1)


def _shifted(one: Interval, by: Interval, every: Interval) -> Interval | None:
    """To the right, of numbers of the type whose range is `every`, with or without a sign."""
    if not 0 <= by.low <= by.high < (every.high - every.low).bit_length():
        return None
    places = (by.low, by.high)
    return Interval(min(one.low >> n for n in places), max(one.high >> n for n in places))


def _product(one: Interval, other: Interval) -> Interval:
    corners = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
    return Interval(min(corners), max(corners))


def _quotient(one: Interval, other: Interval) -> Interval | None:
    """Rounded toward zero, of numbers that are not negative."""
    return Interval(one.low // other.high, one.high // other.low) if one.low >= 0 < other.low else None


def _remainder(one: Interval, other: Interval) -> Interval | None:
    return Interval(0, min(one.high, other.high - 1)) if one.low >= 0 < other.low else None


_SEEN = frozenset(
    {"splat", "expand", "broadcast", "reshape", "transpose", "join", "split", "concatenate", "layout"}
)
"""Roles of operations whose result has the elements of its operands."""
_CASTS = ("extsi", "trunci", "index_cast")
"""Short names of what keeps a number; a result that its type can not hold is dropped by `Ranges.of`."""
_RULES: Mapping[str, Callable[[Interval, Interval], Interval | None]] = {
    "addi": lambda one, other: Interval(one.low + other.low, one.high + other.high),
    "subi": lambda one, other: Interval(one.low - other.high, one.high - other.low),
    "muli": _product,
    "divsi": _quotient,
    "divui": _quotient,
    "remsi": _remainder,
    "remui": _remainder,
    "minsi": lambda one, other: Interval(min(one.low, other.low), min(one.high, other.high)),
    "andi": _masked,
    "ori": _united,
    "maxsi": lambda one, other: Interval(max(one.low, other.low), max(one.high, other.high)),
}
"""By the short name of an operation."""
