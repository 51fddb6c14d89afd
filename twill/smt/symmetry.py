"""Sub-tiles: parts of a loop that do the same work on different data.

Takes a `Problem`; gives its isomorphic parts, found by colour refinement of the dependence graph. Schedules in which they are the same but
for a shift in time are few and good: they take turns at every unit. Looking for one of those decides one sub-tile instead of k. It finds
and proves nothing: what has no such schedule may have another.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import networkx as nx

from twill.ir.problem import Problem, Time

Family = tuple[tuple[int, ...], ...]
"""Isomorphic parts: operation i of every part does the same."""


def families(problem: Problem) -> tuple[Family, ...]:
    """Families of two parts or more, connected once the operations that no other resembles (shared loads, say) are left out."""
    colour = _colours(problem)
    count = Counter(colour)
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(i for i, mine in enumerate(colour) if count[mine] > 1)
    ends = [(problem.index(edge.src), problem.index(edge.dst)) for edge in problem.edges]
    graph.add_edges_from((a, b) for a, b in ends if a in graph and b in graph)
    alike: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for part in sorted(sorted(part) for part in nx.connected_components(graph)):
        ops = tuple(sorted(part, key=lambda i: (colour[i], i)))
        alike[tuple(colour[i] for i in ops)].append(ops)
    return tuple(tuple(parts) for parts in alike.values() if len(parts) > 1)


def shifts(family: Family, interval: Time) -> list[Time]:
    """How much later each part's operations start than those of the first: evenly spread over the interval."""
    return [k * interval // len(family) for k in range(len(family))]


def _colours(problem: Problem) -> list[int]:
    """Colours of the operations: equal only for those that no walk along edges and values tells apart."""
    links: list[list[tuple[str, int]]] = [[] for _ in problem.operations]
    for edge in problem.edges:
        _join(links, problem, edge.src, edge.dst, (edge.delay, edge.distance, edge.cross_delay, edge.blocking))
    for value in problem.values:
        size = (value.registers, value.shared, value.tensor, value.staging, value.resident, value.slots)
        for use in value.uses:
            _join(links, problem, value.src, use.op, (size, use.distance, use.hold))
    pins = dict(problem.starts)
    work = [(o.name, o.reservations, o.latency, o.issue, o.warps, o.variable, o.streaming, pins.get(o.id)) for o in problem.operations]
    colour = _ranks([repr(one) for one in work])
    while True:
        finer = _ranks([repr((mine, sorted((kind, colour[i]) for kind, i in links[op]))) for op, mine in enumerate(colour)])
        if len(set(finer)) == len(set(colour)):
            return finer
        colour = finer


def _join(links: list[list[tuple[str, int]]], problem: Problem, src: str, dst: str, kind: object) -> None:
    a, b = problem.index(src), problem.index(dst)
    links[a].append((f"to {kind}", b))
    links[b].append((f"from {kind}", a))


def _ranks(keys: Sequence[str]) -> list[int]:
    rank = {key: i for i, key in enumerate(sorted(set(keys)))}
    return [rank[key] for key in keys]
