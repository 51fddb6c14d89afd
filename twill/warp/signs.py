"""Which scalars may become negative while loops carry them.

Takes a `Function`. A number that a loop carries is not negative where it begins so, and where an iteration
that begins with one that is not hands on one that is not. Arguments, loaded numbers, and what no loop carries
are taken for such: a pointer in front of its argument would reach nobody's memory.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from twill.ir.loop import Function, Op, Value
from twill.ir.slicing import reached
from twill.ops.ranges import Ranges
from twill.ops.row import Role
from twill.ops.table import lookup, role
from twill.warp.dataflow import carries, final, passed

_LOADED: frozenset[Role] = frozenset({"pointer_load", "atomic", "atomic_exchange", "tma_load"})
_FIRST: frozenset[Role] = frozenset({"divide", "divide_up", "remainder"})
"""What has the sign of its first operand, where the second is a number of things."""
_LARGER = ("maxsi", "andi")
"""Not negative where one operand is not."""


class Signs:
    """Of the integers of one function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._ranges = Ranges(function)
        self._assumed = frozenset[int]()

    @cached_property
    def _makers(self) -> Mapping[int, Op]:
        return {value.id: op for op in self.function.walk() for value in op.results}

    @cached_property
    def _sources(self) -> Mapping[int, tuple[Value, ...]]:
        """What arguments of regions, and results of loops and branches, are: by value id."""
        found = dict[int, tuple[Value, ...]]()
        for op in self.function.walk():
            for value, sources in _handed_on(op):
                found[value.id] = (*found.get(value.id, ()), *sources)
        return found

    @cached_property
    def _carried(self) -> frozenset[int]:
        """What iterations begin with, but for induction variables."""
        return frozenset(one.arg.id for op in self.function.walk() for one in carries(op))

    def carried_below_zero(self, value: Value) -> bool:
        """Whether it follows from a number that a loop carries, and nothing says that it is not negative."""
        return bool(reached([value], self._onward) & self._carried) and not self._natural(value)

    def _onward(self, value: Value) -> Iterator[Value]:
        """What a number follows from, but for what is loaded."""
        maker = self._makers.get(value.id)
        yield from self._sources.get(value.id, ())
        if maker is not None and not maker.regions and role(maker) not in _LOADED:
            yield from maker.operands

    def _natural(self, value: Value) -> bool:
        if value.id in self._assumed or self._ranges.of(value).low >= 0:
            return True
        if value.id in self._sources:
            before = self._assumed
            self._assumed = before | {value.id}  # by induction over iterations
            whole = all(map(self._natural, self._sources[value.id]))
            self._assumed = self._assumed if whole else before
            return whole
        maker = self._makers.get(value.id)
        return maker is None or role(maker) in _LOADED or self._made_natural(maker)

    def _made_natural(self, op: Op) -> bool:
        row = lookup(op.name)
        among: Callable[[Iterator[bool]], bool] = any if row is not None and row.word in _LARGER else all
        match role(op):
            case "constant" | "subtract":
                return False
            case "select":
                return all(map(self._natural, op.operands[1:]))
            case kind if kind in _FIRST:
                return self._natural(op.operands[0])
            case _:
                return not op.regions and among(map(self._natural, op.operands))


def _handed_on(op: Op) -> Iterator[tuple[Value, tuple[Value, ...]]]:
    if role(op) == "for":
        yield op.regions[0].blocks[0].args[0], op.operands[:1]
    if role(op) == "if":
        last = [region.blocks[0].ops[-1].operands for region in op.regions if op.results]
        yield from zip(op.results, zip(*last, strict=True), strict=True)
    for one in carries(op):
        yield one.arg, (one.init, one.yielded)
    for value, source in (*passed(op), *final(op)):
        yield value, (source,)
