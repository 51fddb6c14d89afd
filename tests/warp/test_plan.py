"""Loops of one kernel share its groups, whatever their best partitions are."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops
from twill.diagnostics import TwillError
from twill.generation.loop_nest import program
from twill.inputs import Inputs, cases
from twill.ir.problem import Problem
from twill.ir.schedule import Bounds, Reason, RecurrenceBound, ResourceBound, Result, Solution
from twill.targets.hopper import TARGET
from twill.warp.listing import text
from twill.warp.lower import lower

CASES = cases(Inputs("examples/ttgir/fa_fwd_causal.sm90.ttgir", arch="sm90"))
BOUNDS = Bounds(ResourceBound("tensor", 1), RecurrenceBound(1))


class Solver:
    """Answers for the two loops from files; torn, or none at all, for the second one without a partition."""

    def __init__(self, torn: bool) -> None:
        self.torn = torn
        self.pins: tuple[tuple[str, ...], ...] = ()
        self.alone = 0

    def __call__(self, problem: Problem) -> Result:
        _, (first, second) = loops("fa_fwd_causal")
        if problem.name == CASES[0].name:
            return Result(first.problem, "optimal", BOUNDS, 1, first.solution)
        if problem.together != CASES[1].problem.together:
            self.pins = tuple(pair for pair in problem.together if pair not in CASES[1].problem.together)
            return Result(second.problem, "feasible", BOUNDS, 1, second.solution)
        self.alone += 1
        return Result(
            second.problem,
            "feasible" if self.torn else "unknown",
            BOUNDS,
            1,
            self._split(second.solution) if self.torn else None,
        )

    def _split(self, solution: Solution) -> Solution:
        """The sums of the two halves exchanged."""
        operations = loops("fa_fwd_causal")[1][1].problem.operations
        moved = [
            3 - g if op.id in ("add.26", "mul.24") else g
            for op, g in zip(operations, solution.group, strict=True)
        ]
        return replace(solution, group=tuple(moved), interval=solution.interval - 100)


@pytest.mark.parametrize("torn", [True, False])
def test_a_loop_that_is_known_not_to_fit_is_solved_again(torn: bool) -> None:
    solver = Solver(torn)
    made, scheduled = program(CASES, solver, known=solver)
    assert [one.loop.path for one in scheduled] == [case.name for case in CASES]
    assert any({"add.26", "max.raised_39"} <= set(members) for members in solver.pins)
    interval = scheduled[1].solution.interval
    note = next(note for note in made.notes if note.startswith("fa_fwd_causal/for.1"))
    assert f"interval {interval} " in note or f"interval {interval}, with no schedule alone" in note
    assert (f"instead of {interval - 100}" in note) == torn


def test_a_loop_is_not_solved_without_its_ties() -> None:
    """A schedule that is taken has them anyway."""
    solver = Solver(torn=True)
    _, scheduled = program(CASES, solver)
    assert scheduled[1].solution == loops("fa_fwd_causal")[1][1].solution
    assert solver.pins
    assert not solver.alone


def test_a_loop_that_fits_is_left_alone() -> None:
    module, scheduled = loops("fa_fwd_causal")
    answers = {case.name: one for case, one in zip(CASES, scheduled, strict=True)}

    def solve(problem: Problem) -> Result:
        return Result(answers[problem.name].problem, "optimal", BOUNDS, 1, answers[problem.name].solution)

    assert text(program(CASES, solve)[0]) == text(lower(module, scheduled, TARGET))


def test_a_kernel_without_schedule_is_refused() -> None:
    with pytest.raises(TwillError, match="has no schedule") as stopped:
        program(CASES, lambda problem: Result(problem, "unknown", BOUNDS, 1))
    assert "--time-limit" in (stopped.value.help or "")
    with pytest.raises(TwillError, match="has no schedule") as refuted:
        program(CASES, lambda problem: Result(problem, "infeasible", BOUNDS, 1))
    assert "--time-limit" not in (refuted.value.help or ""), "more time does not help"


def test_a_kernel_without_schedule_is_refused_by_the_limit_that_excludes_it() -> None:
    reasons = (Reason("registers", "the group of dot needs at least 280 registers per thread, has 255"),)
    with pytest.raises(
        TwillError, match=r"has no schedule \(infeasible\): the group of dot .* 280"
    ) as refuted:
        program(CASES, lambda problem: Result(problem, "infeasible", BOUNDS, 1, reasons=reasons))
    assert "tiles smaller" in (refuted.value.help or "")


@pytest.mark.parametrize("fitting", [True, False])
def test_loops_that_need_too_many_registers_together_get_fewer_groups(fitting: bool) -> None:
    """The second loop's own schedule has the same partition, with groups that need nearly all registers."""
    _, (first, second) = loops("fa_fwd_causal")
    tried = list[int]()

    def solve(problem: Problem) -> Result:
        if problem.name == CASES[0].name:
            return Result(first.problem, "optimal", BOUNDS, 1, first.solution)
        tried.append(problem.limits.groups)
        if fitting and problem.limits.groups == len(first.solution.groups):
            return Result(second.problem, "feasible", BOUNDS, 1, second.solution)
        groups = tuple(
            replace(g, registers=504 if g.warps >= 4 else g.registers) for g in second.solution.groups
        )
        return Result(second.problem, "feasible", BOUNDS, 1, replace(second.solution, groups=groups))

    if fitting:
        made, scheduled = program(CASES, solve)
        assert scheduled[1].solution == second.solution
        assert any(note.startswith("fa_fwd_causal/for.1: interval") for note in made.notes)
    else:
        with pytest.raises(TwillError, match="more registers together") as stopped:
            program(CASES, solve)
        assert stopped.value.location == second.loop.location
    assert len(first.solution.groups) in tried
