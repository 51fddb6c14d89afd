"""Which launch simulate takes where the default arguments show nothing."""

import pytest

from tests.kernels.programs import program
from tests.simulate.test_values import GEMM, grid
from twill.simulate import explore, launches
from twill.simulate.check import Trial
from twill.simulate.launches import compared_first

FAR = Trial(GEMM, grid(100, 0), (), ())
"""A program of the grid that has no tile."""


def test_the_first_launch_is_taken_where_it_shows_something() -> None:
    found = compared_first(program("gemm"), Trial(GEMM, grid(1, 1), (), ()), others=True)
    assert (found.trial.grid["pid.x"], found.because) == (1, "")
    assert found.values > 32_000


def test_another_one_where_it_writes_nothing() -> None:
    found = compared_first(program("gemm"), FAR, others=True)
    assert found.trial.grid["pid.x"] < 100
    assert found.values
    assert found.because == "this program of the grid writes nothing finite"


def test_the_one_that_is_asked_for() -> None:
    found = compared_first(program("gemm"), FAR, others=False)
    assert (found.trial, found.values) == (FAR, 0)


def test_too_many_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Trial({"M": 512, "N": 512, "K": 2**17}, grid(0, 0), (), ())
    monkeypatch.setattr(launches, "OPERATIONS", 1000)
    found = compared_first(program("gemm"), first, others=True)
    assert found.values
    assert found.trial.numbers["K"] < 1000
    assert found.because == "this program of the grid executes more than 1000 operations"


def test_counts_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explore.explore_counts(program("gemm"), range(4))
    assert all(one.complete for one in whole)
    monkeypatch.setattr(explore, "IN_ALL", whole[0].states + whole[1].states + whole[2].states // 2)
    monkeypatch.setattr(explore, "EACH", 3)
    found = explore.explore_counts(program("gemm"), range(4))
    assert [one.complete for one in found] == [True, True, False, False]
    assert found[3].states == 3
