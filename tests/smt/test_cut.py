"""The order of the program, cut into groups that can issue what they have."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from twill.engine.clusters import clusters
from twill.engine.partitions import cut, cut_if_needed, partitions
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.ir.search import Options
from twill.modulo.constructive import rising
from twill.modulo.start import start
from twill.smt import search
from twill.smt.lowest import lowest, lowest_of_large
from twill.smt.setting import Evidence, Setting
from twill.verify import check

ISSUE = 10


def chain(count: int, small: int) -> Problem:
    """Operations one behind the other on units of their own, each of which hands a tile on, `small` a row."""
    names = [f"o{i}" for i in range(count)]
    ops = tuple(
        Operation(name, "op", (Reservation(f"U{i}", ISSUE),), ISSUE, ISSUE, warps=4)
        for i, name in enumerate(names)
    )
    edges = tuple(Edge(a, b, ISSUE, cross_delay=2 * ISSUE) for a, b in pairwise(names))
    values = tuple(
        Value(edge.src, edge.src, (Use(edge.dst),), registers=8, staging=4 if i == small else 64)
        for i, edge in enumerate(edges)
    )
    units = tuple(Unit(f"U{i}") for i in range(count))
    return Problem("chain", "toy", units, ops, edges, values, Limits(shared=1024))


def test_a_chain_is_cut_where_least_is_handed_over() -> None:
    problem = chain(6, small=3)
    assert cut(problem, 4 * ISSUE)[0] == (0, 0, 0, 0, 1, 1)
    assert cut(problem, 3 * ISSUE)[0] == (0, 0, 0, 1, 1, 1)
    assert cut(problem, 6 * ISSUE) == ()


def test_a_schedule_of_what_is_cut_is_constructed_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large loop."""
    monkeypatch.setattr("twill.engine.partitions.LARGE", 4)
    problem = chain(6, small=3)
    assert cut_if_needed(problem, 3 * ISSUE)
    found = next(one for one in rising(problem, 3 * ISSUE, 3 * ISSUE, 4) if not check(problem, one))
    assert found.interval == 3 * ISSUE


@pytest.mark.parametrize(("most", "step"), [(48, lowest), (4, lowest_of_large)])
def test_a_solver_looks_for_a_schedule_of_what_is_cut(
    most: int, step: Callable[[Setting, Evidence], Evidence], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of small loops, and of those that are too large for the complete model."""
    monkeypatch.setattr("twill.smt.setting.LARGE", most)
    problem = chain(6, small=3)
    begin = start(problem)
    setting = search._setting(problem, Options(), lambda _: None, begin, 4, None)
    found = step(setting, Evidence(3 * ISSUE, begin.top)).best
    assert found is not None
    assert found.interval == 3 * ISSUE


@pytest.mark.parametrize("seed", range(80))
def test_what_is_cut_keeps_the_rules_of_partitions(seed: int) -> None:
    problem = tiny_problem(Random(seed))
    for interval in range(1, 8):
        for labels in cut(problem, interval):
            assert len(set(labels)) <= problem.limits.groups
            assert all(len({labels[i] for i in members}) == 1 for members in clusters(problem).members)
            assert all(labels[problem.index(a)] != labels[problem.index(b)] for a, b in problem.apart)
            kinds = {(label, op.variable) for label, op in zip(labels, problem.operations, strict=True)}
            assert len(kinds) == len(set(labels))


def test_what_is_apart_grows_into_a_partition() -> None:
    """No natural partition keeps two ends of a chain apart whose middle is in one piece: each takes what it
    shares most bytes with."""
    problem = chain(6, small=3)
    tied = replace(problem, together=(("o0", "o1"), ("o4", "o5")), apart=(("o0", "o5"),))
    assert (1, 1, 1, 1, 2, 2) not in partitions(problem)
    assert (1, 1, 1, 1, 2, 2) in partitions(tied)


@pytest.mark.parametrize("seed", range(200))
def test_what_grows_keeps_the_rules_of_partitions(seed: int) -> None:
    """Where any partition does, one that is tried does."""
    problem = tiny_problem(Random(seed))
    tied = clusters(problem)
    for labels in partitions(problem)[-2:] if problem.apart and tied.contradiction is None else ():
        kinds = {(label, op.variable) for label, op in zip(labels, problem.operations, strict=True)}
        assert len(kinds) == len(set(labels))
