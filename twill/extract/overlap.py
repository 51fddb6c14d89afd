"""Which arguments of a kernel must not point to the same memory.

Takes a `Function`; gives pairs of an argument that the kernel stores to and another one that it accesses.
Groups load ahead of what other groups store, and each may load the same number by itself, so a kernel is
right where arrays that it stores to are apart from those of its other arguments. The exception are tiles that
are updated in place, one array passed for both: each element is loaded by one load, before the value that is
stored to it is computed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.extract.strides import name
from twill.ir.apart import Apart
from twill.ir.loop import Block, Function, Op, Pointer, Scalar, Tensor, TensorDesc, Value
from twill.ir.slicing import reached
from twill.ops.row import Role
from twill.ops.table import role, row

_READS: frozenset[Role] = frozenset({"pointer_load", "tma_load", "async_copy"})
_WRITES: frozenset[Role] = frozenset(
    {"pointer_store", "tma_store", "tma_reduce", "atomic", "atomic_exchange"}
)
"""An atomic operation also reads."""
_ENDS: frozenset[Role] = frozenset({"yield", "condition"})


def apart(function: Function) -> tuple[Apart, ...]:
    """The pairs, those of arguments that come first in the signature first."""
    code = _Code.of(function)
    touched: dict[int, list[Op]] = {arg.id: [] for arg in function.args if isinstance(arg.type, Pointer)}
    for op in code.ops:
        if role(op) in _READS | _WRITES:
            for argument in code.arguments(op.operands[0]):
                touched[argument].append(op)
    names = {arg.id: name(arg) for arg in function.args}
    return tuple(
        Apart(names[one], names[other], _in_place(code, found, touched[other]))
        for one, found in touched.items()
        for other in touched
        if one != other and touched[other] and any(role(op) in _WRITES for op in found)
        if not (one > other and any(role(op) in _WRITES for op in touched[other]))
    )


@dataclass(frozen=True, slots=True)
class _Code:
    """A function with what makes each value."""

    pointers: frozenset[int]
    """Its arguments that are pointers."""
    ops: tuple[Op, ...]
    makers: Mapping[int, Op]
    """By value: also the operation around a block, of its arguments."""
    blocks: Mapping[int, Block]
    """The block that an operation stands in."""
    loops: frozenset[int]
    """Operations in loops."""

    @staticmethod
    def of(function: Function) -> "_Code":
        ops = tuple(function.walk())
        makers = {result.id: op for op in ops for result in op.results}
        blocks = [(op, block) for op in ops for region in op.regions for block in region.blocks]
        makers |= {arg.id: op for op, block in blocks for arg in block.args}
        around = {inner.index: block for _, block in blocks for inner in block.ops}
        top = function.body.blocks if function.body else ()
        around |= {inner.index: block for block in top for inner in block.ops}
        loops = (op for op in ops if role(op) in ("for", "while"))
        inside = frozenset(inner.index for op in loops for inner in op.inner())
        pointers = frozenset(arg.id for arg in function.args if isinstance(arg.type, Pointer))
        return _Code(pointers, ops, makers, around, inside)

    def arguments(self, address: Value) -> frozenset[int]:
        """The arguments that an address may be derived from."""

        def sources(value: Value) -> Sequence[Value]:
            maker = None if value.id in self.pointers else self.makers.get(value.id)
            if maker is None or role(maker) in _READS:
                return ()
            return [one for one in self.origins(maker) if _points(one)]

        return self.pointers & reached([address], sources)

    def origins(self, op: Op) -> Iterator[Value]:
        """What the results of an operation, or the arguments of its blocks, may be."""
        yield from op.operands
        for inner in op.inner():
            if role(inner) in _ENDS:
                yield from inner.operands


def _points(value: Value) -> bool:
    kind = value.type.dtype if isinstance(value.type, Tensor) else value.type
    return isinstance(kind, Pointer | TensorDesc)


def _in_place(code: _Code, stores: Iterable[Op], accesses: Iterable[Op]) -> bool:
    """Whether one array may be passed for both arguments: each is only loaded through one of them, and only
    stored through the other."""
    pairs = [(store, load) for store in stores for load in accesses]
    return all(_updates(code, store, load) for store, load in pairs)


def _updates(code: _Code, store: Op, load: Op) -> bool:
    """Whether a store puts each element of a tile back to where a load has read it, outside of loops. Index
    tiles may be loaded again."""
    kinds = role(store), role(load)
    if kinds not in (("pointer_store", "pointer_load"), ("tma_store", "tma_load")):
        return False
    tile, same_block = load.result.type, code.blocks[store.index] is code.blocks[load.index]
    if not same_block or store.index in code.loops or not isinstance(tile, Tensor) or not tile.shape:
        return False
    if isinstance(tile.dtype, Scalar) and tile.dtype.name.startswith("i"):
        return False
    stored = next((value for value in store.operands[1:] if isinstance(value.type, Tensor)), None)
    there, here = _place(store), _place(load)
    return (
        stored is not None
        and len(there) == len(here)
        and all(_same(code, one, other) for one, other in zip(there, here, strict=True))
        and load.result.id in _elementwise(code, stored)
    )


def _place(op: Op) -> tuple[Value, ...]:
    """Where an operation accesses memory: an address, or a descriptor and coordinates."""
    coordinates = [value for value in op.operands[1:] if not isinstance(value.type, Tensor)]
    return (op.operands[0], *(coordinates if isinstance(op.operands[0].type, TensorDesc) else ()))


def _same(code: _Code, one: Value, other: Value) -> bool:
    """Whether two values are equal where all pointer arguments are."""
    if one.id == other.id or {one.id, other.id} <= code.pointers:
        return True
    first, second = code.makers.get(one.id), code.makers.get(other.id)
    if first is None or second is None or first.regions or second.regions or one.position != other.position:
        return False
    alike = first.name == second.name and first.attributes == second.attributes
    pure = row(first).access == "none" and one.type == other.type
    pairs = zip(first.operands, second.operands, strict=False)
    return (
        alike
        and (pure or role(first) == "descriptor")
        and len(first.operands) == len(second.operands)
        and all(_same(code, a, b) for a, b in pairs)
    )


def _elementwise(code: _Code, value: Value) -> frozenset[int]:
    """The values of which an element is computed from, for each element those at its own place."""

    def sources(one: Value) -> Sequence[Value]:
        maker = code.makers.get(one.id)
        if maker is None or maker.regions:
            return ()
        return maker.operands if role(maker) == "layout" or _each(maker) else ()

    return reached([value], sources)


def _each(op: Op) -> bool:
    """An operation on elements, one by one."""
    return row(op).kind == "elementwise"
