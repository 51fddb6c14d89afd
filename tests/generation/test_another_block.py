"""A kernel that leaves an SM idle is scheduled again for limits that leave room for another thread block."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pytest

from twill.diagnostics import TwillError
from twill.files import load, read_schedule
from twill.generation.attempt import Attempt, least_of_sm
from twill.generation.attempts import fastest
from twill.generation.choices.stated import Stated
from twill.generation.loop_nest import program
from twill.inputs import Case, Inputs, cases
from twill.ir.loop import Op
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options as Limits
from twill.modulo.bounds import bounds
from twill.ops.table import role
from twill.pipeline import solve
from twill.simulate.predict import busy
from twill.targets import EXACT_LAYOUTS
from twill.warp.plan import Options

KERNEL = "tests/kernels/ttgir/pointers_16.sm90.ttgir"
SCHEDULE = "tests/kernels/schedules/pointers_16.for.0.json"


TWO_COMPUTE = "tests/kernels/ttgir/faded.sm90.ttgir"
SCHEDULE_OF_TWO = "tests/kernels/schedules/faded.for.0.json"


def lowered(found: Sequence[Case], schedule: str = SCHEDULE) -> Attempt:
    kept = read_schedule(load(schedule), schedule).result
    made, loops = program(found, lambda problem: replace(kept, problem=problem))
    return Attempt(tuple(found), made, loops, {found[0].name: kept}, {})


def waiting(monkeypatch: pytest.MonkeyPatch, first: Attempt, factor: float) -> None:
    """Every thread block takes so many times as long for an iteration as the busiest unit of the SM, were it
    divided among the blocks of the first attempt."""
    busy = bounds(first.loops[0].problem).resource.value
    cycles = busy * factor * first.program.resident_blocks
    found = type("Found", (), {"loops": {first.loops[0].loop.path: type("Loop", (), {"interval": cycles})}})

    def predicted(*_: object) -> object:
        return found

    monkeypatch.setattr("twill.simulate.predict.predict", predicted)


IDLE = 16.0
"""How many times as long as its busiest unit an SM takes that waits for itself, not for L2."""


def more_blocks(one: Attempt, count: int) -> Attempt:
    launch = replace(one.program.launch, blocks=count)
    return replace(one, program=replace(one.program, launch=launch, by_tma=None))


def test_another_block_where_the_sm_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    found, tried = cases(Inputs(KERNEL, arch="sm90")), list[Case]()
    first = more_blocks(lowered(found), 2)
    waiting(monkeypatch, first, IDLE)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend(given)
        return first if len(tried) == 1 else more_blocks(first, 4)

    best = fastest(found, attempt)
    assert best.program.resident_blocks == 4
    assert "4 thread blocks on an SM" in best.program.notes[-1]
    before, after = (case.problem.limits for case in tried)
    assert after.shared < before.shared
    assert after.registers_per_thread <= before.registers_per_thread
    assert 3 * 32 * 4 * after.registers_per_thread <= before.registers_total


@pytest.mark.parametrize("fewer", [True, False])
def test_loads_run_ahead_as_far_as_a_part_of_an_sm_holds(
    monkeypatch: pytest.MonkeyPatch, fewer: bool
) -> None:
    """The loops are stated again where a part holds less, and keep the limits of the part."""
    inputs, tried = Inputs(KERNEL, arch="sm90"), list[Case]()
    found = cases(inputs)
    tiles = sum(2 * value.shared for value in found[0].problem.values)
    if fewer:
        found = tuple(replace(one, problem=_with_memory(one.problem, tiles)) for one in found)
    first = more_blocks(lowered(found), 2)
    waiting(monkeypatch, first, IDLE)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend(given)
        return first if len(tried) == 1 else more_blocks(first, 4)

    class InPart(Stated):
        def in_part(self, blocks: int) -> tuple[Case, ...]:
            assert blocks == 3
            loads = [op.id for op in self.loops[0].problem.operations if op.streaming]
            return cases(replace(self.inputs, ahead=tuple((load, 0) for load in loads)))

    assert fastest(found, attempt, stated=InPart(inputs, found)).program.resident_blocks == 4
    before, after = (case.problem for case in tried)
    assert after.limits.shared < before.limits.shared
    assert any(op.streaming for op in before.operations)
    assert any(op.streaming for op in after.operations) != fewer


def _with_memory(problem: Problem, shared: int) -> Problem:
    return replace(problem, limits=replace(problem.limits, shared=shared))


@pytest.mark.parametrize("blocks", [2, None])
def test_the_first_schedule_where_no_other_block_helps(
    monkeypatch: pytest.MonkeyPatch, blocks: int | None
) -> None:
    """As many blocks as before, or no schedule."""
    found = cases(Inputs(KERNEL, arch="sm90"))
    first, tried = more_blocks(lowered(found), 2), list[Case]()
    waiting(monkeypatch, first, IDLE)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend(given)
        if len(tried) > 1 and blocks is None:
            raise TwillError("no schedule")
        return first

    assert fastest(found, attempt) is first
    assert len(tried) == 2


@pytest.mark.parametrize(("most", "tried"), [(2, 1), (3, 2)])
def test_no_more_blocks_than_are_wanted(monkeypatch: pytest.MonkeyPatch, most: int, tried: int) -> None:
    found, calls = cases(Inputs(KERNEL, arch="sm90")), 0
    first = more_blocks(lowered(found), 2)
    waiting(monkeypatch, first, IDLE)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        nonlocal calls
        calls += 1
        return first

    assert fastest(found, attempt, most_blocks=most) is first
    assert calls == tried


def test_no_other_block_where_the_sm_waits_for_l2(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them would load less far ahead."""
    found, tried = cases(Inputs(KERNEL, arch="sm90")), list[Case]()
    first = more_blocks(lowered(found), 2)
    waiting(monkeypatch, first, 2.0)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend(given)
        return first

    assert fastest(found, attempt) is first
    assert len(tried) == 1


def test_what_takes_too_long_by_its_bound_is_not_scheduled() -> None:
    found = cases(Inputs(KERNEL, arch="sm90"))
    least = least_of_sm(found)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        raise TwillError("scheduled")

    with pytest.raises(TwillError, match="cycles at least, more than"):
        fastest(found, attempt, 0.99 * least)
    with pytest.raises(TwillError, match="scheduled"):
        fastest(found, attempt, least)


def test_a_busy_sm_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cases(Inputs(KERNEL, arch="sm90"))
    first, tried = more_blocks(lowered(found), 2), list[Case]()
    residency = first.loops[0].machine.residency
    assert residency is not None
    waiting(monkeypatch, first, residency.idle)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend(given)
        return first

    assert fastest(found, attempt) is first
    assert len(tried) == 1


@pytest.mark.parametrize(("blocks", "taken"), [(2, True), (1, False)])
def test_a_block_for_each_group_that_computes(
    monkeypatch: pytest.MonkeyPatch, blocks: int, taken: bool
) -> None:
    """With no more groups than one that computes, and registers and shared memory for two blocks; taken where
    the SM is predicted to be faster at all. Otherwise schedules with more registers are tried, of which ptxas
    may take fewer, and one block, too."""
    found, tried = cases(Inputs(TWO_COMPUTE, arch="sm90")), list[tuple[Case, int]]()
    first = more_blocks(lowered(found, SCHEDULE_OF_TWO), 1)
    waiting(monkeypatch, first, 2.0)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend((case, room) for case in given)
        return first if len(tried) == 1 else more_blocks(first, blocks)

    best = fastest(found, attempt)
    (before, _), (after, _) = ((case.problem.limits, room) for case, room in tried[:2])
    assert (best is not first) == taken
    assert [room for _, room in tried] == ([1, 2] if taken else [1, 2, 2, 1])
    assert taken or tried[2][0].problem.limits.registers_per_thread >= after.registers_per_thread
    assert after.groups == 2
    assert before.shared - after.shared >= before.shared // 2 - 1024
    assert 200 <= after.registers_per_thread <= before.registers_per_thread


@pytest.mark.parametrize(
    ("trips", "cycles", "taken"), [(2, 1.9, True), (2, 2.0, False), (8, 1.9, False), (None, 1.9, False)]
)
def test_one_group_computes_where_loops_are_short(
    monkeypatch: pytest.MonkeyPatch, trips: int | None, cycles: float, taken: bool
) -> None:
    """Where an SM is predicted to be done with a thread block sooner: two blocks are on it then."""
    found, tried = cases(Inputs(TWO_COMPUTE, arch="sm90")), list[tuple[Case, int]]()
    first = more_blocks(lowered(found, SCHEDULE_OF_TWO), 1)
    waiting(monkeypatch, first, 1.0)

    def known(*_: object) -> int | None:
        return trips

    def block_time(program: object, loops: object, counts: Mapping[int, int]) -> float:
        assert set(counts.values()) == {trips}
        return 1e6 * (1.0 if program is first.program else cycles)

    monkeypatch.setattr("twill.generation.attempt.constant_trips", known)
    monkeypatch.setattr("twill.simulate.predict.block_time", block_time)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend((case, room) for case in given)
        return first if len(tried) == 1 else more_blocks(first, 2)

    best = fastest(found, attempt)
    assert (best is not first) == taken
    assert [room for _, room in tried] == ([1, 2] if trips == 2 else [1])
    assert all(case.problem.limits.groups == 2 for case, _ in tried[1:])


def of_two_groups(limit: float = 20) -> Attempt:
    """A product of packed weights of which one group converts them and another scales and multiplies."""
    path = "tests/kernels/ttgir/dequantized.sm90.ttgir"
    found = cases(Inputs(path, arch="sm90", exact_layouts=EXACT_LAYOUTS))
    apart, results = (("sitofp.whole_16", "stage.whole_21"),), dict[str, Result]()

    def solved(problem: Problem) -> Result:
        return results.setdefault(
            problem.name, solve(replace(problem, apart=apart), Limits(time_limit=limit))
        )

    made, loops = program(found, solved)
    return Attempt(tuple(found), made, loops, results, {})


@pytest.mark.parametrize(("cycles", "taken"), [(1.0, True), (1.01, False)])
def test_one_group_where_two_fit_but_for_the_tiles_that_pass(
    monkeypatch: pytest.MonkeyPatch, cycles: float, taken: bool
) -> None:
    """Taken where it is no slower: the first number of blocks that has a schedule, most first."""
    first, tried = of_two_groups(), list[tuple[Case, int]]()
    least = busy(first.loops[0])

    def of_sm(one: Attempt) -> float:
        return least if one is first else least * cycles

    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    alone = replace(first, loops=first.loops)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend((case, room) for case in given)
        if len(tried) == 1:
            return first
        if len(tried) == 2:
            raise TwillError("no schedule")
        return alone

    best = fastest(first.cases, attempt)
    assert (best is not first) == taken
    blocks = first.program.resident_blocks
    assert [room for _, room in tried] == [1, 2 * blocks, 2 * blocks - 1]
    assert [case.problem.limits.groups for case, _ in tried[1:]] == [2, 2]


def test_two_groups_that_fit_with_their_tiles_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    first, tried = of_two_groups(), list[Case]()

    def nothing(*_: object) -> dict[int, float]:
        return {}

    def of_sm(_: Attempt) -> float:
        return 0.0

    monkeypatch.setattr("twill.simulate.passing.passed", nothing)
    monkeypatch.setattr(Attempt, "of_sm", of_sm)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        tried.extend(given)
        return first

    assert fastest(first.cases, attempt) is first
    assert len(tried) == 1


@pytest.mark.parametrize(("idle", "passing", "tried"), [(1.15, True, 1), (1.05, True, 0), (1.15, False, 0)])
@pytest.mark.parametrize("stated", [True, False])
def test_groups_that_pass_tiles_keep_an_sm_less_busy_than_predicted(
    monkeypatch: pytest.MonkeyPatch, idle: float, passing: bool, tried: int, stated: bool
) -> None:
    """One group is tried where the busiest unit waits a little, with the operations as they are stated for
    one group, where these are others."""
    first, given = of_two_groups(), list[Case]()
    least = busy(first.loops[0])

    def of_sm(one: Attempt) -> float:
        return least * (idle if one is first else 1.0)

    def nothing(*_: object) -> dict[int, float]:
        return {}

    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    monkeypatch.setattr("twill.simulate.passing.passed", nothing)
    if not passing:
        monkeypatch.setattr("twill.simulate.passing.passing", nothing)

    def groups(one: Attempt) -> int:
        return 2 if one is first else 1

    monkeypatch.setattr("twill.generation.choices.shared_sm.computing", groups)

    class Fewer(Stated):
        @cached_property
        def one_group(self) -> tuple[Case, ...]:
            (case,) = self.loops
            return (replace(case, problem=replace(case.problem, operations=case.problem.operations[1:])),)

    def attempt(found: Sequence[Case], room: int) -> Attempt:
        given.extend(found)
        return first if len(given) == 1 else replace(first, loops=first.loops)

    best = fastest(first.cases, attempt, stated=Fewer(Inputs(TWO_COMPUTE), first.cases) if stated else None)
    assert (best is not first) == bool(tried)
    assert len(given) == 1 + tried
    before = first.cases[0].problem.operations
    assert all(one.problem.operations == before[stated:] for one in given[1:])
    assert best.several is (first if tried else None)


@pytest.mark.parametrize(
    ("dots", "cycles", "times", "taken"),
    [(True, 1.0, 2, True), (True, 1.0, 1, True), (True, 1.01, 2, False), (False, 1.0, 2, False)],
)
def test_groups_that_wait_for_their_own_mmas_pass_no_tiles(
    monkeypatch: pytest.MonkeyPatch, dots: bool, cycles: float, times: int, taken: bool
) -> None:
    """MMAs of warps: one group computes, in up to `times` as many thread blocks, where that is predicted to
    be no slower."""
    first, rooms = of_two_groups(), list[int]()
    least = busy(first.loops[0])

    def nothing(*_: object) -> dict[int, float]:
        return {}

    def of_warps(op: Op) -> str | None:
        return "dot" if (found := role(op)) == "wgmma" and dots else found

    def of_sm(one: Attempt) -> float:
        return least if one is first else least * cycles

    monkeypatch.setattr("twill.simulate.passing.passed", nothing)
    monkeypatch.setattr("twill.generation.attempt.role", of_warps)
    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    alone = replace(first, loops=first.loops)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        rooms.append(room)
        return first if len(rooms) == 1 else alone

    most = times * first.program.resident_blocks
    assert (fastest(first.cases, attempt, most_blocks=most) is not first) == taken
    assert rooms == [1, *([most] if dots else [])]


def test_blocks_for_which_schedules_leave_room_have_registers_enough() -> None:
    """Those of all accumulators of a loop are not wanted besides."""
    path = "tests/kernels/schedules/straight.for.0.json"
    found = cases(Inputs("tests/kernels/ttgir/straight.sm90.ttgir", arch="sm90"))
    kept = read_schedule(load(path), path).result

    def lowered_with(room: int) -> int:
        made, _ = program(found, lambda problem: replace(kept, problem=problem), Options(room=room))
        return made.launch.blocks

    assert (lowered_with(1), lowered_with(2)) == (1, 2)


def test_a_given_limit_of_shared_memory_may_leave_nothing_for_more_blocks() -> None:
    """It was an error for the whole kernel."""
    inputs = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90", subtile=1, shared=100_000)
    (case,) = Stated(inputs, cases(inputs)).in_part(4)
    assert case.problem.limits.shared == 0
    roomy = replace(inputs, shared=None)
    (case,) = Stated(roomy, cases(roomy)).in_part(4)
    assert 0 < case.problem.limits.shared < 60_000
