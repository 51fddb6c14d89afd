"""When the group that computes loads too, where the user leaves that open."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.kernels.programs import changed, loops, program
from twill.diagnostics import TwillError
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.files import load, read_schedule
from twill.generation.attempt import Attempt, short_loops
from twill.generation.builds.spills import Compiled, least_spilled
from twill.generation.candidates import candidates
from twill.generation.choices.multistage import (
    CLEARLY,
    GAINED,
    LATE_BY_PASSING,
    RESERVE,
    TIGHT,
    _stores_state,  # pyright: ignore[reportPrivateUsage]
    filled,
    multistage,
    recurrent,
)
from twill.generation.choices.stated import Stated
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.loop_nest import NoScheduleError
from twill.inputs import Case, Inputs, cases
from twill.ir.loop import Loop
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Bounds, RecurrenceBound, ResourceBound, Result
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest
from twill.simulate.check import check
from twill.simulate.predict import block_time, intervals
from twill.simulate.protocol import HazardError
from twill.warp.dataflow import read
from twill.warp.plan import Options

SMALL, SHORT = "matmul_half", "echoed"
"""One whose number of iterations is not known, and one with a single iteration."""
TWO = "settled"
"""Two loops, one behind the other."""
SEVERAL = "paged"
"""One of which several groups compute, which copy rows by numbers from memory."""
TAKEN = "taken"
"""One whose programs need to know what an atomic operation returns."""
NARROW = {"pointers_one_warp": 1, "pointers_two_warps": 2}
"""Written for so many warps."""
SPILLED = ("8 bytes of registers are spilled, of 72 registers per thread",)


def _attempts(kernel: str) -> tuple[Attempt, Attempt]:
    """With a group that loads, and without."""
    made = program(kernel), changed(kernel, Options(multistage=kernel != SEVERAL))
    first, other = (Attempt((), one, loops(kernel)[1], {}, {}) for one in made)
    return first, other


def _cases(kernel: str) -> tuple[Case, ...]:
    return tuple(cases(_inputs(kernel)))


class _Written(Stated):
    """Loops that are those of a kernel that is written for few warps."""

    def as_written(self) -> tuple[Case, ...]:
        return self.loops

    def without_copies(self) -> Iterator[tuple[Case, ...]]:
        return iter(())


def _never(given: Sequence[Case]) -> Attempt:
    raise AssertionError(given)


@pytest.mark.parametrize(("times", "taken"), [(CLEARLY * 1.01, True), (CLEARLY * 0.99, False)])
def test_taken_where_an_iteration_is_clearly_shorter(
    monkeypatch: pytest.MonkeyPatch, times: float, taken: bool
) -> None:
    first, other = _attempts(SMALL)

    def of_sm(one: Attempt) -> float:
        return 1000 * times if one is first else 1000.0

    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    best = multistage(first, lambda given: other)
    assert best.program.groups == (other if taken else first).program.groups
    notes = [note for note in best.program.notes if "the group that computes loads too" in note]
    assert len(notes) == taken
    assert all("every 1000 cycles predicted" in note for note in notes)


@pytest.mark.parametrize(("times", "taken"), [(CLEARLY * 1.01, True), (CLEARLY * 0.99, False)])
def test_taken_where_threads_that_only_copy_are_clearly_late(
    monkeypatch: pytest.MonkeyPatch, times: float, taken: bool
) -> None:
    first, other = _attempts(SMALL)
    (path,) = first.intervals
    cycles = other.of_sm() * first.program.resident_blocks * times
    for name, found in (
        ("late_copies", {path: cycles}),
        ("gathered", [1]),
        ("_waits_less", False),
        ("fills_more", False),
    ):
        monkeypatch.setattr(f"twill.generation.choices.multistage.{name}", lambda *given, found=found: found)  # pyright: ignore
    best = multistage(first, lambda given: other)
    assert (best is not first) == taken
    assert not best.least, "it is for the comparison alone"


@pytest.mark.parametrize(("blocks", "times", "taken"), [(1, 1.01, True), (1, 0.99, False), (2, 1.01, False)])
def test_groups_that_pass_tiles_take_longer_than_simulated(
    monkeypatch: pytest.MonkeyPatch, blocks: int, times: float, taken: bool
) -> None:
    """In a thread block that has an SM for itself."""
    first, other = _attempts(SMALL)
    launch = replace(first.program.launch, blocks=blocks)
    first = replace(first, program=replace(first.program, launch=launch, by_tma=None))

    def of_sm(one: Attempt) -> float:
        return 1000 * times * CLEARLY / LATE_BY_PASSING if one is first else 1000.0

    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    for name, found in (("passing", {"tile": None}), ("_waits_less", False), ("fills_more", False)):
        monkeypatch.setattr(f"twill.generation.choices.multistage.{name}", lambda *given, found=found: found)  # pyright: ignore
    best = multistage(first, lambda given: other)
    assert (best is not first) == taken
    assert any("by groups that pass tiles" in note for note in best.program.notes) == taken


@pytest.mark.parametrize(
    ("kernel", "times", "taken"),
    [("pointers_16", RESERVE, True), ("pointers_16", 0.99 * RESERVE, False), (SMALL, 2 * RESERVE, False)],
)
def test_taken_where_both_keep_a_unit_busy_and_its_blocks_wait_less(
    monkeypatch: pytest.MonkeyPatch, kernel: str, times: float, taken: bool
) -> None:
    """Of kernels with MMAs of warps alone."""
    first, other = _attempts(kernel)

    def of_sm(one: Attempt) -> float:
        return 1000.0

    def cycles(one: Attempt) -> float:
        return one.program.resident_blocks * (100 * times if one is first else 100.0)

    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    monkeypatch.setattr(Attempt, "cycles", cycles)
    best = multistage(first, lambda given: other)
    assert (best is not first) == taken
    said = f"100 and {100 * RESERVE:.0f} without units that are always busy"
    assert (said in "".join(best.program.notes)) == taken


@pytest.mark.parametrize(
    ("waits", "from_l2", "recurrence", "taken"),
    [
        ((900.0, 600.0), 0.0, False, True),
        ((900.0, 600.0), 900.0, False, True),
        ((900.0, 600.0), 3000.0, False, False),
        ((900.0, 600.0), 0.0, True, False),
        ((600.0, 500.0), 0.0, False, False),
        ((600.0, 900.0), 0.0, False, False),
    ],
)
def test_taken_where_thread_blocks_keep_the_busiest_unit_busy_more_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
    waits: tuple[float, float],
    from_l2: float,
    recurrence: bool,
    taken: bool,
) -> None:
    """Both take as long where it never waits; but not where L2 is what they wait for, or an iteration for
    the one before."""
    first, other = _attempts(SMALL)
    for one, each in zip((first, other), waits, strict=True):
        (loop,) = one.loops
        vars(one)["intervals"] = {loop.loop.path: each * one.program.resident_blocks}
    monkeypatch.setattr(Attempt, "of_sm", lambda one: 1000.0)  # pyright: ignore
    monkeypatch.setattr(Attempt, "cycles", lambda one: 1000.0)  # pyright: ignore
    for name, found in (("busy", 1000.0), ("from_l2", from_l2), ("recurrent", recurrence)):
        monkeypatch.setattr(f"twill.generation.choices.multistage.{name}", lambda one, found=found: found)  # pyright: ignore
    best = multistage(first, lambda given: other)
    assert (best is not first) == taken
    assert ("with thread blocks that wait for the busiest unit" in "".join(best.program.notes)) == taken


@pytest.mark.parametrize(
    ("before", "after", "queued", "state", "taken"),
    [
        (3, 4, 1.05, False, True),
        (3, 4, 1.07, False, False),
        (3, 4, 1.0, True, False),
        (2, 4, 1.0, False, True),
        (2, 3, 1.0, False, False),
        (1, 2, 1.0, False, False),
        (4, 8, 1.0, False, False),
    ],
)
def test_taken_where_more_blocks_work_on_an_sm_in_about_the_same_time(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int, queued: float, state: bool, taken: bool
) -> None:
    """Three blocks of powers of two leave many of 132 SMs idle at the end; two or four do not. A grid has few
    blocks whose loop walks along what it stores a state of."""
    first, other = _attempts(SMALL)
    first, other = (
        replace(
            one, program=replace(one.program, launch=replace(one.program.launch, blocks=blocks), by_tma=None)
        )
        for one, blocks in ((first, before), (other, after))
    )

    def queue(one: Attempt, trips: object) -> float:
        return 1000.0 if one is first else 1000.0 * queued

    monkeypatch.setattr(Attempt, "of_sm", lambda one: 1000.0)  # pyright: ignore
    monkeypatch.setattr("twill.generation.choices.multistage._in_queue", queue)
    monkeypatch.setattr("twill.generation.choices.multistage._stores_state", lambda *given: state)  # pyright: ignore
    best = multistage(first, lambda given: other)
    assert (best is not first) == taken
    assert (f"{after} thread blocks for {before}" in "".join(best.program.notes)) == taken


@pytest.mark.parametrize(("blocks", "filling"), [(1, 0.97), (2, 1.94), (4, 3.88), (8, 7.76)])
def test_blocks_of_powers_of_two_fill_sms(blocks: int, filling: float) -> None:
    assert filled(blocks, 132) == pytest.approx(filling, rel=0.12)
    assert filled(3, 132) < 0.9 * 3
    assert filled(blocks, 128) <= blocks
    assert filled(3, 132, [288]) == filled(6, 132, [288])  # all of them at once


@pytest.mark.parametrize(
    ("kernel", "stored"), [("decayed", True), ("recurrent", True), (SMALL, False), (TWO, False)]
)
def test_a_loop_that_stores_a_state_that_it_carries(kernel: str, stored: bool) -> None:
    made, (_, scheduled) = program(kernel), loops(kernel)
    code = read(made.module, made.function)
    assert any(_stores_state(code, one.loop) for one in scheduled) == stored


@pytest.mark.parametrize(
    ("kernel", "recurrence", "mmas", "alone", "taken"),
    [
        (SMALL, 99, 2, 2.0, True),
        (SMALL, 101, 2, 2.0, False),
        (SMALL, 101, 1, 2.0, True),
        (SMALL, 101, 2, 0.9, True),
        ("pointers_16", 101, 2, 1.0, False),
        (SHORT, 101, 2, 2.0, True),
    ],
)
@pytest.mark.parametrize("narrow", [True, False])
def test_more_blocks_hide_nothing_where_iterations_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
    kernel: str,
    recurrence: int,
    mmas: int,
    alone: float,
    taken: bool,
    narrow: bool,
) -> None:
    """Longer than for any unit, through several MMAs of a loop that is not known to be short: an iteration
    has to be shorter itself, or no longer in threads that the kernel is written for."""
    first, other = _attempts(kernel)

    def limits(problem: Problem) -> Bounds:
        (mma,) = (op.id for op in problem.operations if op.name in ("tt.dot", "ttng.warp_group_dot"))
        return Bounds(ResourceBound("tensor", 100), RecurrenceBound(recurrence, (mma,) * mmas))

    def cycles(one: Attempt) -> float:
        return 1000.0 if one is first else 1000.0 * alone

    def of_sm(one: Attempt) -> float:
        return 1000.0 if one is first else 900.0

    def block_time(made: Program, *_: object) -> float:
        return 1e5 if made is first.program else 1.0

    monkeypatch.setattr("twill.generation.choices.multistage.bounds", limits)
    monkeypatch.setattr("twill.generation.choices.multistage.block_time", block_time)
    monkeypatch.setattr(Attempt, "cycles", cycles)
    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    written = _Written(_inputs(kernel), _cases(kernel)) if narrow else None
    as_fast_alone = narrow and alone == 1.0
    assert (multistage(first, lambda given: other, written) is not first) == (taken or as_fast_alone)


@pytest.mark.parametrize(
    ("kernel", "walks"), [(SMALL, True), ("scored", True), ("split", False), (SHORT, False)]
)
def test_programs_that_divide_what_a_loop_walks_along_are_many(
    monkeypatch: pytest.MonkeyPatch, kernel: str, walks: bool
) -> None:
    """A loop that begins or ends by the index of its program, not one whose end is loaded."""

    def through_mmas(problem: Problem) -> bool:
        return True

    monkeypatch.setattr("twill.generation.choices.multistage._through_mmas", through_mmas)
    assert recurrent(Attempt((), program(kernel), loops(kernel)[1], {}, {})) == walks


def test_each_short_loop_counts_its_own_iterations() -> None:
    first, _ = _attempts(SHORT)
    (loop,) = first.loops
    times = [block_time(first.program, [loop], {loop.loop.op.index: trips}) for trips in (1, 4)]
    assert times == [block_time(first.program, [loop], trips) for trips in (1, 4)]
    assert times[0] < times[1]
    assert short_loops(first) == {loop.loop.op.index: 1}


@pytest.mark.parametrize(("cycles", "taken"), [(1e5, True), (1.0, False)])
def test_a_short_loop_counts_its_thread_block(
    monkeypatch: pytest.MonkeyPatch, cycles: float, taken: bool
) -> None:
    """From begin to end, for each of those that an SM holds; but no less than the busiest unit works."""
    first, other = _attempts(SHORT)

    def block_time(made: Program, given: object, trips: Mapping[int, int]) -> float:
        assert set(trips.values()) == {1}
        return cycles if made is first.program else 1.0

    monkeypatch.setattr("twill.generation.choices.multistage.block_time", block_time)
    assert (multistage(first, lambda given: other) is not first) == taken


@pytest.mark.parametrize(
    ("known", "iteration", "taken"),
    [(1, CLEARLY * 0.99, True), (1, CLEARLY * 1.01, False), (2, 1.0, False)],
)
def test_a_loop_that_runs_once_counts_its_thread_block(
    monkeypatch: pytest.MonkeyPatch, known: int, iteration: float, taken: bool
) -> None:
    """Beside one of which nothing is known, where an iteration of each takes hardly longer."""
    first, other = _attempts(TWO)
    last = first.loops[-1].loop

    def trips(code: object, loop: Loop) -> int | None:
        return known if loop is last else None

    def block_time(made: Program, given: object, trips: Mapping[int, int]) -> float:
        assert sorted(trips.values()) == [1, 8]
        return 1e6 if made is first.program else 1.0

    def of_sm(one: Attempt) -> float:
        return 1000.0 if one is first else 1000.0 * iteration

    monkeypatch.setattr("twill.generation.choices.multistage.constant_trips", trips)
    monkeypatch.setattr("twill.generation.choices.multistage.block_time", block_time)
    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    assert (multistage(first, lambda given: other) is not first) == taken


@pytest.mark.parametrize(("kernel", "one"), [(SEVERAL, True), (SMALL, False)])
def test_where_pages_are_looked_up_one_group_is_scheduled_to_compute(kernel: str, one: bool) -> None:
    """Of several that compute none may load; a warpgroup that copies costs what TMA does not."""
    tried = list[Sequence[Case]]()

    def refused(given: Sequence[Case]) -> Attempt:
        tried.append(given)
        raise TwillError("refused")

    first = replace(_attempts(kernel)[0], cases=tuple(cases(_inputs(kernel))))
    assert multistage(first, refused) is first
    before = {case.problem.limits.groups for case in first.cases}
    assert [{case.problem.limits.groups for case in given} for given in tried] == [before, *([{2}] * one)]


@pytest.mark.parametrize(
    ("blocks", "alone", "passes", "one"),
    [(2, 2000.0, True, True), (2, 1900.0, True, False), (1, 1000.0, True, True), (2, 2000.0, False, False)],
)
def test_where_groups_of_several_blocks_pass_tiles_and_wait_one_group_is_scheduled_to_compute(
    monkeypatch: pytest.MonkeyPatch, blocks: int, alone: float, passes: bool, one: bool
) -> None:
    """A thread block takes `alone` cycles where the busiest unit needs 1000."""
    tried = list[Sequence[Case]]()

    def refused(given: Sequence[Case]) -> Attempt:
        tried.append(given)
        raise TwillError("2 groups compute")

    first = replace(_attempts(SMALL)[0], cases=tuple(cases(_inputs(SMALL))))
    launch = replace(first.program.launch, blocks=blocks)
    first = replace(first, program=replace(first.program, launch=launch, by_tma=None))
    monkeypatch.setattr(Attempt, "cycles", lambda one: alone)  # pyright: ignore
    tiles = {"tile": None} if passes else {}
    for name, found in (("busy", 1000.0), ("computing", 2), ("divided_in_vain", False), ("passing", tiles)):
        monkeypatch.setattr(f"twill.generation.choices.multistage.{name}", lambda *given, found=found: found)  # pyright: ignore
    assert multistage(first, refused) is first
    assert [{case.problem.limits.groups for case in given} for given in tried[1:]] == [{2}] * one


@pytest.mark.parametrize(
    ("blocks", "alone", "of_warps", "one"),
    [(2, 1900.0, True, True), (2, 2100.0, True, False), (1, 900.0, True, False), (2, 1900.0, False, False)],
)
def test_where_groups_of_several_blocks_divide_what_a_busy_unit_takes_one_group_is_scheduled_to_compute(
    monkeypatch: pytest.MonkeyPatch, blocks: int, alone: float, of_warps: bool, one: bool
) -> None:
    """A thread block takes `alone` cycles where the busiest unit needs 1000; its groups pass nothing."""
    tried = list[Sequence[Case]]()

    def refused(given: Sequence[Case]) -> Attempt:
        tried.append(given)
        raise TwillError("2 groups compute")

    first = replace(_attempts(SMALL)[0], cases=tuple(cases(_inputs(SMALL))))
    launch = replace(first.program.launch, blocks=blocks)
    first = replace(first, program=replace(first.program, launch=launch, by_tma=None))
    monkeypatch.setattr(Attempt, "cycles", lambda one: alone)  # pyright: ignore
    monkeypatch.setattr(Attempt, "of_sm", lambda one: max(1000.0, alone / blocks))  # pyright: ignore
    known: dict[str, object] = {"computing": 2, "divided_in_vain": False, "passing": {}}
    known |= {"passes_for_nothing": False, "mmas_of_warps_alone": of_warps}
    for name, found in known.items():
        monkeypatch.setattr(f"twill.generation.choices.multistage.{name}", lambda *given, found=found: found)  # pyright: ignore
    assert multistage(first, refused) is first
    assert [{case.problem.limits.groups for case in given} for given in tried[1:]] == [{2}] * one


@pytest.mark.parametrize(
    ("kernel", "idle", "parts"),
    [("matmul_32", True, True), ("matmul_32", False, False), (SMALL, True, False)],
)
def test_where_warps_wait_for_their_mmas_alone_two_blocks_are_tried(
    monkeypatch: pytest.MonkeyPatch, kernel: str, idle: bool, parts: bool
) -> None:
    """In half of the shared memory, and with tiles in as few registers as ptxas may still do with."""
    tried = list[Sequence[Case]]()
    first, other = (
        replace(one, program=replace(one.program, launch=replace(one.program.launch, blocks=1), by_tma=None))
        for one in _attempts(kernel)
    )

    def lowered(given: Sequence[Case]) -> Attempt:
        tried.append(given)
        return replace(other, cases=tuple(given))

    monkeypatch.setattr("twill.generation.choices.multistage.leaves_idle", lambda one, residency: idle)  # pyright: ignore
    multistage(replace(first, cases=tuple(cases(_inputs(kernel)))), lowered)
    assert len(tried) == 1 + parts
    for whole, part in zip(*tried, strict=True) if parts else ():
        assert part.problem.limits.shared < whole.problem.limits.shared
        assert 2 * 32 * 4 * part.problem.limits.registers_per_thread <= 65536
        counts = [[value.registers for value in case.problem.values] for case in (whole, part)]
        assert counts[1] == [-(-count // TIGHT) for count in counts[0]]


def test_what_can_not_be_is_not_taken() -> None:
    def refused(given: Sequence[Case]) -> Attempt:
        raise TwillError("2 groups compute")

    first, _ = _attempts(SMALL)
    assert multistage(first, refused) is first


@pytest.mark.parametrize("kernel", ["fa_bwd.sm100", "gemm_persistent"])
def test_not_on_blackwell_nor_where_a_block_walks_over_tiles(kernel: str) -> None:
    first = Attempt((), program(kernel), loops(kernel)[1], {}, {})
    assert multistage(first, _never) is first


def test_a_form_that_stands_still_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is generated, and says why without that form."""

    def stands_still(made: Program, given: object) -> Mapping[str, float]:
        if len(made.groups) == 1:
            raise HazardError("deadlock: group 1 at ConsumerWait x, iteration 2")
        return intervals(made, loops(SMALL)[1])

    monkeypatch.setattr("twill.simulate.predict.intervals", stands_still)
    made = _generated(SMALL)
    assert len(made.program.groups) == 2
    (why,) = made.program.warnings
    assert "the form whose computing group loads is left out: deadlock: group 1" in why
    assert why in made.cuda


def test_a_prediction_that_stands_still_is_no_reason_against_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stands_still(one: Attempt, trips: object) -> float:
        raise HazardError("deadlock: group 1")

    monkeypatch.setattr("twill.generation.choices.multistage._time", stands_still)
    made = _generated(SMALL)
    assert len(made.program.groups) == 2
    assert len(made.program.warnings) == 1


def _kept(kernel: str) -> Callable[..., Result]:
    path = f"tests/kernels/schedules/{kernel}.for.0.json"
    found = read_schedule(load(path), path).result

    def solve(problem: Problem, *others: object) -> Result:
        return replace(found, problem=problem)

    return solve


def _inputs(kernel: str) -> Inputs:
    return Inputs(str(Path("tests/kernels/ttgir") / f"{kernel}.sm90.ttgir"), arch="sm90", persistent=False)


def _generated(kernel: str, wanted: bool | None = None, depths: Mapping[str, int] | None = None) -> Generated:
    lowering = Options(multistage=wanted, depths=depths or {})
    options = GenerateOptions(check=False, lowering=lowering)
    whole = replace(_inputs(kernel), subtile=1)
    made, *_ = candidates(whole, options, lambda name, event: None, solve=_kept(kernel))
    return made


def test_what_a_group_with_other_schedules_takes_the_place_of_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tiles in flight are compared with that."""

    def together(first: Attempt, attempt: Callable[[Sequence[Case]], Attempt], stated: Stated) -> Attempt:
        made = attempt(first.cases)
        return replace(made, cases=tuple(replace(case, aligned=case.aligned + 1) for case in made.cases))

    monkeypatch.setattr("twill.generation.one_form.multistage", together)
    made = _generated(SMALL)
    assert len(made.program.groups) == 1
    assert made.loading_apart is not None
    assert len(made.loading_apart.program.groups) == 2
    assert made.loading_apart.cases != made.cases


@pytest.mark.parametrize(("wanted", "groups"), [(True, 1), (False, 2), (None, 2)])
def test_what_the_user_decides(wanted: bool | None, groups: int) -> None:
    assert len(_generated(SMALL, wanted).program.groups) == groups


@pytest.mark.parametrize("wanted", [False, None])
def test_a_kernel_that_no_group_can_load_for_has_one_group(wanted: bool | None) -> None:
    """Programs take tiles from a counter: of several groups only one would know which."""
    if wanted is not None:
        with pytest.raises(TwillError, match=r"the result of tt\.atomic_rmw is used"):
            _generated(TAKEN, wanted)
        return
    made = _generated(TAKEN).program
    (group,) = made.groups
    assert not group.only_moves
    assert "the group that computes loads too: otherwise the result of tt.atomic_rmw" in made.notes[-1]
    assert check(made, lambda what: None).values


# --- kernels that are written for less than a warpgroup ---------------------------------------------------


@pytest.mark.parametrize(("kernel", "warps"), NARROW.items())
def test_a_kernel_keeps_the_warps_that_it_is_written_for(kernel: str, warps: int) -> None:
    made = _generated(kernel).program
    (group,) = made.groups
    assert made.module.num_warps == group.warps == warps
    assert made.launch.threads == 32 * warps
    assert made.launch.even
    assert not group.only_moves
    assert check(made, lambda what: None).values


@pytest.mark.parametrize("gained", [True, False])
def test_few_warps_whose_tiles_have_no_schedule_take_more_registers_where_that_is_faster(
    monkeypatch: pytest.MonkeyPatch, gained: bool
) -> None:
    """As if a thread of one warp had too few: of its tiles each counts half."""
    (kernel, *_), counted = NARROW, list[list[int]]()
    (case,) = _cases(kernel)
    narrow = Stated(_inputs(kernel), (case,)).as_written()
    assert narrow
    first, other = _attempts(kernel)

    def attempt(given: Sequence[Case]) -> Attempt:
        counted.append([one.registers for case in given for one in case.problem.values])
        if given == narrow:
            raise NoScheduleError("too few registers")
        if counted[-1] == [-(-one.registers // TIGHT) for one in narrow[0].problem.values]:
            return other
        raise TwillError("not lowered")

    def of_sm(one: Attempt) -> float:
        return 1000.0 if one is first else 999.0 / (GAINED if gained else 1.0)

    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    found = multistage(first, attempt, _Written(_inputs(kernel), narrow))
    assert (found is not first) == gained
    if gained:
        assert "threads that the kernel is written for" in found.program.notes[-1]


@pytest.mark.parametrize("kernel", NARROW)
def test_not_where_a_group_is_to_load(kernel: str) -> None:
    made = _generated(kernel, wanted=False).program
    assert [one.warps for one in made.groups if not one.only_moves] == [4]


@pytest.mark.parametrize("kernel", NARROW)
def test_threads_hold_what_those_of_the_kernel_hold(kernel: str) -> None:
    """The same accumulator in fewer threads, and no other operations or dependences."""
    (wide,) = cases(_inputs(kernel))
    narrow, *_ = Stated(_inputs(kernel), (wide,)).as_written() or (wide,)
    assert narrow.problem.operations == wide.problem.operations
    assert narrow.problem.edges == wide.problem.edges
    times = 4 // NARROW[kernel]
    (held,), (before,) = (
        [v for v in one.problem.values if v.src.startswith("dot")] for one in (narrow, wide)
    )
    assert held.registers == times * before.registers
    assert not Stated(replace(_inputs(kernel), warps=8), (wide,)).as_written()
    assert not Stated(_inputs(SMALL), _cases(SMALL)).as_written()


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", NARROW)
def test_the_ptx_of_few_warps_computes_the_same(kernel: str) -> None:
    """With fewer iterations than slots and with more, and in parts of tiles."""
    made = _generated(kernel)
    described = manifest(made.program, made.loops, dict.fromkeys((one.loop.path for one in made.loops), 1.0))
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.cu").write_text(made.cuda)
        library = compiled(Path(folder) / "kernel.cu", Path(folder), [RUNTIME], "90a")
        built = Build(described, made.program.function, library)
        for m, k, schedule in ((64, 32, 0), (64, 256, 1), (56, 240, 2)):
            compared = run(built, Request({"M": m, "N": 64, "K": k}, schedule=schedule))
            assert wrong(built, compared) is None, compared
            assert sum(one.values for one in compared) > 400


@pytest.mark.parametrize("enough", [True, False])
def test_fewer_blocks_where_ptxas_spills(monkeypatch: pytest.MonkeyPatch, enough: bool) -> None:
    """The most whose threads have registers enough; as it is where half as many have not."""
    made = _generated("pointers_two_warps")
    launch = made.program.launch
    wanted = launch.entry_registers + 8 if enough else 256

    def said(tried: Generated) -> tuple[str, ...]:
        return () if tried.program.launch.entry_registers >= wanted else SPILLED

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    found = least_spilled(Compiled(made, SPILLED))
    fewer = found.made.program.launch
    assert bool(found.said) != enough
    if enough:
        assert launch.blocks // 2 <= fewer.blocks < launch.blocks
        assert f"__maxnreg__({fewer.entry_registers})" in found.made.cuda
        assert found.loading == f"{fewer.blocks} thread blocks on an SM"
