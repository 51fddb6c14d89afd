"""Accumulators in registers: which operations update one tile in place.

Takes a `Body` and its folding; gives chains of operations that share their registers, such as rescale -> MMA
-> next iteration's rescale. An MMA writes its accumulator over the one it was given (wgmma has one operand
for both); an elementwise operation on the way round can. Guarantees: no operation is in two chains, and no
reader of a value comes after its update.
"""

from collections.abc import Iterator
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
    taken: set[int] = set()
    for op in body.ops:
        if not _is_mma(op) or op.index in taken:
            continue
        chain = _circuit(body, folding, op) or _line(body, folding, op)
        if chain and not taken & {o.index for o in chain.ops} and _readers_come_first(body, folding, chain):
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


def _circuit(body: Body, folding: Folding, start: Op) -> Chain | None:
    """The shortest way from `start` back to itself in one iteration."""
    paths: list[tuple[Link, ...]] = [()]
    seen: set[int] = set()
    while paths:
        path = paths.pop(0)
        op = path[-1].src if path else start
        for origin in _given(body, folding, op):
            step = (*path, Link(origin.op, op, origin.distance))
            if origin.op is start:
                return _carried(step) if sum(link.distance for link in step) == 1 else None
            if origin.op.index not in seen:
                seen.add(origin.op.index)
                paths.append(step)
    return None


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


def _readers_come_first(body: Body, folding: Folding, chain: Chain) -> bool:
    """No value of the chain is needed once it is overwritten, as it would be by a reader that waits for the
    update itself."""
    return not any(
        origin.op is link.src
        and (distance > link.distance or (distance == link.distance and reads(body, reader, link.dst)))
        for link in chain.links
        for reader in body.ops
        if reader is not link.dst and not folding.moves_nothing(reader)
        for value in body.reads(reader)
        for origin in body.origins(value, folding.moves_nothing)
        for distance in (origin.distance,)
    )


def reads(body: Body, op: Op, source: Op) -> bool:
    """`op` depends on `source` within one iteration."""
    waiting, seen = [op], {op.index}
    while waiting:
        for value in body.reads(waiting.pop()):
            traced, distance = body.trace(value)
            maker = body.owner(traced)
            if maker is None or distance or maker.index in seen:
                continue
            if maker is source:
                return True
            seen.add(maker.index)
            waiting.append(maker)
    return False
