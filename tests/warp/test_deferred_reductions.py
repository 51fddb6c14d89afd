"""Sums whose threads combine after the loop."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops
from twill.warp.dataflow import read
from twill.warp.deferred_reductions import deferred_reductions
from twill.warp.tasks import tasks

MODULE, (ONE,) = loops("fa_fwd")
SUM = "reduce_sum.13"
"""total = total * shrink + the sum of the weights."""


@pytest.mark.parametrize(
    ("moved", "deferred"),
    [((), True), ((SUM,), False), (("mul.12",), False), (("add.14",), False), (("mul.acc_24",), True)],
)
def test_one_group_computes_all_of_a_deferred_sum(moved: tuple[str, ...], *, deferred: bool) -> None:
    """A slot has one element for all threads of a row, and no place for what each of them has. Where the sum
    came from another group and the total was finalized, it was counted once for each of these threads."""
    code = read(MODULE, ONE.loop.function)
    made = tasks(code, ONE)
    assert set(moved) <= {task.id for task in made}
    placed = tuple(replace(task, group=task.group + 5 * (task.id in moved)) for task in made)
    (found,) = deferred_reductions(code, [(ONE, placed)])
    assert (found.tasks == {SUM}) == deferred
    assert bool(found.finalized) == deferred
