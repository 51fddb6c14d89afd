"""Backward slices: what values follow from.

`backward_slice` gives the operations, `reached` the values. Where a walk ends is the caller's: by what makes
a value, and by what that is followed to.
"""

from collections.abc import Callable, Iterable

from twill.ir.loop import Op, Value


def operands(op: Op) -> tuple[Value, ...]:
    """What an operation reads, without its regions."""
    return op.operands


def all_operands(op: Op) -> tuple[Value, ...]:
    """The operands of an operation and of those in its regions."""
    return tuple(value for one in (op, *op.inner()) for value in one.operands)


def backward_slice(
    values: Iterable[Value],
    maker: Callable[[Value], Op | None],
    reads: Callable[[Op], Iterable[Value]] = operands,
) -> dict[int, Op]:
    """The operations that values follow from, by index. `maker` gives the one that makes a value, None where
    the walk ends; `reads` the values that such an operation is followed to."""
    waiting, found = list(values), dict[int, Op]()
    while waiting:
        op = maker(waiting.pop())
        if op is not None and op.index not in found:
            found[op.index] = op
            waiting += reads(op)
    return found


def reached(values: Iterable[Value], onward: Callable[[Value], Iterable[Value]]) -> frozenset[int]:
    """The ids of values and of all that `onward` leads to from them."""
    waiting, found = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if value.id not in found:
            found.add(value.id)
            waiting += onward(value)
    return frozenset(found)
