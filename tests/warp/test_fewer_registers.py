"""Loops whose groups need more registers together than a thread block has at its launch are scheduled again."""

from dataclasses import replace

import pytest

from twill.diagnostics import TwillError
from twill.files import load, read_schedule
from twill.generation import loop_nest
from twill.inputs import Inputs, cases
from twill.ir.problem import Limits, Problem
from twill.ir.schedule import Result

KERNEL = Inputs("examples/ttgir/fa_fwd_subtiled.sm90.ttgir", arch="sm90")
SCHEDULE = "tests/kernels/schedules/fa_fwd_subtiled.for.0.json"
MOST = 240
"""What two groups of a warpgroup each can have beside one that loads: 384 threads begin with 168."""


def given(tried: list[tuple[int, int]], *, works: int) -> loop_nest.Solve:
    """The kept schedule with 248 and 240 registers; with `works` and `works` where no more are allowed; none
    with fewer than three groups."""
    kept = read_schedule(load(SCHEDULE), SCHEDULE).result

    def solve(problem: Problem) -> Result:
        limits = problem.limits
        tried.append((limits.registers_per_thread, limits.groups))
        if limits.groups < 3:
            return replace(kept, problem=problem, status="infeasible", solution=None)
        assert kept.solution
        numbers = (24, works, works) if limits.registers_per_thread <= works else (24, 248, 240)
        groups = tuple(
            replace(group, registers=number)
            for group, number in zip(kept.solution.groups, numbers, strict=True)
        )
        return replace(kept, problem=problem, solution=replace(kept.solution, groups=groups))

    return solve


def test_groups_get_the_same_number_where_they_have_too_many_together() -> None:
    tried = list[tuple[int, int]]()
    made, _ = loop_nest.program(cases(KERNEL), given(tried, works=MOST))
    assert {registers for registers, _ in tried[:-1]} == {tried[0][0]}
    assert tried[-1] == (MOST, tried[0][1])
    assert [group.registers for group in made.groups if group.warps == 4] == [MOST, MOST]


def test_groups_get_what_a_thread_block_has_where_fewer_cannot_issue_the_loop() -> None:
    """384 threads of 168 registers: 1,024 less than there are."""
    kept, tried = read_schedule(load(SCHEDULE), SCHEDULE).result, list[Limits]()
    alone = given([], works=0)

    def solve(problem: Problem) -> Result:
        tried.append(problem.limits)
        if len(tried) == 1:
            return alone(problem)
        assert kept.solution
        groups = tuple(
            replace(group, registers=number)
            for group, number in zip(kept.solution.groups, (24, 248, 232), strict=True)
        )
        return replace(kept, problem=problem, solution=replace(kept.solution, groups=groups))

    made, _ = loop_nest.program(cases(KERNEL), solve)
    assert [limits.registers_total for limits in tried] == [65536, 384 * 168]
    assert [group.registers for group in made.groups if group.warps == 4] == [248, 232]


def test_fewer_groups_come_first_and_are_taken_where_nothing_is_lost() -> None:
    """Before few registers for each group, with which most loops have no schedule, which takes long to find
    out."""
    kept, tried = read_schedule(load(SCHEDULE), SCHEDULE).result, list[tuple[int, int]]()
    alone = given([], works=0)

    def solve(problem: Problem) -> Result:
        limits = problem.limits
        tried.append((limits.registers_per_thread, limits.groups))
        assert kept.solution
        if limits.groups > loop_nest.FEWEST:
            return alone(problem)
        groups = tuple(
            replace(group, registers=number)
            for group, number in zip(kept.solution.groups, (24, 160, 160), strict=True)
        )
        return replace(kept, problem=problem, solution=replace(kept.solution, groups=groups))

    loop_nest.program(cases(KERNEL), solve)
    assert [groups for _, groups in tried[1:]] == [3, 2]
    assert {registers for registers, _ in tried} == {tried[0][0]}


def test_what_needs_more_than_there_are_is_refused_after_all_attempts() -> None:
    tried = list[tuple[int, int]]()
    with pytest.raises(TwillError, match="need more registers together"):
        loop_nest.program(cases(KERNEL), given(tried, works=0))
    most, groups = tried[0]
    assert tried[-5:] == [(most, 2), (MOST, groups), (most, 2), (most, 3), (most, 2)]


def test_a_loop_in_which_no_group_computes_has_its_own_schedule() -> None:
    """A GEMM for Blackwell: one group loads, one issues MMAs."""
    schedule = "tests/kernels/schedules/sm100/gemm.for.0.json"
    kept, tried = read_schedule(load(schedule), schedule).result, list[Problem]()

    def solve(problem: Problem) -> Result:
        tried.append(problem)
        return replace(kept, problem=problem)

    loop_nest.program(cases(Inputs("examples/ttgir/gemm.sm100.ttgir", arch="sm100")), solve)
    assert len(tried) == 1
