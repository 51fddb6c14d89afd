"""Sub-tiles: parts of a loop that do the same work on different data.

Takes a `Problem`; gives its isomorphic parts, found by colour refinement of the dependence graph. Schedules
in which they are the same but for a shift in time are few and good: they alternate at every unit, and at what
no rule of a schedule counts, such as a slot that results are stored from. Looking for one of those decides
one sub-tile instead of k. It finds and proves nothing: what has no such schedule may have another.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from twill.engine.connected import components
from twill.ir.problem import Edge, Operation, Problem, Time, Value
from twill.ir.schedule import Solution
from twill.modulo.simplest import Link

Family = tuple[tuple[int, ...], ...]
"""Isomorphic parts: operation i of every part does the same."""


def families(problem: Problem) -> tuple[Family, ...]:
    """Families of two parts or more, connected once the operations that no other resembles (shared loads,
    say) are left out."""
    colour = _colours(problem)
    count = Counter(colour)
    common = {i for i, mine in enumerate(colour) if count[mine] > 1}
    ends = [(problem.index(edge.src), problem.index(edge.dst)) for edge in problem.edges]
    connected = components(sorted(common), ((a, b) for a, b in ends if a in common and b in common))
    alike: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for part in sorted(sorted(part) for part in connected):
        ops = tuple(sorted(part, key=lambda i: (colour[i], i)))
        alike[tuple(colour[i] for i in ops)].append(ops)
    return tuple(tuple(parts) for parts in alike.values() if len(parts) > 1)


def chained(problem: Problem) -> tuple[Family, ...]:
    """Families of parts that pass accumulators on, each to the next one and the last one to the first of the
    next iteration: the loop is the same when part i + 1 takes the place of part i. Loads are left out: memory
    may let those of some parts run ahead."""
    inner, place = _computing(problem), {op.id: i for i, op in enumerate(problem.operations)}
    colour = _colours(replace(inner, edges=tuple(replace(edge, distance=0) for edge in inner.edges)))
    count = Counter(colour)
    ends = [(inner.index(edge.src), inner.index(edge.dst)) for edge in inner.edges]
    common = [i for i, mine in enumerate(colour) if count[mine] > 1]
    within = [(a, b) for a, b in ends if colour[a] != colour[b] and count[colour[a]] > 1 < count[colour[b]]]
    parts = sorted(tuple(sorted(part, key=lambda i: (colour[i], i))) for part in components(common, within))
    if len(parts) < 2 or len({tuple(colour[i] for i in part) for part in parts}) > 1:
        return ()
    own = [place[op.id] for op in inner.operations]
    return (tuple(tuple(own[i] for i in part) for part in parts),) if _rotates(inner, parts) else ()


def _computing(problem: Problem) -> Problem:
    """The problem without its loads, and without the accumulators, which stay where they are."""
    kept = {op.id for op in problem.operations if not op.variable}
    values = (value for value in problem.values if value.src in kept and not value.resident)
    return replace(
        problem,
        operations=tuple(op for op in problem.operations if op.id in kept),
        edges=tuple(edge for edge in problem.edges if {edge.src, edge.dst} <= kept),
        values=tuple(
            replace(value, uses=tuple(use for use in value.uses if use.op in kept)) for value in values
        ),
    )


def _rotates(problem: Problem, parts: Sequence[Sequence[int]]) -> bool:
    """Whether edges are the same when each part takes the place of the one before it, and the first one, an
    iteration on, that of the last; edges of what belongs to no part do not count."""
    place = {op: (k, i) for k, part in enumerate(parts) for i, op in enumerate(part)}
    found, turned = Counter[object](), Counter[object]()
    for edge in problem.edges:
        (a, i), (b, j) = (place.get(problem.index(op), (-1, 0)) for op in (edge.src, edge.dst))
        if min(a, b) >= 0:
            last, rest = len(parts) - 1, (i, j, edge.delay, edge.cross_delay, edge.blocking)
            found[a, b, edge.distance, rest] += 1
            further = edge.distance + (b == last) - (a == last)
            turned[(a + 1) % len(parts), (b + 1) % len(parts), further, rest] += 1
    return found == turned


def shifts(family: Family, interval: Time) -> list[Time]:
    """How much later each part's operations start than those of the first: evenly spread over the
    interval."""
    return [k * interval // len(family) for k in range(len(family))]


def spread(known: Sequence[Family], interval: Time) -> list[Link]:
    """What makes every part of a family the first one, some time later."""
    found: list[Link] = []
    for family in known:
        for part, shift in zip(family[1:], shifts(family, interval)[1:], strict=True):
            for op, first in zip(part, family[0], strict=True):
                found += [(first, op, shift), (op, first, -shift)]
    return found


def evenly_spread(solution: Solution, known: Sequence[Family]) -> bool:
    """Whether the parts of every family start as much later as `shifts` says."""
    links = spread(known, solution.interval)
    return all(solution.start[op] - solution.start[first] >= shift for first, op, shift in links)


def mirrors(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Permutations of the operations, each exchanging two sub-tiles, that leave the problem as it is (not
    only their colours)."""
    known = families(problem)
    pairs = combinations(range(max((len(family) for family in known), default=0)), 2)
    images = [_exchanged(problem, known, a, b) for a, b in pairs]
    return tuple(image for image in images if _facts(problem, image) == _facts(problem, range(len(image))))


def _exchanged(problem: Problem, known: tuple[Family, ...], a: int, b: int) -> tuple[int, ...]:
    """Sub-tiles a and b of every family that has them are exchanged."""
    image = dict(enumerate(range(len(problem.operations))))
    for family in known:
        if b < len(family):
            for one, other in zip(family[a], family[b], strict=True):
                image[one], image[other] = other, one
    return tuple(image.values())


def _facts(problem: Problem, image: Sequence[int]) -> Counter[object]:
    """All that rules speak of, each operation named by its image."""
    name = {op.id: to for op, to in zip(problem.operations, image, strict=True)}
    facts: list[object] = [(name[op.id], _work(problem, op)) for op in problem.operations]
    facts += [(name[edge.src], name[edge.dst], *_link(edge)) for edge in problem.edges]
    for value in problem.values:
        uses = sorted((name[use.op], use.distance, use.hold) for use in value.uses)
        facts.append((name[value.src], _size(value), tuple(uses)))
    facts += [("together", frozenset(name[op] for op in ops)) for ops in problem.together]
    facts += [("apart", frozenset((name[a], name[b]))) for a, b in problem.apart]
    return Counter(facts)


def _colours(problem: Problem) -> list[int]:
    """Colours of the operations: equal only for those that no walk along edges and values distinguishes."""
    links: list[list[tuple[str, int]]] = [[] for _ in problem.operations]
    for edge in problem.edges:
        _join(links, problem, edge.src, edge.dst, _link(edge))
    for value in problem.values:
        for use in value.uses:
            _join(links, problem, value.src, use.op, (_size(value), use.distance, use.hold))
    colour = _ranks([repr(_work(problem, op)) for op in problem.operations])
    while True:
        finer = _ranks(
            [
                repr((mine, sorted((kind, colour[i]) for kind, i in links[op])))
                for op, mine in enumerate(colour)
            ]
        )
        if len(set(finer)) == len(set(colour)):
            return finer
        colour = finer


def _work(problem: Problem, op: Operation) -> tuple[object, ...]:
    return (
        op.name,
        op.reservations,
        op.latency,
        op.issue,
        op.warps,
        op.variable,
        op.streaming,
        op.divisible,
        dict(problem.starts).get(op.id),
    )


def _link(edge: Edge) -> tuple[object, ...]:
    return edge.delay, edge.distance, edge.cross_delay, edge.blocking


def _size(value: Value) -> tuple[object, ...]:
    return value.registers, value.shared, value.tensor, value.staging, value.resident, value.slots


def _join(links: list[list[tuple[str, int]]], problem: Problem, src: str, dst: str, kind: object) -> None:
    a, b = problem.index(src), problem.index(dst)
    links[a].append((f"to {kind}", b))
    links[b].append((f"from {kind}", a))


def _ranks(keys: Sequence[str]) -> list[int]:
    rank = {key: i for i, key in enumerate(sorted(set(keys)))}
    return [rank[key] for key in keys]
