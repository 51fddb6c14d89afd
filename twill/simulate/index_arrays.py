"""What the integer arrays of a kernel hold, so that it does its work.

Takes a function, its arguments and a program of the grid; gives a `Fill` for arrays whose values become
addresses, masks, bounds of loops or conditions. With small random numbers many kernels return early, or write
one element several times. Candidates are tried on a partial execution: the operations that addresses and
control flow depend on, two iterations of each counted loop. The best candidate reaches most stores, then most
operations, writes no element twice, writes most elements, reads most different elements (a sparse kernel
whose indices are all masked, or all the same, shows little), and runs loops a few times.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import Function, Op, Pointer, TensorDesc, Value
from twill.ops.axis_info import element_bytes
from twill.ops.row import Role, Values
from twill.ops.table import lookup, role
from twill.ops.values import Array, Descriptor, Operand, Pointers, element
from twill.simulate.global_memory import MOST, Fill, Memory, Unwritten, last_of
from twill.simulate.interpret import Meter, Scope, block

CANDIDATES = (
    *(Fill(value, 0) for value in (1, 3, 16, 80, 200, 528)),
    Fill(0, 1, run=64),
    *(Fill(0, step) for step in (1, 80, 200)),
    *(Fill(0, 0, spread) for spread in (64, 1024)),
)
"""The same number everywhere: sizes and strides. Numbers in another order than their places: indices, pages.
Rising ones: where parts begin. Random ones: keys of a sparse kernel, some of them several times."""
ITERATIONS = 2
"""Of a counted loop that are executed."""
ENOUGH, MANY = 3, 8
"""Iterations of a loop: more than the first are no better, more than the second are worse."""
LONGEST = 4000
"""Operations that are executed at most."""
PITCH = 16
"""Bytes of which the strides of a tensor map are multiples."""
ROUNDS = 3
"""Passes over the arrays at most."""
SAMPLES = 512
"""Elements of a load whose addresses are looked at, at most."""
FURTHEST = 1 << 22
"""Elements of an array that a program far out in the grid may touch: all before are filled."""

_MASKED: tuple[Role, ...] = ("pointer_store", "atomic")
"""Operations whose third operand is a mask."""
_ADDING: tuple[Role, ...] = ("atomic", "atomic_exchange", "tma_reduce")
"""Stores that may have one element several times."""

Fills: TypeAlias = Mapping[str, Fill]
Score: TypeAlias = tuple[int, int, int, int, int, int]


def fills(
    function: Function,
    arguments: Mapping[int, Operand],
    memory: Memory,
    program: Mapping[str, int],
    meter: Meter | None = None,
) -> Fills:
    """By the name of the array; arrays that need nothing are left out. `arguments` by value id, with the
    memory behind them, which stays as it is. Raises TooLongError where the `meter` does."""
    needed = _needed(function)
    names = _steering(function, needed)
    if not names:
        return {}
    scores = dict[frozenset[tuple[str, Fill]], tuple[Score, int]]()

    def score(tried: Fills) -> Score:
        key = frozenset(tried.items())
        if key not in scores:
            seen, done = _seen(function, needed, arguments, _filled(memory, tried), program)
            scores[key] = _score(seen, done), seen.executed
        found, executed = scores[key]
        if meter:
            meter.spend(executed)
        return found

    found = dict[str, Fill]()
    best = score(found)
    for _ in range(ROUNDS):
        before = best
        for name, candidate in product(names, CANDIDATES):
            tried = {**found, name: candidate}
            if (now := score(tried)) > best:
                best, found = now, tried
        if best == before:
            break
    return found


def work(
    function: Function,
    arguments: Mapping[int, Operand],
    memory: Memory,
    program: Mapping[str, int],
    contents: Fills,
) -> tuple[int, int] | None:
    """What a program of the grid does with these contents, as far as a partial execution says: stores that
    write, and different elements that are read. None where it goes wrong or touches elements far behind."""
    filled = _filled(memory, contents)
    seen, done = _seen(function, _needed(function), arguments, filled, program, FURTHEST)
    return (len(seen.written), seen.different) if done else None


def steered(function: Function) -> bool:
    """Whether values of integer arrays become addresses, masks, bounds of loops or conditions."""
    return bool(_steering(function, _needed(function)))


def writes(
    function: Function, arguments: Mapping[int, Operand], memory: Memory, program: Mapping[str, int]
) -> bool:
    """Whether a program of the grid writes anything, as far as a partial execution says."""
    seen, done = _seen(function, _needed(function), arguments, _filled(memory, {}), program)
    return done and bool(seen.written)


def _filled(memory: Memory, chosen: Fills) -> Memory:
    """The memory as it was before, with other contents of some arrays; a partial execution writes nothing."""
    return Unwritten(
        dict(memory.types),
        memory.seed,
        addresses=memory.addresses,
        fills=chosen,
        kinds=memory.kinds,
        exact=memory.exact,
    )


# --- which operations matter ------------------------------------------------------------------------------


def _needed(function: Function) -> frozenset[int]:
    """The values that addresses, masks, bounds and conditions follow from, by id."""
    roots = [value for op in function.walk() for value in _roots(op)]
    return closure(roots, sources_of(function), lambda value: True)


def closure(
    roots: Sequence[Value], sources: Mapping[int, Sequence[Value]], passed: Callable[[Value], bool]
) -> frozenset[int]:
    """The values that these follow from by way of some values, themselves included."""
    todo, seen = list(roots), set[int]()
    while todo:
        value = todo.pop()
        if value.id not in seen and passed(value):
            seen.add(value.id)
            todo += sources.get(value.id, ())
    return frozenset(seen)


def _roots(op: Op) -> Sequence[Value]:
    match role(op):
        case "for":
            return op.operands[:3]
        case "if" | "condition":
            return op.operands[:1]
        case "pointer_store" | "atomic" | "atomic_exchange":
            return (op.operands[0], *op.operands[2:])
        case _:
            row = lookup(op.name)
            memory = row is not None and row.access in ("load", "load_copy", "store", "reduce")
            return [one for one in op.operands if _whole(one)] if memory else ()


def _whole(value: Value) -> bool:
    """An integer, a pointer or a descriptor."""
    name = element(value.type)
    return name in ("ptr", "index") or name[:1] == "i" or isinstance(value.type, TensorDesc)


def sources_of(function: Function) -> Mapping[int, Sequence[Value]]:
    """What each value follows from, by id."""
    found: dict[int, list[Value]] = {}
    for op in function.walk():
        for values, sources in _links(op):
            for value in values:
                found.setdefault(value.id, []).extend(sources)
    return found


def _links(op: Op) -> Iterator[tuple[Sequence[Value], Sequence[Value]]]:
    """Values with what they follow from."""
    blocks = [one for region in op.regions for one in region.blocks]
    last = [one.ops[-1].operands if one.ops else () for one in blocks]
    match role(op):
        case "for" if op.results:
            for one in zip(blocks[0].args[1:], op.results, op.operands[3:], last[0], strict=True):
                yield one[:2], one[2:]
        case "while":
            values = (*op.results, *(arg for one in blocks for arg in one.args))
            yield values, (*op.operands, *(value for operands in last for value in operands))
        case "if" if op.results:
            for result, *given in zip(op.results, *last, strict=True):
                yield (result,), given
        case _:
            yield op.results, op.operands


def _steering(function: Function, needed: frozenset[int]) -> tuple[str, ...]:
    """The arrays of integers whose values matter, in the order of the arguments."""
    arrays = {arg.id for arg in function.args if isinstance(arg.type, Pointer)}
    sources = sources_of(function)
    found = set[int]()
    for op in function.walk():
        if role(op) != "pointer_load" or op.results[0].id not in needed or not _whole(op.results[0]):
            continue
        found |= arrays & closure(op.operands[:1], sources, lambda value: element(value.type) == "ptr")
    return tuple(arg.name.lstrip("%") for arg in function.args if arg.id in found)


# --- a partial execution ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A value that was not computed. As a condition it holds."""

    def __bool__(self) -> bool:
        return True


@dataclass(slots=True)
class _Seen:
    """What a partial execution has done."""

    reached: set[int] = field(default_factory=set[int])
    """Operations, by index."""
    written: set[int] = field(default_factory=set[int])
    """Stores that wrote something."""
    elements: int = 0
    """That were written."""
    twice: int = 0
    """Stores that wrote an element more than once."""
    read: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])
    """Offsets of some of the elements that were read, by array."""
    trips: dict[int, int] = field(default_factory=dict[int, int])
    """The largest trip count of each counted loop."""
    executed: int = 0

    @property
    def different(self) -> int:
        """Elements that were read, of those looked at."""
        return sum(len(np.unique(np.concatenate(parts))) for parts in self.read.values())


class _Partial(Scope):
    """Executes the operations that are needed; gives `_Unknown` for the results of others."""

    def __init__(
        self,
        function: Function,
        needed: frozenset[int],
        arguments: Mapping[int, Operand],
        memory: Memory,
        program: Mapping[str, int],
        furthest: int,
    ) -> None:
        super().__init__({op.index: op for op in function.walk()}, arguments, memory, program)
        self.needed, self.seen, self.furthest = needed, _Seen(), furthest

    def evaluated(self, op: Op, operands: Sequence[Operand]) -> Values:
        self.seen.reached.add(op.index)
        self.seen.executed += 1
        if self.seen.executed > LONGEST:
            raise TwillError("too many operations", op.location)
        row = lookup(op.name)
        if row is not None and row.writes_global:
            self._store(op, operands)
        if role(op) == "pointer_load":
            self._load(operands)
        unknown = any(isinstance(one, _Unknown) for one in operands)
        needed = any(result.id in self.needed for result in op.results)
        memory = row is not None and (row.writes_global or (row.reads_global and not _whole(op.results[0])))
        if unknown or memory or not needed:
            return (_Unknown(),) * len(op.results)
        results = super().evaluated(op, operands)
        for result in results:
            if isinstance(result, Descriptor):
                _check(op, result)
        return results

    def _store(self, op: Op, operands: Sequence[Operand]) -> None:
        found = _written(op, operands)
        if found is None:
            self.seen.written.add(op.index)
        elif found[1].size:
            self._limit(found[1])
            last_of(*found)
            self.seen.written.add(op.index)
            self.seen.elements += found[1].size
            self.seen.twice += role(op) not in _ADDING and len(np.unique(found[1])) < found[1].size

    def _load(self, operands: Sequence[Operand]) -> None:
        source, *rest = operands
        if isinstance(source, _Unknown) or (rest and isinstance(rest[0], _Unknown)):
            return
        inside = _inside(source, rest[0] if rest else True)
        if inside.size:
            self._limit(inside)
            self.seen.read.setdefault(source.argument, []).append(inside[:: -(-inside.size // SAMPLES)])

    def _limit(self, offsets: Array) -> None:
        if offsets.max() > self.furthest:
            raise TwillError("an element is too far behind")

    def iterations(self, op: Op, bounds: range) -> range:
        self.seen.trips[op.index] = max(len(bounds), self.seen.trips.get(op.index, 0))
        return bounds[:ITERATIONS]


def _written(op: Op, operands: Sequence[Operand]) -> tuple[str, Array] | None:
    """The array that a store writes to, and the offsets; None where they are not known."""
    target, _, *rest = operands
    if isinstance(target, _Unknown) or any(isinstance(one, _Unknown) for one in rest):
        return None
    if isinstance(target, Descriptor):
        offsets, inside = target.offsets(tuple(int(index) for index in rest))
        return target.pointers.argument, offsets[inside]
    return target.argument, _inside(target, rest[0] if rest and role(op) in _MASKED else True)


def _inside(pointers: Pointers, mask: Operand | bool) -> Array:
    """The offsets of the elements where the mask holds."""
    offsets = np.asarray(pointers.offset, np.int64)
    return offsets[np.broadcast_to(mask, offsets.shape)]


def _check(op: Op, found: Descriptor) -> None:
    """Raises TwillError for a descriptor that is no tensor map (CUDA driver API, cuTensorMapEncodeTiled)."""
    size = element_bytes(op.operands[0].type)
    if any(stride * size % PITCH or stride <= 0 for stride in found.strides[:-1]) or min(found.shape) < 1:
        raise TwillError("no tensor map has these strides and sizes", op.location)


def _seen(
    function: Function,
    needed: frozenset[int],
    arguments: Mapping[int, Operand],
    memory: Memory,
    program: Mapping[str, int],
    furthest: int = MOST,
) -> tuple[_Seen, bool]:
    """What a partial execution does, and whether it comes to its end."""
    scope = _Partial(function, needed, arguments, memory, program, furthest)
    try:
        if function.body:
            block(function.body.blocks[0], scope)
    except (TwillError, ZeroDivisionError, TypeError, ValueError, IndexError, KeyError):
        return scope.seen, False
    return scope.seen, True


def _score(seen: _Seen, done: bool) -> Score:
    """Larger is better. An execution that goes wrong counts as far as it came, with a deduction."""
    loops = sum(min(count, ENOUGH) - max(0, count - MANY) for count in seen.trips.values())
    return (
        len(seen.written) if done else -1,
        len(seen.reached),
        -seen.twice,
        seen.elements,
        seen.different,
        loops,
    )
