"""Loads of what the program itself has stored just before, as the stored values (store-to-load forwarding).

Attention kernels of early Triton store a vector to a scratch argument and load it again in another layout:
one group would have to wait for the stores of another. Takes a module; gives the same where a load of the
addresses, and under the mask, of the last store before it in its block is a change of layout of the stored
tile. No two elements of the tile may have one address, since which of them remains there is not defined.
Lines stay where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from twill.extract.rewrite.text.edits import Edit, edited
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Function, Module, Op, Tensor, Type, Value
from twill.ops.axis_info import AxisAnalysis
from twill.ops.row import Role
from twill.ops.table import is_elementwise, named, role, writes_global

_INDICES: frozenset[Role] = frozenset(
    {"address", "splat", "broadcast", "expand", "range", "constant", "bitcast"}
)
"""Of equal operands and attributes they have equal elements, as elementwise operations do."""


def forwarded(module: Module) -> Module:
    """The module itself where nothing is loaded that was stored just before."""
    edits = [edit for function in module.functions for edit in _edits(module, function)]
    return edited(module, edits)


def _edits(module: Module, function: Function) -> Iterator[Edit]:
    known = _Known(AxisAnalysis(function))
    for store, load in _pairs(function):
        if not known.same_access(store, load):
            continue
        source = known.origin(store.operands[1])
        for op in (
            load,
            *(user for user in known.axes.users.get(load.result.id, ()) if role(user) == "layout"),
        ):
            types = [type_text(module, value.type) for value in (source, op.result)]
            if None in types:
                break
            text = f"{op.result.name} = {named('layout')} {source.name} : {types[0]} -> {types[1]}"
            yield Edit(op.span.start, op.span.end, text)


def _pairs(function: Function) -> Iterator[tuple[Op, Op]]:
    """Each load with the store before it in its block, with no other write between."""
    for block in function.blocks():
        store: Op | None = None
        for op in block.ops:
            if role(op) == "pointer_load" and store is not None and not op.attributes.get("isVolatile"):
                yield store, op
            elif role(op) == "pointer_store":
                store = op
            elif any(writes_global(one) for one in (op, *op.inner())):
                store = None


@dataclass(frozen=True)
class _Known:
    """What is known of a function's values."""

    axes: AxisAnalysis
    equal: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])

    def same_access(self, store: Op, load: Op) -> bool:
        """Whether a load reads in each element what the store wrote there. A mask must be that of the store;
        what the load gives elsewhere is not defined then, so it must say nothing."""
        pointers, masks = (store.operands[0], load.operands[0]), (store.operands[2:], load.operands[1:])
        return (
            len(masks[0]) == len(masks[1])
            and all(self.same(*pair) for pair in (pointers, *zip(*masks, strict=True)))
            and isinstance(load.result.type, Tensor)
            and _alike(store.operands[1].type, load.result.type)
            and self.distinct(pointers[0])
        )

    def distinct(self, pointer: Value) -> bool:
        """Whether all elements of a tile of pointers are known to differ: they are consecutive."""
        kind = pointer.type
        return isinstance(kind, Tensor) and max(self.axes.of(pointer).contiguity) == prod(kind.shape)

    def origin(self, value: Value) -> Value:
        """A tile before its changes of layout."""
        maker = self.axes.maker(value)
        return self.origin(maker.operands[0]) if maker is not None and role(maker) == "layout" else value

    def same(self, one: Value, other: Value) -> bool:
        """Whether two values are known to have the same elements, each in its layout."""
        one, other = self.origin(one), self.origin(other)
        if one.id == other.id:
            return True
        if (one.id, other.id) not in self.equal:
            self.equal[one.id, other.id] = self._made_alike(one, other)
        return self.equal[one.id, other.id]

    def _made_alike(self, one: Value, other: Value) -> bool:
        first, second = self.axes.maker(one), self.axes.maker(other)
        return (
            first is not None
            and second is not None
            and first.name == second.name
            and (role(first) in _INDICES or is_elementwise(first))
            and len(first.results) == 1
            and _alike(one.type, other.type)
            and first.attributes == second.attributes
            and len(first.operands) == len(second.operands)
            and all(self.same(*pair) for pair in zip(first.operands, second.operands, strict=True))
        )


def _alike(one: Type, other: Type) -> bool:
    """The same but for the layout."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return (one.shape, one.dtype) == (other.shape, other.dtype)
    return one == other
