"""Where the values of a loop body come from.

Takes a `Loop` and its `Module`; gives a `Body` that answers, for any value: which operation of the body
computes it and how many iterations ago, what it was before the loop, who reads it. Guarantees that chains of
carried values add up their distances, and that a value carried unchanged counts as one from outside.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from twill.ir.distribution import distribution
from twill.ir.loop import Carried, Loop, Module, Op, Raw, Scalar, Tensor, Value
from twill.ops.axis_info import AxisAnalysis, element_bytes, moved_together
from twill.ops.pointer_loads import copy_bytes, feeds_address, register_access, repeated_rows
from twill.ops.table import role

LONGEST_ADDRESS = 200
"""Operations that lead to the pointers of a store, at most, for which the width of its accesses is known."""


@dataclass(frozen=True, slots=True)
class Origin:
    """`value`, a result of `op` of the loop body, made `distance` iterations ago."""

    op: Op
    value: Value
    distance: int


class Body:
    """The top-level operations of a loop body and the values they exchange."""

    def __init__(self, module: Module, loop: Loop) -> None:
        self.module = module
        self.loop = loop
        self.ops: tuple[Op, ...] = loop.ops
        self.threads = module.num_warps * module.threads_per_warp
        self._carried: Mapping[int, Carried] = {c.arg.id: c for c in loop.carried}
        self._definers: Mapping[int, Op] = {v.id: op for op in loop.function.walk() for v in op.results}
        self._owners: Mapping[int, Op] = {v.id: op for op in self.ops for v in op.results}

    @cached_property
    def read(self) -> frozenset[int]:
        """The values, by id, that an operation of the function reads."""
        return frozenset(value.id for op in self.loop.function.walk() for value in op.operands)

    @cached_property
    def _pointers(self) -> AxisAnalysis:
        return AxisAnalysis(self.loop.function)

    def access(self, op: Op) -> int:
        """Bytes of each access of a pointer load through registers; 0 where that can not be."""
        found = register_access(self._pointers, op)
        return found[0] if found else 0

    def stored_at_once(self, op: Op) -> int:
        """Bytes of each access of a store through pointers: neighbours that a thread holds go together where
        their pointers and masks do. 0 where that is not known."""
        pointers, value, *masks = op.operands
        if not isinstance(value.type, Tensor) or not value.type.shape:
            return 0
        axis, size = len(value.type.shape) - 1, element_bytes(pointers.type)
        layout = distribution(value.type.encoding, value.type.shape)
        if layout is None or self._long(pointers):
            return 0
        together = moved_together(self._pointers, pointers, masks, axis)
        return max(size, min(together, size * layout.side_by_side(axis)))

    def _long(self, value: Value) -> bool:
        """Whether more operations lead to a value than the analysis of addresses follows."""
        found, queue = set[int](), [value]
        while queue and len(found) <= LONGEST_ADDRESS:
            maker = self.definer(queue.pop())
            if maker is not None and maker.index not in found:
                found.add(maker.index)
                queue += maker.operands
        return len(found) > LONGEST_ADDRESS

    def repeated(self, op: Op) -> int:
        """Rows of a tile loaded through pointers that are copied as one."""
        return repeated_rows(self._pointers, op) if role(op) == "pointer_load" and self._tile(op) else 1

    def synchronous(self, op: Op) -> bool:
        """A pointer load of a tile, not of indices for addresses, that asynchronous copies can not
        execute."""
        return role(op) == "pointer_load" and self._tile(op) and not copy_bytes(self._pointers, op)

    def _tile(self, op: Op) -> bool:
        """Whether a load brings a tile, not indices for addresses."""
        tile, inside = op.result.type, {inner.index for inner in self.loop.body.walk()}
        return isinstance(tile, Tensor) and bool(tile.shape) and not feeds_address(self._pointers, op, inside)

    def trace(self, value: Value) -> tuple[Value, int]:
        """Back through the arguments of the loop to the value computed in its body, or from outside; and how
        many iterations back."""
        distance = 0
        seen = {value.id}
        while (carried := self._carried.get(value.id)) is not None:
            if carried.yielded.id in seen:
                return carried.init, 0
            value, distance = carried.yielded, distance + 1
            seen.add(value.id)
        return value, distance

    def owner(self, value: Value) -> Op | None:
        """The operation of the body that computes a value; None for one from outside."""
        return self._owners.get(value.id)

    def definer(self, value: Value) -> Op | None:
        """The operation that computes a value, wherever it stands; None for an argument."""
        return self._definers.get(value.id)

    def origins(self, value: Value, through: Callable[[Op], bool]) -> tuple[Origin, ...]:
        """The results that a value depends on, seen through the operations that `through` accepts; the
        nearest of each."""
        queue: list[tuple[int, int, Value]] = [(0, value.id, value)]
        seen: set[int] = set()
        found: dict[int, Origin] = {}
        while queue:
            so_far, _, current = heapq.heappop(queue)
            current, back = self.trace(current)
            op = self.owner(current)
            if op is None or current.id in seen:
                continue
            seen.add(current.id)
            distance = so_far + back
            if not through(op):
                found[current.id] = Origin(op, current, distance)
                continue
            for operand in self.reads(op):
                heapq.heappush(queue, (distance, operand.id, operand))
        return tuple(found.values())

    def reads(self, op: Op) -> tuple[Value, ...]:
        """The values an operation needs, those that its regions take from around it included."""
        return self._captured[op.index] if op.regions else tuple({v.id: v for v in op.operands}.values())

    @cached_property
    def _captured(self) -> Mapping[int, tuple[Value, ...]]:
        """What the operations with regions read."""
        return {op.index: _captures(op) for op in self.ops if op.regions}

    @cached_property
    def _readers(self) -> Mapping[int, list[Op]]:
        """The operations of the body by the value they read as it is named there."""
        readers: defaultdict[int, list[Op]] = defaultdict(list)
        for op in self.ops:
            for value in self.reads(op):
                readers[value.id].append(op)
        return readers

    @cached_property
    def _yielded(self) -> Mapping[int, list[Carried]]:
        """What the loop carries, by the value that it yields."""
        found: defaultdict[int, list[Carried]] = defaultdict(list)
        for carried in self.loop.carried:
            found[carried.yielded.id].append(carried)
        return found

    def names(self, value: Value) -> tuple[Value, ...]:
        """A value and the arguments of the loop that carry it, in the next iteration and later ones."""
        found = {value.id: value}
        waiting = [value]
        while waiting:
            current = waiting.pop()
            for carried in self._yielded.get(current.id, ()):
                if carried.arg.id not in found:
                    found[carried.arg.id] = carried.arg
                    waiting.append(carried.arg)
        return tuple(found.values())

    def readers(self, value: Value) -> tuple[Op, ...]:
        """The operations of the body that read a value, in this iteration or a later one."""
        found = {op.index: op for name in self.names(value) for op in self._readers.get(name.id, ())}
        return tuple(found.values())

    def outlives(self, value: Value) -> bool:
        """Read after the loop."""
        return any(
            carried.result.id in self._operands
            for name in self.names(value)
            for carried in self._yielded.get(name.id, ())
        )

    @cached_property
    def _operands(self) -> frozenset[int]:
        """The values that any operation of the function reads."""
        return frozenset(v.id for op in self.loop.function.walk() for v in op.operands)

    def constant(self, value: Value) -> object:
        """What a value is in every iteration but perhaps the first, where that is a constant; otherwise
        None."""
        traced, _ = self.trace(value)
        op = self.definer(traced)
        if op is None or role(op) != "constant":
            return None
        literal = op.attributes.get("value")
        return literal.text if isinstance(literal, Raw) else literal

    def always_false(self, value: Value) -> bool:
        """An i1 that is false in the first and in every later iteration."""
        carried = self._carried.get(value.id)
        return self.constant(value) is False and (carried is None or self.constant(carried.init) is False)

    def always_true(self, value: Value) -> bool:
        carried = self._carried.get(value.id)
        return self.constant(value) is True and (carried is None or self.constant(carried.init) is True)

    def before(self, value: Value) -> Value:
        """What a value is when the loop is entered: the initial one for an argument of the loop, otherwise
        itself."""
        carried = self._carried.get(value.id)
        return carried.init if carried else value

    def flags(self, op: Op) -> tuple[Value, ...]:
        """The i1 operands of an operation, in order."""
        return tuple(v for v in op.operands if v.type == Scalar("i1"))


def _captures(op: Op) -> tuple[Value, ...]:
    blocks = [block for each in (op, *op.inner()) for region in each.regions for block in region.blocks]
    own = {arg.id for block in blocks for arg in block.args} | {
        v.id for inner in op.inner() for v in inner.results
    }
    outer = [v for inner in op.inner() for v in inner.operands if v.id not in own]
    return tuple({v.id: v for v in (*op.operands, *outer)}.values())
