"""Lower bounds of large loops: components, circuits, and what a budget of work leaves."""

from dataclasses import replace
from random import Random

import networkx as nx
import pytest

from twill.engine.connected import strong
from twill.ir.problem import Edge, Operation, Problem, Reservation, Unit
from twill.ir.schedule import RecurrenceBound, Result
from twill.modulo import bounds as module
from twill.modulo.bounds import bounds, recurrence_bound, shortest_iteration, swept
from twill.verify import check_result, evidence


def chained(random: Random, count: int, back: int) -> Problem:
    """A chain with `back` edges into earlier operations, one to three iterations on."""
    ops = [Operation(f"o{i}", "x", (Reservation("ALU", 1),), latency=1) for i in range(count)]
    edges = [Edge(f"o{i}", f"o{i + 1}", random.randint(1, 9)) for i in range(count - 1)]
    for _ in range(back):
        a, b = sorted(random.sample(range(count), 2))
        edges.append(Edge(f"o{b}", f"o{a}", random.randint(1, 9), random.randint(1, 3)))
    return Problem("chained", "toy", (Unit("ALU"),), tuple(ops), tuple(edges))


@pytest.mark.parametrize("seed", range(30))
def test_strong_components_are_networkx_s(seed: int) -> None:
    random = Random(seed)
    nodes = list(range(random.randint(1, 20)))
    edges = [(random.choice(nodes), random.choice(nodes)) for _ in range(random.randint(0, 30))]
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(nodes)
    found = strong(nodes, edges)
    theirs = {frozenset(part) for part in nx.strongly_connected_components(graph)}
    assert {frozenset(n for n in nodes if found[n] == k) for k in found.values()} == theirs


@pytest.mark.parametrize("seed", range(20))
def test_every_edge_is_swept_once(seed: int) -> None:
    problem = chained(Random(seed), 12, 8)
    assert sorted(map(repr, swept(problem))) == sorted(map(repr, problem.edges))


def test_one_sweep_settles_a_circuit_of_back_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation feeds the one before it an iteration later: two sweeps find the circuit."""
    count = 200
    ops = tuple(Operation(f"o{i}", "x", latency=1) for i in range(count))
    edges = (
        *(Edge(f"o{i}", f"o{i - 1}", 3, 1) for i in range(1, count)),
        Edge("o0", f"o{count - 1}", 3),
    )
    monkeypatch.setattr(module, "EXACT", 0)
    monkeypatch.setattr(module, "RELAXATIONS", 4 * len(edges))
    assert recurrence_bound(Problem("back", "toy", (), ops, edges)).value == -(-3 * count // (count - 1))


@pytest.mark.parametrize("seed", range(10))
def test_a_budget_leaves_a_smaller_bound_that_is_true(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = chained(Random(seed), 60, 40)
    exact = bounds(problem)
    length = shortest_iteration(problem, exact.value)
    monkeypatch.setattr(module, "EXACT", 10)
    monkeypatch.setattr(evidence, "EXACT", 10)
    for most in (1, 200, 1000):
        monkeypatch.setattr(module, "RELAXATIONS", most)
        found = bounds(problem)
        assert found.recurrence.value <= exact.recurrence.value
        assert check_result(Result(problem, "unknown", found, 1)) == ()
        assert shortest_iteration(problem, exact.value) <= length


def test_a_bound_that_a_circuit_does_not_force_is_found_in_large_loops_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = chained(Random(1), 60, 40)
    monkeypatch.setattr(evidence, "EXACT", 10)
    found = bounds(problem).recurrence
    wrong = Result(problem, "unknown", bounds(problem), 1)
    assert check_result(wrong) == ()
    claimed = replace(wrong.bounds, recurrence=replace(found, value=found.value + 1))
    assert [v.rule for v in check_result(replace(wrong, bounds=claimed))] == ["BOUNDS"]


def test_the_middle_of_a_long_circuit_is_left_out() -> None:
    assert RecurrenceBound(3, ("a", "b")).circuit == "a -> b -> a"
    long = RecurrenceBound(3, tuple(f"o{i}" for i in range(100))).circuit
    assert long.startswith("o0 -> o1 -> ")
    assert long.endswith("o99 -> o0")
    assert "(77 more)" in long
    assert RecurrenceBound(0).circuit == ""
