"""The form of a loop that a schedule was made for is found from the numbers of its problem."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from twill.diagnostics import TwillError
from twill.generation.choices.hand_offs import with_hand_offs
from twill.generation.choices.part_of_sm import limited
from twill.generation.known.as_made import as_made
from twill.inputs import Case, Inputs, cases
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.modulo.bounds import bounds

BLACKWELL, HOPPER = "examples/ttgir/fa_fwd_subtiled.sm100.ttgir", "examples/ttgir/fa_fwd_subtiled.sm90.ttgir"


def of(problem: Problem) -> Result:
    return Result(problem, "infeasible", bounds(problem), 1)


def test_hand_offs_that_are_counted() -> None:
    """Kernels whose warps execute their operations one behind the other are scheduled so."""
    (case,) = cases(Inputs(BLACKWELL))
    assert case.graph
    assert case.machine
    problem = with_hand_offs(case.problem, case.graph, case.machine)
    assert problem
    assert problem.edges != case.problem.edges
    assert as_made(Inputs(BLACKWELL), of(problem), cases).case.problem == problem
    assert as_made(Inputs(BLACKWELL), of(case.problem), cases).case.problem == case.problem


@pytest.mark.parametrize(
    "form", [{"persistent": True}, {"divide_waits": True}, {"persistent": True, "order": "claimed"}]
)
def test_forms_of_a_generated_kernel(form: dict[str, Any]) -> None:
    made = replace(Inputs(HOPPER, subtile=1, divide_waits=False), **form)
    (case,) = cases(made)
    assert as_made(Inputs(HOPPER), of(case.problem), cases).case.problem == case.problem


def test_loads_that_run_ahead() -> None:
    made = Inputs(HOPPER, subtile=1, divide_waits=False)
    (case,) = cases(made)
    load = next(op.id for op in case.problem.operations if op.streaming)
    (other,) = cases(replace(made, ahead=((load, 0),)))
    assert not other.problem.operation(load).streaming
    assert as_made(Inputs(HOPPER), of(other.problem), cases).case.problem == other.problem


def test_limits_of_one_of_several_thread_blocks() -> None:
    """A kernel that leaves an SM idle is scheduled for a part of it; hand-offs may be counted there, too."""
    (case,) = cases(Inputs(BLACKWELL))
    assert case.machine
    for blocks, one in product((1, 2), (case, with_costs_of_hand_offs(case))):
        part = limited(one, case.machine, blocks, 3, 128)
        made = as_made(Inputs(BLACKWELL), of(part.problem), cases)
        assert made.case.problem == part.problem
        assert made.blocks == blocks


def test_a_part_that_holds_no_further_tile_of_any_load() -> None:
    made = Inputs(HOPPER, subtile=1, divide_waits=False)
    (case,) = cases(made)
    loads = [op.id for op in case.problem.operations if op.streaming]
    (other,) = cases(replace(made, ahead=tuple((load, 0) for load in loads)))
    assert other.machine
    part = limited(other, other.machine, 2, 3, 128)
    found = as_made(Inputs(HOPPER), of(part.problem), cases)
    assert (found.case.problem, found.blocks) == (part.problem, 2)


@pytest.mark.parametrize("change", [{"shared": -1}, {"registers_total": -8}, {"groups": 1}])
def test_other_limits_are_not_those_of_a_part(change: dict[str, int]) -> None:
    """Less of something that no number of thread blocks leaves, or more groups than there are."""
    (case,) = cases(Inputs(BLACKWELL))
    assert case.machine
    limits = limited(case, case.machine, 2, case.problem.limits.groups, 128).problem.limits
    other = replace(limits, **{name: getattr(limits, name) + more for name, more in change.items()})
    stated = replace(case.problem, limits=other)
    assert as_made(Inputs(BLACKWELL), of(stated), cases).blocks is None


def with_costs_of_hand_offs(case: Case) -> Case:
    assert case.graph
    assert case.machine
    problem = with_hand_offs(case.problem, case.graph, case.machine)
    assert problem
    return replace(case, problem=problem)


def test_a_schedule_of_another_kernel_gives_the_loop_as_the_inputs_say() -> None:
    (case,) = cases(Inputs("examples/ttgir/gemm.sm90.ttgir"))
    (other,) = cases(Inputs(HOPPER, divide_waits=False))
    assert as_made(Inputs(HOPPER), of(case.problem), cases).case.problem == other.problem


def test_a_loop_that_no_form_has_is_an_error() -> None:
    (case,) = cases(Inputs("examples/ttgir/gemm.sm90.ttgir"))
    with pytest.raises(TwillError, match="no loops of"):
        as_made(Inputs(HOPPER, loops=("gemm/for.0",)), of(case.problem), cases)
