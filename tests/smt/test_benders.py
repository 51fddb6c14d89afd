"""Partition first, then times: the result is that of an exhaustive search, however coarse the master
problem."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.properties.oracle import TooLargeError, best
from tests.properties.tiny import tiny_problem
from tests.samples import figure1
from twill.engine.probe import Probe, Unknown, what
from twill.engine.probe import solution as found_by
from twill.ir.problem import Problem, Time
from twill.modulo.bounds import bounds
from twill.smt import benders, sat
from twill.verify.check import check


def _monotone(problem: Problem) -> Problem:
    operations = tuple(
        replace(op, reservations=tuple(replace(use, offset=0) for use in op.reservations))
        for op in problem.operations
    )
    return replace(problem, operations=operations, starts=())


def _finer(problem: Problem, random: Random, factor: int) -> Problem:
    """The problem in smaller units, with times that are no multiples of any step."""

    def time(units: Time) -> Time:
        return units * factor + random.randint(0, factor - 1) if units else 0

    operations = tuple(
        replace(
            op,
            latency=time(op.latency),
            issue=time(op.issue),
            reservations=tuple(replace(use, cycles=time(use.cycles)) for use in op.reservations),
        )
        for op in problem.operations
    )
    edges = tuple(
        replace(
            edge,
            delay=time(edge.delay),
            cross_delay=None if edge.cross_delay is None else time(edge.cross_delay),
        )
        for edge in problem.edges
    )
    values = tuple(
        replace(value, uses=tuple(replace(use, hold=time(use.hold)) for use in value.uses))
        for value in problem.values
    )
    return replace(problem, operations=operations, edges=edges, values=values)


def _loops(seeds: range) -> list[tuple[Random, Problem]]:
    pairs = ((random, _finer(tiny_problem(random, 5), random, 4)) for random in map(Random, seeds))
    return [(random, problem) for random, problem in pairs if problem.monotone]


@pytest.mark.parametrize("patience", [0, 1, benders.PATIENCE])
@pytest.mark.parametrize("block", range(6))
def test_agrees_with_the_exhaustive_search(block: int, patience: int) -> None:
    """Also where every partition that fails, or every but the first, is asked why."""
    statuses: set[tuple[str, bool]] = set()
    for seed in range(7000 + block * 40, 7040 + block * 40):
        random = Random(seed)
        problem = _monotone(tiny_problem(random, 4))
        interval, in_flight, step = random.randint(1, 8), random.randint(1, 3), random.randint(1, 4)
        try:
            answer = best(problem, interval, in_flight, left=[5000])
        except TooLargeError:
            continue
        decision = benders.probe(
            problem, interval, in_flight, joint=True, step=step, patience=patience
        ).outcome
        solution = found_by(decision)
        assert what(decision) == ("feasible" if answer else "infeasible"), f"seed {seed}, step {step}"
        statuses.add((what(decision), step > 1))
        if solution:
            assert check(problem, solution) == (), f"seed {seed}"
            assert solution.interval == interval
            assert solution.length(problem) <= in_flight * interval, f"seed {seed}"
    assert statuses == {(status, coarse) for status in ("feasible", "infeasible") for coarse in (False, True)}


def test_agrees_with_sat_where_times_are_no_multiples_of_the_step() -> None:
    statuses: set[str] = set()
    for random, problem in _loops(range(100)):
        step, in_flight = random.randint(2, 5), random.randint(1, 3)
        interval = bounds(problem).value + random.randint(0, 16)
        decision = benders.probe(problem, interval, in_flight, joint=True, step=step).outcome
        assert what(decision) == what(sat.probe(problem, interval, in_flight, joint=True).outcome)
        statuses.add(what(decision))
    assert statuses == {"feasible", "infeasible"}


def test_a_partition_that_fails_is_not_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master problem so coarse that it forgets nearly all delays: several partitions are tried, and the
    result is the same."""
    tried: list[benders.Labels] = []
    exclude = benders._Master.exclude  # pyright: ignore[reportPrivateUsage]

    def counted(master: benders._Master, labels: benders.Labels, ops: Sequence[int]) -> None:  # pyright: ignore[reportPrivateUsage]
        tried.append(labels)
        exclude(master, labels, ops)

    monkeypatch.setattr(benders._Master, "exclude", counted)  # pyright: ignore[reportPrivateUsage]
    for seed in range(7300, 7330):
        problem = _monotone(tiny_problem(Random(seed), 4))
        before = len(tried)
        benders.probe(problem, 6, 2, joint=True, step=6)
        assert len(set(tried[before:])) == len(tried) - before, f"seed {seed}"
    assert len(tried) > 20


def test_undecided_partitions_make_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = figure1().problem
    assert what(benders.probe(problem, 1, 2, joint=True, step=2).outcome) == "infeasible"

    def give_up(*given: object, **how: object) -> Probe:
        return Probe(Unknown(), "cpsat")

    monkeypatch.setattr(benders.cpsat, "attempt", give_up)
    assert what(benders.probe(problem, 1, 2, joint=True, step=2).outcome) == "timeout"


def test_an_attempt_carries_the_decision_over() -> None:
    problem = figure1().problem
    assert benders.attempt(problem, 1, 3).refuted
    attempt = benders.attempt(problem, 2, 3)
    assert (attempt.what, attempt.engine) == ("feasible", "benders")
    assert attempt.solution is not None
    assert check(problem, attempt.solution) == ()
