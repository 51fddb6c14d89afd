"""Whether two accesses are to different memory, as far as their addresses alone say.

Takes two stores of a function; compares their addresses as sums: of values that both have, of a constant, and
of ranges of indices. Nothing else is known of the values, such as strides. A store and a load are apart by
their types, and by the arguments that they go through.
"""

from collections import Counter
from dataclasses import dataclass

from twill.ir.loop import Op, Pointer, Tensor, TensorDesc, Type, Value
from twill.ops.row import Role
from twill.ops.table import role
from twill.warp.dataflow import Code
from twill.warp.store_warp import pointer

_SAME = frozenset[Role](("splat", "broadcast", "expand", "layout"))
"""They repeat or move what they are given."""
_SUMS = frozenset[Role](("add", "address"))


@dataclass(frozen=True, slots=True)
class _Sum:
    """Values from `first` to `first + spread`, in elements, beside the sum of `terms`."""

    terms: tuple[tuple[int, int], ...] = ()
    """Ids of scalars, with how often each is added."""
    first: int = 0
    spread: int = 0


def may_write(code: Code, store: Op, load: Op) -> bool:
    """Whether an operation that writes global memory may write what a load reads: numbers of its type, unless
    through another argument of the function. What two arguments point to does not overlap."""
    one, other = pointer(code, store), pointer(code, load)
    apart = one is not None and other is not None and one is not other
    return not apart and _element(store.operands[0].type) == _element(load.operands[0].type)


def _element(type: Type) -> Type:
    """What a pointer, a tile of pointers or a descriptor points to."""
    dtype = type.dtype if isinstance(type, Tensor | TensorDesc) else type
    return dtype.pointee if isinstance(dtype, Pointer) else dtype


def disjoint(code: Code, one: Op, other: Op) -> bool:
    """Whether no element that one store writes is written by the other, for certain."""
    first, second = one.operands[0], other.operands[0]
    if isinstance(first.type, TensorDesc) or isinstance(second.type, TensorDesc):
        return first.id == second.id and any(
            _apart(_sum(code, a), _sum(code, b), extent) for a, b, extent in _coordinates(one, other)
        )
    return _apart(_sum(code, first), _sum(code, second), 1)


def _coordinates(one: Op, other: Op) -> list[tuple[Value, Value, int]]:
    """Where the boxes of two stores through one descriptor begin, along each dimension, and their extents."""
    (tile,) = (value.type for value in one.operands if isinstance(value.type, Tensor))
    places = [[v for v in op.operands[1:] if not isinstance(v.type, Tensor)] for op in (one, other)]
    return list(zip(*places, tile.shape, strict=True)) if len(places[0]) == len(tile.shape) else []


def _apart(one: _Sum | None, other: _Sum | None, extent: int) -> bool:
    if one is None or other is None or one.terms != other.terms:
        return False
    low, high = sorted((one, other), key=lambda found: found.first)
    return low.first + low.spread + extent <= high.first


def _sum(code: Code, value: Value) -> _Sum | None:
    """None where a tile of unknown numbers is added."""
    maker = code.maker(value)
    kind = role(maker) if maker is not None else None
    if maker is not None and kind in _SAME:
        return _sum(code, maker.operands[0])
    if maker is not None and kind in _SUMS:
        return _added(*(_sum(code, operand) for operand in maker.operands))
    if maker is not None and kind == "range":
        start, end = (int(str(maker.attributes[name])) for name in ("start", "end"))
        return _Sum((), start, end - 1 - start)
    constant = maker.attributes.get("value") if maker is not None and kind == "constant" else None
    if isinstance(constant, int):
        return _Sum((), constant)
    return None if isinstance(value.type, Tensor) else _Sum(((value.id, 1),))


def _added(*sums: _Sum | None) -> _Sum | None:
    terms, first, spread = Counter[int](), 0, 0
    for one in sums:
        if one is None:
            return None
        terms.update(dict(one.terms))
        first, spread = first + one.first, spread + one.spread
    return _Sum(tuple(sorted(terms.items())), first, spread)
