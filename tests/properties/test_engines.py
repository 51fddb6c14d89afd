"""Every engine and the search against the exhaustive oracle: a few of the loops that `benchmarks/fuzz.py`
runs by the ten thousand."""

from dataclasses import replace

import pytest

from benchmarks.fuzz import Plan, judge

ENOUGH = Plan(engines=(), search=False, in_flight=2, last=5, most=3, visits=10000, seconds=20.0)


def problems(plan: Plan, seeds: range) -> list[str]:
    return [f"seed {seed}: {text}" for seed in seeds for text in judge(plan, seed).problems]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pulp")
@pytest.mark.parametrize(
    ("engine", "count"), [("cpsat", 60), ("sat", 25), ("yices", 12), ("cbc", 12), ("scip", 12)]
)
def test_an_engine(engine: str, count: int) -> None:
    assert problems(replace(ENOUGH, engines=(engine,)), range(1000, 1000 + count)) == []


def test_a_single_iteration() -> None:
    """It begins with its period, and needs no second copy of a reservation."""
    assert problems(replace(ENOUGH, engines=("cpsat",), in_flight=1), range(3000, 3060)) == []


def test_the_search() -> None:
    assert problems(replace(ENOUGH, search=True), range(2000, 2010)) == []
