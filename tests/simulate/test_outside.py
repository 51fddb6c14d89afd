"""What a thread block waits for before it can issue the first load of a loop."""

import pytest

from tests.kernels.programs import loops, program
from twill.simulate.outside import arrivals
from twill.simulate.predict import block_time


@pytest.mark.parametrize(
    ("name", "count"),
    [("matmul_32", 0), ("gathered", 1), ("grouped", 1), ("listed", 1), ("consulted", 0)],
)
def test_loads_that_addresses_follow_from(name: str, count: int) -> None:
    made, (_, scheduled) = program(name), loops(name)
    assert arrivals(made, scheduled) == count


def test_a_block_waits_for_them_before_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    made, (_, scheduled) = program("gathered"), loops("gathered")
    trips = {scheduled[0].loop.op.index: 4}
    after = block_time(made, scheduled, trips)
    monkeypatch.setattr("twill.simulate.predict.arrivals", lambda *given: 0)  # pyright: ignore
    assert after == block_time(made, scheduled, trips) + scheduled[0].machine.loads.arrival
