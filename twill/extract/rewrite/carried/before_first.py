"""What a loop's load would give an iteration before the first one, beside what the loop starts from.

Takes a loop, a load of it and the initial value of what it carries of that; says whether both are the same
elements of memory, and whether the load's mask is true in each iteration that reads it one later. Addresses
are compared as sums (`sums`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from twill.extract.rewrite.text.makers import Makers
from twill.extract.rewrite.text.sums import Sums, Terms, added
from twill.ir.loop import Loop, Op, Value
from twill.ops.table import role


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
        own: Terms = {(self.loop.induction.id,): 1}
        sums = self._sums(own)
        one, other = (sums.of(value) for value in compared.operands)
        return one == own and other == sums.of(self.loop.upper)

    def _at_first(self, value: Value) -> Terms:
        """With the induction variable an iteration before the first."""
        assert self.loop.lower is not None
        return self._sums(Sums(self.makers).of(self.loop.lower)).of(value)

    def _sums(self, induction: Terms) -> Sums:
        """Where the induction variable is a step before a value."""
        assert self.loop.induction is not None
        assert self.loop.step is not None
        before = added(induction, Sums(self.makers).of(self.loop.step), -1)
        return Sums(self.makers, {self.loop.induction.id: before})


def _alike(one: Op, other: Op) -> bool:
    """The same operation on other operands."""
    return (
        one.name == other.name
        and len(other.results) == 1
        and one.result.type == other.result.type
        and _said(one) == _said(other)
    )


def _said(op: Op) -> Mapping[str, object]:
    return {name: value for name, value in op.attributes.items() if name != "operandSegmentSizes"}
