"""Pointers that a loop moves by different steps, as offsets from where they begin.

`ptr += 64 if (i + 1) % n == 0 else 0` and pointers that go back to the first block move by a number that
depends on the iteration, the same for all elements of a tile. What a loop carries stays in one group, but any
group may compute a number. Takes a module; gives the same in which a loop carries the sum of the steps, and
each iteration adds it to the pointers from before the loop. Only where nothing behind the loop reads them.
What moves in every iteration by the same is left to `induction`. Lines stay where they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.induction import without_stale
from twill.extract.rewrite.text.edits import (
    UNKNOWN,
    Edit,
    added,
    blanked,
    constant,
    edited,
    listed,
    mentions,
    sign_extended,
    text_of,
)
from twill.extract.rewrite.text.loop_heads import head_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Carried, Loop, Module, Op, Pointer, Scalar, Tensor, Value
from twill.ops.table import named, role

OFFSET = "i64"
"""The type of a sum of steps."""


def pointer_offsets(module: Module) -> Module:
    """The module itself where no loop to be scheduled carries such pointers."""
    for number, path in enumerate([loop.path for loop in loops(module)]):
        loop = next(one for one in loops(module) if one.path == path)
        if role(loop.op) == "for" and loop.innermost and loop.tensor_ops:
            module = _without(module, loop, number)
    return module


def _without(module: Module, loop: Loop, number: int) -> Module:
    users, makers = loop.function.users(), makers_of(loop.function.walk())
    found = [
        (position, _Steps(module, makers, one, f"%twill_step{number}_{position}_"))
        for position, one in enumerate(loop.carried)
        if _points(one.arg) and not users.get(one.result.id) and _jumps(makers, one)
    ]
    sums = [(position, steps, total) for position, steps in found if (total := steps.sum()) is not None]
    return edited(module, _edits(module, loop, sums, number)) if sums else module


def _points(value: Value) -> bool:
    dtype = value.type.dtype if isinstance(value.type, Tensor) else value.type
    return isinstance(dtype, Pointer)


def _jumps(makers: Makers, one: Carried) -> bool:
    """What an iteration yields is chosen between two."""
    value, op = one.yielded, makers.of(one.yielded, "address", "select")
    while op is not None and role(op) == "address":
        value = op.operands[0]
        op = makers.of(value, "address", "select")
    return op is not None


@dataclass(slots=True)
class _Steps:
    """Writes by how much the pointers have moved at the end of an iteration."""

    module: Module
    makers: Makers
    carried: Carried
    prefix: str
    lines: list[str] = field(default_factory=list[str])
    gone: list[Op] = field(default_factory=list[Op])
    """The operations that moved the pointers."""

    @property
    def before(self) -> str:
        """The name of the sum of all steps before an iteration."""
        return f"{self.prefix}before"

    def sum(self) -> str | None:
        """The name of the sum; None where a step is not the same for all elements."""
        return self._moved(self.carried.yielded)

    def _moved(self, value: Value) -> str | None:
        if value.id == self.carried.arg.id:
            return self.before
        op = self.makers.of(value, "address", "select")
        if op is None:
            return None
        self.gone.append(op)
        if role(op) == "address":
            pointer, step = self._moved(op.operands[0]), self._step(op.operands[1])
            return None if pointer is None or step is None else self._op(added(pointer, step, OFFSET))
        condition = self._everywhere(op.operands[0])
        one, other = (self._moved(side) for side in op.operands[1:])
        if condition is None or one is None or other is None:
            return None
        return self._op(f"{named('select')} {condition.name}, {one}, {other} : {OFFSET}")

    def _step(self, value: Value) -> str | None:
        number = self.makers.number(value)
        if number is not None:
            return self._op(constant(number, OFFSET))
        same = self._everywhere(value)
        if same is None or not isinstance(same.type, Scalar) or same.type.name not in ("i32", OFFSET):
            return None
        if same.type.name == OFFSET:
            return same.name
        return self._op(sign_extended(same.name, same.type.name, OFFSET))

    def _everywhere(self, value: Value) -> Value | None:
        """What a tile is everywhere."""
        if not isinstance(value.type, Tensor):
            return value
        spread = self.makers.of(value, "splat")
        return spread.operands[0] if spread is not None else None

    def _op(self, text: str) -> str:
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text} {UNKNOWN} ")
        return name


# --- the text ---------------------------------------------------------------------------------------------


def _edits(
    module: Module, loop: Loop, sums: Sequence[tuple[int, _Steps, str]], number: int
) -> Iterator[Edit]:
    first, last, zero = loop.body.ops[0], loop.body.ops[-1], f"%twill_step{number}_zero"
    yield Edit(loop.op.span.start, loop.op.span.start, f"{zero} = {constant(0, OFFSET)} {UNKNOWN} ")
    yield _header(module, loop, sums, zero)
    moved = {steps.carried.arg.name: f"{steps.prefix}now" for _, steps, _ in sums}
    text = "".join(_now(module, steps, moved[steps.carried.arg.name]) for _, steps, _ in sums)
    yield Edit(first.span.start, first.span.start, text)
    dropped = list(_dropped(loop, sums))
    for begin, end in dropped:
        yield blanked(module, begin, end)
    for name, now in moved.items():
        for place in mentions(name).finditer(module.text, first.span.start, last.span.start):
            if not any(begin <= place.start() < end for begin, end in dropped):
                yield Edit(place.start(), place.end(), now)
    yield from without_stale(module, loop)
    lines = "".join(line for _, steps, _ in sums for line in steps.lines)
    yield Edit(last.span.start, last.span.end, lines + _yield(module, last, sums))


def _header(module: Module, loop: Loop, sums: Sequence[tuple[int, _Steps, str]], zero: str) -> Edit:
    head = head_of(module, loop)
    pairs, types = list(head.pairs), list(head.types)
    for position, steps, _ in sums:
        pairs[position], types[position] = f"{steps.before} = {zero}", OFFSET
    return head.edit(pairs, types)


def _now(module: Module, steps: _Steps, name: str) -> str:
    """The pointers of an iteration."""
    init, tile = steps.carried.init.name, steps.carried.arg.type
    kind, offset, offsets, text = type_text(module, tile), steps.before, OFFSET, ""
    if isinstance(tile, Tensor):
        spread = type_text(module, Tensor(tile.shape, Scalar(OFFSET), tile.encoding))
        assert spread is not None, "tiles of pointers have the same layout"
        offset, offsets = f"{name}_offset", spread
        text = f"{offset} = {named('splat')} {steps.before} : {OFFSET} -> {offsets} {UNKNOWN} "
    return f"{text}{name} = {named('address')} {init}, {offset} : {kind}, {offsets} {UNKNOWN} "


def _dropped(loop: Loop, sums: Sequence[tuple[int, _Steps, str]]) -> Iterator[tuple[int, int]]:
    """The texts of operations that moved pointers, and of those that nothing else reads."""
    moving = {op.index for _, steps, _ in sums for op in steps.gone}
    readers, last = loop.function.users(), loop.body.ops[-1]
    positions = {position for position, _, _ in sums}
    yielded = {value.id for i, value in enumerate(last.operands) if i not in positions}
    gone = {last.index}
    for op, following in reversed(list(pairwise(loop.body.ops))):
        read = {reader.index for value in op.results for reader in readers.get(value.id, ())}
        if op.index in moving and read <= gone and not yielded & {value.id for value in op.results}:
            gone.add(op.index)
            yield op.span.start, following.span.start


def _yield(module: Module, op: Op, sums: Sequence[tuple[int, _Steps, str]]) -> str:
    values = [value.name for value in op.operands]
    types = list(listed(text_of(module, op).rpartition(" : ")[2]))
    for position, _, total in sums:
        values[position], types[position] = total, OFFSET
    return f"{op.name} {', '.join(values)} : {', '.join(types)}"
