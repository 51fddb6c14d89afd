"""Loops whose tiles do not fit in shared memory with all else are scheduled again with less of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.kernels.programs import changed, program
from twill.diagnostics import TwillError
from twill.files import load, read_schedule
from twill.generation import loop_nest
from twill.inputs import Case, Inputs, cases
from twill.ir.loop import Module
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.warp.lower import lower
from twill.warp.plan import Draft, Options
from twill.warp.slot_counts import SharedMemoryError
from twill.warp.slot_tensors import ALIGNMENT
from twill.warp.target import Target
from twill.warp.tasks import Scheduled
from twill.warp.validate import validate

SCHEDULE = "tests/kernels/schedules/gemm.for.0.json"


@pytest.fixture
def loops() -> tuple[Case, ...]:
    return cases(Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90"))


def given(limits: list[int]) -> Callable[[Problem], Result]:
    """The kept schedule for any problem; notes how much shared memory it may use."""
    kept = read_schedule(load(SCHEDULE), SCHEDULE).result

    def solve(problem: Problem) -> Result:
        limits.append(problem.limits.shared)
        return replace(kept, problem=problem)

    return solve


def full(fits: int) -> Callable[..., Program]:
    """Lowering that finds too little room unless so many bytes are withheld."""

    def lowered(
        module: Module,
        loops: Sequence[Scheduled],
        target: Target,
        options: Options,
        observe: Callable[[str, Draft], None],
    ) -> Program:
        if options.withheld < fits:
            raise SharedMemoryError("the channels need too much")
        return lower(module, loops, target, options, observe)

    return lowered


def test_schedules_use_less_where_it_does_not_fit(
    loops: tuple[Case, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_nest, "lower", full(loop_nest.WITHHELD[2]))
    limits = list[int]()
    made, _ = loop_nest.program(loops, given(limits))
    most = loops[0].problem.limits.shared
    assert limits == [most - withheld for withheld in loop_nest.WITHHELD[:3]]
    assert any("bytes of shared memory less" in note for note in made.notes)
    assert made.shared.limit == most, "what was withheld from the schedules is there for all else"


def test_an_attempt_that_fits_is_the_last(loops: tuple[Case, ...]) -> None:
    limits = list[int]()
    made, _ = loop_nest.program(loops, given(limits))
    assert len(limits) == 1
    assert not any("less" in note for note in made.notes)


def test_what_never_fits_is_refused(loops: tuple[Case, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_nest, "lower", full(1 << 30))
    with pytest.raises(SharedMemoryError, match="too much"):
        loop_nest.program(loops, given([]))


def test_given_schedules_are_lowered_once(loops: tuple[Case, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same with less memory."""
    monkeypatch.setattr(loop_nest, "lower", full(1))
    limits = list[int]()
    with pytest.raises(SharedMemoryError, match="too much"):
        loop_nest.program(loops, given(limits), given=True)
    assert len(limits) == 1


def test_no_more_is_used_than_there_is(loops: tuple[Case, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the schedule is one for all of it, and does without nothing."""
    kept = read_schedule(load(SCHEDULE), SCHEDULE).result
    monkeypatch.setattr(loop_nest, "lower", full(loop_nest.WITHHELD[2]))
    made, (found,) = loop_nest.program(loops, lambda problem: kept)
    assert made.shared.limit == loops[0].problem.limits.shared
    roomy = replace(made.shared, limit=2 * made.shared.limit, bytes=made.shared.limit)
    with pytest.raises(TwillError, match="over the limit of"):
        validate(replace(made, shared=roomy), found.machine.limits)


def test_with_one_group_that_computes_where_less_memory_is_no_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tile in registers passes through shared memory then."""
    attention, groups = cases(Inputs("examples/ttgir/fa_fwd.sm90.ttgir", arch="sm90")), list[int]()
    name = "tests/kernels/schedules/fa_fwd.for.0.json"
    kept = read_schedule(load(name), name).result

    def solve(problem: Problem) -> Result:
        groups.append(problem.limits.groups)
        return replace(kept, problem=problem)

    def lowered(
        module: Module,
        loops: Sequence[Scheduled],
        target: Target,
        options: Options,
        observe: Callable[[str, Draft], None],
    ) -> Program:
        if groups[-1] > 2:
            raise SharedMemoryError("the channels need too much")
        return lower(module, loops, target, options, observe)

    monkeypatch.setattr(loop_nest, "lower", lowered)
    loop_nest.program(attention, solve)
    assert [count > 2 for count in groups] == [*[True] * len(loop_nest.WITHHELD), False]


def test_numbers_that_say_what_is_loaded_have_as_many_slots_as_the_loads() -> None:
    """The group that loads reads a number in every iteration, and hands it to the group that computes."""
    channels = program("skipping").channels
    numbers = [one for one in channels if all(tensor.shape == (1,) for tensor in one.tensors)]
    loads = [one for one in channels if one.filled_by in ("tma", "cp_async") and one.id != "x"]
    assert numbers, "x is loaded once, before the loop"
    assert min(one.depth for one in numbers) >= min(one.depth for one in loads) > 2


@pytest.mark.parametrize("kernel", ["fa_fwd_passed.sm100", "fa_bwd.sm100", "skipping.sm100"])
def test_barriers_of_tensor_memory_have_room(kernel: str) -> None:
    """What is given is 8 bytes less than what the kernel takes with all slots: one has to go."""
    whole = program(kernel)
    less = whole.shared.bytes + ALIGNMENT - 8 - whole.shared.limit
    made = changed(kernel, Options(withheld=less))
    assert made.shared.limit == whole.shared.limit + less
    assert made.shared.bytes + ALIGNMENT <= made.shared.limit
    assert sum(one.depth for one in made.channels) < sum(one.depth for one in whole.channels)
    assert len(made.dependences) == len(whole.dependences) > 0
