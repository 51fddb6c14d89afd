"""What alone keeps an interval out, in numbers that are proven."""

from dataclasses import replace

import pytest

from twill import Inputs, cases
from twill.ir.problem import Problem, Time
from twill.smt import cpsat
from twill.smt.causes import cause
from twill.smt.relax import Projection, projections


def _example(name: str) -> Problem:
    (case,) = cases(Inputs(f"examples/ttgir/{name}.ttgir"))
    return case.problem


def _tensor(projection: Projection, target: Time, columns: int) -> Problem:
    small = projection.at(target)
    return replace(small, limits=replace(small.limits, tensor=columns))


def test_tensor_memory_is_what_blackwell_attention_lacks() -> None:
    problem = _example("fa_fwd_subtiled.sm100")
    (projection,) = (one for one in projections(problem) if one.name == "tensor memory")
    reason = cause(
        projection, 2307, 2064, 3, lambda small, at, in_flight: cpsat.attempt(small, at, in_flight).refuted
    )
    assert reason.family == "tensor memory"
    assert "alone excludes every interval up to 2307" in reason.text
    needs = int(reason.text.partition("at least ")[2].split(" ")[0])
    assert problem.limits.tensor < needs < 2 * problem.limits.tensor
    assert cpsat.attempt(_tensor(projection, 2064, needs), 2064, 3).what == "feasible"
    assert cpsat.attempt(_tensor(projection, 2064, needs - 32), 2064, 3).refuted


@pytest.mark.parametrize(
    ("few", "all_of_them"), [(700, 700), (700, 600), (513, 513), (2000, 600), (2000, 2000)]
)
def test_few_iterations_in_flight_tell_where_to_ask_for_all(few: int, all_of_them: int) -> None:
    """However far the two are apart, the number holds for all."""
    projection = projections(_example("fa_fwd_subtiled.sm100"))[0]
    asked: list[int] = []

    def refuted(small: Problem, at: Time, in_flight: int) -> bool:
        asked.append(in_flight)
        return small.limits.tensor < (few if in_flight == 2 else all_of_them)

    text = cause(projection, 100, 90, 4, refuted).text
    if all_of_them == 2000:
        assert "would not be enough" in text
    else:
        assert f"needs at least {512 + -(-(all_of_them - 512) // 32) * 32} columns" in text
    assert asked.count(4) < 8


def test_registers_are_counted_per_thread_or_all_together() -> None:
    (projection,) = (one for one in projections(_example("fa_fwd.sm90")) if one.name == "registers")
    per_thread = cause(
        projection, 9, 8, 2, lambda small, at, in_flight: small.limits.registers_per_thread < 280
    )
    assert "needs at least 287 registers per thread, has 255" in per_thread.text
    together = cause(projection, 9, 8, 2, lambda small, at, in_flight: small.limits.registers_total < 70000)
    assert "needs at least 71680 registers per SM, has 65536" in together.text
