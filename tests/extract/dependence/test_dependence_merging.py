"""Merging nodes closes no circuit that was not there."""

from hypothesis import given
from hypothesis import strategies as st
from networkx import DiGraph, is_directed_acyclic_graph

from twill.extract.dependence.merging import convex, merge
from twill.inputs import Inputs, cases
from twill.ir.graph import Edge, Graph, Node, Tile, Use, Value

Link = tuple[int, int, int]
"""From, to, distance."""


def graph(count: int, links: set[Link]) -> Graph:
    nodes = tuple(Node(f"n{i}", "elementwise", "op", (), ops=(i,)) for i in range(count))
    return Graph("g", nodes, tuple(Edge(f"n{a}", f"n{b}", "data", d) for a, b, d in sorted(links)), ())


def acyclic(found: Graph, cluster: set[str]) -> bool:
    """No circuit, carried edges included, once the nodes of `cluster` are one; edges between them left
    out."""
    flow: DiGraph[str] = DiGraph()
    ends = (("m" if e.src in cluster else e.src, "m" if e.dst in cluster else e.dst) for e in found.edges)
    flow.add_edges_from((src, dst) for src, dst in ends if not src == dst == "m")
    return is_directed_acyclic_graph(flow)


FORWARD = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 1)).filter(
    lambda link: link[0] < link[1]
)


@given(st.sets(FORWARD, max_size=12), st.sets(st.integers(0, 5), min_size=2, max_size=3))
def test_a_cluster_is_convex_exactly_where_merging_it_closes_no_circuit(
    links: set[Link], members: set[int]
) -> None:
    """In graphs without circuits; inside the cluster there are edges of one iteration only."""
    found = graph(6, {(a, b, 0 if {a, b} <= members else d) for a, b, d in links})
    cluster = tuple(f"n{i}" for i in sorted(members))
    assert convex(found, cluster) == acyclic(found, set(cluster))


def merged(links: set[Link]) -> Graph:
    return merge(graph(3, links), ("n0", "n1"), Node("m", "elementwise", "op", ()))


def test_a_path_around_the_cluster_prevents_merging() -> None:
    around = {(0, 1, 0), (0, 2, 0), (2, 1, 0)}
    assert merged(around) == graph(3, around)


def test_a_path_around_it_through_the_next_iteration_prevents_merging() -> None:
    around = {(0, 1, 0), (0, 2, 0), (2, 1, 1)}
    assert merged(around) == graph(3, around)


def test_a_circuit_that_was_there_stays() -> None:
    found = merged({(0, 1, 0), (1, 2, 0), (2, 0, 1)})
    assert {(e.src, e.dst, e.distance) for e in found.edges} == {("m", "n2", 0), ("n2", "m", 1)}


def test_values_move_with_their_nodes() -> None:
    tile = Tile((64,), "f32", 32, "registers", 1, 64)
    inner = Value("n0", "n0", tile, (Use("n1"),), writers=("n0",))
    read = Value("n2", "n2", tile, (Use("n0", keeps=False), Use("n1")), writers=("n2",))
    links = {(2, 0, 0), (2, 1, 0), (0, 1, 0)}
    before = Graph("g", graph(3, links).nodes, graph(3, links).edges, (inner, read))
    after = merge(before, ("n0", "n1"), Node("m", "elementwise", "op", ()))
    assert [(v.id, v.uses) for v in after.values] == [("n2", (Use("m"),))], (
        "what passes inside is gone; a use that keeps wins"
    )


def test_truth_values_of_a_computed_tile_stay_in_predicates() -> None:
    """Otherwise each would be a register, or a byte in shared memory for another group. Comparisons of
    indices alone stay nodes of their own."""
    spec = "tests/kernels/ttgir/retained.sm100.ttgir"

    def found(spec: str, *rules: str) -> dict[str, list[str]]:
        made = cases(Inputs(spec, switched_off=("fused", *rules)))
        nodes = [node for case in made if case.graph for node in case.graph.nodes]
        return {node.id: [work.op for work in node.work] for node in nodes}

    one, apart = found(spec), found(spec, "compared")
    assert one["select.weights_24"] == ["arith.cmpi", "arith.select"]
    assert apart["cmp.weights"] == ["arith.cmpi"]
    assert apart["select.weights_24"] == ["arith.select"]
    assert apart.keys() - one.keys() == {"cmp.weights"}
    assert "cmp.scores0_56" in found("examples/ttgir/fa_fwd_causal.sm100.ttgir")
