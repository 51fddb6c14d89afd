"""The operation at residue 0: the longest reservation, and of several that in the circuit with the least
slack."""

from dataclasses import replace
from random import Random

import pytest

from twill.engine.anchor import anchor, fastened
from twill.engine.probe import Budget
from twill.inputs import Inputs, cases
from twill.ir.problem import Edge, Operation, Problem, Reservation, Unit
from twill.modulo.bounds import recurrence_bound
from twill.smt import parts
from twill.smt.relax import NEVER, longest_paths


def random_loop(random: Random) -> Problem:
    """Operations of three lengths, with edges to later ones and back."""
    count = random.randint(3, 9)
    ops = [Operation(f"o{i}", "x", (Reservation("u", random.choice((3, 5, 5))),)) for i in range(count)]
    edges = [
        Edge(f"o{a}", f"o{b}", random.randint(0, 9), int(a >= b) * random.randint(1, 2))
        for a, b in ((random.randrange(count), random.randrange(count)) for _ in range(2 * count))
    ]
    return Problem("random", "toy", (Unit("u", 9),), tuple(ops), tuple(edges))


@pytest.mark.parametrize("seed", range(60))
def test_the_circuit_has_the_least_slack_of_all_paths(seed: int) -> None:
    """As all pairs' longest paths say."""
    problem = random_loop(Random(seed))
    interval = max(1, recurrence_bound(problem).value)
    weight = longest_paths(problem, interval)
    longest = max(op.duration for op in problem.operations)
    tied = [i for i, op in enumerate(problem.operations) if op.duration == longest]
    slack = [weight[i][i] if weight[i][i] > NEVER // 2 else NEVER for i in tied]
    assert anchor(problem, interval) == tied[slack.index(max(slack))]


@pytest.mark.parametrize("seed", range(60))
def test_circuits_bound_the_starts_of_most_operations(seed: int) -> None:
    """By paths there and back, as all pairs' longest paths say."""
    problem = random_loop(Random(seed))
    weight = longest_paths(problem, 100)
    found, count = fastened(problem), len(problem.operations)
    tied = [
        sum(min(weight[a][b], weight[b][a]) > NEVER // 2 for b in range(count) if b != a) + 1
        for a in range(count)
    ]
    assert (found is None) == (max(tied) < max(2, count / 2))
    assert found is None or tied[found] == max(tied)


def test_an_interval_that_a_circuit_refutes_has_an_anchor_too() -> None:
    ops = tuple(Operation(name, "x", (Reservation("u", 1),)) for name in "ab")
    problem = Problem("tight", "toy", (Unit("u"),), ops, (Edge("a", "b", 9), Edge("b", "a", 9, 1)))
    assert anchor(problem, 3) in (0, 1)


@pytest.mark.parametrize("stem", ["scores0", "scores1"])
def test_a_proof_does_not_depend_on_which_subtile_is_in_order(stem: str) -> None:
    """Two alike sub-tiles, one of them without overlap of iterations: the same work decides either."""
    (case,) = cases(Inputs("examples/ttgir/fa_fwd_subtiled.sm90.ttgir"))
    problem = in_order(case.problem, f"dot.{stem}")
    whole = parts.independent(problem)
    assert whole is not None
    assert parts.refute(whole, 2390, 4, Budget(600, 2.0)).refuted


def in_order(problem: Problem, stem: str) -> Problem:
    """The next iteration of a sub-tile begins when all operations of this one have begun."""
    first = next(op.id for op in problem.operations if op.id.startswith(stem))
    after, waiting = {first}, [first]
    while waiting:
        src = waiting.pop()
        readers = {edge.dst for edge in problem.edges if edge.src == src and not edge.distance} - after
        after |= readers
        waiting += sorted(readers)
    edges = (Edge(op, first, 0, 1, kind="order") for op in sorted(after - {first}))
    return replace(problem, edges=(*problem.edges, *edges))
