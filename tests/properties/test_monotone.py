"""The theorem that refutations lean on: feasible at I with n in_flight is feasible at I + 1 with n in_flight
(`Problem.monotone`)."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.oracle import TooLargeError, best
from tests.properties.strategies import problems
from twill.ir.problem import Operation, Problem, Reservation, Unit


def monotone(problem: Problem) -> Problem:
    ops = (
        replace(op, reservations=tuple(replace(r, offset=0) for r in op.reservations))
        for op in problem.operations
    )
    return replace(problem, operations=tuple(ops), starts=())


@settings(max_examples=150, deadline=None)
@given(problems().map(monotone), st.integers(1, 3), st.booleans())
def test_a_longer_period_never_hurts(problem: Problem, in_flight: int, joint: bool) -> None:
    assert problem.monotone
    left, works = [4000], False
    try:
        for interval in range(1, 8):
            feasible = best(problem, interval, in_flight, joint=joint, left=left) is not None
            assert feasible or not works, f"feasible at {interval - 1} and not at {interval}"
            works = feasible
    except TooLargeError:
        pass


def test_an_offset_breaks_it() -> None:
    """Why `Problem.monotone` asks for offsets of 0: a table of two parts that meets itself every second
    interval."""
    table = (Reservation("TC", 1), Reservation("TC", 1, offset=3))
    problem = Problem("offset", "toy", (Unit("TC"),), (Operation("a", "op", table),), ())
    works = [best(problem, interval, 4, joint=False) is not None for interval in range(1, 7)]
    assert not problem.monotone
    assert works == [False, True, False, True, True, True]
