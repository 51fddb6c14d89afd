"""Simplifications of a dependence graph, each a named rule that can be switched off.

Takes a graph and the names of the rules allowed; gives a graph with fewer nodes or finer edges. Merging nodes
closes no circuit that was not there (`merging`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from twill.extract.dependence.fold import FOLDS
from twill.extract.dependence.merging import members, merge
from twill.extract.dependence.unpacking import unpack
from twill.ir.graph import Edge, Graph, Node, Work
from twill.ops.table import named

REWRITES: Mapping[str, str] = {
    "ffma": (
        "a multiply by a loop invariant, or of a large tile, followed by one add or subtract is one fused"
        " multiply-add"
    ),
    "compared": (
        "a comparison with a computed tile is one node with the selection that alone reads it: truth values"
        " stay in predicates, of which a thread has too few for a tile"
    ),
    "stream_rmw": (
        "an accumulator in tensor memory is loaded, scaled and stored back in chunks, never whole in"
        " registers"
    ),
    "stream_store": (
        "a conversion read only by a store into shared or tensor memory goes there in chunks, never whole in"
        " registers"
    ),
    "partial": (
        "a row sum that is only scaled and added to a carried value stays in each thread; lanes are reduced"
        " after the loop"
    ),
    "unpack": (
        "elementwise operations that read the same loaded integers (packed numbers, unpacked by several) are"
        " one node with the operation that their results meet in: the words are read once"
    ),
    "chain": (
        "elementwise tile operations of one group run a chunk behind each other, not after the whole tile"
    ),
    "fused": (
        "an elementwise operation on a large tile is one node with the one, or the store, that alone reads"
        " its result, where the tiles in between would need more registers than a group has"
    ),
}
"""The graph rules by name, and what each says."""

RULES: Mapping[str, str] = {**FOLDS, **REWRITES}
"""All rules by name, with the reason for each."""

ALL_RULES: tuple[str, ...] = tuple(RULES)

LARGE_TILE = 32
"""Registers per thread from which `fused` merges the operations around a tile, and `ffma` a product of two
computed tiles with its sum: apart, something else may be written between them (the release of a slot ends a
basic block), where no compiler contracts them."""

STREAMED_FROM = frozenset({"elementwise", "tensor_load", "shared_load"})
STREAMED_INTO = frozenset({"elementwise", "reduce", "tensor_store", "shared_store", "store"})


def simplify(graph: Graph, rules: tuple[str, ...]) -> Graph:
    """Apply the graph rules among `rules`."""
    rewrites = {
        "ffma": contract,
        "compared": select_at_once,
        "stream_rmw": stream_updates,
        "stream_store": stream_stores,
        "partial": spread_sums,
        "unpack": unpack,
        "chain": chain,
    }
    for name, rewrite in rewrites.items():
        if name in rules:
            graph = rewrite(graph)
    return graph


def fused(graph: Graph, *, stores: bool = False) -> Graph:
    """Merge each elementwise operation with a large tile into the elementwise operation of as many elements
    that alone reads it, so that the tile is computed element by element and never whole; with `stores` into
    the store into shared memory too. Taken where no schedule has the registers otherwise: merged operations
    no longer overlap each other."""
    kinds = ("elementwise", "shared_store") if stores else ("elementwise",)
    for node in graph.nodes:
        first = graph.node(node.id)
        user = _only_user(graph, first)
        if user is not None and user.kind in kinds and _in_between(graph, first, user):
            merged = replace(user, work=(*first.work, *user.work), ops=members(first, user))
            graph = merge(graph, (first.id, user.id), merged)
    return graph


def _in_between(graph: Graph, first: Node, user: Node) -> bool:
    (tile,) = (value.tile for value in graph.made(first.id) if not value.resident)
    results = (value.tile for value in graph.made(user.id))
    return (
        first.kind == "elementwise"
        and tile.registers >= LARGE_TILE
        and any(result.elements == tile.elements for result in results)
    )


# --- the rules --------------------------------------------------------------------------------------------


def contract(graph: Graph) -> Graph:
    """Merge each multiply by an invariant or of a large tile into the add or subtract that alone reads it."""
    for multiply in graph.nodes:
        user = _only_user(graph, multiply)
        if user is None or multiply.op != "arith.mulf" or user.op not in ("arith.addf", "arith.subf"):
            continue
        (first,), (second,) = multiply.work, user.work
        if _contracted(first) and first.tile == second.tile and second.fixed == 0:
            work = replace(second, op="ffma", inputs=(*first.inputs, *second.inputs))
            fused = replace(user, id=_renamed(user.id, "ffma"), work=(work,), ops=members(multiply, user))
            graph = merge(graph, (multiply.id, user.id), fused)
    return graph


def _contracted(product: Work) -> bool:
    """Halves are multiplied two at a time by instructions that nothing contracts."""
    tile = product.tile
    large = tile is not None and tile.dtype == "f32" and tile.registers >= LARGE_TILE
    return product.fixed > 0 or large


def select_at_once(graph: Graph) -> Graph:
    """Merge each comparison of a tile that the loop computes into the selection that alone reads it. (One of
    indices alone may be made again wherever it is read.)"""
    for comparison in graph.nodes:
        user = _only_user(graph, comparison)
        if user is None or comparison.kind != "elementwise" or user.op != named("select"):
            continue
        (truth,) = graph.made(comparison.id)
        read = (value.tile for value in graph.values for use in value.uses if use.node == comparison.id)
        computed = any(tile.dtype != "i1" for tile in read)
        if truth.tile.dtype == "i1" and len(truth.tile.shape) > 1 and computed:
            merged = replace(user, work=(*comparison.work, *user.work), ops=members(comparison, user))
            graph = merge(graph, (comparison.id, user.id), merged)
    return graph


def stream_updates(graph: Graph) -> Graph:
    """Merge load, elementwise operations and store of one tensor memory tile into one node."""
    for load in graph.nodes:
        path = list(_update_path(graph, load)) if load.kind == "tensor_load" else []
        if (
            len(path) >= 3
            and path[-1].kind == "tensor_store"
            and _place(graph, load) == _place(graph, path[-1])
        ):
            work = tuple(w for node in path for w in node.work)
            node = replace(
                path[-1],
                id=_renamed(path[-1].id, "update"),
                kind="tensor_update",
                work=work,
                ops=members(*path),
            )
            graph = merge(graph, tuple(n.id for n in path), node)
    return graph


def stream_stores(graph: Graph) -> Graph:
    """Merge an elementwise operation into the store that alone reads its result."""
    for maker in graph.nodes:
        store = _only_user(graph, maker) if maker.kind == "elementwise" else None
        if store is not None and store.kind in ("tensor_store", "shared_store"):
            node = replace(store, work=(*maker.work, *store.work), ops=members(maker, store))
            graph = merge(graph, (maker.id, store.id), node)
    return graph


def spread_sums(graph: Graph) -> Graph:
    """Take the exchange between the lanes of a warp out of sums that go into a carried one: total = total *
    factor + sum.

    Everything but the factor is then a sum of what the threads of a row have, and so is the total in the end.
    """
    for node in graph.nodes:
        if _accumulated(graph, node):
            (work,) = node.work
            assert work.exchange is not None
            spread = replace(
                node, work=(replace(work, exchange=replace(work.exchange, lanes=0)),), partial=True
            )
            graph = replace(graph, nodes=tuple(spread if other is node else other for other in graph.nodes))
    return graph


def _accumulated(graph: Graph, node: Node) -> bool:
    if node.kind != "reduce" or len(node.work) != 1 or node.work[0].combine != ("arith.addf",):
        return False
    spread, total = node.work[0].exchange, _only_user(graph, node)
    if (
        spread is None
        or not spread.lanes
        or spread.warps
        or total is None
        or total.op != "arith.addf"
        or len(total.work) != 1
    ):
        return False
    back = [(use.node, use.distance) for value in graph.made(total.id) for use in value.uses]
    if back == [(total.id, 1)]:
        return True
    scale = next((other for other in graph.nodes if (other.id, 1) in back and len(back) == 1), None)
    if (
        scale is None
        or scale.op != "arith.mulf"
        or len(scale.work) != 1
        or _only_user(graph, scale) is not total
    ):
        return False
    return scale.work[0].fixed == 1 or any(edge.src != total.id for edge in graph.into(scale.id))


def chain(graph: Graph) -> Graph:
    """Mark the edges along which a tile flows in registers from one elementwise operation into the next."""
    values = {value.id: value for value in graph.values}

    def streams(edge: Edge) -> bool:
        value = values.get(edge.value or "")
        src, dst = graph.node(edge.src), graph.node(edge.dst)
        if (
            value is None
            or edge.kind not in ("data", "carried")
            or src.kind not in STREAMED_FROM
            or dst.kind not in STREAMED_INTO
        ):
            return False
        tile = max((t for w in dst.work for t in w.inputs), key=lambda t: t.elements, default=None)
        return value.tile.place == "registers" and tile is not None and tile.elements == value.tile.elements

    return replace(graph, edges=tuple(replace(edge, streams=streams(edge)) for edge in graph.edges))


def _only_user(graph: Graph, node: Node) -> Node | None:
    """The node that alone reads the one result of `node`, in the same iteration."""
    results = [value for value in graph.made(node.id) if not value.resident]
    if len(results) != 1 or len(results[0].uses) != 1 or results[0].uses[0].distance:
        return None
    return graph.node(results[0].uses[0].node)


def _update_path(graph: Graph, load: Node) -> Iterator[Node]:
    """From a load along only readers, through elementwise operations, to what they end in."""
    node: Node | None = load
    while node is not None:
        yield node
        node = _only_user(graph, node) if node.kind in ("tensor_load", "elementwise") else None


def _place(graph: Graph, node: Node) -> str | None:
    """The resident tensor memory value that a node reads or updates."""
    return next(
        (
            v.id
            for v in graph.values
            if v.resident and v.tile.place == "tensor" and node.id in {u.node for u in v.uses}
        ),
        None,
    )


def _renamed(id: str, word: str) -> str:
    return f"{word}.{id.partition('.')[2]}"
