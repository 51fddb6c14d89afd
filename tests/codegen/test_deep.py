"""Schedules with more iterations in flight: values with several instances, loops of fewer iterations than stages."""

from dataclasses import replace

import pytest

from tests.codegen.programs import loops
from tests.simulate.test_values import grid
from twill.codegen.lower import lower
from twill.ir.program import Move, Pipelined, Program, walk
from twill.simulate.compare import compare
from twill.simulate.explore import explore, same

LATER = ("load.z", "trunc.acc_21", "mul.acc_24", "dot.acc_26")


def delayed(intervals: int) -> Program:
    """`fa_fwd`, with the product of weights and values so many intervals later than need be."""
    module, (one,) = loops("fa_fwd")
    solution = one.solution
    starts = tuple(
        start + solution.interval * intervals if op.id in LATER else start
        for op, start in zip(one.problem.operations, solution.start, strict=True)
    )
    return lower(module, [replace(one, solution=replace(solution, start=starts))])


@pytest.mark.parametrize("intervals", [1, 2])
def test_values_that_outlive_an_interval_are_kept(intervals: int) -> None:
    made = delayed(intervals)
    loop = next(s for s in walk(made.groups[1].body) if isinstance(s, Pipelined))
    assert loop.stages == 2 + intervals
    assert {move.variable for move in loop.steady if isinstance(move, Move)} >= {"weights_18", "shrink_19", "highest_6"}
    assert max(move.age for move in loop.steady if isinstance(move, Move)) == intervals
    assert loop.short


@pytest.mark.parametrize("intervals", [1, 2])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 6])
def test_every_trip_count_gives_the_same_values(intervals: int, blocks: int) -> None:
    made = delayed(intervals)
    assert explore(made, same(blocks)).complete
    found = compare(made, {"heads": 1, "length": 128 * blocks, "scale": 0.09}, grid(0, 0, (blocks, 1)))
    assert all(one.good for one in found), found
