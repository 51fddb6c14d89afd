"""Connected components of graphs, without the import of a graph library."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def components(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> list[set[Node]]:
    """The components, in the order of their first node; every end of an edge is a node."""
    component = {node: {node} for node in nodes}
    for a, b in edges:
        small, large = sorted((component[a], component[b]), key=len)
        if small is not large:
            large |= small
            component.update(dict.fromkeys(small, large))
    return list({id(part): part for part in component.values()}.values())


def strong(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> Mapping[Node, int]:
    """The strongly connected component of each node of a directed graph, by number (Kosaraju, Sharir): two
    nodes have the same number where each can be reached from the other."""
    after, before = defaultdict[Node, list[Node]](list), defaultdict[Node, list[Node]](list)
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    found: dict[Node, int] = {}
    for root in reversed(_finished(nodes, after)):
        if root in found:
            continue
        number, waiting = len(found), [root]
        while waiting:
            node = waiting.pop()
            if node not in found:
                found[node] = number
                waiting += before.get(node, ())
    return found


def _finished(nodes: Iterable[Node], after: Mapping[Node, list[Node]]) -> list[Node]:
    """The nodes in the order in which a depth-first search leaves them."""
    left, seen = list[Node](), set[Node]()
    for root in nodes:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(after.get(root, ())))]
        while path:
            _, rest = path[-1]
            other = next((other for other in rest if other not in seen), None)
            if other is None:
                left.append(path.pop()[0])
            else:
                seen.add(other)
                path.append((other, iter(after.get(other, ()))))
    return left
