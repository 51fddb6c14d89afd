"""Which dimensions of an operation's operands and results are divided together.

Takes an operation; gives its cuts. A cut names, for each operand and result that is divided, the dimension
along which it is. An operation that combines elements along a dimension has no cut there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from twill.ir.loop import MemDesc, Op, Tensor, TensorDesc, Value
from twill.ops.row import Role
from twill.ops.table import lookup, role

Slot = int
"""An operand by its position, or a result: -1 is the first, -2 the second."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One way to divide an operation."""

    dims: tuple[tuple[Slot, int], ...]
    """The dimension of each slot that is divided."""
    accumulates: bool = False
    """An MMA divided along K: the parts add to one accumulator, which stays whole."""

    def dim(self, slot: Slot) -> int | None:
        return next((dim for one, dim in self.dims if one == slot), None)


def shape(value: Value) -> tuple[int, ...]:
    """Of a tile, a buffer or a descriptor's block; () of anything else."""
    return value.type.shape if isinstance(value.type, Tensor | MemDesc | TensorDesc) else ()


def cuts(op: Op) -> tuple[Cut, ...]:
    """The cuts of an operation, none for one that has none; control flow is not covered."""
    kind = role(op)
    if kind in _CUTS:
        return tuple(_CUTS[kind](op))
    return tuple(_alike(op)) if kind in _ALIKE else ()


def cut_of(op: Op, slot: Slot, dim: int) -> Cut | None:
    """The cut that divides an operand or result along `dim`."""
    return next((cut for cut in cuts(op) if (slot, dim) in cut.dims), None)


def _slots(op: Op) -> Iterator[tuple[Slot, Value]]:
    yield from enumerate(op.operands)
    yield from ((-1 - i, value) for i, value in enumerate(op.results))


def _alike(op: Op) -> Iterator[Cut]:
    """All tiles have one shape, element for element."""
    tiles = [(slot, shape(value)) for slot, value in _slots(op) if shape(value)]
    if len({found for _, found in tiles}) == 1:
        for dim in range(len(tiles[0][1])):
            yield Cut(tuple((slot, dim) for slot, _ in tiles))


def _mma(op: Op) -> Iterator[Cut]:
    """M, N, then K. An MMA with scales has none: scales are laid out for whole tiles."""
    row = lookup(op.name)
    if row is None or "scaled" in row.name or len(shape(op.operands[0])) != 2:
        return
    into = ((2, 0), (-1, 0)) if shape(op.operands[2]) == _result(op) else ((2, 0),)
    yield Cut(((0, 0), *into))
    yield Cut(((1, 1), *((slot, 1) for slot, _ in into)))
    yield Cut(((0, 1), (1, 0)), accumulates=True)


def _result(op: Op) -> tuple[int, ...]:
    return shape(op.results[0]) if op.results else ()


def _broadcast(op: Op) -> Iterator[Cut]:
    for dim, (one, whole) in enumerate(zip(shape(op.operands[0]), shape(op.result), strict=True)):
        yield Cut(((0, dim), (-1, dim)) if one == whole else ((-1, dim),))


def _along(op: Op) -> int:
    axis = op.attributes.get("axis")
    return axis if isinstance(axis, int) else -1


def _expand(op: Op) -> Iterator[Cut]:
    for dim in range(len(shape(op.operands[0]))):
        yield Cut(((0, dim), (-1, dim + (dim >= _along(op)))))


def _reduce(op: Op) -> Iterator[Cut]:
    axis = _along(op)
    for dim in range(len(shape(op.operands[0]))):
        if dim != axis:
            into = dim - (dim > axis)
            results = ((-1 - i, into) for i in range(len(op.results)))
            yield Cut((*((i, dim) for i in range(len(op.operands))), *results))


def _scan(op: Op) -> Iterator[Cut]:
    return (cut for cut in _alike(op) if cut.dims[0][1] != _along(op))


def _unpack(op: Op) -> Iterator[Cut]:
    dims = zip(shape(op.operands[0]), shape(op.result), strict=True)
    return (Cut(((0, dim), (-1, dim))) for dim, (one, other) in enumerate(dims) if one == other)


def _transpose(op: Op) -> Iterator[Cut]:
    order = op.attributes.get("order")
    if isinstance(order, tuple):
        for into, dim in enumerate(order):
            yield Cut(((0, int(str(dim))), (-1, into)))


def _made(op: Op) -> Iterator[Cut]:
    """All elements are alike, or the operation makes a descriptor."""
    if isinstance(op.attributes.get("value", 0), bool | int | float):
        yield from (Cut(((-1, dim),)) for dim in range(len(shape(op.result))))


def _tma(op: Op) -> Iterator[Cut]:
    """Of a descriptor and a tile of the same shape, leading dimensions of one element aside."""
    tile = -1 if op.results else 1
    block, other = shape(op.operands[0]), shape(op.result if op.results else op.operands[1])
    more = len(block) - len(other)
    if more >= 0 and block == (1,) * more + other:
        yield from (Cut(((0, dim + more), (tile, dim))) for dim in range(len(other)))


def _reshape(op: Op) -> Iterator[Cut]:
    """Dimensions that the reshape leaves where they are."""
    one, other = shape(op.operands[0]), shape(op.result)
    if "allow_reorder" in str(op.attributes.get("words")):
        return
    for dim, size in enumerate(one):
        for into, found in enumerate(other):
            if size == found > 1 and prod(one[:dim]) == prod(other[:into]):
                yield Cut(((0, dim), (-1, into)))


def _join(op: Op) -> Iterator[Cut]:
    return (Cut(((0, dim), (1, dim), (-1, dim))) for dim in range(len(shape(op.operands[0]))))


def _split(op: Op) -> Iterator[Cut]:
    return (Cut(((0, dim), (-1, dim), (-2, dim))) for dim in range(len(shape(op.results[0]))))


_CUTS: Mapping[Role, Callable[[Op], Iterable[Cut]]] = {
    "wgmma": _mma,
    "dot": _mma,
    "tensor_memory_mma": _mma,
    "broadcast": _broadcast,
    "expand": _expand,
    "reduce": _reduce,
    "scan": _scan,
    "unpack": _unpack,
    "transpose": _transpose,
    "buffer_transpose": _transpose,
    "constant": _made,
    "poison": _made,
    "splat": _made,
    "descriptor": _made,
    "tensor_map": _made,
    "range": _made,
    "tma_load": _tma,
    "tma_store": _tma,
    "tma_reduce": _tma,
    "reshape": _reshape,
    "buffer_reshape": _reshape,
    "join": _join,
    "split": _split,
}

_ALIKE: frozenset[Role] = frozenset(
    {
        "value",
        "bitcast",
        "round",
        "select",
        "add",
        "subtract",
        "multiply",
        "shift_left",
        "divide",
        "divide_up",
        "remainder",
        "int_to_ptr",
        "extreme",
        "compare",
        "integer_cast",
        "atomic",
        "atomic_exchange",
        "assert",
        "layout",
        "address",
        "pointer_load",
        "pointer_store",
        "alloc",
        "tensor_memory_alloc",
        "tensor_memory_store",
        "tensor_memory_load",
    }
)
