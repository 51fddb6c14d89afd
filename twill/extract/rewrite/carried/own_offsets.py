"""Offsets that loads and computations read, carried once for each.

A loop over the blocks of a sparse mask moves an offset by what it has loaded: the tiles are loaded there, and
a mask is computed from the same offset. What a loop carries stays in one warp group, which would have to
load and to compute. Takes a module; gives the same where loads read numbers: what a carried tile has moved
by, added to its first value. Where a carried number is spread to a vector for a computation, the vector is
carried besides, and moved by the same steps. Offsets that follow from the iteration (`induction`) are carried
by nobody. Lines stay where they are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.text.edits import (
    UNKNOWN,
    Edit,
    added,
    blanked,
    constant,
    edited,
    listed,
    mentions,
    text_of,
)
from twill.extract.rewrite.text.loop_heads import head_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Carried, Loop, Module, Op, Scalar, Tensor, Value
from twill.ir.slicing import all_operands, reached
from twill.ops.row import Role
from twill.ops.table import named, role

_LOADS: frozenset[Role] = frozenset({"pointer_load", "tma_load"})


@dataclass(frozen=True, slots=True, eq=False)
class _Number:
    """A carried number that loads read, where a computation reads it spread to a tile."""

    carried: Carried
    step: Value
    """What an iteration adds; it does not follow from the number itself."""
    op: Op
    """What spreads the number."""
    added: Value | None
    """What is added to the number before, if anything is."""
    kind: str
    """The type of the tile, which is carried instead."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """A carried tile that loads read, and that moves by the same number everywhere."""

    carried: Carried
    step: Value
    """The number that an iteration adds."""
    kind: str
    readers: tuple[Op, ...]
    """Loads, and what their addresses and masks follow from."""
    update: Op | None
    """What moves the tile, where nothing else reads it: a number is carried in its place."""


def own_offsets(module: Module) -> Module:
    """The module itself where no loop to be scheduled carries such an offset."""
    for number, path in enumerate([loop.path for loop in loops(module) if loop.innermost]):
        loop = next(one for one in loops(module) if one.path == path)
        if loop.tensor_ops and role(loop.op) == "for" and len(loop.carried) > 1:
            module = edited(module, _edits(module, loop, f"%twill_own{number}_"))
    return module


# --- which offsets ----------------------------------------------------------------------------------------


def _numbers(module: Module, loop: Loop) -> Iterator[_Number]:
    makers, read = makers_of(loop.body.walk()), _read_by_loads(loop)
    for carried in loop.carried:
        step = _step(makers, carried)
        if step is None or carried.arg.id not in read or not isinstance(carried.arg.type, Scalar):
            continue
        for op in loop.body.ops:
            if role(op) == "splat" and op.result.id not in read and _vector(op.result):
                before, kind = _added(loop, makers, op, carried.arg), type_text(module, op.result.type)
                if before and kind is not None:
                    yield _Number(carried, step, op, before[0], kind)


def _tiles(module: Module, loop: Loop) -> Iterator[_Tile]:
    makers, read = makers_of(loop.body.walk()), _read_by_loads(loop)
    for carried in loop.carried:
        step = _step(makers, carried)
        uniform = makers.of(step, "splat") if isinstance(carried.arg.type, Tensor) else None
        kind = type_text(module, carried.arg.type)
        if uniform is None or kind is None or carried.arg.id not in read:
            continue
        readers = tuple(
            op
            for op in loop.ops
            if carried.arg in op.operands
            and (role(op) in _LOADS or any(one.id in read for one in op.results))
        )
        yield _Tile(carried, uniform.operands[0], kind, readers, _update(loop, carried, readers))


def _update(loop: Loop, carried: Carried, readers: Sequence[Op]) -> Op | None:
    """What moves a carried tile; None where more than that and `readers` read it, or what it has become."""
    (update,) = (op for op in loop.ops if carried.yielded in op.results)
    last = [value.id for value in loop.body.ops[-1].operands]
    users = [op for op in loop.body.walk() if carried.arg in op.operands and op not in readers]
    after = any(carried.result in op.operands for op in loop.function.walk())
    moved = [op for op in loop.body.walk() if carried.yielded in op.operands]
    alone = users == [update] and moved == [loop.body.ops[-1]] and last.count(carried.yielded.id) == 1
    return update if alone and not after else None


def _step(makers: Makers, carried: Carried) -> Value | None:
    """What an iteration adds; None where that is no sum, or follows from the value itself."""
    made = makers.of(carried.yielded, "add")
    dtype = carried.arg.type.dtype if isinstance(carried.arg.type, Tensor) else carried.arg.type
    if made is None or not isinstance(dtype, Scalar) or carried.arg not in made.operands:
        return None
    one, two = made.operands
    step = two if one is carried.arg else one
    return None if carried.arg.id in _needed(makers, [step]) else step


def _added(loop: Loop, makers: Makers, op: Op, number: Value) -> tuple[Value | None] | None:
    """What is fixed and added to a carried number before it is spread, in a tuple; None where it is not
    spread so."""
    (value,) = op.operands
    if value is number:
        return (None,)
    made = makers.of(value, "add")
    if made is None or number not in made.operands:
        return None
    one, two = made.operands
    other = two if one is number else one
    fixed = other.id not in makers.by_value and other not in loop.body.args
    return (other,) if fixed else None


def _read_by_loads(loop: Loop) -> frozenset[int]:
    """Values, by id, that addresses and masks of loads follow from."""
    loads = [op for op in loop.body.ops if role(op) in _LOADS]
    return _needed(makers_of(loop.body.walk()), [value for op in loads for value in op.operands])


def _needed(makers: Makers, values: Sequence[Value]) -> frozenset[int]:
    """Values, by id, that these follow from within an iteration."""

    def sources(value: Value) -> Sequence[Value]:
        made = makers.by_value.get(value.id)
        return all_operands(made) if made is not None else ()

    return reached(values, sources)


def _vector(tile: Value) -> bool:
    """Few registers hold it."""
    return isinstance(tile.type, Tensor) and sum(size > 1 for size in tile.type.shape) <= 1


# --- the text ---------------------------------------------------------------------------------------------


def _edits(module: Module, loop: Loop, prefix: str) -> Iterator[Edit]:
    out = _Writer(module, loop, prefix)
    edits = [edit for one in _numbers(module, loop) for edit in out.number(one)]
    edits += _read_instead(
        module, loop, {one.carried.arg.name: (one, out.tile(one)) for one in _tiles(module, loop)}
    )
    if not out.more:
        return
    last, body = loop.body.ops[-1], loop.body.ops[0].span.start
    yield Edit(loop.op.span.start, body, f"{out.first}{_with_carried(out)}{out.begun}")
    yield from edits
    values = out.all([value.name for value in last.operands], [one.following for one in out.more])
    types = out.all(listed(text_of(module, last).rpartition(" : ")[2]), [one.kind for one in out.more])
    text = f"{out.moved}{last.name} {', '.join(values)} : {', '.join(types)}"
    yield Edit(last.span.start, last.span.end, text)


@dataclass(frozen=True, slots=True)
class _Besides:
    """One more carried value."""

    name: str
    first: str
    following: str
    """What the next iteration reads."""
    kind: str


@dataclass(slots=True)
class _Writer:
    """The text that is put before a loop, at the beginning and at the end of its body."""

    module: Module
    loop: Loop
    prefix: str
    first: str = ""
    begun: str = ""
    moved: str = ""
    more: list[_Besides] = field(default_factory=list[_Besides])
    gone: dict[int, int] = field(default_factory=dict[int, int])
    """Which of `more` is carried in the place of a tile, by that."""

    def name(self) -> str:
        """Of one more carried value."""
        return f"{self.prefix}{len(self.more)}"

    def number(self, one: _Number) -> Iterator[Edit]:
        """The tile that the number is spread to is carried under its name."""
        name, tile, begin = self.name(), one.op.result.name, one.carried.init.name
        assert isinstance(one.step.type, Scalar)
        if one.added is not None:
            self.first += f"{name}_begin = {added(begin, one.added.name, one.step.type.name)} {UNKNOWN} "
            begin = f"{name}_begin"
        self.first += _spread(f"{name}_first", begin, one.step, one.kind)
        self.moved += _spread(f"{name}_step", one.step.name, one.step, one.kind)
        self.moved += f"{name}_next = {added(tile, f'{name}_step', one.kind)} {UNKNOWN} "
        self.more.append(_Besides(tile, f"{name}_first", f"{name}_next", one.kind))
        at = self.loop.body.ops.index(one.op)
        yield blanked(self.module, one.op.span.start, self.loop.body.ops[at + 1].span.start)

    def tile(self, one: _Tile) -> str:
        """The name of what the tile has moved by, added to its first value."""
        assert isinstance(one.step.type, Scalar)
        name, kind = self.name(), one.step.type.name
        self.first += f"{name}_first = {constant(0, kind)} {UNKNOWN} "
        self.moved += f"{name}_next = {added(name, one.step.name, kind)} {UNKNOWN} "
        if one.update is not None:
            self.gone[self.loop.carried.index(one.carried)] = len(self.more)
        self.more.append(_Besides(name, f"{name}_first", f"{name}_next", kind))
        self.begun += _spread(f"{name}_moved", name, one.step, one.kind)
        init = one.carried.init.name
        self.begun += f"{name}_tile = {added(init, f'{name}_moved', one.kind)} {UNKNOWN} "
        return f"{name}_tile"

    def all(self, carried: Iterable[str], more: Sequence[str]) -> list[str]:
        """What belongs to each carried value: of those that the loop has, and of those besides."""
        kept = [more[self.gone[i]] if i in self.gone else one for i, one in enumerate(carried)]
        return [*kept, *(one for i, one in enumerate(more) if i not in self.gone.values())]


def _read_instead(module: Module, loop: Loop, tiles: Mapping[str, tuple[_Tile, str]]) -> Iterator[Edit]:
    """Loads, and what they need, read other tiles; what moved tiles that nobody else reads goes."""
    following = {op.index: behind for op, behind in pairwise(loop.body.ops)}
    readers = {op.index: op for one, _ in tiles.values() for op in one.readers}
    for op in readers.values():
        text = text_of(module, op)
        for name, (one, made) in tiles.items():
            if op in one.readers:
                text = mentions(name).sub(made, text)
        yield Edit(op.span.start, op.span.end, text)
    for one, _ in tiles.values():
        if one.update is not None:
            yield blanked(module, one.update.span.start, following[one.update.index].span.start)


def _spread(name: str, value: str, like: Value, kind: str) -> str:
    """A tile of a number that has the type of another."""
    assert isinstance(like.type, Scalar)
    return f"{name} = {named('splat')} {value} : {like.type.name} -> {kind} {UNKNOWN} "


def _with_carried(out: _Writer) -> str:
    """The loop's beginning with all carried values."""
    loop, more = out.loop, out.more
    head = head_of(out.module, loop)
    pairs = out.all(head.pairs, [f"{one.name} = {one.first}" for one in more])
    return head.carrying(pairs, out.all(head.types, [one.kind for one in more]))
