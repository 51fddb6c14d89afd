"""Packed numbers that a loop loads as words, unpacked by one node.

Takes a dependence graph; gives one in which the elementwise operations that read the same loaded integers are
one node with the operation that their results meet in, so that a thread reads the words once, and computes
what these operations have in common once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from twill.extract.dependence.merging import members, merge
from twill.ir.graph import Graph, Node, Tile, Value, Work

_WORDS = ("i8", "i16", "i32", "i64")


def unpack(graph: Graph) -> Graph:
    """Merge the operations that read the same loaded integers with the first one that all their results end
    in, and with what lies between, unless that waits for more than loads, or only compares them. (On an H200,
    lmdeploy's product of 4 bits reads a word of weights for five operations: 0.87 of Triton's speed, 0.96
    merged.)"""
    if not any(_words(value) for value in graph.values):
        return graph
    for meeting in graph.nodes:
        alone = _ending_in(graph, meeting)
        words = [value for value in graph.values if _read_apart(value, alone)]
        compared = any(value.tile.dtype == "i1" for value in graph.made(meeting.id))
        if words and not compared and _of_loads(graph, meeting):
            cluster = tuple(one for one in alone if any(_follows(graph, value, one) for value in words))
            work = tuple(_alternating(graph, cluster, _read_once(graph, cluster, words)))
            merged = replace(meeting, work=work, ops=members(*map(graph.node, cluster)))
            graph = merge(graph, cluster, merged)
    return graph


def _ending_in(graph: Graph, node: Node) -> tuple[str, ...]:
    """The elementwise operations whose results end in `node` alone, in order, and it at last."""
    if node.kind != "elementwise":
        return ()
    order = [one.id for one in graph.nodes]
    found, before = [node.id], order[: order.index(node.id)]
    for one in reversed(before):
        made = graph.made(one)
        uses = [use for value in made for use in value.uses]
        inside = all(use.node in found and not use.distance for use in uses)
        resident = any(value.resident for value in made)
        if graph.node(one).kind == "elementwise" and uses and inside and not resident:
            found.insert(0, one)
    return tuple(found)


def _read_apart(value: Value, nodes: tuple[str, ...]) -> bool:
    """Words that several of these operations, and nothing else, read."""
    return _words(value) and all(use.node in nodes and not use.distance for use in value.uses)


def _words(value: Value) -> bool:
    """Integers in shared memory that several operations read."""
    words = value.tile.place == "shared" and value.tile.dtype in _WORDS
    return words and len({(use.node, use.distance) for use in value.uses}) > 1


def _of_loads(graph: Graph, node: Node) -> bool:
    """It waits for nothing in its iteration but loads and elementwise operations on what they load."""
    waiting, seen = [node.id], set[str]()
    while waiting:
        before = {edge.src for edge in graph.into(waiting.pop()) if not edge.distance} - seen
        seen |= before
        waiting += [one for one in before if graph.node(one).kind != "load"]
    return all(graph.node(one).kind in ("load", "elementwise") for one in seen)


def _follows(graph: Graph, value: Value, node: str) -> bool:
    """It reads the value, or follows from what does."""
    readers = {use.node for use in value.uses}
    return node in readers or any(node in graph.following(reader) for reader in readers)


def _read_once(
    graph: Graph, cluster: Sequence[str], words: Iterable[Value]
) -> Mapping[str, tuple[Work, ...]]:
    """The work of these nodes, in which later readers of words find them in registers."""
    work = {one: graph.node(one).work for one in cluster}
    for value in words:
        readers = {use.node for use in value.uses}
        for later in [one for one in cluster if one in readers][1:]:
            work[later] = tuple(_from_registers(one, value.tile) for one in work[later])
    return work


def _from_registers(work: Work, words: Tile) -> Work:
    """The work on a tile that it finds in registers, not in shared memory."""

    def found(tile: Tile) -> Tile:
        same = (tile.place, tile.dtype, tile.elements) == (words.place, words.dtype, words.elements)
        return replace(tile, place="registers") if same else tile

    return replace(work, inputs=tuple(map(found, work.inputs)))


def _alternating(
    graph: Graph, cluster: Sequence[str], work: Mapping[str, tuple[Work, ...]]
) -> Iterator[Work]:
    """All of it: what needs nothing of the others, then what needs that alone, and so on."""
    depths = dict[str, int]()
    for node in cluster:
        before = [edge.src for edge in graph.into(node) if edge.src in depths and not edge.distance]
        depths[node] = max((depths[one] + 1 for one in before), default=0)
    for depth in range(max(depths.values()) + 1):
        level = [work[node] for node in cluster if depths[node] == depth]
        for number, (first, *rest) in enumerate(level):
            yield from (replace(first, beside=number > 0), *rest)
