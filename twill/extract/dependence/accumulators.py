"""Accumulators in registers: which operations update one tile in place.

Takes a `Body` and its folding; gives chains of operations that share their registers, such as rescale -> MMA
-> next iteration's rescale. An MMA writes its accumulator over the one it was given (wgmma has one operand
for both); an elementwise operation on the way round can. Guarantees: no operation is in two chains, and no
reader of a value comes after its update.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.extract.dependence.body import Body, Origin
from twill.extract.dependence.fold import Folding
from twill.ir.loop import Op, Tensor, Value
from twill.ops.table import row


@dataclass(frozen=True, slots=True)
class Link:
    """`dst` updates in place what `src` wrote `distance` iterations ago."""

    src: Op
    dst: Op
    distance: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Operations that update one tile in place, the first of an iteration first. `carried`: round the loop,
    once per iteration."""

    ops: tuple[Op, ...]
    links: tuple[Link, ...]
    carried: bool


def chains(body: Body, folding: Folding) -> tuple[Chain, ...]:
    """The chains of a body, each through at least one MMA."""
    found: list[Chain] = []
    taken, dead = set[int](), set[int]()
    readers = _readers(body, folding)
    for op in body.ops:
        if not _is_mma(op) or op.index in taken:
            continue
        chain = _circuit(body, folding, op, dead) or _line(body, folding, op)
        if chain and not taken & {o.index for o in chain.ops} and _readers_come_first(body, readers, chain):
            found.append(chain)
            taken |= {o.index for o in chain.ops}
    return tuple(found)


def _is_mma(op: Op) -> bool:
    """An MMA with its accumulator in registers."""
    return row(op).access == "mma" and isinstance(op.operands[2].type, Tensor)


def _given(body: Body, folding: Folding, op: Op) -> Iterator[Origin]:
    """The results that `op` may write over: an MMA its accumulator, an elementwise operation an operand like
    its result."""
    if _is_mma(op):
        fresh = any(body.always_false(v) for v in body.flags(op)[:1])
        candidates: tuple[Value, ...] = () if fresh else (op.operands[2],)
    else:
        candidates = (
            tuple(v for v in op.operands if v.type == op.results[0].type)
            if folding.kinds[op.index] == "elementwise"
            else ()
        )
    for value in candidates:
        yield from body.origins(value, folding.moves_nothing)


def _circuit(body: Body, folding: Folding, start: Op, dead: set[int]) -> Chain | None:
    """The shortest way from `start` back to itself in one iteration. Operations in `dead` are on no circuit;
    `start` joins them where no way leads back to it."""
    waiting, into = deque([start]), dict[int, Link]()
    while waiting:
        op = waiting.popleft()
        for origin in _given(body, folding, op):
            link = Link(origin.op, op, origin.distance)
            if origin.op is start:
                path = _path(link, into)
                return _carried(path) if sum(step.distance for step in path) == 1 else None
            if origin.op.index not in into and origin.op.index not in dead:
                into[origin.op.index] = link
                waiting.append(origin.op)
    dead.add(start.index)
    return None


def _path(last: Link, into: Mapping[int, Link]) -> tuple[Link, ...]:
    """The links that led to `last`, in the order in which they were followed; `into` has the link to each
    operation."""
    path = [last]
    while path[-1].dst.index in into:
        path.append(into[path[-1].dst.index])
    return tuple(reversed(path))


def _carried(path: tuple[Link, ...]) -> Chain:
    """The circuit, from the operation that takes the value over from the iteration before."""
    links = tuple(reversed(path))
    first = next(i for i, link in enumerate(links) if link.distance)
    links = (*links[first:], *links[:first])
    return Chain(tuple(link.dst for link in links), links, carried=True)


def _line(body: Body, folding: Folding, op: Op) -> Chain | None:
    """An MMA that starts from a tile made in the same iteration."""
    origin = next(_given(body, folding, op), None)
    if origin is None or origin.distance or folding.kinds[origin.op.index] not in ("elementwise", "mma"):
        return None
    return Chain((origin.op, op), (Link(origin.op, op, 0),), carried=False)


Readers = Mapping[int, Sequence[tuple[Op, int]]]
"""By the index of an operation: who reads its results, and how many iterations later."""


def _readers(body: Body, folding: Folding) -> Readers:
    found: defaultdict[int, list[tuple[Op, int]]] = defaultdict(list)
    for reader in body.ops:
        if folding.moves_nothing(reader):
            continue
        for value in body.reads(reader):
            for origin in body.origins(value, folding.moves_nothing):
                found[origin.op.index].append((reader, origin.distance))
    return found


def _readers_come_first(body: Body, readers: Readers, chain: Chain) -> bool:
    """No value of the chain is needed once it is overwritten, as it would be by a reader that waits for the
    update itself."""
    position = {op.index: at for at, op in enumerate(chain.ops)}
    asked: list[tuple[Op, int]] = []
    for link in chain.links:
        for reader, distance in readers.get(link.src.index, ()):
            if reader is link.dst or distance < link.distance:
                continue
            if distance > link.distance:
                return False
            asked.append((reader, position[link.dst.index]))
    latest = _latest(body, position, [reader for reader, _ in asked])
    return all(latest.get(reader.index, -1) < update for reader, update in asked)


def _latest(body: Body, position: Mapping[int, int], readers: Sequence[Op]) -> Mapping[int, int]:
    """The last member of a chain that each operation depends on within one iteration, by its position in the
    chain; none where it is not named. Who depends on a member depends on those before it."""
    found: dict[int, int] = {}
    if not readers:
        return found
    first, last = min(position), max(reader.index for reader in readers)
    for op in (op for op in body.ops if first <= op.index <= last):
        traced = (body.trace(value) for value in body.reads(op))
        makers = [maker for value, distance in traced if not distance and (maker := body.owner(value))]
        members = ((position.get(one.index, -1), found.get(one.index, -1)) for one in makers)
        at = max((max(pair) for pair in members), default=-1)
        if at >= 0:
            found[op.index] = at
    return found
