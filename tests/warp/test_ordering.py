"""In which order groups use the tensor core."""

from dataclasses import replace

from tests.kernels.programs import loops
from twill.warp.dataflow import read
from twill.warp.events import is_mma
from twill.warp.ordering import ahead, hand_offs
from twill.warp.tasks import tasks

MMAS = {"dot.scores1": (0, 2), "dot.scores0_12": (595, 1), "dot.acc1_44": (3282, 2), "dot.acc0_38": (3794, 3)}
"""Start and group: the second group has the first and the third run of an interval of 2153."""


def test_groups_follow_each_other_in_the_order_of_their_first_runs() -> None:
    """So that one signal goes around: a second one could overtake it."""
    module, (one,) = loops("fa_fwd_subtiled")
    code = read(module, one.loop.function)
    starts = tuple(
        MMAS.get(op.id, (start, 0))[0]
        for op, start in zip(one.problem.operations, one.solution.start, strict=True)
    )
    scheduled = replace(one, solution=replace(one.solution, interval=2153, start=starts))
    mmas = [task for task in tasks(code, scheduled) if is_mma(code, task)]
    made = tuple(replace(task, start=MMAS[task.id][0], group=MMAS[task.id][1]) for task in mmas)
    found = hand_offs(scheduled, made)
    assert [(one.signaller, one.waiter) for one in found] == [(2, 1), (1, 3), (3, 2)]
    shifts = dict.fromkeys(range(1, 4), 0)
    assert [ahead(scheduled, one, shifts) for one in found] == [0, 0, 1]


def test_a_loop_of_one_iteration_has_no_order() -> None:
    """Where nothing of it overlaps another iteration by its schedule either."""
    module, (one,) = loops("fa_fwd_subtiled")
    code = read(module, one.loop.function)
    mmas = tuple(task for task in tasks(code, one) if is_mma(code, task))
    once = replace(one, loop=replace(one.loop, most_trips=1))
    length = one.solution.length(one.problem)
    apart = replace(once, solution=replace(one.solution, interval=length))
    assert one.solution.in_flight(one.problem) > 1
    assert hand_offs(one, mmas)
    assert hand_offs(once, mmas)
    assert not hand_offs(apart, mmas)
