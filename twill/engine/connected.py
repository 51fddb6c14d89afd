"""Connected components of an undirected graph, without the import of a graph library."""

from collections.abc import Hashable, Iterable
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
