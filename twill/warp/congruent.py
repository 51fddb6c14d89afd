"""Whether two values of a function are equal whenever they are read in the same iteration.

Compares how they are computed: by the same operations on equal values. Where the elements lie makes no
difference, so that two tiles of pointers in different layouts are equal if they point to the same elements.
"""

from twill.ir.loop import Tensor, Value
from twill.ops.table import role
from twill.warp.dataflow import Code, carries, pure

Pairs = frozenset[tuple[int, int]]


def congruent(code: Code, one: Value, other: Value) -> bool:
    """Whether they are equal, for certain."""
    return _equal(code, one, other, frozenset())


def _equal(code: Code, one: Value, other: Value, assumed: Pairs) -> bool:
    one, other = _moved(code, one), _moved(code, other)
    if one.id == other.id or (one.id, other.id) in assumed:
        return True
    if _shape(one) != _shape(other):
        return False
    first, second = code.maker(one), code.maker(other)
    if first is None or second is None:
        return first is second and _carried_alike(code, one, other, assumed | {(one.id, other.id)})
    alike = first.name == second.name and dict(first.attributes) == dict(second.attributes)
    if not alike or not pure(first) or first.regions or role(first) == "pointer_load":
        return False
    return len(first.operands) == len(second.operands) and all(
        _equal(code, a, b, assumed) for a, b in zip(first.operands, second.operands, strict=True)
    )


def _moved(code: Code, value: Value) -> Value:
    """What a value was before its layout changed."""
    while (maker := code.maker(value)) is not None and role(maker) == "layout":
        value = maker.operands[0]
    return value


def _carried_alike(code: Code, one: Value, other: Value, assumed: Pairs) -> bool:
    """Whether a loop carries both, begins with equal values, and yields equal ones where they were equal."""
    for loop in code.ops.values():
        carried = {carry.arg.id: carry for carry in carries(loop)}
        if one.id in carried and other.id in carried:
            first, second = carried[one.id], carried[other.id]
            return _equal(code, first.init, second.init, assumed) and _equal(
                code, first.yielded, second.yielded, assumed
            )
    return False


def _shape(value: Value) -> tuple[int, ...]:
    return tuple(value.type.shape) if isinstance(value.type, Tensor) else ()
