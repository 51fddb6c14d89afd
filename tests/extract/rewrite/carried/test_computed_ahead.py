"""Pointers that a loop computes for its next iterations, computed where they are read."""

import pytest

from tests.extract.rewrite.control.test_predication import module
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.computed_ahead import computed_in_place


def test_pointers_of_later_iterations_are_not_carried() -> None:
    """One that is carried twice, too: it is what another one was an iteration before."""
    before = module("foreseen")
    (loop,), (made,) = loops(before), loops(computed_in_place(before))
    assert len(loop.carried) == 5
    assert [one.arg.name for one in made.carried] == ["%acc_1"]


@pytest.mark.parametrize(
    ("written", "other"),
    [("arith.constant dense<64>", "arith.constant dense<32>"), ("arith.constant 2 :", "arith.constant 3 :")],
)
def test_another_initial_value_stays_carried(written: str, other: str) -> None:
    """The first iterations would read other places."""
    made = module("foreseen")
    assert written in made.text
    changed = read(made.text.replace(written, other), made.file)
    (loop,) = loops(computed_in_place(changed))
    assert len(loop.carried) > 1
