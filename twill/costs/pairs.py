"""The graph of a loop whose MMAs are those of pairs of thread blocks: each block loads and keeps half of B.

An SM multiplies its own rows by all of B, so that the work of its tensor core stays; it reads only its
half of B from its own shared memory (PTX ISA, tcgen05.mma with .cta_group::2).
"""

from collections.abc import Collection
from dataclasses import replace

from twill.ir.graph import Graph, Node, Tile, Value, Work


def of_pairs(graph: Graph, halved: Collection[int]) -> Graph:
    """With half of the tiles that the operations `halved` (`Op.index`) load, and half of B of every MMA that
    lies in shared memory."""
    loads = {node.id for node in graph.nodes if node.kind == "load" and not {*node.ops}.isdisjoint(halved)}
    return replace(
        graph,
        nodes=tuple(_node(node, loaded=node.id in loads) for node in graph.nodes),
        values=tuple(_value(value) if value.node in loads else value for value in graph.values),
    )


def _node(node: Node, *, loaded: bool) -> Node:
    if loaded:
        work = tuple(replace(one, outputs=tuple(map(_half, one.outputs))) for one in node.work)
    elif node.kind == "mma":
        work = tuple(map(_with_half_of_b, node.work))
    else:
        return node
    return replace(node, work=work)


def _with_half_of_b(work: Work) -> Work:
    a, b, *others = work.inputs
    return replace(work, inputs=(a, _half(b), *others)) if b.place == "shared" else work


def _value(value: Value) -> Value:
    return replace(value, tile=_half(value.tile))


def _half(tile: Tile) -> Tile:
    """Which axis is halved makes no difference to its bytes."""
    first, *others = tile.shape
    return replace(tile, shape=(first // 2, *others), held=tile.held // 2, registers=tile.registers // 2)
