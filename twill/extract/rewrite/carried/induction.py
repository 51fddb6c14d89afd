"""Carried values that are linear in the induction variable, computed from it.

A loop that adds the same to a value in every iteration (`a_ptrs += BLOCK_K * stride`, `offs += BLOCK`)
carries what the iteration says already: value = initial value + iteration * step. One that moves pointers
once in every so many iterations carries as little. Takes a module; gives the same without such carried
values, so that no copy of them is kept or handed from group to group, and whoever needs one computes it.
Inner loops come first: a pointer that both loops carry grows by all iterations of the inner one in each of
the outer one. Products with pointers' steps are made in 64 bits, since the sum of steps may be larger than a
step's type. Lines stay where they are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from re import escape, finditer, sub

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.control.periodic_steps import Periodic, periodic, taken
from twill.extract.rewrite.text.edits import (
    UNKNOWN,
    Edit,
    added,
    blanked,
    computed,
    constant,
    edited,
    listed,
    mentions,
    sign_extended,
    text_of,
)
from twill.extract.rewrite.text.loop_heads import head_of
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.ir.loop import Carried, Loop, Module, Op, Pointer, Scalar, Tensor, Type, Value
from twill.ops.row import Role
from twill.ops.table import role

_UPDATES: frozenset[Role] = frozenset({"add", "subtract", "address"})
STALE = r"tt\.(?:divisibility|contiguity|constancy)_arg\d+ = dense<[^>]*> : tensor<[^>]*>"
"""Facts about carried values by their number, which changes."""


@dataclass(frozen=True, slots=True, eq=False)
class _Linear:
    """A carried value that grows by the same in every iteration, or in every so many."""

    position: int
    """Among the carried values."""
    carried: Carried
    updates: tuple[Op, ...]
    """The additions and subtractions between what an iteration reads and what it yields, in order."""
    steps: tuple[Value | Periodic, ...]
    """What each adds or subtracts."""

    @property
    def made_from(self) -> Iterator[Value]:
        """All that its steps are made from."""
        for step in self.steps:
            yield from step.values if isinstance(step, Periodic) else (step,)


def from_iteration(module: Module) -> Module:
    """The module without carried values that are linear in the induction variable."""
    done = set[str]()
    while (found := _next(module, done)) is not None:
        loop, linear = found
        done.add(loop.path)
        if linear:
            module = edited(module, _edits(module, loop, linear, len(done)))
    return module


def _next(module: Module, done: set[str]) -> tuple[Loop, tuple[_Linear, ...]] | None:
    loop = max(
        (one for one in loops(module) if one.path not in done), key=lambda one: one.depth, default=None
    )
    if loop is None:
        return None
    return loop, tuple(_linear(loop)) if role(loop.op) == "for" else ()


# --- which are linear -------------------------------------------------------------------------------------


def _linear(loop: Loop) -> Iterator[_Linear]:
    makers = makers_of(loop.function.walk())
    inside = {value.id for op in loop.body.walk() for value in op.results} | {
        arg.id for arg in loop.body.args
    }
    for position, carried in enumerate(loop.carried):
        updates = tuple(_updates(loop, carried, makers, inside))
        if updates:
            yield _Linear(position, carried, *zip(*updates, strict=True))


def _updates(
    loop: Loop, carried: Carried, makers: Makers, inside: set[int]
) -> list[tuple[Op, Value | Periodic]]:
    """The additions and subtractions of loop-invariant values, or of periodic ones, that lead from the
    carried value to the one yielded, each with what it adds; none where the value is not linear."""
    found, value = list[tuple[Op, Value | Periodic]](), carried.yielded
    while value.id != carried.arg.id:
        op = makers.of(value, *_UPDATES) if value.id in inside else None
        if op is None or not _supported(op.result.type):
            return []
        kept = [operand for operand in op.operands if operand.id in inside]
        added = [operand for operand in op.operands if operand.id not in inside]
        if role(op) == "address" and len(kept) == 2:
            step = periodic(op.operands[1], loop, makers, inside)
        else:
            straight = len(kept) == 1 and (role(op) == "add" or kept[0] is op.operands[0])
            step = added[0] if straight else None
        if step is None:
            return []
        found.append((op, step))
        value = kept[0]
    return found[::-1]


def _supported(type: Type) -> bool:
    dtype = type.dtype if isinstance(type, Tensor) else type
    return isinstance(dtype, Pointer) or (isinstance(dtype, Scalar) and dtype.name in ("i32", "i64"))


# --- the text ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """Operations to be inserted, with names of their own."""

    module: Module
    makers: Makers
    prefix: str
    lines: list[str] = field(default_factory=list[str])

    def op(self, text: str) -> str:
        """Append an operation; the name of its result."""
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    @property
    def text(self) -> str:
        return "".join(f"{line} {UNKNOWN} " for line in self.lines)


def _edits(module: Module, loop: Loop, linear: Sequence[_Linear], number: int) -> Iterator[Edit]:
    makers = makers_of(loop.function.walk())
    gone = frozenset(one.position for one in linear)
    head = _Writer(module, makers, f"%twill_begin{number}_")
    count = _iteration(head, loop)
    names = {one.carried.arg.name: _value(head, one, count) for one in linear}
    yield without_carried(module, loop, gone)
    yield Edit(loop.body.ops[0].span.start, loop.body.ops[0].span.start, head.text)
    yield from _body(module, loop, linear, names)
    yield yielding(module, loop, gone, names)
    yield from without_stale(module, loop)
    tail = _Writer(module, makers, f"%twill_end{number}_")
    yield from _results(module, loop, linear, tail, replace(tail, prefix=f"%twill_grown{number}_", lines=[]))


# --- values -----------------------------------------------------------------------------------------------


def _iteration(out: _Writer, loop: Loop) -> tuple[str, str]:
    """How many iterations came before, and its type: (induction variable - lower) / step."""
    assert loop.induction is not None
    assert loop.lower is not None
    assert loop.step is not None
    kind, count = _scalar(loop.induction), loop.induction.name
    if out.makers.number(loop.lower) != 0:
        count = out.op(computed("subi", count, loop.lower.name, kind))
    if out.makers.number(loop.step) != 1:
        count = out.op(computed("divsi", count, loop.step.name, kind))
    return count, kind


def _trips(out: _Writer, loop: Loop) -> tuple[str, str]:
    """How many iterations there are, and the type of the number."""
    assert loop.lower is not None
    assert loop.upper is not None
    assert loop.step is not None
    kind = _scalar(loop.lower)
    one, zero = out.op(constant(1, kind)), out.op(constant(0, kind))
    span = out.op(computed("subi", loop.upper.name, loop.lower.name, kind))
    rest = out.op(computed("subi", loop.step.name, one, kind))
    above = out.op(added(span, rest, kind))
    return out.op(computed("maxsi", out.op(computed("divsi", above, loop.step.name, kind)), zero, kind)), kind


def _scalar(value: Value) -> str:
    assert isinstance(value.type, Scalar)
    return value.type.name


def _value(out: _Writer, one: _Linear, count: tuple[str, str], before: _Writer | None = None) -> str:
    """The carried value after `count` iterations; what it has grown by is written to `before`."""
    value = one.carried.init.name
    for update, step in zip(one.updates, one.steps, strict=True):
        pointer = role(update) == "address"
        types = _types(out.module, update)
        moved, kind = _grown(before or out, step, types[-1], count, wide="i64" if pointer else None)
        value = out.op(f"{update.name} {value}, {moved} : {types[0]}{f', {kind}' if pointer else ''}")
    return value


def _types(module: Module, op: Op) -> list[str]:
    """The types that an operation is written with."""
    return list(listed(text_of(module, op).rpartition(" : ")[2]))


def _grown(
    out: _Writer, step: Value | Periodic, type: str, count: tuple[str, str], wide: str | None
) -> tuple[str, str]:
    """The sum of the steps of so many iterations, and its type."""
    if isinstance(step, Value):
        return _moved(out, step, type, count, wide)
    assert wide is not None, "only pointers have periodic steps"
    kind = _scalar(step.length)
    lower = None if step.lower is None else _cast(out, step.lower.name, _scalar(step.lower), kind)
    times = _cast(out, taken(step, _cast(out, *count, kind), kind, lower, out.op), kind, wide)
    for factor in step.factors:
        times = out.op(computed("muli", times, _cast(out, factor.name, _scalar(factor), wide), wide))
    if not type.startswith("tensor"):
        return times, wide
    tile = _tile(type, wide)
    return out.op(f"tt.splat {times} : {wide} -> {tile}"), tile


def _tile(type: str, dtype: str) -> str:
    """A tile's type with other elements."""
    return sub(r"^(tensor<(?:\d+x)+)\w+", rf"\g<1>{dtype}", type)


def _moved(out: _Writer, step: Value, type: str, count: tuple[str, str], wide: str | None) -> tuple[str, str]:
    """The step times the number of iterations, and its type; one multiplication where all elements of a tile
    step alike."""
    dtype = step.type.dtype if isinstance(step.type, Tensor) else step.type
    assert isinstance(dtype, Scalar)
    wide = wide or dtype.name
    times = _cast(out, *count, wide)
    if not isinstance(step.type, Tensor):
        return out.op(computed("muli", times, _cast(out, step.name, dtype.name, wide), wide)), wide
    tile = _tile(type, wide)
    same = _everywhere(out, step, wide)
    if same is not None:
        return out.op(f"tt.splat {out.op(f'arith.muli {times}, {same} : {wide}')} : {wide} -> {tile}"), tile
    wider = step.name if wide == dtype.name else out.op(sign_extended(step.name, type, tile))
    spread = out.op(f"tt.splat {times} : {wide} -> {tile}")
    return out.op(computed("muli", spread, wider, tile)), tile


def _everywhere(out: _Writer, step: Value, wide: str) -> str | None:
    """The number that a tile is everywhere, as a scalar of type `wide`; None where it is not known to be
    one."""
    if (spread := out.makers.of(step, "splat")) is not None:
        return _cast(out, spread.operands[0].name, _scalar(spread.operands[0]), wide)
    number = out.makers.number(step)
    return None if number is None else out.op(constant(number, wide))


def _cast(out: _Writer, value: str, kind: str, wanted: str) -> str:
    """An integer in another width."""
    if kind == wanted:
        return value
    if "index" in (kind, wanted):
        return out.op(f"arith.index_cast {value} : {kind} to {wanted}")
    if int(wanted[1:]) > int(kind[1:]):
        return out.op(sign_extended(value, kind, wanted))
    return out.op(f"arith.trunci {value} : {kind} to {wanted}")


# --- what becomes of the loop -----------------------------------------------------------------------------


def without_carried(module: Module, loop: Loop, gone: frozenset[int]) -> Edit:
    """The loop's results, initial values and types without those that are gone."""
    head = head_of(module, loop)
    return head.edit(_kept(head.pairs, gone), _kept(head.types, gone))


def _kept(items: Iterable[str], gone: frozenset[int]) -> list[str]:
    return [item for i, item in enumerate(items) if i not in gone]


def _body(module: Module, loop: Loop, linear: Sequence[_Linear], names: Mapping[str, str]) -> Iterator[Edit]:
    """Readers of the values read what was computed instead; additions that nobody reads any more go."""
    dropped = [(op.span.start, following) for op, following in _dead(loop, linear)]
    for begin, end in dropped:
        yield blanked(module, begin, end)
    for name, value in names.items():
        for place in mentions(name).finditer(module.text):
            within = loop.body.ops[0].span.start <= place.start() < loop.body.ops[-1].span.start
            if within and not any(begin <= place.start() < end for begin, end in dropped):
                yield Edit(place.start(), place.end(), value)


def _dead(loop: Loop, linear: Sequence[_Linear]) -> Iterator[tuple[Op, int]]:
    """Updates whose results only the yield and each other read, with where the operation behind each
    begins."""
    last = loop.body.ops[-1]
    read = {(value.id, op.index) for op in loop.body.walk() for value in op.operands}
    other = {
        one.yielded.id for i, one in enumerate(loop.carried) if i not in {found.position for found in linear}
    }
    for one in linear:
        gone = {last.index}
        for op in reversed(one.updates):
            readers = {reader for value, reader in read if value == op.result.id}
            if not readers <= gone or op.result.id in other:
                break
            gone.add(op.index)
            yield op, loop.body.ops[loop.body.ops.index(op) + 1].span.start


def yielding(module: Module, loop: Loop, gone: frozenset[int], names: Mapping[str, str]) -> Edit:
    op = loop.body.ops[-1]
    values = _kept([names.get(value.name, value.name) for value in op.operands], gone)
    types = _kept(_types(module, op), gone)
    return Edit(
        op.span.start,
        op.span.end,
        f"scf.yield {', '.join(values)} : {', '.join(types)}" if values else "scf.yield",
    )


def without_stale(module: Module, loop: Loop) -> Iterator[Edit]:
    begin, end = loop.body.ops[-1].span.end, loop.op.span.end
    for place in finditer(rf"{STALE},\s*|(?:,\s*)?{STALE}", module.text[begin:end]):
        yield Edit(begin + place.start(), begin + place.end(), "")


def _results(
    module: Module, loop: Loop, linear: Sequence[_Linear], tail: _Writer, grown: _Writer
) -> Iterator[Edit]:
    """The values after the loop, where they are read; the other results are numbered anew. What they have
    grown by is computed before all loops around for which it is the same in every iteration."""
    used = {value.id for op in loop.function.walk() for value in op.operands}
    wanted = [one for one in linear if one.carried.result.id in used]
    trips = _trips(grown, loop) if wanted else ("", "")
    gone = {one.position: _value(tail, one, trips, grown) for one in wanted}
    if wanted:
        behind = following(loop)[0].span.start
        outside = _invariant_in(module, loop, [value for one in wanted for value in one.made_from])
        start = behind if outside is None else outside.op.span.start
        yield Edit(start, start, grown.text)
        yield Edit(behind, behind, tail.text)
    yield from renumbered(module, loop, {one.position for one in linear}, gone)


def _invariant_in(module: Module, loop: Loop, steps: Sequence[Value]) -> Loop | None:
    """The outermost loop around `loop` in whose iterations its bounds and these steps are the same."""
    needed = {value.id for value in (loop.lower, loop.upper, loop.step, *steps) if value is not None}
    for around in loops(module):
        inside = around.op is not loop.op and any(op is loop.op for op in around.op.inner())
        if inside and not needed & _defined(around):
            return around
    return None


def _defined(loop: Loop) -> set[int]:
    """The values that come into being in a loop."""
    blocks = [block for op in (loop.op, *loop.op.inner()) for region in op.regions for block in region.blocks]
    return {one.id for block in blocks for one in (*block.args, *(v for op in block.ops for v in op.results))}


def following(loop: Loop) -> tuple[Op, ...]:
    """The operations behind the loop in its block."""
    home = next(block for block in loop.function.blocks() if any(op is loop.op for op in block.ops))
    return home.ops[[op is loop.op for op in home.ops].index(True) + 1 :]


def renumbered(module: Module, loop: Loop, gone: set[int], values: Mapping[int, str]) -> Iterator[Edit]:
    name = loop.op.results[0].name.partition("#")[0]
    kept = [i for i in range(len(loop.op.results)) if i not in gone]
    end = max((op.span.end for op in following(loop)), default=0)
    for place in finditer(rf"{escape(name)}(?:#(\d+))?(?![\w$.:#-])", module.text):
        if loop.op.span.end <= place.start() < end:
            old = int(place.group(1) or 0)
            yield Edit(
                place.start(), place.end(), values[old] if old in gone else f"{name}#{kept.index(old)}"
            )
