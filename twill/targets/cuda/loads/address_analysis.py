"""What a tile of pointers and a mask consist of.

Takes the scope of a statement; gives pointers as sums and masks as conjunctions. A pointer is the sum of one
that is the same for all elements, of offsets that are the same in every iteration, and of others. Where
comparisons with bounds hold for the whole tile, one comparison of scalars says so.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from re import search

from twill.ir.loop import Op, Tensor, Value
from twill.ops.table import role
from twill.ops.upper_bounds import AND, bounded
from twill.ops.values import element
from twill.targets.cuda.expressions import atom, bare, plus
from twill.targets.cuda.registers.fragments import axes, lies_along
from twill.targets.cuda.registers.register_tiles import AnyPoint, Elements
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.values.polynomials import SIGN_EXTENSION

_VIEWS = frozenset({"broadcast", "expand", "layout"})

_COSTLY = frozenset({"remainder", "divide", "pointer_load"})

WIDENED = "int64_t({})".format
"""The number of 64 bits that one of 32 is."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A tile of integers, or what several add to a pointer: the sum of all parts, in `bits` bits."""

    bits: int
    fixed: tuple[Elements, ...] = ()
    """The same in every iteration."""
    uniform: tuple[str, ...] = ()
    """The same for all elements."""
    moving: tuple[Elements, ...] = ()
    exact: bool = True
    """No part is outside of the type where the sum is not; otherwise parts and sum wrap around."""
    linear: bool = False
    """It grows by the same number from each row to the next, and from each column to the next."""

    def __add__(self, other: "Offset") -> "Offset":
        return Offset(
            self.bits,
            (*self.fixed, *other.fixed),
            (*self.uniform, *other.uniform),
            (*self.moving, *other.moving),
            self.exact and other.exact,
        )


@dataclass(frozen=True, slots=True)
class Address:
    """A tile of pointers."""

    base: str
    """The same for all elements."""
    offsets: tuple[Offset, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the conditions that a mask joins."""

    holds: Elements
    fixed: bool
    """The same in every iteration."""
    whole: str | None = None
    """A condition on scalars under which it holds for every element."""
    scalar: int | None = None
    """The scalar, by id, that it is in all elements."""
    room: Elements | None = None
    """For how many elements from one on it holds, of 64 bits, where it may leave out the last elements of a
    copy; at most zero where it holds for none."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the parts of an offset."""

    elements: Elements
    costly: bool
    """It divides, or loads."""
    narrow: Elements | None = None
    """A number of 32 bits from which it follows, in fewer registers."""
    follows: Callable[[str], str] = WIDENED
    """C expression of the part, from one of that number."""

    def __call__(self, point: AnyPoint) -> str:
        return self.elements(point)


@dataclass(frozen=True, slots=True)
class Analysis:
    """Takes tiles apart, in the scope of a statement."""

    scope: Scope
    inside: frozenset[int]
    """The operations of the loop, by their index."""
    divided: bool = False
    """Offsets that are the same in every iteration are taken apart too; all are `Part`s."""
    bounds: frozenset[int] = frozenset()
    """The comparisons, by index, that may leave out the last elements of a copy."""

    def maker(self, value: Value) -> Op | None:
        """None for an argument, and for what comes in a slot."""
        if value.producer is None or value.id in self.scope.received:
            return None
        return self.scope.program.op(value.producer)

    def invariant(self, value: Value) -> bool:
        """The same in every iteration."""
        if value.producer is not None and value.producer not in self.inside:
            return True
        maker = self.maker(value)
        if maker is None:
            return any(value is arg for arg in self.scope.program.function.args)
        pure = not maker.regions and role(maker) not in ("pointer_load", "atomic") and maker.operands
        return bool(pure) and all(map(self.invariant, maker.operands))

    def address(self, value: Value) -> Address | None:
        """None where the pointers do not begin at one."""
        maker = self.maker(value)
        if maker is None:
            return None
        if _view(maker):
            return self.address(maker.operands[0])
        if role(maker) == "splat":
            return Address(self.scope.scalar(maker.operands[0]))
        if role(maker) == "address":
            begin = self.address(maker.operands[0])
            offset = replace(self.offset(maker.operands[1]), linear=self.linear(maker.operands[1]))
            return Address(begin.base, (*begin.offsets, offset)) if begin else None
        return None

    def offset(self, value: Value) -> Offset:
        """The parts of a tile of integers."""
        maker, width = self.maker(value), 64 if element(value.type) == "i64" else 32
        kind = role(maker) if maker else None
        if maker is None and value.producer in self.inside:
            return Offset(width, moving=(self._part(value),))
        if maker is None or kind == "constant":
            return Offset(width, (self.scope.elements(value),))
        if _view(maker):
            return self.offset(maker.operands[0])
        if kind == "splat":
            return Offset(width, uniform=(self.scope.scalar(maker.operands[0]),))
        if self.invariant(value) and not (self.divided and kind in ("add", "multiply", "integer_cast")):
            return Offset(width, (self._part(value),))
        if kind == "add":
            return self.offset(maker.operands[0]) + self.offset(maker.operands[1])
        if kind == "multiply":
            return self._product(maker, width)
        if kind == "integer_cast" and width == 64:
            return self._widened(maker)
        return Offset(width, moving=(self._part(value),))

    def linear(self, value: Value) -> bool:
        """Whether a tile of integers grows by the same number from each row to the next, and from each column
        to the next, in arithmetic that wraps around."""
        maker = self.maker(value)
        if maker is None or self._uniform(value):
            return maker is not None
        kind, operands = role(maker), maker.operands
        if kind == "range":
            return True
        if _view(maker) or (maker.name == SIGN_EXTENSION and self.offset(operands[0]).exact):
            return self.linear(operands[0])
        if kind == "multiply":
            return any(map(self._uniform, operands)) and all(map(self.linear, operands))
        return kind in ("add", "subtract") and all(map(self.linear, operands))

    def _uniform(self, value: Value) -> bool:
        """Whether a tile has the same number everywhere."""
        maker = self.maker(value)
        if maker is None:
            return False
        if role(maker) == "constant":
            return isinstance(maker.attributes.get("value"), int)
        return role(maker) == "splat" or (_view(maker) and self._uniform(maker.operands[0]))

    def _part(self, value: Value) -> Elements:
        elements = self.scope.elements(value)
        if not self.divided:
            return elements
        narrow = elements if self._remainder_of_32_bits(value) else None
        return Part(elements, self._costly(value), narrow)

    def _remainder_of_32_bits(self, value: Value) -> bool:
        """Whether a number of 64 bits is a remainder by one that was widened from 32, and has no more."""
        maker = self.maker(value)
        if maker is None or maker.name != "arith.remsi" or element(value.type) != "i64":
            return False
        return self._of_32_bits(maker.operands[1])

    def _of_32_bits(self, value: Value) -> bool:
        """Whether a number of 64 bits was widened from 32, and is the same in all elements."""
        maker = self.maker(value)
        while maker is not None and (_view(maker) or role(maker) == "splat"):
            maker = self.maker(maker.operands[0])
        return maker is not None and maker.name == SIGN_EXTENSION and element(maker.operands[0].type) == "i32"

    def _costly(self, value: Value) -> bool:
        maker = self.maker(value)
        if maker is None or role(maker) == "splat":
            return False
        return role(maker) in _COSTLY or any(map(self._costly, maker.operands))

    def _product(self, op: Op, width: int) -> Offset:
        """Of a sum and a number that is the same in every iteration: the products of its parts."""
        for tile, factor in (op.operands, op.operands[::-1]):
            by = self.offset(factor)
            if len(by.uniform) == 1 and not by.fixed and not by.moving and self.invariant(factor):
                parts, c = self.offset(tile), by.uniform[0]
                short = self._of_32_bits(factor)
                return Offset(
                    width,
                    tuple(_times(one, width, c, short) for one in parts.fixed),
                    tuple(f"{unsigned(width)}({one}) * {unsigned(width)}({c})" for one in parts.uniform),
                    tuple(_times(one, width, c, short) for one in parts.moving),
                    False,
                )
        return self._whole_offset(op.result, width)

    def _whole_offset(self, value: Value, width: int) -> Offset:
        """Not taken apart."""
        if self.invariant(value):
            return Offset(width, (self._part(value),))
        return Offset(width, moving=(self._part(value),))

    def _widened(self, op: Op) -> Offset:
        """In 64 bits, where no part leaves its type unless the sum does."""
        parts = self.offset(op.operands[0])
        if op.name != SIGN_EXTENSION or not parts.exact:
            return self._whole_offset(op.result, 64)
        uniform = tuple(f"int64_t({one})" for one in parts.uniform)
        return Offset(64, tuple(map(_wide, parts.fixed)), uniform, tuple(map(_wide, parts.moving)))

    def conditions(self, value: Value) -> tuple[Condition, ...]:
        """What a mask joins. Raises ValueError where one of `bounds` is joined with others out of sight."""
        maker = self.maker(value)
        kind = role(maker) if maker else None
        if maker is not None and maker.name == AND:
            return tuple(one for operand in maker.operands for one in self.conditions(operand))
        if maker is not None and _view(maker):
            return self.conditions(maker.operands[0])
        if maker is not None and kind == "constant" and maker.attributes.get("value") is True:
            return ()
        if maker is not None and maker.index in self.bounds:
            return (self._bound(maker),)
        if self._hides_bound(value):
            raise ValueError("has a mask that other threads hold")
        fixed = self.invariant(value)
        whole = self._whole(maker) if maker is not None and kind == "compare" and not fixed else None
        if maker is not None and kind == "splat":
            scalar = maker.operands[0]
            return (Condition(self.scope.elements(value), fixed, self.scope.scalar(scalar), scalar.id),)
        return (Condition(self.scope.elements(value), fixed, whole),)

    def _hides_bound(self, value: Value) -> bool:
        """Whether one of `bounds` is part of a mask that is not taken apart."""
        if not self.bounds or value.producer is None:
            return False
        op = self.scope.program.op(value.producer)
        joins = op.name == AND or role(op) in _VIEWS
        return op.index in self.bounds or (joins and any(map(self._hides_bound, op.operands)))

    def _bound(self, op: Op) -> Condition:
        """An upper bound of consecutive numbers, compared in each iteration: a bit is not enough to keep."""
        sides = bounded(op)
        assert sides is not None
        numbers, bound = map(self.scope.elements, sides)

        def room(point: AnyPoint) -> str:
            return f"int64_t({bare(bound(point))}) - int64_t({bare(numbers(point))})"

        return Condition(self.scope.elements(op.result), False, self._whole(op), room=room)

    def _whole(self, op: Op) -> str | None:
        """Where a comparison of a tile with an upper bound holds for its largest element."""
        predicate = str(op.attributes.get("predicate"))
        sides = {"slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}
        if predicate not in sides:
            return None
        small, bound = op.operands if predicate[1] == "l" else op.operands[::-1]
        most, limit = self.most(small), self.offset(bound)
        if most is None or limit.fixed or limit.moving or len(limit.uniform) != 1 or not limit.exact:
            return None
        return f"{most} {sides[predicate].replace('>', '<')} {limit.uniform[0]}"

    def most(self, value: Value) -> str | None:
        """An upper bound of a tile, the same for all its elements."""
        maker = self.maker(value)
        match role(maker) if maker else None:
            case "broadcast" | "expand" | "layout":
                assert maker
                return self.most(maker.operands[0])
            case "range":
                assert maker
                return str(int(str(maker.attributes["end"])) - 1)
            case "splat":
                assert maker
                return atom(self.scope.scalar(maker.operands[0]))
            case "constant":
                assert maker
                number = maker.attributes.get("value")
                return str(number) if isinstance(number, int) else None
            case "integer_cast" if maker is not None and maker.name == SIGN_EXTENSION:
                most = self.most(maker.operands[0])
                return f"int64_t({most})" if most else None
            case "add":
                assert maker
                one, other = (self.most(operand) for operand in maker.operands)
                return plus(one, other) if one and other else None
            case _:
                return None


def _view(op: Op) -> bool:
    """Whether its result has the elements of its operand at the same rows and columns."""
    source, result = (value.type for value in (op.operands[0], op.result)) if op.operands else (None, None)
    if not isinstance(source, Tensor) or not isinstance(result, Tensor):
        return role(op) in _VIEWS
    if role(op) == "layout" and len(source.shape) == 1:
        return axes(source) == axes(result)
    if role(op) == "broadcast" and (there := lies_along(source, result)):
        return axes(source) == there
    return role(op) in _VIEWS


def unsigned(width: int) -> str:
    return f"uint{width}_t"


def _times(elements: Elements, width: int, factor: str, short: bool) -> Elements:
    """`short`: the factor has 32 bits. By one that has as many the product is one instruction, which the
    compiler does not see where the factor was widened before the loop."""
    made = _like(elements, lambda number: f"{unsigned(width)}({number}) * {unsigned(width)}({factor})")

    def product(number: str) -> str:
        return f"wide_product({number}, int32_t({factor}))"

    if short and isinstance(made, Part) and isinstance(elements, Part) and elements.follows is WIDENED:
        return replace(made, follows=product)
    return made


def _wide(elements: Elements) -> Elements:
    return _like(elements, lambda number: f"int64_t({number})")


def _like(part: Elements, change: Callable[[str], str]) -> Elements:
    """What is made of a part: as costly as that, and from the same number."""

    def elements(point: AnyPoint) -> str:
        return change(part(point))

    if not isinstance(part, Part):
        return elements
    return Part(elements, part.costly, part.narrow, lambda number: change(part.follows(number)))


@dataclass(frozen=True, slots=True)
class Costly:
    """The sum of the costly parts of an offset, or a number of fewer bits from which it follows."""

    text: str
    bits: int
    follows: Callable[[str], str] = str


def costly(offset: Offset, point: AnyPoint) -> Costly:
    """Of an offset that is taken apart; its text is empty where no part is costly."""
    parts = [one for one in offset.fixed if isinstance(one, Part) and one.costly]
    if len(parts) == 1 and (narrow := parts[0].narrow) is not None:
        follows = parts[0].follows
        return Costly(f"uint32_t({narrow(point)})", 32, lambda read: follows(f"int32_t({read})"))
    texts = [one(point) for one in parts]
    return Costly(summed(texts, offset.bits) if texts else "", offset.bits)


def varies(text: str) -> bool:
    """Whether it depends on which copy it is for, or has a number of its row (`row_numbers`)."""
    return bool(search(r"(\b|_of_)i_\b", text))


def summed(texts: Iterable[str], width: int) -> str:
    """Wraps around."""
    return " + ".join(f"{unsigned(width)}({bare(one)})" for one in texts) or "0"
