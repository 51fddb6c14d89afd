"""Schedules whose MMAs start early, where the user leaves the schedule open."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.kernels.programs import loops, program
from twill.generation.attempt import Attempt
from twill.generation.choices import early_mmas as module
from twill.generation.choices.early_mmas import early_mmas, with_early_mmas
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit
from twill.ir.schedule import Result, Solution
from twill.pipeline import solve
from twill.verify import check_result


def _slack() -> Problem:
    """An MMA whose operand is there long before its result is read, of a group that computes beside another
    one."""
    operations = (
        Operation("first", "add", (Reservation("u", 8),), 8, 8, 4),
        Operation("mma", "dot", (Reservation("t", 9),), 9, 1, 4),
        Operation("other", "add", (Reservation("u", 30),), 60, 30, 4),
        Operation("last", "add", (Reservation("u", 8),), 8, 8, 4),
    )
    edges = (
        Edge("first", "mma", 8),
        Edge("first", "other", 8),
        Edge("mma", "last", 20),
        Edge("other", "last", 60),
    )
    limits = Limits(groups=2)
    return Problem(
        "loop",
        "",
        (Unit("u"), Unit("t")),
        operations,
        edges,
        limits=limits,
        apart=(("first", "other"), ("mma", "other")),
    )


def _starts(one: Result) -> dict[str, int]:
    assert one.solution is not None
    return dict(zip((op.id for op in one.problem.operations), one.solution.start, strict=True))


def test_mma_starts_when_its_operand_is_there() -> None:
    found = solve(_slack())
    assert found.solution is not None
    late = replace(
        found.solution, start=tuple({**_starts(found), "mma": _starts(found)["last"] - 20}.values())
    )
    late_one, known = replace(found, solution=late), dict[Solution, Solution]()
    assert not check_result(late_one)
    early = with_early_mmas(late_one, known)
    assert early is not None
    assert early.solution is not None
    assert not check_result(early)
    assert early.solution.interval == late.interval
    assert early.solution.group == late.group
    assert _starts(early)["mma"] == _starts(early)["first"] + 8
    assert list(known) == [late]
    assert with_early_mmas(late_one, known) == early
    assert with_early_mmas(early, known) is None


@pytest.mark.parametrize(("before", "after", "taken"), [(1000.0, 999.0, True), (1000.0, 1000.0, False)])
def test_taken_where_it_is_predicted_to_be_faster(
    monkeypatch: pytest.MonkeyPatch, before: float, after: float, taken: bool
) -> None:
    found = solve(_slack())
    made, (_, scheduled) = program("gemm"), loops("gemm")
    first = Attempt((), made, scheduled, {"loop": found}, {})
    other = Attempt((), made, scheduled, {"loop": found}, {})

    def same(one: Result, known: dict[Solution, Solution]) -> Result:
        return one

    def late(one: Result) -> bool:
        return False

    def of_sm(one: Attempt) -> float:
        return before if one is first else after

    monkeypatch.setattr(module, "with_early_mmas", same)
    monkeypatch.setattr(module, "_settled", late)
    monkeypatch.setattr(Attempt, "of_sm", of_sm)

    def lowered(given: Mapping[str, Result]) -> Attempt:
        assert dict(given) == {"loop": found}
        return other

    best = early_mmas(first, lowered, {})
    assert (best is not first) == taken
    assert any(note.startswith("MMAs start early") for note in best.program.notes) == taken


def test_what_is_in_order_is_kept() -> None:
    """Nothing of it is late."""
    found = solve(_slack())

    def never(given: Mapping[str, Result]) -> Attempt:
        raise AssertionError(given)

    made, (_, scheduled) = program("gemm"), loops("gemm")
    first = Attempt((), made, scheduled, {"loop": found}, {})
    assert early_mmas(first, never, {}) is first
