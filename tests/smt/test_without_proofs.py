"""Searches that end with an answer, and leave the proof."""

from dataclasses import replace
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from twill.inputs import Inputs, cases
from twill.ir.problem import Problem
from twill.ir.search import Options, Progress
from twill.modulo.bounds import bounds
from twill.pipeline import begun, solve
from twill.smt import search
from twill.smt.projecting import Raised
from twill.smt.relax import Projection
from twill.smt.setting import Evidence, Setting
from twill.verify import check_result
from twill.whatif import limited

PROVEN = Options(explain=False)
FOUND = replace(PROVEN, proofs=False)


@pytest.fixture(scope="module")
def attention() -> Problem:
    """In registers for two groups, which keep it above its lower bound."""
    (case,) = cases(Inputs("examples/ttgir/fa_fwd.sm90.ttgir", arch="sm90", subtile=1))
    problem = replace(case.problem, implementations=())
    return replace(problem, limits=replace(problem.limits, groups=2))


def test_the_answer_is_the_same_and_its_status_is_honest(attention: Problem) -> None:
    events, all_events = list[Progress](), list[Progress]()
    found, proven = solve(attention, FOUND, events.append), solve(attention, PROVEN, all_events.append)
    assert found.solution
    assert proven.solution
    assert proven.status == "optimal"
    assert found.status == "feasible"
    assert found.solution.interval == proven.solution.interval
    assert found.proved < found.solution.interval
    assert not check_result(found, in_flight=found.max_in_flight)
    assert len(events) < len(all_events)


def test_more_iterations_in_flight_are_looked_for() -> None:
    """With as many as are considered at first the interval is 383."""
    (case,) = cases(Inputs("tests/kernels/ttgir/straight.sm90.ttgir", arch="sm90", subtile=1))
    found = solve(replace(case.problem, implementations=()), FOUND)
    assert found.solution
    assert found.solution.interval == 336


def test_the_lower_end_is_not_raised_below_an_answer_that_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """A projection that refutes what is left below it is a proof."""
    gaps, raised = list[tuple[int, int]](), search.raise_by

    def raise_by(setting: Setting, evidence: Evidence, projection: Projection) -> Raised:
        gaps.append((evidence.high - evidence.low, evidence.high))
        return raised(setting, evidence, projection)

    monkeypatch.setattr(search, "raise_by", raise_by)
    (case,) = cases(Inputs("tests/kernels/ttgir/masked.sm90.ttgir", arch="sm90", subtile=1))
    problem = replace(case.problem, implementations=())
    problem = replace(problem, limits=replace(problem.limits, groups=2))
    found = solve(problem, FOUND)
    assert found.solution
    assert found.solution.interval <= 720
    assert all(search.FAR * gap >= high for gap, high in gaps)


@pytest.mark.parametrize(("registers", "found"), [(144, False), (160, True)])
def test_a_loop_without_schedules_is_given_up_soon(attention: Problem, registers: int, found: bool) -> None:
    """One group computes, and has too few registers: no interval but the largest is decided."""
    together = tuple(op.id for op in attention.operations if op.warps > 1)
    limits = replace(attention.limits, registers_per_thread=registers)
    problem, events = (
        replace(attention, together=(*attention.together, together), limits=limits),
        list[Progress](),
    )
    result = solve(problem, FOUND, events.append)
    assert (result.solution is not None) == found
    tried = {one.interval for one in events if one.engine == "search" and one.what == "trying"}
    assert found or len(tried) == 1


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_schedules_and_claim_what_is_proven(seed: int) -> None:
    problem = tiny_problem(Random(seed))
    found, proven = solve(problem, FOUND), solve(problem, PROVEN)
    assert not check_result(found, in_flight=found.max_in_flight)
    assert (found.solution is None) == (proven.solution is None)
    if found.solution and proven.solution:
        assert found.proved <= proven.solution.interval <= found.solution.interval
        assert (found.status == "optimal") <= (found.solution.interval == proven.solution.interval)


def test_an_answer_near_its_bound_is_enough_for_a_loop_of_few_iterations() -> None:
    """With two iterations in flight the least is 653."""
    (case,) = cases(Inputs("tests/kernels/ttgir/straight.sm90.ttgir", arch="sm90", subtile=1))
    problem, events, fewer = replace(case.problem, implementations=()), list[Progress](), list[Progress]()
    options = replace(FOUND, max_in_flight=2)
    best = solve(problem, options, events.append)
    found = solve(problem, replace(options, few=True), fewer.append)
    assert best.solution
    assert found.solution
    assert 653 == best.solution.interval < found.solution.interval
    assert search.NEAR * (found.solution.interval - found.proved) < found.solution.interval
    assert not check_result(found, in_flight=found.max_in_flight)
    assert len(fewer) < len(events)


@pytest.mark.parametrize("groups", [2, 6])
def test_of_a_loop_with_few_iterations_the_lowest_interval_is_left_for_the_last(groups: int) -> None:
    """It takes longest to decide, and an answer near the best is enough."""
    (case,) = cases(Inputs("tests/kernels/ttgir/masked.sm90.ttgir", arch="sm90", subtile=1))
    problem = limited(replace(case.problem, implementations=()), groups=groups)
    events, options = list[Progress](), replace(FOUND, max_in_flight=2)
    found, best = solve(problem, replace(options, few=True), events.append), solve(problem, options)
    assert found.solution
    assert best.solution
    assert not check_result(found, in_flight=found.max_in_flight)
    assert found.solution.interval <= best.solution.interval * (1 + 1 / search.NEAR)
    tried = [event.interval for event in events if event.what == "trying" and event.engine == "search"]
    assert min(tried) > bounds(problem).value + 1


def test_what_is_known_of_a_search_with_more_memory_is_not_decided_again(attention: Problem) -> None:
    """For as many iterations in flight as count, or for fewer of them."""
    wide = solve(attention, FOUND)
    assert wide.solution
    less = limited(attention, shared=attention.limits.shared - (1 << 15))
    known = replace(begun(less, FOUND, lambda event: None), wider=wide)
    events, alone = list[Progress](), list[Progress]()
    found, again = solve(less, FOUND, events.append, known), solve(less, FOUND, alone.append)
    assert found.solution
    assert again.solution
    assert found.solution.interval == again.solution.interval
    assert not check_result(found, in_flight=found.max_in_flight)
    assert {one for one in wide.refuted if one.max_in_flight == found.max_in_flight} <= {*found.refuted}
    assert len(events) < len(alone)
