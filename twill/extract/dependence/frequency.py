"""How many iterations a loop has, and in how many of them a condition holds, where its bounds say so.

Takes a function, a counted loop and a condition in it; gives bounds on the number of iterations: on the
diagonal causal attention has `range(query, min(query + 128, length), 64)`, two at most. A comparison
of a linear function of the induction variable changes at most once, and how far from the first or the last
iteration it does is known where all else cancels: `start + 128 > length` holds in the last of the iterations
`range(0, length, 128)`. Arithmetic is taken not to wrap, so bounds serve costs, and decide no values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from twill.ir.loop import Function, Op, Value
from twill.ops.table import lookup, role

Most = tuple[int | None, int | None]
"""In how many iterations a condition holds, and does not hold, at most; None where no number follows."""
UNKNOWN: Most = (None, None)

_SWAPPED = {"slt": "sgt", "sle": "sge", "ult": "ugt", "ule": "uge"}
_LEAST = {"sgt": 1, "sge": 0, "ugt": 1, "uge": 0}
"""By predicate, the least difference of the operands with which it holds."""


@dataclass(frozen=True, slots=True)
class _Linear:
    """A sum of values times factors, and a constant."""

    constant: int
    factors: Mapping[int, int] = field(default_factory=dict[int, int])
    """By value id; none is 0."""

    def plus(self, other: "_Linear", times: int = 1) -> "_Linear":
        found = dict(self.factors)
        for value, factor in other.factors.items():
            found[value] = found.get(value, 0) + factor * times
        return _Linear(self.constant + other.constant * times, {value: f for value, f in found.items() if f})


@dataclass(frozen=True, slots=True)
class _Loop:
    """A counted loop whose step is known."""

    makers: Mapping[int, Op]
    variable: int
    lower: tuple[_Linear, ...]
    """The induction variable is at least each of these, if anything is executed,"""
    upper: tuple[_Linear, ...]
    """and less than each of these."""
    step: int

    def trips(self) -> int | None:
        """How many iterations there are at most."""
        lengths = (upper.plus(lower, -1) for upper in self.upper for lower in self.lower)
        known = [length.constant for length in lengths if not length.factors]
        return max(0, -(-min(known) // self.step)) if known else None

    def most(self, condition: Value) -> Most:
        maker = self.makers.get(condition.id)
        match lookup(maker.name) if maker is not None else None:
            case row if maker is not None and row is not None and row.role == "compare":
                return self._compared(maker)
            case row if maker is not None and row is not None and row.word in ("andi", "ori"):
                (a, b), (c, d) = map(self.most, maker.operands)
                return (_least(a, c), _both(b, d)) if row.word == "andi" else (_both(a, c), _least(b, d))
            case _:
                return UNKNOWN

    def _compared(self, op: Op) -> Most:
        predicate = str(op.attributes.get("predicate"))
        one, other = op.operands[:2] if predicate in _LEAST else op.operands[1::-1]
        least = _LEAST.get(_SWAPPED.get(predicate, predicate))
        if least is None:
            return UNKNOWN
        difference = _linear(self.makers, one).plus(_linear(self.makers, other), -1)
        return self._at_least(difference, least), self._at_least(_Linear(0).plus(difference, -1), 1 - least)

    def _at_least(self, form: _Linear, least: int) -> int | None:
        """In how many iterations a linear function is at least that, at most."""
        slope = form.factors.get(self.variable, 0)
        rest = _Linear(form.constant, {v: f for v, f in form.factors.items() if v != self.variable})
        ends = self.upper if slope > 0 else self.lower
        at_end = [rest.plus(end, slope) for end in ends if slope]
        reach = [(one.constant - least) // abs(slope) for one in at_end if not one.factors]
        return min((self._steps(far, before_upper=slope > 0) for far in reach), default=None)

    def _steps(self, far: int, *, before_upper: bool) -> int:
        """How many iterations lie within a distance of the upper bound, which is not reached, or of the lower
        bound, which is."""
        return max(0, -(-far // self.step)) if before_upper else max(-1, far // self.step) + 1


def most_iterations(function: Function, loop: Op, condition: Value) -> Most:
    """In how many iterations of a loop a condition of its body holds, and does not hold, at most."""
    counted = _counted(function, loop)
    return UNKNOWN if counted is None else counted.most(condition)


def most_trips(function: Function, loop: Op) -> int | None:
    """How many iterations a loop has at most; None where no number follows."""
    counted = _counted(function, loop)
    return None if counted is None else counted.trips()


def _counted(function: Function, loop: Op) -> _Loop | None:
    if role(loop) != "for":
        return None
    makers = {value.id: op for op in function.walk() for value in op.results}
    lower, upper, step = loop.operands[:3]
    by = _linear(makers, step)
    if by.factors or by.constant <= 0:
        return None
    return _Loop(
        makers,
        loop.regions[0].blocks[0].args[0].id,
        tuple(_bounds(makers, lower, "maxsi")),
        tuple(_bounds(makers, upper, "minsi")),
        by.constant,
    )


def _bounds(makers: Mapping[int, Op], value: Value, word: str) -> Iterable[_Linear]:
    """A value and, where it is the least (largest) of several, these."""
    maker = makers.get(value.id)
    row = lookup(maker.name) if maker is not None else None
    yield _linear(makers, value)
    if maker is not None and row is not None and row.word == word:
        for operand in maker.operands:
            yield from _bounds(makers, operand, word)


def _linear(makers: Mapping[int, Op], value: Value) -> _Linear:
    maker = makers.get(value.id)
    row = lookup(maker.name) if maker is not None else None
    itself = _Linear(0, {value.id: 1})
    if maker is None or row is None or maker.regions:
        return itself
    if row.role == "constant":
        number = maker.attributes.get("value")
        return _Linear(int(number)) if isinstance(number, int) else itself
    forms = [_linear(makers, operand) for operand in maker.operands]
    match row.word:
        case "addi":
            return forms[0].plus(forms[1])
        case "subi":
            return forms[0].plus(forms[1], -1)
        case "muli" if not forms[1].factors:
            return _Linear(0).plus(forms[0], forms[1].constant)
        case "muli" if not forms[0].factors:
            return _Linear(0).plus(forms[1], forms[0].constant)
        case "extsi" | "trunci" | "index_cast":
            return forms[0]
        case _:
            return itself


def _least(one: int | None, other: int | None) -> int | None:
    return min((number for number in (one, other) if number is not None), default=None)


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
