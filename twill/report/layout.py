"""Layered drawing of a directed graph: where its boxes stand and how its edges run.

Takes boxes with sizes and edges between them; gives a rank (row) and a centre for every box and a way for
every edge. The method is Sugiyama's: ranks by longest path, then tightened; places in a row by median sweeps
with the fewest crossings kept; horizontal places by repeated projection onto the separation constraints.
`back` edges run upwards. Deterministic.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

Node: TypeAlias = "int | tuple[int, int]"
"""A box by its index, or a bend (edge, rank) of an edge that passes a row."""


LOOP = 56.0
"""Width of an edge from a box to itself, with its label."""


@dataclass(frozen=True, slots=True)
class Link:
    """An edge by the indices of its boxes; `back` asks for it to run against the others; `weight` for it to
    be short and straight."""

    src: int
    dst: int
    back: bool = False
    weight: int = 1


@dataclass(frozen=True, slots=True)
class DrawingLayout:
    width: float
    height: float
    centres: tuple[tuple[float, float], ...]
    """Of each box."""
    ways: tuple[tuple[tuple[float, float], ...], ...]
    """Of each edge, from the border of its source to the border of its target; empty for an edge from a box
    to itself."""


def arrange(
    sizes: Sequence[tuple[float, float]], links: Sequence[Link], gap: tuple[float, float] = (22.0, 46.0)
) -> DrawingLayout:
    """Lay boxes of `sizes` (width, height) out in rows, `gap` apart sideways and downwards."""
    downward = _downward(len(sizes), links)
    ranks = _ranks(len(sizes), downward)
    chains = [_chain(i, link, ranks) for i, link in enumerate(links)]
    steps = [(a, b, links[i].weight) for i, chain in enumerate(chains) for a, b in pairwise(chain)]
    rows = _order(_rows(ranks, chains), steps)
    looped = _looped(links)
    widths = {node: _room(node, sizes, looped) for row in rows for node in row}
    across = _across(rows, steps, widths, gap[0])
    tops, heights = _tops(rows, sizes, gap[1])
    return _finish(sizes, links, ranks, chains, across, tops, heights)


def _looped(links: Sequence[Link]) -> set[int]:
    return {link.src for link in links if link.src == link.dst}


def _room(node: Node, sizes: Sequence[tuple[float, float]], looped: set[int]) -> float:
    """What a box keeps clear to both sides, an edge to itself beside it; what a bend does."""
    return sizes[node][0] + (2 * LOOP if node in looped else 0.0) if isinstance(node, int) else 8.0


# --- ranks ------------------------------------------------------------------------------------------------


def _downward(count: int, links: Sequence[Link]) -> list[tuple[int, int, int]]:
    """The edges as pairs (upper, lower, weight) without a cycle: forward ones as they are, back ones upside
    down where that fits."""
    below = [set[int]() for _ in range(count)]
    result = list[tuple[int, int, int]]()
    for link in sorted(links, key=lambda link: link.back):
        upper, lower = (link.dst, link.src) if link.back else (link.src, link.dst)
        if upper == lower:
            continue
        if _reaches(below, lower, upper):
            upper, lower = lower, upper
        below[upper].add(lower)
        result.append((upper, lower, link.weight))
    return result


def _reaches(below: Sequence[set[int]], start: int, goal: int) -> bool:
    seen, stack = {start}, [start]
    while stack:
        fresh = below[stack.pop()] - seen
        seen |= fresh
        stack.extend(fresh)
    return goal in seen


def _ranks(count: int, edges: Sequence[tuple[int, int, int]]) -> list[int]:
    """Longest path from the top, then every box moved to where its edges are shortest, until nothing
    moves."""
    ranks = [0] * count
    for _ in range(count):
        for upper, lower, _weight in edges:
            ranks[lower] = max(ranks[lower], ranks[upper] + 1)
    for _ in range(count):
        before = list(ranks)
        for node in range(count):
            ranks[node] = _best_rank(node, ranks, edges)
        if ranks == before:
            break
    lowest = min(ranks, default=0)
    return [rank - lowest for rank in ranks]


def _best_rank(node: int, ranks: Sequence[int], edges: Sequence[tuple[int, int, int]]) -> int:
    above = [(ranks[u], w) for u, v, w in edges if v == node]
    below = [(ranks[v], w) for u, v, w in edges if u == node]
    pull = sum(w for _, w in below) - sum(w for _, w in above)
    if pull > 0:
        return min(rank for rank, _ in below) - 1
    return max(rank for rank, _ in above) + 1 if pull < 0 else ranks[node]


def _chain(index: int, link: Link, ranks: Sequence[int]) -> list[Node]:
    """The edge from its upper to its lower end, a bend in every row between; empty in one row."""
    upper, lower = sorted((link.src, link.dst), key=lambda node: ranks[node])
    if ranks[upper] == ranks[lower]:
        return []
    return [upper, *((index, rank) for rank in range(ranks[upper] + 1, ranks[lower])), lower]


def _rows(ranks: Sequence[int], chains: Sequence[Sequence[Node]]) -> list[list[Node]]:
    """Who stands in each row, in the order in which a walk along the edges meets them, so that neighbours
    start near."""
    rows: list[list[Node]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    neighbours: dict[Node, list[Node]] = {node: [] for node in range(len(ranks))}
    for chain in chains:
        for a, b in pairwise(chain):
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
    seen = set[Node]()
    for root in sorted(range(len(ranks)), key=lambda node: (ranks[node], node)):
        stack: list[Node] = [root]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            rows[ranks[node] if isinstance(node, int) else node[1]].append(node)
            stack.extend(reversed(neighbours[node]))
    return rows


# --- order in the rows ------------------------------------------------------------------------------------

Steps: TypeAlias = Sequence[tuple[Node, Node, int]]


def _order(rows: list[list[Node]], steps: Steps) -> list[list[Node]]:
    """Sweep medians down and up; keep the order with the fewest crossings."""
    up: dict[Node, list[Node]] = {node: [] for row in rows for node in row}
    down: dict[Node, list[Node]] = {node: [] for row in rows for node in row}
    for a, b, _weight in steps:
        down[a].append(b)
        up[b].append(a)
    best, fewest = [list(row) for row in rows], _crossings(rows, down)
    for sweep in range(24):
        towards, order = (up, range(1, len(rows))) if sweep % 2 == 0 else (down, range(len(rows) - 2, -1, -1))
        for r in order:
            fixed = {node: i for i, node in enumerate(rows[r - 1 if sweep % 2 == 0 else r + 1])}
            rows[r] = _by_median(rows[r], fixed, towards)
        _swap_neighbours(rows, up, down)
        crossings = _crossings(rows, down)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _by_median(row: list[Node], fixed: Mapping[Node, int], towards: Mapping[Node, list[Node]]) -> list[Node]:
    def median(i: int) -> float:
        places = sorted(fixed[other] for other in towards[row[i]])
        middle = len(places) // 2
        if not places:
            return i
        return places[middle] if len(places) % 2 else (places[middle - 1] + places[middle]) / 2

    return [row[i] for i in sorted(range(len(row)), key=median)]


def _swap_neighbours(
    rows: list[list[Node]], up: Mapping[Node, list[Node]], down: Mapping[Node, list[Node]]
) -> None:
    """Exchange two that stand side by side wherever that removes crossings."""
    for r, row in enumerate(rows):
        above = {node: i for i, node in enumerate(rows[r - 1])} if r else {}
        below = {node: i for i, node in enumerate(rows[r + 1])} if r + 1 < len(rows) else {}
        for i in range(len(row) - 1):
            a, b = row[i], row[i + 1]
            before = _pair(a, b, up, above) + _pair(a, b, down, below)
            if before > _pair(b, a, up, above) + _pair(b, a, down, below):
                row[i], row[i + 1] = b, a


def _pair(a: Node, b: Node, towards: Mapping[Node, list[Node]], places: Mapping[Node, int]) -> int:
    """Crossings between the edges of `a` and `b` when `a` stands left of `b`."""
    return sum(places[x] > places[y] for x in towards[a] for y in towards[b])


def _crossings(rows: Sequence[Sequence[Node]], down: Mapping[Node, list[Node]]) -> int:
    total = 0
    for row, below in pairwise(rows):
        places = {node: i for i, node in enumerate(below)}
        ends = [place for node in row for place in sorted(places[other] for other in down[node])]
        total += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1 :])
    return total


# --- places across ----------------------------------------------------------------------------------------


def _across(
    rows: Sequence[Sequence[Node]], steps: Steps, widths: Mapping[Node, float], gap: float
) -> dict[Node, float]:
    """Centres: row by row, each at the mean of its neighbours, as near as its order and its gaps allow."""
    near: dict[Node, list[tuple[Node, float]]] = {node: [] for row in rows for node in row}
    for a, b, weight in steps:
        stiffness = weight * (1 + 3 * (not isinstance(a, int)) + 3 * (not isinstance(b, int)))
        near[a].append((b, stiffness))
        near[b].append((a, stiffness))
    across = _packed(rows, widths, gap)
    for _ in range(40):
        for row in [*rows, *reversed(rows)]:
            wanted = [_mean(near[node], across, across[node]) for node in row]
            weights = [sum(w for _, w in near[node]) or 0.1 for node in row]
            across.update(
                zip(row, _separate(wanted, weights, [widths[node] for node in row], gap), strict=True)
            )
    left = min((across[node] - widths[node] / 2 for row in rows for node in row), default=0.0)
    return {node: x - left for node, x in across.items()}


def _packed(rows: Sequence[Sequence[Node]], widths: Mapping[Node, float], gap: float) -> dict[Node, float]:
    """Rows centred over one another, as tight as they go."""
    across = dict[Node, float]()
    for row in rows:
        x = -(sum(widths[node] for node in row) + gap * (len(row) - 1)) / 2
        for node in row:
            across[node] = x + widths[node] / 2
            x += widths[node] + gap
    return across


def _mean(near: Iterable[tuple[Node, float]], across: Mapping[Node, float], default: float) -> float:
    total = weight = 0.0
    for node, w in near:
        total += w * across[node]
        weight += w
    return total / weight if weight else default


def _separate(
    wanted: Sequence[float], weights: Sequence[float], widths: Sequence[float], gap: float
) -> list[float]:
    """The places nearest to `wanted` (weighted squares) that keep the order and the gaps: pool adjacent
    violators."""
    offsets = [0.0]
    for a, b in pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + gap)
    pools = list[tuple[float, float, int]]()
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        value, count = want - offset, 1
        while pools and pools[-1][0] > value:
            other, other_weight, other_count = pools.pop()
            value = (value * weight + other * other_weight) / (weight + other_weight)
            weight, count = weight + other_weight, count + other_count
        pools.append((value, weight, count))
    levels = [value for value, _, count in pools for _ in range(count)]
    return [level + offset for level, offset in zip(levels, offsets, strict=True)]


# --- the result -------------------------------------------------------------------------------------------


def _tops(
    rows: Sequence[Sequence[Node]], sizes: Sequence[tuple[float, float]], gap: float
) -> tuple[list[float], list[float]]:
    heights = [max((sizes[node][1] for node in row if isinstance(node, int)), default=0.0) for row in rows]
    tops, y = list[float](), 0.0
    for height in heights:
        tops.append(y)
        y += height + gap
    return tops, heights


def _finish(
    sizes: Sequence[tuple[float, float]],
    links: Sequence[Link],
    ranks: Sequence[int],
    chains: Sequence[Sequence[Node]],
    across: Mapping[Node, float],
    tops: Sequence[float],
    heights: Sequence[float],
) -> DrawingLayout:
    centres = [(across[node], tops[ranks[node]] + heights[ranks[node]] / 2) for node in range(len(sizes))]
    ports = _ports(chains, across, sizes)

    def way(index: int, link: Link, chain: Sequence[Node]) -> tuple[tuple[float, float], ...]:
        if not chain:
            return _sideways(link, centres, sizes)
        points = list[tuple[float, float]]()
        for node in chain:
            if isinstance(node, int):
                x, y = centres[node]
                side = 1 if node == chain[0] else -1
                points.append((x + ports[index, side], y + side * sizes[node][1] / 2))
            else:
                points += [(across[node], tops[node[1]]), (across[node], tops[node[1]] + heights[node[1]])]
        return tuple(points if chain[0] == link.src else reversed(points))

    ways = tuple(way(i, link, chain) for i, (link, chain) in enumerate(zip(links, chains, strict=True)))
    looped = _looped(links)
    ends = [x + _room(i, sizes, looped) / 2 for i, (x, _) in enumerate(centres)]
    width = max([*ends, *(x for points in ways for x, _ in points)], default=0.0)
    return DrawingLayout(width, tops[-1] + heights[-1] if tops else 0.0, tuple(centres), ways)


def _ports(
    chains: Sequence[Sequence[Node]], across: Mapping[Node, float], sizes: Sequence[tuple[float, float]]
) -> dict[tuple[int, int], float]:
    """How far from the middle of its box each edge is attached: below its upper end (side 1), above its lower
    end (side -1)."""
    ends: dict[tuple[Node, int], list[tuple[float, int]]] = {}
    for index, chain in enumerate(chains):
        if chain:
            ends.setdefault((chain[0], 1), []).append((across[chain[1]], index))
            ends.setdefault((chain[-1], -1), []).append((across[chain[-2]], index))
    ports = dict[tuple[int, int], float]()
    for (node, side), edges in ends.items():
        width = sizes[node][0] if isinstance(node, int) else 0.0
        pitch = min(22.0, 0.7 * width / len(edges))
        for i, (_, index) in enumerate(sorted(edges)):
            ports[index, side] = (i - (len(edges) - 1) / 2) * pitch
    return ports


def _sideways(
    link: Link, centres: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]]
) -> tuple[tuple[float, float], ...]:
    """Within a row: from the near side of one box to the near side of the other."""
    if link.src == link.dst:
        return ()
    (x, y), (z, w) = centres[link.src], centres[link.dst]
    side = 1 if x < z else -1
    return ((x + side * sizes[link.src][0] / 2, y), (z - side * sizes[link.dst][0] / 2, w))
