"""What is known of integers and pointers in a tile: runs of consecutive numbers, runs of equal ones, and
common divisors.

Takes a function; gives an `AxisInfo` for each value. The facts and their rules are those of Triton's axis
analysis, from the divisibility of arguments (`tt.divisibility`, in bytes for a pointer), hints on operations
(`tl.multiple_of`, `tl.max_contiguous`) and assumptions (`tl.assume(x % 16 == 0)`). They say which elements
one instruction may copy together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from re import findall

from twill.ir.loop import Attribute, Function, Op, Pointer, Raw, Scalar, Tensor, Type, Value
from twill.ops.row import Role
from twill.ops.table import is_elementwise, role

MOST = 1 << 20
"""The largest divisor that matters; that of zero."""


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """Facts about a value along each of its dimensions; a scalar has one."""

    contiguity: tuple[int, ...]
    """The dimension is cut into runs of so many numbers, each one more than the one before."""
    divisibility: tuple[int, ...]
    """Divides the first number of each such run; bytes for pointers."""
    constancy: tuple[int, ...]
    """The dimension is cut into runs of so many equal numbers."""

    @property
    def rank(self) -> int:
        return len(self.contiguity)


@dataclass(frozen=True)
class AxisAnalysis:
    """The facts of one function."""

    function: Function
    given: Mapping[int, AxisInfo] = field(default_factory=dict[int, AxisInfo], compare=False)
    """What numbers that loops carry are taken to be, by value id."""

    @cached_property
    def _makers(self) -> Mapping[int, Op]:
        return {result.id: op for op in self.function.walk() for result in op.results}

    def maker(self, value: Value) -> Op | None:
        """The operation that defines a value; None for arguments of blocks and of the function."""
        return self._makers.get(value.id)

    @cached_property
    def users(self) -> Mapping[int, tuple[Op, ...]]:
        """The operations that read each value, by its id."""
        found: dict[int, list[Op]] = {}
        for op in self.function.walk():
            for operand in op.operands:
                found.setdefault(operand.id, []).append(op)
        return {value: tuple(ops) for value, ops in found.items()}

    def of(self, value: Value) -> AxisInfo:
        """What is known of a value."""
        known = self._known.get(value.id)
        if known is None:
            self._known[value.id] = _unknown(value.type)
            known = self._known[value.id] = self._hinted(value, self._derived(value))
        return known

    @cached_property
    def _known(self) -> dict[int, AxisInfo]:
        """What was found so far; a value that depends on itself is unknown meanwhile."""
        found = dict(self.given)
        for arg, attributes in zip(self.function.args, self.function.arg_attributes, strict=True):
            divisor = attributes.get("tt.divisibility")
            found[arg.id] = _scalar(
                max(divisor if isinstance(divisor, int) else 1, self._assumed.get(arg.id, 1))
            )
        return found

    @cached_property
    def _assumed(self) -> Mapping[int, int]:
        """Divisors of values that an assumption names, by value id."""
        found = dict[int, int]()
        for op in self.function.walk():
            compare = self.maker(op.operands[0]) if role(op) == "assume" else None
            rest = self.maker(compare.operands[0]) if compare is not None and compare.operands else None
            if compare is None or rest is None or role(rest) != "remainder":
                continue
            divisor = self.number(rest.operands[1])
            if (
                compare.attributes.get("predicate") == "eq"
                and self.number(compare.operands[1]) == 0
                and divisor
            ):
                found[rest.operands[0].id] = divisor
        return found

    @cached_property
    def _loops(self) -> Mapping[int, Op]:
        """The loop of each induction variable."""
        return {op.regions[0].blocks[0].args[0].id: op for op in self.function.walk() if role(op) == "for"}

    @cached_property
    def _carrying(self) -> Mapping[int, Op]:
        """The counted loop of each scalar that one carries, by the id of what its body reads."""
        return {
            arg.id: op
            for op in self.function.walk()
            if role(op) == "for"
            for arg in op.regions[0].blocks[0].args[1:]
            if not isinstance(arg.type, Tensor)
        }

    def _carried(self, loop: Op) -> Mapping[int, AxisInfo]:
        """The greatest divisors of the scalars that a loop carries: of what it begins with, and, with these,
        of what an iteration hands on."""
        block = loop.regions[0].blocks[0]
        last, carrying = block.ops[-1].operands, self._carrying
        pairs = zip(block.args[1:], loop.operands[3:], last, strict=True)
        carried = [(arg.id, init, after) for arg, init, after in pairs if arg.id in carrying]
        facts = {arg: self.of(init) for arg, init, _ in carried}
        while True:
            within = AxisAnalysis(self.function, {**self.given, **facts})
            found = {arg: _common(facts[arg], within.of(after)) for arg, _, after in carried}
            if found == facts:
                return facts
            facts = found

    def number(self, value: Value) -> int | None:
        """What a constant is, of a tile each element; None for other values."""
        maker = self.maker(value)
        if maker is not None and role(maker) == "splat":
            return self.number(maker.operands[0])
        number = maker.attributes.get("value") if maker is not None and role(maker) == "constant" else None
        return int(number) if isinstance(number, int) else None

    def _derived(self, value: Value) -> AxisInfo:
        maker = self.maker(value)
        if maker is None:
            if carrying := self._carrying.get(value.id):
                return self._carried(carrying)[value.id]
            loop = self._loops.get(value.id)
            bounds = (loop.operands[0], loop.operands[2]) if loop else ()
            return (
                _scalar(gcd(*(self.of(bound).divisibility[0] for bound in bounds)))
                if bounds
                else _unknown(value.type)
            )
        if role(maker) == "for" and not isinstance(value.type, Tensor):  # what it begins with, or hands on
            return self.of(maker.regions[0].blocks[0].args[1 + value.position])
        if role(maker) == "if":
            then, otherwise = (
                self.of(region.blocks[0].ops[-1].operands[value.position]) for region in maker.regions
            )
            return _either(then, otherwise, _shape(value.type), element_bytes(value.type))
        plain = is_elementwise(maker) and bool(maker.operands) and len(maker.results) == 1
        rule = _RULES.get(role(maker), _elementwise if plain else None)
        return rule(self, maker) if rule else _unknown(value.type)

    def _hinted(self, value: Value, found: AxisInfo) -> AxisInfo:
        """With what hints on the operation and assumptions say."""
        maker = self.maker(value)
        assumed = self._assumed.get(value.id, 1)

        def most(name: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
            hint = _hint(maker.attributes.get(f"tt.{name}") if maker else None, found.rank)
            return tuple(map(max, numbers, hint))

        divisibility = tuple(max(one, assumed) for one in most("divisibility", found.divisibility))
        return AxisInfo(
            most("contiguity", found.contiguity), divisibility, most("constancy", found.constancy)
        )


def _hint(attribute: "Attribute | None", rank: int) -> tuple[int, ...]:
    """`dense<16> : tensor<2xi32>`, `dense<[1, 8]> : ...` or a number."""
    numbers = [attribute] if isinstance(attribute, int) else []
    if isinstance(attribute, Raw):
        numbers = [int(number) for number in findall(r"\d+", attribute.text.partition(">")[0])]
    return (
        tuple(numbers * rank)
        if len(numbers) == 1
        else tuple(numbers)
        if len(numbers) == rank
        else (1,) * rank
    )


# --- rules ------------------------------------------------------------------------------------------------

_Rule = Callable[[AxisAnalysis, Op], AxisInfo]


def _shape(type: Type) -> tuple[int, ...]:
    return type.shape if isinstance(type, Tensor) else (1,)


def _unknown(type: Type) -> AxisInfo:
    ones = (1,) * len(_shape(type))
    return AxisInfo(ones, ones, ones)


def _scalar(divisor: int) -> AxisInfo:
    return AxisInfo((1,), (divisor,), (1,))


def _common(one: AxisInfo, other: AxisInfo) -> AxisInfo:
    """Of two scalars of which a value may be either."""
    return _scalar(gcd(*one.divisibility, *other.divisibility))


def _range(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    start = op.attributes["start"]
    assert isinstance(start, int)
    return AxisInfo(_shape(op.result.type), (start & -start or MOST,), (1,))


def _constant(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    number, shape = op.attributes.get("value"), _shape(op.result.type)
    if not isinstance(number, int):
        return (
            AxisInfo((1,) * len(shape), (1,) * len(shape), shape)
            if isinstance(number, float)
            else _unknown(op.result.type)
        )
    return AxisInfo((1,) * len(shape), (abs(int(number)) or MOST,) * len(shape), shape)


def _splat(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    shape, (divisor,) = _shape(op.result.type), analysis.of(op.operands[0]).divisibility
    return AxisInfo((1,) * len(shape), (divisor,) * len(shape), shape)


def _expand(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    found, axis = analysis.of(op.operands[0]), op.attributes["axis"]
    assert isinstance(axis, int)
    every = gcd(*(_each(found, i) for i in range(found.rank)))

    def wider(numbers: tuple[int, ...], one: int) -> tuple[int, ...]:
        return (*numbers[:axis], one, *numbers[axis:])

    return AxisInfo(wider(found.contiguity, 1), wider(found.divisibility, every), wider(found.constancy, 1))


def _each(found: AxisInfo, axis: int) -> int:
    """A divisor of every number, not only of those that begin a run."""
    return found.divisibility[axis] if found.contiguity[axis] == 1 else 1


def _broadcast(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    found, old, new = analysis.of(op.operands[0]), _shape(op.operands[0].type), _shape(op.result.type)
    grown = [now != before for before, now in zip(old, new, strict=True)]
    contiguity = tuple(1 if wider else one for one, wider in zip(found.contiguity, grown, strict=True))
    constancy = tuple(
        size if wider else one for one, size, wider in zip(found.constancy, new, grown, strict=True)
    )
    return AxisInfo(contiguity, found.divisibility, constancy)


def _same(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    found = analysis.of(op.operands[0])
    return found if found.rank == len(_shape(op.result.type)) else _unknown(op.result.type)


def _sum(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    one, other = (analysis.of(value) for value in op.operands)
    size = element_bytes(op.result.type)
    runs = [gcd(a, d) for a, d in zip(one.contiguity, other.constancy, strict=True)]
    if role(op) != "subtract":
        runs = [max(run, gcd(b, c)) for run, b, c in zip(runs, other.contiguity, one.constancy, strict=True)]
    divisors = _begun(one, runs, size), _begun(other, runs, 1)
    divisibility = tuple(gcd(a, b * size) for a, b in zip(*divisors, strict=True))
    return AxisInfo(tuple(runs), divisibility, _both(one, other))


def _begun(found: AxisInfo, runs: Sequence[int], unit: int) -> tuple[int, ...]:
    """What divides the first number of each of `runs`, which may be parts of the runs of `found`; their
    numbers are `unit` apart."""
    return tuple(
        gcd(divisor, run * unit) if run < whole else divisor
        for divisor, run, whole in zip(found.divisibility, runs, found.contiguity, strict=True)
    )


def element_bytes(type: Type) -> int:
    """What a pointer moves by for one element; 1 for a number."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    if not isinstance(dtype, Pointer) or not isinstance(dtype.pointee, Scalar):
        return 1
    bits = findall(r"\d+", dtype.pointee.name)
    return max(1, int(bits[0]) // 8) if bits else 1


def _both(one: AxisInfo, other: AxisInfo) -> tuple[int, ...]:
    return tuple(map(gcd, one.constancy, other.constancy))


def _product(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    one, other = (analysis.of(value) for value in op.operands)
    divisibility = tuple(min(MOST, _each(one, i) * _each(other, i)) for i in range(one.rank))
    return AxisInfo((1,) * one.rank, divisibility, _both(one, other))


def _remainder(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    """Of numbers that are not negative: a run goes on to the next multiple of what divides its beginning and
    the divisor."""
    one, other = (analysis.of(value) for value in op.operands)
    shape = _shape(op.result.type)
    common = [gcd(a, b) for a, b in zip(one.divisibility, other.divisibility, strict=True)]
    runs = [
        gcd(run, d) if same == size else 1
        for run, d, same, size in zip(one.contiguity, common, other.constancy, shape, strict=True)
    ]
    return AxisInfo(tuple(runs), tuple(map(gcd, common, _begun(one, runs, 1))), _both(one, other))


def _extreme(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    """Each number is that of one of both."""
    one, other = (analysis.of(value) for value in op.operands)
    runs = (1,) * one.rank
    divisors = _begun(one, runs, 1), _begun(other, runs, 1)
    return AxisInfo(runs, tuple(map(gcd, *divisors)), _both(one, other))


def _selected(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    """Runs of both where the condition is the same for all of a run."""
    condition, *both = (analysis.of(value) for value in op.operands)
    one, other = both
    same = condition.constancy
    if condition.rank != one.rank or not isinstance(op.operands[0].type, Tensor):
        same = _shape(op.result.type)
    return _either(one, other, same, element_bytes(op.result.type))


def _either(one: AxisInfo, other: AxisInfo, same: Sequence[int], unit: int) -> AxisInfo:
    """Of one of two values, each number the same one within runs of `same`; numbers are `unit` apart."""
    runs = [gcd(*numbers) for numbers in zip(same, one.contiguity, other.contiguity, strict=True)]
    divisors = _begun(one, runs, unit), _begun(other, runs, unit)
    equal = tuple(map(gcd, same, _both(one, other)))
    return AxisInfo(tuple(runs), tuple(map(gcd, *divisors)), equal)


def _quotient(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    """Of numbers that are not negative: equal within the multiples of the divisor. Multiples of a constant
    power of two keep their other divisors."""
    one, other = (analysis.of(value) for value in op.operands)
    shape = _shape(op.result.type)
    runs = [
        gcd(run, gcd(a, b)) if same == size else 1
        for run, a, b, same, size in zip(
            one.contiguity, one.divisibility, other.divisibility, other.constancy, shape, strict=True
        )
    ]
    by = abs(analysis.number(op.operands[1]) or 0)
    exact = by > 0 and by & (by - 1) == 0
    left = tuple(_each(one, i) // by if exact and _each(one, i) % by == 0 else 1 for i in range(one.rank))
    return AxisInfo((1,) * one.rank, left, tuple(map(max, runs, _both(one, other))))


def _comparison(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    """Whether numbers of a run lie below a bound is the same for all of them where the bound and their
    beginning share a divisor."""
    one, other = (analysis.of(value) for value in op.operands)
    predicate, equal = str(op.attributes.get("predicate")), _both(one, other)
    if predicate[1:] in ("lt", "ge"):
        running, bound = one, other
    elif predicate[1:] in ("gt", "le"):
        running, bound = other, one
    else:
        return AxisInfo((1,) * one.rank, (1,) * one.rank, equal)
    runs = [
        gcd(running.contiguity[i], bound.constancy[i], running.divisibility[i], bound.divisibility[i])
        for i in range(one.rank)
    ]
    return AxisInfo((1,) * one.rank, (1,) * one.rank, tuple(map(max, runs, equal)))


def _elementwise(analysis: AxisAnalysis, op: Op) -> AxisInfo:
    """Equal where all operands are."""
    found = [analysis.of(value) for value in op.operands]
    rank = len(_shape(op.result.type))
    found = [
        AxisInfo(one.contiguity * rank, one.divisibility * rank, _shape(op.result.type))
        if one.rank != rank
        else one
        for one in found
    ]
    return AxisInfo(
        (1,) * rank, (1,) * rank, tuple(gcd(*(one.constancy[i] for one in found)) for i in range(rank))
    )


_RULES: Mapping[Role, _Rule] = {
    "range": _range,
    "constant": _constant,
    "splat": _splat,
    "expand": _expand,
    "broadcast": _broadcast,
    "layout": _same,
    "integer_cast": _same,
    "int_to_ptr": _same,
    "add": _sum,
    "subtract": _sum,
    "address": _sum,
    "multiply": _product,
    "remainder": _remainder,
    "extreme": _extreme,
    "select": _selected,
    "divide": _quotient,
    "compare": _comparison,
    "pointer_load": _elementwise,
}
"""By what the operation is; for others that are elementwise, `_elementwise`."""


# --- copies -----------------------------------------------------------------------------------------------


def copied_together(analysis: AxisAnalysis, load: Op, axis: int, widths: Sequence[int] = (16, 8, 4)) -> int:
    """How many bytes along `axis` one copy of a masked pointer load may move: the first of `widths` that is
    possible, or 0 where none is.

    The pointers of a copy are consecutive, the first is aligned to the copy's size, and one mask is that of
    all.
    """
    pointers, *rest = load.operands
    return moved_together(analysis, pointers, rest[:1], axis, widths)


def moved_together(
    analysis: AxisAnalysis,
    pointers: Value,
    masks: Sequence[Value],
    axis: int,
    widths: Sequence[int] = (16, 8, 4),
) -> int:
    """As `copied_together`, of a load or a store with these pointers under these masks."""
    run = run_bytes(analysis, pointers, masks, axis)
    divisor = analysis.of(pointers).divisibility[axis] if run else 1
    return next((width for width in widths if run and run % width == 0 and divisor % width == 0), 0)


def run_bytes(analysis: AxisAnalysis, pointers: Value, masks: Sequence[Value], axis: int) -> int:
    """Bytes of runs of consecutive addresses under one mask, which need not be aligned; 0 where the pointers
    are no tile of so many dimensions."""
    kind = pointers.type
    if not isinstance(kind, Tensor) or axis >= len(kind.shape):
        return 0
    run = gcd(analysis.of(pointers).contiguity[axis], kind.shape[axis])
    return gcd(run, *(analysis.of(mask).constancy[axis] for mask in masks)) * element_bytes(kind)
