"""A proof is confirmed by another engine than the recorded one, and a wrong one is contradicted."""

from dataclasses import replace

import pytest

from tests.samples import attention
from tests.smt.test_in_flight import gemm
from tests.smt.test_relax import shared_load
from twill.inputs import Inputs, cases
from twill.ir.problem import Edge, Problem, Use
from twill.ir.schedule import Refutation, Result
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.pipeline import solve
from twill.smt import parts, slots
from twill.smt.prove import confirm


def tight() -> Result:
    """Two slots of shared memory: the bound is out of reach, and an engine proves it."""
    problem = gemm(900)
    return solve(replace(problem, limits=replace(problem.limits, shared=16384 * 2)), Options(explain=False))


def test_another_engine_refutes_the_interval_below() -> None:
    result = tight()
    found = confirm(result, 60.0)
    recorded = result.refuted[-1].by
    assert recorded.startswith("capacity of") == (found is None)
    assert found is None or (found.by not in (None, recorded) and found.confirmed)


def test_a_wrong_record_is_contradicted() -> None:
    result = attention()
    assert result.solution is not None
    interval = result.solution.interval
    false = replace(
        result,
        proved=interval + 1,
        refuted=(Refutation(interval, 4, "sat", 0.0, below=True),),
        max_in_flight=4,
    )
    found = confirm(false, 60.0)
    assert found is not None
    assert (found.by, found.contradicted) == ("cpsat", True)


@pytest.mark.parametrize("by", ["ResMII tensor", "capacity of shared memory"])
def test_a_bound_needs_no_engine(by: str) -> None:
    result = attention()
    assert (
        confirm(replace(result, refuted=(Refutation(result.proved - 1, None, by, 0.0, below=True),)), 1.0)
        is None
    )


def resting_on_tensor_memory(proved: int, in_flight: int) -> Result:
    """What attention on Blackwell says of the intervals below `proved`."""
    (case,) = cases(Inputs("examples/ttgir/fa_fwd_subtiled.sm100.ttgir"))
    record = Refutation(proved - 1, in_flight, "cpsat on the tensor memory projection", 0.0, below=True)
    refuted = Result(case.problem, "unknown", bounds(case.problem), proved, refuted=(record,))
    return replace(refuted, max_in_flight=in_flight)


def test_a_projection_is_refuted_again_and_the_whole_problem_too() -> None:
    found = confirm(resting_on_tensor_memory(2308, 2), 120.0)
    assert found is not None
    assert (found.projected, found.by, found.whole) == ("sat", "cpsat", 2)
    assert found.confirmed


def resting_on(problem: Problem, interval: int, by: str) -> Result:
    """A record of one interval that has no schedule with up to four iterations in flight."""
    record = Refutation(interval, 4, by, 0.0, below=True)
    return Result(problem, "unknown", bounds(problem), interval + 1, refuted=(record,), max_in_flight=4)


def slots_apart() -> Problem:
    """A load, of which two slots fit, that is read again too late for them."""
    problem = gemm(900)
    ops = (*problem.operations, replace(problem.operations[1], id="late", reservations=()))
    (tile,) = problem.values
    tile = replace(tile, uses=(*tile.uses, Use("late", 0, 256)), slots=1)
    edges = (*problem.edges, Edge("mma", "late", 2000))
    limits = replace(problem.limits, shared=3 * tile.shared)
    return replace(problem, operations=ops, edges=edges, values=(tile,), limits=limits)


def test_parts_and_numbers_of_slots_are_refuted_again() -> None:
    for problem, interval, by in (
        (shared_load(8), 8, parts.NAME),
        (slots_apart(), 1000, slots.NAME),
    ):
        found = confirm(resting_on(problem, interval, by), 120.0)
        assert found is not None
        assert (found.projected, found.confirmed) == ("sat", True), by


def test_parts_and_numbers_of_slots_that_refute_too_much_confirm_nothing() -> None:
    for problem, interval, by in (
        (shared_load(16), 8, parts.NAME),
        (replace(slots_apart(), limits=replace(slots_apart().limits, shared=16384 * 9)), 1000, slots.NAME),
    ):
        found = confirm(resting_on(problem, interval, by), 120.0)
        assert found is not None
        assert (found.projected, found.contradicted, found.confirmed) == (None, True, False), by


def test_without_time_nothing_is_confirmed() -> None:
    found = confirm(resting_on_tensor_memory(2308, 4), 0.0)
    assert found is not None
    assert (found.projected, found.by, found.whole, found.confirmed) == (None, None, 0, False)


def test_a_projection_that_refutes_too_much_confirms_nothing() -> None:
    found = confirm(resting_on_tensor_memory(5001, 2), 120.0)
    assert found is not None
    assert (found.projected, found.contradicted, found.confirmed) == (None, True, False)
