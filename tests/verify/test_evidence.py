"""Bounds and statuses: what a result may claim."""

from dataclasses import replace
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from tests.verify.loops import figure1, op, piped
from twill.ir.problem import Edge, Problem, Unit
from twill.ir.schedule import Bounds, RecurrenceBound, Refutation, ResourceBound, Result, Solution
from twill.modulo.bounds import bounds
from twill.verify import check_result

RIGHT = Bounds(ResourceBound("TC", 2), RecurrenceBound(1, ("O",)))
ANSWER = Result(figure1(), "optimal", RIGHT, 2, Solution(2, (0, 2, 3), (0, 0, 0)))


def rules(result: Result, in_flight: int | None = None) -> list[str]:
    return sorted({violation.rule for violation in check_result(result, joint=False, in_flight=in_flight)})


def test_the_papers_schedule_is_optimal_by_its_bound() -> None:
    assert rules(ANSWER) == []
    assert bounds(figure1(), joint=False) == RIGHT


@pytest.mark.parametrize(
    "wrong",
    [
        Bounds(ResourceBound("TC", 3), RecurrenceBound(1, ("O",))),
        Bounds(ResourceBound("SFU", 2), RecurrenceBound(1, ("O",))),
        Bounds(ResourceBound("ALU", 2), RecurrenceBound(1, ("O",))),
        Bounds(ResourceBound("SFU", 1), RecurrenceBound(1, ("O",))),
        Bounds(ResourceBound(None, 1), RecurrenceBound(1, ("O",))),
        Bounds(ResourceBound("TC", 2), RecurrenceBound(2, ("O",))),
        Bounds(ResourceBound("TC", 2), RecurrenceBound(1, ("S", "P", "O"))),
        Bounds(ResourceBound("TC", 2), RecurrenceBound(1)),
        Bounds(ResourceBound("TC", 2), RecurrenceBound(0)),
    ],
)
def test_a_bound_that_nothing_forces(wrong: Bounds) -> None:
    assert "BOUNDS" in rules(replace(ANSWER, bounds=wrong))


@pytest.mark.parametrize("seed", range(200))
@pytest.mark.parametrize("joint", [True, False])
def test_the_bounds_that_twill_finds(seed: int, joint: bool) -> None:
    problem = tiny_problem(Random(seed))
    assert check_result(Result(problem, "unknown", bounds(problem, joint=joint), 1), joint=joint) == ()


def test_a_circuit_that_must_cross_weighs_its_hand_over() -> None:
    ops = (replace(op("a"), variable=True), op("b", "SFU"))
    problem = Problem(
        "cross", "toy", (Unit("TC"), Unit("SFU")), ops, (Edge("a", "b", 1, 0, 5), Edge("b", "a", 1, 1, 5))
    )
    claim = Result(problem, "unknown", Bounds(ResourceBound("TC", 1), RecurrenceBound(10, ("a", "b"))), 1)
    assert check_result(claim) == ()
    assert [v.rule for v in check_result(claim, joint=False)] == ["BOUNDS"]


THREE = replace(ANSWER, solution=Solution(3, (0, 1, 2), (0, 0, 0)), proved=3)


def refuted(*refutations: Refutation, status: str = "optimal", **more: object) -> Result:
    return replace(THREE, status=status, refuted=refutations, **more)  # pyright: ignore[reportArgumentType]


def test_optimal_needs_every_smaller_interval_refuted() -> None:
    assert rules(refuted()) == ["STATUS"]
    assert rules(refuted(Refutation(2, 1, "cpsat", 0.1))) == []
    assert rules(refuted(Refutation(2, None, "cpsat", 0.1))) == []
    assert rules(refuted(Refutation(1, None, "cpsat", 0.1))) == ["STATUS"]


def test_a_bound_refutes_nothing_above_itself() -> None:
    assert rules(refuted(Refutation(2, None, "ResMII TC", 0.0))) == ["BOUNDS"]
    assert rules(replace(ANSWER, refuted=(Refutation(1, None, "ResMII TC", 0.0),))) == []
    assert rules(replace(ANSWER, refuted=(Refutation(1, None, "RecMII O", 0.0),))) == ["BOUNDS"]


def test_a_refutation_of_short_schedules_is_not_one_of_long_ones() -> None:
    assert rules(refuted(Refutation(2, 1, "cpsat", 0.1)), in_flight=2) == ["STATUS"]
    assert rules(refuted(Refutation(2, 2, "cpsat", 0.1)), in_flight=2) == []


def test_a_refutation_reaches_down_only_where_the_problem_is_monotone() -> None:
    far = refuted(
        Refutation(4, None, "sat", 0.1, below=True), proved=5, solution=Solution(5, (0, 1, 2), (0, 0, 0))
    )
    assert rules(far) == []
    assert rules(replace(far, refuted=(Refutation(4, None, "sat", 0.1),))) == ["STATUS"]
    assert rules(replace(far, problem=replace(figure1(), starts=(("S", 0),)))) == ["STATUS"]


@pytest.mark.parametrize(
    "wrong",
    [
        replace(ANSWER, status="feasible"),
        replace(ANSWER, status="infeasible"),
        replace(ANSWER, solution=None),
        replace(ANSWER, proved=3, refuted=(Refutation(2, None, "cpsat", 0.0),)),
        replace(ANSWER, status="unknown", solution=None, proved=3),
    ],
)
def test_a_status_that_does_not_follow(wrong: Result) -> None:
    assert rules(wrong) == ["STATUS"]


def test_a_feasible_answer_with_its_gap() -> None:
    problem, solution = piped()
    result = Result(problem, "feasible", bounds(problem), 3, replace(solution, start=(0, 0, 3, 6)))
    found = bounds(problem).value
    assert check_result(replace(result, proved=found, status="optimal" if found == 4 else "feasible")) == ()
