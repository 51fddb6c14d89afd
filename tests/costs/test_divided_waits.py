"""Waits inside of exponentials: the problem that states them, and a schedule of it."""

from functools import cache

import pytest

from twill.files import load, read_schedule
from twill.inputs import Case, Inputs, cases
from twill.ir.problem import Edge, Problem
from twill.ir.statements import SLICES
from twill.modulo.bounds import bounds, work
from twill.verify import check_result

LEADER, RESCALED, FIRST = "exp2.weights_20", "mul.acc0_36", "dot.scores0_12"
FOLLOWERS = ("reduce_sum.24", "trunc.acc0_33")


@cache
def _case(kernel: str, divide_waits: bool | None = None) -> Case:
    (case,) = cases(Inputs(f"examples/ttgir/{kernel}.ttgir", divide_waits=divide_waits))
    return case


def _divided() -> Problem:
    found = _case("fa_fwd_subtiled.sm90").divided
    assert found
    return found


def _order(problem: Problem) -> dict[tuple[str, str], Edge]:
    return {(edge.src, edge.dst): edge for edge in problem.edges if edge.kind == "order"}


def test_the_accumulator_is_waited_for_behind_the_first_slice() -> None:
    problem, order = _divided(), _order(_divided())
    leader = problem.operation(LEADER)
    first = -(-leader.issue // SLICES)
    assert order[LEADER, RESCALED].delay == first
    for follower in FOLLOWERS:
        assert order[RESCALED, follower].delay == leader.issue - first
        assert order[follower, FIRST].distance == 1
    assert problem.held(leader) == first
    assert len(order) == 2 * (1 + 2 * len(FOLLOWERS))


def test_a_follower_keeps_its_unit_for_its_last_slice_and_counts_whole() -> None:
    plain, problem = _case("fa_fwd_subtiled.sm90").problem, _divided()
    for name in FOLLOWERS:
        (whole, *_), (last, *_) = plain.operation(name).reservations, problem.operation(name).reservations
        assert last.cycles == -(-whole.cycles // SLICES)
    for unit in ("fma", "alu"):
        assert work(problem)[f"{unit}.all"] == work(plain)[unit]
    assert bounds(problem).resource.value == bounds(plain).resource.value


@pytest.mark.parametrize("name", FOLLOWERS)
def test_a_follower_ends_when_it_would_end_undivided(name: str) -> None:
    """What it starts later it is shorter; its readers wait as long."""
    plain, problem = _case("fa_fwd_subtiled.sm90").problem, _divided()
    later = plain.operation(name).issue - problem.operation(name).issue
    pairs = zip(plain.edges, problem.edges, strict=False)
    for old, new in pairs:
        if old.dst == name:
            assert new.delay == old.delay + later
        if old.src == name:
            assert new.delay == old.delay - later


@pytest.mark.parametrize("kernel", ["gemm.sm90", "fa_bwd.sm90", "fa_fwd_subtiled.sm100"])
def test_kernels_that_rescale_nothing_in_registers_have_none(kernel: str) -> None:
    assert _case(kernel).divided is None


def test_the_user_decides() -> None:
    assert _case("fa_fwd_subtiled.sm90", divide_waits=True).problem == _divided()
    assert _case("fa_fwd_subtiled.sm90", divide_waits=False).divided is None


def test_the_kept_schedule_is_optimal_and_in_order() -> None:
    """Its interval is the bound, and no group issues two operations at once."""
    path = "reports/schedules/fa_fwd_subtiled.for.0.json"
    found = read_schedule(load(path), path).result
    assert not check_result(found)
    assert found.solution
    problem, solution = found.problem, found.solution
    assert _order(problem).keys() == _order(_divided()).keys()
    assert solution.interval == bounds(problem).resource.value == 2048
    for group in range(len(solution.groups)):
        ops = [op for op in problem.operations if solution.group[problem.index(op.id)] == group]
        issuing = [
            (solution.start[problem.index(op.id)] + tick) % solution.interval
            for op in ops
            for tick in range(problem.held(op))
        ]
        assert len(issuing) == len(set(issuing))
