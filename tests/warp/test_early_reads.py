"""Waits for slots, and reads of vectors from them, before waits for MMAs."""

from dataclasses import replace
from itertools import takewhile

from tests.kernels.programs import changed, loops, measured, program
from twill.ir.program import Program
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    ConsumerWait,
    LocalLoad,
    MmaIssue,
    MmaWait,
    Pipelined,
    Statement,
    walk,
)
from twill.simulate.check import check
from twill.targets.hopper import TARGET
from twill.warp.lower import lower
from twill.warp.plan import Options


def _loop(made: Program) -> Pipelined:
    """Of the group that issues MMAs."""
    every = (one for group in made.groups for one in walk(group.body) if isinstance(one, Pipelined))
    return next(loop for loop in every if any(isinstance(one, MmaIssue) for one in loop.steady))


def _before_the_last_wait(made: Program) -> list[str]:
    """What stands in an interval between the last MMA and the wait for it."""
    steady = list(_loop(made).steady)
    last = max(i for i, one in enumerate(steady) if isinstance(one, MmaIssue))
    found = takewhile(lambda one: not isinstance(one, MmaWait), steady[last + 1 :])
    return [_named(one) for one in found]


def _named(one: Statement) -> str:
    match one:
        case ConsumerWait(channel=name) | ConsumerRelease(channel=name):
            return f"{type(one).__name__} {name}"
        case LocalLoad(register=register):
            return f"LocalLoad {register.variable}"
        case _:
            return type(one).__name__


def test_an_interval_begins_with_its_first_mma() -> None:
    """The slot of its operand is waited for, and the vector behind the next wait read, beside the last MMAs
    of the interval before."""
    made = program("fa_bwd")
    assert isinstance(_loop(made).steady[0], MmaIssue)
    assert _before_the_last_wait(made) == [
        "ConsumerWait x",
        "ConsumerWait weights_18",
        "LocalLoad weights_18",
        "ConsumerRelease weights_18",
    ]


def test_iterations_begin_one_interval_later() -> None:
    """The first one is peeled still, and nothing is read for an iteration after the last."""
    loop = _loop(program("fa_bwd"))
    assert loop.stages == 3
    first = [one for one in loop.prologue if isinstance(one, MmaIssue)]
    assert {one.at.iteration.base for one in first} == {"first"}
    assert {one.at.iteration.offset for one in first} == {0}
    reads = [one for one in loop.epilogue if isinstance(one, LocalLoad)]
    assert [one.register.variable for one in reads] == ["slopes_26"]
    assert {one.source.iteration for one in reads} == {one.at.iteration for one in reads}


def test_another_vector_is_read_before_its_wait() -> None:
    steady = list(_loop(program("fa_bwd")).steady)
    (read,) = (
        i
        for i, one in enumerate(steady)
        if isinstance(one, LocalLoad) and one.register.variable == "slopes_26"
    )
    assert isinstance(steady[read - 1], ConsumerWait)
    assert isinstance(steady[read - 2], Compute), "beside the MMA, the group computes"
    assert isinstance(steady[read + 1], ConsumerRelease)
    assert isinstance(steady[read + 2], MmaWait)


def test_a_load_that_needs_the_slot_in_use_is_not_waited_for_early() -> None:
    """With one slot of x, the next one is loaded only when the last MMA has read it."""
    made = changed("fa_bwd", Options(depths={"x": 1}))
    assert _before_the_last_wait(made) == []
    assert not any(isinstance(one, LocalLoad) for one in _loop(made).steady)


def test_what_is_loaded_before_has_its_slot_an_interval_earlier() -> None:
    """g of an iteration is loaded before x of the next. Its one slot is released at the end of an interval,
    but that of the iteration before: x is there."""
    one = changed("fa_bwd", Options(depths={"g": 1}))
    assert _before_the_last_wait(one) == _before_the_last_wait(program("fa_bwd"))
    assert check(one).runs
    vector = changed("fa_bwd", Options(depths={"slopes_26": 1}))
    assert _before_the_last_wait(vector) == _before_the_last_wait(program("fa_bwd"))


def test_a_vector_without_registers_stays() -> None:
    """Where the group holds most of its registers while the vector waits for its reader, here in scores."""
    module, (one,) = loops("fa_bwd")
    values = tuple(
        replace(value, registers=300) if value.id == "dot.weights_15" else value
        for value in one.problem.values
    )
    made = lower(module, [replace(one, problem=replace(one.problem, values=values))], TARGET)
    assert _before_the_last_wait(made) == []


def test_what_is_loaded_behind_in_an_interval_holds_nothing_up() -> None:
    """x1 and g1 have one slot, released at the end of an interval; they are loaded behind x0 and g0 of their
    iteration, and x0 of the next one needs only those of this iteration."""
    assert _before_the_last_wait(program("fa_bwd_subtiled")) == [
        "ConsumerWait x0",
        "ConsumerWait g0",
        "ConsumerWait weights_20",
        "LocalLoad weights_20",
        "ConsumerRelease weights_20",
    ]


def test_a_vector_is_read_beside_the_mmas_that_a_wait_before_its_own_is_for() -> None:
    """One tile behind the other: between them, all MMAs of the first are waited for."""
    steady = list(_loop(lower(*measured("fa_bwd_subtiled"), TARGET)).steady)
    (read,) = (
        i
        for i, one in enumerate(steady)
        if isinstance(one, LocalLoad) and one.register.variable == "weights_39"
    )
    issued = [one.node for one in steady[:read] if isinstance(one, MmaIssue)]
    assert issued[-1] == "dot.dz_52"
    behind = takewhile(lambda one: not isinstance(one, MmaIssue), steady[read:])
    assert any(isinstance(one, MmaWait) for one in behind)


def test_every_interleaving_and_number_of_iterations_is_right() -> None:
    """None to four iterations: fewer than stages, one of each part of the loop, and several."""
    assert check(program("fa_bwd")).runs
