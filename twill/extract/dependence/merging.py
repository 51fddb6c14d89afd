"""Nodes of a dependence graph that become one.

Takes a graph, nodes and the one in their place; gives the graph with that. Guarantees that merging closes no
circuit that was not there: a path that leaves the merged nodes and comes back, in this or a later iteration,
must leave behind the place where it comes back.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from twill.ir.graph import Edge, Graph, Node, Use, Value


def members(*nodes: Node) -> tuple[int, ...]:
    """The operations of nodes that become one, in the order of the text."""
    return tuple(sorted(index for node in nodes for index in node.ops))


def merge(graph: Graph, cluster: tuple[str, ...], node: Node) -> Graph:
    """Replace the nodes of `cluster`, the last of them; unchanged if that would close a false circuit."""
    if not convex(graph, cluster):
        return graph
    new = dict.fromkeys(cluster, node.id)
    nodes = tuple(node if n.id == cluster[-1] else n for n in graph.nodes if n.id not in cluster[:-1])
    edges = {
        (e.src, e.dst, e.kind, e.distance): e
        for e in (_redrawn(e, new) for e in graph.edges)
        if e is not None
    }
    values = tuple(_moved(v, new, node) for v in graph.values if not _passes_inside(v, cluster))
    invariants = (
        replace(i, users=tuple(dict.fromkeys(new.get(u, u) for u in i.users))) for i in graph.invariants
    )
    return replace(
        graph, nodes=nodes, edges=tuple(edges.values()), values=values, invariants=tuple(invariants)
    )


def _redrawn(edge: Edge, new: Mapping[str, str]) -> Edge | None:
    """The edge with its ends renamed; None for one inside the cluster and one iteration."""
    if edge.src in new and edge.dst in new and edge.distance == 0:
        return None
    if edge.src not in new and edge.dst not in new and edge.value not in new:
        return edge
    return replace(
        edge,
        src=new.get(edge.src, edge.src),
        dst=new.get(edge.dst, edge.dst),
        value=new.get(edge.value or "", edge.value),
    )


def _passes_inside(value: Value, cluster: tuple[str, ...]) -> bool:
    """Made by one node of the cluster and read by later ones only."""
    return (
        value.node in cluster[:-1]
        and not value.resident
        and all(u.node in cluster and u.distance == 0 for u in value.uses)
    )


def _moved(value: Value, new: Mapping[str, str], node: Node) -> Value:
    """The value with its ends renamed, uses that fall together merged; only an elementwise node takes over
    its operand's location."""
    if not (value.node in new or any(use.node in new for use in value.uses)):
        return value
    uses: dict[tuple[str, int], Use] = {}
    for use in value.uses:
        name = new.get(use.node, use.node)
        seen = uses.get((name, use.distance))
        keeps = use.keeps or bool(seen and seen.keeps) or (name == node.id and node.kind != "elementwise")
        uses[name, use.distance] = Use(name, use.distance, use.updates or bool(seen and seen.updates), keeps)
    writers = tuple(dict.fromkeys(new.get(w, w) for w in value.writers))
    return replace(
        value,
        id=new.get(value.id, value.id),
        node=new.get(value.node, value.node),
        uses=tuple(uses.values()),
        writers=writers,
    )


def convex(graph: Graph, cluster: tuple[str, ...]) -> bool:
    """No path over other nodes leads from one node of the cluster back to one that does not come before
    it."""
    inside = frozenset(cluster)
    successors: defaultdict[str, set[str]] = defaultdict(set)
    for edge in graph.edges:
        successors[edge.src].add(edge.dst)
    before = {a: {b for b in cluster if b == a or _reaches(graph, inside, a, b)} for a in cluster}
    return all(
        back in before and leave in before[back]
        for leave in cluster
        for back in _returns(successors, inside, leave)
    )


def _returns(successors: Mapping[str, set[str]], inside: frozenset[str], leave: str) -> set[str]:
    """The nodes of the cluster where paths that leave it at `leave` come back."""
    waiting, seen, back = [n for n in successors[leave] if n not in inside], set[str](), set[str]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        back |= successors[node] & inside
        waiting.extend(successors[node] - inside)
    return back


def _reaches(graph: Graph, inside: frozenset[str], src: str, dst: str) -> bool:
    """A path inside the cluster and one iteration leads from `src` to `dst`."""
    return src == dst or dst in graph.following(src, inside)
