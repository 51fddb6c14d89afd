# pyright: basic
"""Loops of which operations are tied: partitions that keep these together, and searches that end with their
first answers."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.samples import attention
from twill.engine.partitions import LARGE, Labels, kept_together, partitions
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Value
from twill.ir.schedule import Solution
from twill.ir.search import Options, Use
from twill.modulo.start import start
from twill.smt import search as module
from twill.smt.search import search

QUICKLY = Options(time_limit=10, jobs=1)


def chains(count: int, length: int) -> Problem:
    """Chains of tile operations, whose last ones are tied: code behind the loop reads them."""
    names = [[f"c{chain}.{i}" for i in range(length)] for chain in range(count)]
    edges = [Edge(a, b, 20, cross_delay=40) for one in names for a, b in pairwise(one)]
    ops = (
        Operation(name, name[-1], (Reservation("alu", 10),), latency=20, issue=10, warps=4)
        for one in names
        for name in one
    )
    values = (Value(op, op, registers=8, staging=1024) for one in names for op in one[:-1])
    limits = Limits(groups=4, warps=16, shared=1 << 17)
    units = (Unit("alu"),)
    last = tuple(one[-1] for one in names)
    return Problem("chains", "", units, tuple(ops), tuple(edges), tuple(values), limits, together=(last,))


def keeps(problem: Problem, labels: Labels) -> bool:
    return all(len({labels[problem.index(op)] for op in same}) == 1 for same in problem.together)


def test_what_is_tied_is_apart_from_the_pieces_that_are_left() -> None:
    problem = chains(2, 3)
    assert (0, 0, 1, 0, 0, 1) not in partitions(problem)
    found = kept_together(problem)
    assert all(keeps(problem, labels) for labels in found)
    assert (1, 1, 0, 2, 2, 0) in found, "each chain"
    assert (1, 1, 0, 1, 1, 0) in found, "all chains"


def test_without_ties_there_are_no_more_partitions() -> None:
    assert kept_together(replace(chains(2, 3), together=())) == ()


def test_natural_partitions_of_a_large_loop_keep_what_is_tied_together() -> None:
    problem = chains(2, LARGE)
    assert all(keeps(problem, labels) for labels in partitions(problem))


def test_a_brief_search_ends_with_its_first_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, told = attention().problem, list[str]()
    began = start(problem)
    monkeypatch.setattr(module, "early", lambda setting, evidence: evidence)
    monkeypatch.setattr(module, "decide", lambda race: pytest.fail("an interval is decided"))
    found = search(problem, QUICKLY, lambda event: told.append(event.what), began, use=Use(brief=True))
    assert found.status == "unknown"
    assert found.proved == began.low
    assert not found.reasons, "nothing is explained"


def test_a_large_loop_that_lacks_registers_is_not_made_simpler(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = chains(2, LARGE // 2 + 1)
    made = _one_after_the_other(problem)
    monkeypatch.setattr(module, "Polish", lambda setting, best: pytest.fail("it is made simpler"))
    monkeypatch.setattr(module, "_decided", lambda setting, evidence: evidence)
    for use in (Use(fits=lambda found: False), Use(brief=True)):
        found = search(problem, QUICKLY, lambda event: None, made=made, use=use)
        assert found.solution == made


def _one_after_the_other(problem: Problem) -> Solution:
    """All in one group, without overlap."""
    starts = tuple(20 * i for i in range(len(problem.operations)))
    return Solution(20 * len(starts), starts, (1,) * len(starts))
