"""Normalization: against an exhaustive search on small cases, and on a real loop."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.costs.test_model import problem
from twill.costs.normalize import Normalization, durations, normalization, normalize
from twill.diagnostics import TwillError
from twill.ir.problem import Operation, Problem, Reservation, Unit


def of(cycles: list[int]) -> Problem:
    """A problem with these durations."""
    operations = tuple(Operation(f"o{i}", "op", (Reservation("u", c),), c) for i, c in enumerate(cycles))
    return Problem("p", "m", (Unit("u"), Unit("sum", 10, aggregate=True)), operations, ())


def best(costs: list[int], total: int) -> tuple[int, int]:
    """Least error and then largest total, by trying everything."""

    def error(units: tuple[int, ...]) -> int:
        return max(
            abs(a * v - b * u)
            for a, u in zip(costs, units, strict=True)
            for b, v in zip(costs, units, strict=True)
        )

    fits = (units for units in product(range(1, total + 1), repeat=len(costs)) if sum(units) <= total)
    least, negative = min((error(units), -sum(units)) for units in fits)
    return least, -negative


@settings(max_examples=40, deadline=None)
@given(cycles=st.lists(st.integers(1, 60), min_size=1, max_size=3, unique=True), total=st.integers(3, 12))
def test_least_error_and_finest_resolution(cycles: list[int], total: int) -> None:
    found = normalization(of(cycles), total)
    assert found.proven
    assert (found.error, sum(found.table.values())) == best(sorted(cycles), total)


def checked(found: Normalization, total: int) -> None:
    assert all(units >= 1 for units in found.table.values())
    assert sum(found.table.values()) <= total
    assert {time for time in durations(found.problem) if time} == set(found.table.values())
    assert found.problem.resolution.worst_error == found.worst_error
    assert found.problem.resolution.cycles_per_unit == found.cycles_per_unit


def test_a_real_loop() -> None:
    exact = problem("fa_fwd_subtiled.sm90")
    found = normalization(exact)
    checked(found, 300)
    longest = max(found.table)
    assert abs(found.table[longest] * found.cycles_per_unit - longest) < 0.1 * longest


def test_sums_are_not_rounded() -> None:
    exact = problem("fa_fwd_subtiled.sm90")
    found = normalization(exact)
    for unit in (u for u in exact.units if u.aggregate):
        before, after = (share(p, unit.name) for p in (exact, found.problem))
        assert after * found.cycles_per_unit == pytest.approx(before, rel=0.01)


def share(problem: Problem, unit: str) -> float:
    """The interval that an aggregate unit asks for."""
    capacity = next(u.capacity for u in problem.units if u.name == unit)
    return (
        sum(r.amount * r.cycles for op in problem.operations for r in op.reservations if r.unit == unit)
        / capacity
    )


def test_durations_that_keep_their_ratios_lose_nothing() -> None:
    found = normalization(of([64, 128, 512]), 300)
    assert (found.error, found.worst_error, found.moved) == (0, 0.0, ())
    assert found.cycles_per_unit * sum(found.table.values()) == 704


def test_too_small_a_total_is_refused() -> None:
    with pytest.raises(TwillError, match="4 different durations"):
        normalize(of([1, 2, 3, 4]), 3)
