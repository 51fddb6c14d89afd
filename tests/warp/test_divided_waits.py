"""Waits that divide elementwise operations: what goes before the wait, and what follows slice by slice."""

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.programs import loops, program
from twill.ir.program import Program
from twill.ir.statements import SLICES, Compute, MmaIssue, MmaWait, Pipelined, SchedulingFence, walk
from twill.simulate.predict import intervals
from twill.targets import target
from twill.targets.hopper import source
from twill.warp.lower import lower
from twill.warp.slices import LAG

KERNEL = "fa_fwd_subtiled_divided"


def _steady(group: int) -> list[object]:
    found = next(one for one in program(KERNEL).groups if one.id == group)
    (loop,) = (one for one in walk(found.body) if isinstance(one, Pipelined))
    return list(loop.steady)


def _slices(group: int, name: str) -> list[Compute]:
    return [s for s in _steady(group) if isinstance(s, Compute) and s.node.startswith(name)]


@pytest.mark.parametrize("group", [1, 2])
def test_the_wait_for_the_accumulator_stands_behind_the_first_slice(group: int) -> None:
    steady = _steady(group)
    (wait,) = (i for i, s in enumerate(steady) if isinstance(s, MmaWait) and s.pending == 0)
    first, second, *_ = (steady.index(one) for one in _slices(group, "exp2.weights"))
    (rescaled,) = (steady.index(one) for one in _slices(group, "mul.acc"))
    assert first < wait < rescaled < second
    assert isinstance(steady[wait - 1], SchedulingFence)
    assert sum(isinstance(s, SchedulingFence) for s in steady) == 1


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("name", ["ffma.weights", "exp2.weights", "reduce_sum", "trunc"])
def test_every_slice_is_computed_once_and_row_by_row(group: int, name: str) -> None:
    parts = _slices(group, name)
    assert all(part.by_rows for part in parts)
    assert [part.begin for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == SLICES


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("name", ["reduce_sum", "trunc"])
def test_a_follower_stays_behind(group: int, name: str) -> None:
    """Before the last slice of the exponentials it is LAG slices behind, and no MMA is issued between."""
    steady, led = _steady(group), _slices(group, "exp2.weights")
    for part in _slices(group, name):
        done = max(one.end for one in led if steady.index(one) < steady.index(part))
        assert part.end <= (done if done == SLICES else done - LAG)
    begin, end = steady.index(led[0]), steady.index(_slices(group, name)[-1])
    assert not any(isinstance(s, MmaIssue) for s in steady[begin:end])


def test_a_thread_goes_through_a_row_before_the_next() -> None:
    """Its 64 elements are pairs of neighbours of two rows, alternately."""
    order = [j % 32 // 2 * 4 + j // 32 * 2 + j % 2 for j in range(64)]
    assert "const int i_ = j_ % 32 / 2 * 4 + j_ / 32 * 2 + j_ % 2; true" in source(program(KERNEL))
    assert sorted(order) == list(range(64))
    assert {i // 2 % 2 for i in order[:32]} == {0}
    assert np.all(np.diff(order[:32]) > 0)


def _nodes(made: Program, group: int) -> list[str]:
    """The operations of a group's steady state, in order."""
    found = next(one for one in made.groups if one.id == group)
    (loop,) = (one for one in walk(found.body) if isinstance(one, Pipelined))
    return [s.node for s in loop.steady if isinstance(s, Compute | MmaIssue)]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("shift", [300, 497, 800])
def test_an_interval_begins_where_it_cuts_no_divided_operation(shift: int, group: int) -> None:
    """Wherever the schedule's interval begins: exponentials across the back edge are serialized (C7511)."""
    module, (one,) = loops(KERNEL)
    start = tuple(time + shift for time in one.solution.start)
    moved = replace(one, solution=replace(one.solution, start=start))
    assert _nodes(lower(module, (moved,), target("sm90")), group) == _nodes(program(KERNEL), group)


def test_slices_between_each_other_s_take_less_time() -> None:
    """Units work side by side: predicted as measured, 2% faster than operations one behind the other."""
    _, scheduled = loops(KERNEL)
    made = program(KERNEL)
    apart = replace(
        made,
        groups=tuple(replace(one, body=tuple(map(_whole_rows, one.body))) for one in made.groups),
    )
    ours, theirs = (sum(intervals(one, scheduled).values()) for one in (made, apart))
    assert ours < 2250 < 2400 < theirs


def _whole_rows(statement: object) -> object:
    if isinstance(statement, Pipelined):
        steady = tuple(map(_whole_rows, statement.steady))
        return replace(statement, steady=steady)
    return replace(statement, by_rows=False) if isinstance(statement, Compute) else statement


@pytest.mark.parametrize("later", [0, 300])
def test_a_follower_begins_with_its_first_slice(later: int) -> None:
    """Also where half of what it follows is made before the wait."""
    module, (one,) = loops(KERNEL)
    start = tuple(
        time + later * (operation.id == "mul.acc0_36")
        for operation, time in zip(one.problem.operations, one.solution.start, strict=True)
    )
    made = lower(module, (replace(one, solution=replace(one.solution, start=start)),), target("sm90"))
    (loop,) = (s for s in walk(made.groups[1].body) if isinstance(s, Pipelined))
    for name in ("exp2.weights_20", "reduce_sum.24", "trunc.acc0_33"):
        parts = [s for s in loop.steady if isinstance(s, Compute) and s.node == name]
        assert [part.begin for part in parts] == [0, *(part.end for part in parts[:-1])]
        assert parts[-1].end == SLICES
