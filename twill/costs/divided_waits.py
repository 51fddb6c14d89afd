"""Waits for accumulators inside of exponentials, as FlashAttention-3's kernel has them.

A warpgroup that rescales an accumulator waits for the MMA that made it. Behind the first slice of a long
elementwise operation that wait costs nothing, and rescaling, sums and rounding go between the other slices,
which take another unit. `with_divided_waits` states the problem in which groups do so: docs/formulation.md,
"Divisible occupation".
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from twill.ir.graph import Graph, Work
from twill.ir.problem import Edge, Operation, Problem, Reservation, Time, Unit
from twill.ir.statements import SLICES
from twill.ops.table import role_of


def with_divided_waits(problem: Problem, graph: Graph) -> Problem | None:
    """The problem in which every operation that rescales an accumulator waits for it inside of the longest
    elementwise operation on the way to the same MMA, and what reads the latter goes behind it slice by slice;
    None where there is no such operation."""
    slices = {node.id for node in graph.nodes if node.work and all(map(_in_slices, node.work))}
    operations = tuple(replace(op, divisible=op.id in slices) for op in problem.operations)
    flagged = replace(problem, operations=operations)
    found = tuple(_streams(flagged)) if not problem.implementations else ()
    return _streamed(flagged, found) if found else None


def _in_slices(work: Work) -> bool:
    """Elementwise on a tile in registers, of which each thread holds whole words of every slice."""
    tile = work.tile
    columns = tile.shape[1] if tile is not None and len(tile.shape) == 2 and tile.registers else 0
    return work.kind == "elementwise" and columns > 0 and columns % (8 * SLICES) == 0


@dataclass(frozen=True, slots=True)
class _Stream:
    """Operations of which a thread executes the slices between each other's."""

    leader: str
    """The operation that the wait divides."""
    rescaled: str
    """What waits, behind the leader's first slice."""
    followers: tuple[str, ...]
    """What reads the leader alone, slice by slice."""
    first: tuple[str, ...]
    """The MMAs that the leader depends on: the next iteration of its group begins with them."""


def _streamed(problem: Problem, found: Sequence[_Stream]) -> Problem:
    followers = dict.fromkeys(chain.from_iterable(stream.followers for stream in found))
    ops = [problem.operation(name) for name in followers]
    cut = {op.id: op.issue - _slice(op.issue) for op in ops}
    units = tuple(dict.fromkeys(unit for op in ops for unit in _exclusive(problem, op)))
    return replace(
        problem,
        units=(*problem.units, *(Unit(_in_all(unit), aggregate=True) for unit in units)),
        operations=tuple(_counted(_last(problem, op, cut), op, units) for op in problem.operations),
        edges=(*(_later(edge, cut) for edge in problem.edges), *_order(problem, found)),
    )


# --- which operations -------------------------------------------------------------------------------------


def _streams(problem: Problem) -> Iterator[_Stream]:
    """One for each operation on a tile that waits for an MMA of the iteration before it."""
    for edge in problem.edges:
        if not (edge.blocking and edge.distance and problem.operation(edge.dst).divisible):
            continue
        before = _reached(problem, edge.src, back=True)
        beside = before - _reached(problem, edge.dst, back=True) - _reached(problem, edge.dst, back=False)
        leader = _longest(problem, beside - {edge.dst})
        if leader is None or edge.dst not in before:
            continue
        followers = tuple(_followers(problem, leader))
        mmas = [name for name in _reached(problem, leader, back=True) if _asynchronous(problem, name)]
        if followers and mmas:
            yield _Stream(leader, edge.dst, followers, tuple(sorted(mmas)))


def _reached(problem: Problem, name: str, *, back: bool) -> set[str]:
    """What an operation depends on within an iteration; or what depends on it."""
    next_to = dict[str, list[str]]()
    for edge in problem.edges:
        if not edge.distance:
            near, far = (edge.dst, edge.src) if back else (edge.src, edge.dst)
            next_to.setdefault(near, []).append(far)
    found, todo = set[str](), [name]
    while todo:
        more = [one for one in next_to.get(todo.pop(), ()) if one not in found]
        found |= set(more)
        todo += more
    return found


def _longest(problem: Problem, names: Collection[str]) -> str | None:
    free = [op for op in problem.operations if op.id in names and op.divisible]
    return max(free, key=lambda op: op.issue).id if free else None


def _followers(problem: Problem, leader: str) -> Iterator[str]:
    """What reads the leader and nothing else of the loop, on a tile."""
    for op in problem.operations:
        read = {edge.src for edge in problem.edges if edge.dst == op.id}
        if read == {leader} and (op.divisible or role_of(op.name) == "reduce"):
            yield op.id


def _asynchronous(problem: Problem, name: str) -> bool:
    return any(edge.blocking for edge in problem.edges if edge.src == name)


# --- what they take ---------------------------------------------------------------------------------------


def _slice(time: Time) -> Time:
    return -(-time // SLICES)


def _exclusive(problem: Problem, op: Operation) -> list[str]:
    shared = {unit.name for unit in problem.units if unit.aggregate}
    return [r.unit for r in op.reservations if r.unit not in shared]


def _in_all(unit: str) -> str:
    """The aggregate of a unit: what all operations take of it, also between the slices of others."""
    return f"{unit}.all"


def _last(problem: Problem, op: Operation, cut: Mapping[str, Time]) -> Operation:
    """A follower as its last slice: the others go between those of its leader."""
    if op.id not in cut:
        return op
    exclusive = _exclusive(problem, op)
    own = tuple(replace(r, cycles=_slice(r.cycles)) if r.unit in exclusive else r for r in op.reservations)
    return replace(op, reservations=own, issue=_slice(op.issue), latency=max(0, op.latency - cut[op.id]))


def _counted(op: Operation, whole: Operation, units: Collection[str]) -> Operation:
    """With all that it takes of these units."""
    taken = (Reservation(_in_all(r.unit), r.cycles) for r in whole.reservations if r.unit in units)
    return replace(op, reservations=(*op.reservations, *taken))


def _later(edge: Edge, cut: Mapping[str, Time]) -> Edge:
    """A follower starts with its last slice: so much later, and so much sooner before its readers."""
    by = cut.get(edge.dst, 0) - cut.get(edge.src, 0)
    cross = None if edge.cross_delay is None else max(0, edge.cross_delay + by)
    return replace(edge, delay=max(0, edge.delay + by), cross_delay=cross) if by else edge


def _order(problem: Problem, found: Sequence[_Stream]) -> Iterator[Edge]:
    """The leader's first slice, what waits, the leader's other slices, those of the followers, and the MMAs
    of the next iteration."""
    for stream in found:
        leader = problem.operation(stream.leader)
        yield Edge(leader.id, stream.rescaled, _slice(leader.issue), kind="order")
        for follower in stream.followers:
            yield Edge(stream.rescaled, follower, leader.issue - _slice(leader.issue), kind="order")
            last = _slice(problem.operation(follower).issue)
            yield from (Edge(follower, mma, last, 1, kind="order") for mma in stream.first)
