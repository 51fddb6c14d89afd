"""Kernels that are wrong, or that ptxas would build with spills: scheduled again."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.test_values import grid
from twill.diagnostics import DefectError, TwillError
from twill.generation import candidates
from twill.generation import generate as generation
from twill.generation.builds import best_retry, retries, spills
from twill.generation.builds import built as module
from twill.generation.builds import without_warnings as instead
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.generate import generate
from twill.generation.generated import (
    APART,
    SEVERAL,
    Generated,
    GenerateOptions,
    ProgressCallback,
    pace_of_sm,
)
from twill.generation.loop_nest import NoScheduleError
from twill.generation.searches import Solve, solved
from twill.inputs import Inputs, origin
from twill.ir.schedule import Result
from twill.launch import build
from twill.simulate.compare import compare
from twill.warp.plan import Options
from twill.warp.validate import validate

SPILLED = ("260 bytes of registers are spilled, of 240 registers per thread: take a smaller tile",)
GEMM = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90", subtile=1)
OPTIONS = GenerateOptions(time_limit=20, check=False)


@pytest.fixture(scope="module")
def gemm() -> Generated:
    return generate(GEMM, OPTIONS)


def tried_with(monkeypatch: pytest.MonkeyPatch, gemm: Generated, good: int) -> list[int | None]:
    """The registers that are tried, where a kernel of at most `good` has no warnings."""
    tried = list[int | None]()

    def again(inputs: Inputs, *_: object) -> Generated:
        tried.append(inputs.registers)
        return gemm

    def said(made: Generated) -> Sequence[str]:
        last = tried[-1] if tried else None
        return () if last is not None and last <= good else SPILLED

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    return tried


def test_a_built_kernel_has_the_tile_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built is read from the text, which has the tile already."""
    made = list[Inputs]()

    def instead(key: str, make: partial[None]) -> Path:
        made.append(make.args[0])
        return Path()

    monkeypatch.setattr(build, "cached", instead)
    inputs = Inputs("examples/kernels.py:gemm", arch="sm90", tile=("BLOCK_N", 192))
    module.built(inputs, OPTIONS)
    text = origin(made[0])[0].text
    assert text == origin(inputs)[0].text
    assert "128x192" in text


def test_fewer_registers_until_nothing_is_spilled(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    most = max(group.registers for one in gemm.loops for group in one.solution.groups)
    tried = tried_with(monkeypatch, gemm, most - 20)
    found = without_warnings(GEMM, OPTIONS, gemm, SPILLED)
    assert found
    assert tried == [most - 8, most - 24]
    assert found.program.notes[-1].startswith(
        f"scheduled for {most - 24} registers per thread: otherwise 260"
    )
    assert f"// {found.program.notes[-1]}" in found.cuda


@pytest.mark.parametrize(("first", "taken"), [(SPILLED, False), ((f"128 {build.TOO_FEW}",), True)])
def test_a_kernel_that_spills_comes_before_one_that_is_not_built(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated, first: tuple[str, ...], *, taken: bool
) -> None:
    tried_with(monkeypatch, gemm, 0)
    assert bool(without_warnings(GEMM, OPTIONS, gemm, first)) == taken


TEMPERED = Inputs("tests/kernels/ttgir/tempered.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
"""A kernel that loads tiles before its loop which only code behind that reads."""


def test_tiles_are_loaded_behind_a_loop_where_nothing_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    made, tried = generate(TEMPERED, OPTIONS), list[bool]()

    def again(
        inputs: Inputs, options: GenerateOptions, report: ProgressCallback, *others: object
    ) -> Generated:
        tried.append(inputs.late_loads)
        return generate(inputs, options, report) if inputs.late_loads else made

    def said(one: Generated) -> Sequence[str]:
        return () if one.inputs.late_loads else SPILLED

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    found = without_warnings(TEMPERED, OPTIONS, made, SPILLED)
    assert found
    assert tried[-1]
    assert not any(tried[:-1])
    assert found.program.notes[-1].startswith(f"{retries.LATE}: otherwise 260 bytes")
    assert [one.problem for one in found.loops] == [one.problem for one in made.loops]
    first = compare(found.program, {"M": 60, "N": 100, "K": 192}, grid(0, 0, (1, 2)))
    assert [one.good for one in first if one.changed] == [True]


BANDS = Inputs("tests/kernels/ttgir/matmul_bands.sm90.ttgir", arch="sm90", subtile=1)
"""A kernel of four warps."""


def test_more_warps_hold_tiles_for_which_four_have_too_few_registers() -> None:
    made = generate(replace(BANDS, registers=120), OPTIONS)
    assert made.inputs.warps == made.program.module.num_warps == 8
    assert [group.warps for group in made.program.groups if not group.only_moves] == [8]
    assert made.program.notes[-1].startswith("8 warps: otherwise matmul/for.0 has no schedule")
    found = compare(made.program, {"M": 256, "N": 256, "K": 256}, grid(0, 0, (1, 1)))
    assert [one.good for one in found if one.changed] == [True]


@pytest.mark.parametrize("gained", [True, False])
def test_four_warps_hold_what_a_schedule_counts_too_many_registers_for_where_that_is_faster(
    monkeypatch: pytest.MonkeyPatch, gained: bool
) -> None:
    """As if a thread had no schedule for the registers that there are; eight warps are the other form."""
    lowered = candidates.lowered

    def refused(inputs: Inputs, session: Any) -> Generated:
        if inputs.spills == 1 and inputs.warps is None:
            raise NoScheduleError("no schedule")
        return lowered(inputs, session)

    monkeypatch.setattr(candidates, "lowered", refused)
    monkeypatch.setattr(candidates, "TIGHTER", 0.1 if gained else 100.0)
    made = generate(replace(BANDS, persistent=False), OPTIONS)
    assert (made.inputs.spills, made.inputs.warps) == ((2, None) if gained else (1, 8))
    assert [one.inputs.warps for one in made.others] == ([8] if gained else [])
    if gained:
        assert "that a schedule counts more registers for than a thread has" in made.program.notes[-1]
        found = compare(made.program, {"M": 256, "N": 256, "K": 256}, grid(0, 0, (1, 1)))
        assert [one.good for one in found if one.changed] == [True]


def test_tiles_may_take_more_registers_than_a_thread_has_where_nothing_else_is_left() -> None:
    """64 registers of a sum in each of 256 threads, and 64 in all: half of it is spilled."""
    made = generate(replace(BANDS, registers=64), OPTIONS)
    assert (made.inputs.spills, made.inputs.warps) == (2, 8)
    assert made.program.warnings[-1].startswith("tiles take up to 2 times the registers of a thread")
    assert all(group.registers <= 64 for one in made.loops for group in one.solution.groups)
    found = compare(made.program, {"M": 256, "N": 256, "K": 256}, grid(0, 0, (1, 1)))
    assert [one.good for one in found if one.changed] == [True]


def test_what_keeps_a_kernel_out_besides_its_registers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def lowered(inputs: Inputs, session: object) -> Generated:
        if inputs.spills == 1:
            raise NoScheduleError("no schedule")
        raise TwillError("a tile of three dimensions")

    monkeypatch.setattr("twill.generation.candidates.lowered", lowered)
    with pytest.raises(TwillError, match="three dimensions"):
        generate(BANDS, OPTIONS)


def test_more_registers_than_a_thread_has_do_not_make_shared_memory_larger() -> None:
    with pytest.raises(TwillError, match="shared memory"):
        generate(replace(BANDS, shared=4096), OPTIONS)


def searched_for(made: Generated) -> Generated:
    """The kernel as one of which no other lowering is known."""
    assert made.loading
    return replace(made, loading=None)


def test_loads_by_the_group_that_computes_need_no_search_where_they_were_lowered_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They come before all that is searched."""
    bands = generate(BANDS, OPTIONS)

    def again(*_: object) -> Generated:
        raise AssertionError

    def said(made: Generated) -> Sequence[str]:
        return () if len(made.program.groups) == 1 else SPILLED

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    launch = replace(bands.program.launch, blocks=2)
    shared = replace(bands, program=replace(bands.program, launch=launch, warnings=("left out",)))
    found = without_warnings(BANDS, OPTIONS, shared, SPILLED)
    assert found
    assert found.program.warnings == ("left out",)
    assert "// left out" in found.cuda
    assert found.cases == bands.cases
    assert [one.solution.start for one in found.loops] == [one.solution.start for one in bands.loops]
    assert found.program.notes[-1].startswith("the group that computes loads too: otherwise 260")


def test_more_warps_hold_tiles_that_four_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    bands, tried = searched_for(generate(BANDS, OPTIONS)), list[int | None]()

    def again(inputs: Inputs, *_: object) -> Generated:
        tried.append(inputs.warps)
        return bands

    def said(made: Generated) -> Sequence[str]:
        return () if tried and tried[-1] == 8 else SPILLED

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    found = without_warnings(BANDS, OPTIONS, bands, SPILLED)
    assert found
    assert tried == [None, 8], "loads by the group that computes come first"
    assert found.program.notes[-1].startswith("8 warps that hold tiles: otherwise 260")


def test_more_warps_in_half_as_many_blocks_hold_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the warps in as many blocks have half the registers each. Loads by the group that computes come
    first."""
    bands, tried = searched_for(generate(BANDS, OPTIONS)), list[tuple[int | None, int]]()

    def again(inputs: Inputs, options: GenerateOptions, *_: object) -> Generated:
        tried.append((inputs.warps, options.lowering.most_blocks))
        return bands

    def said(made: Generated) -> Sequence[str]:
        return () if tried and tried[-1] == (8, 1) else SPILLED

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    shared = replace(bands, program=replace(bands.program, launch=replace(bands.program.launch, blocks=2)))
    found = without_warnings(BANDS, OPTIONS, shared, SPILLED)
    assert found
    assert tried == [*((warps, OPTIONS.lowering.most_blocks) for warps in (None, 8)), (8, 1)]
    assert found.program.notes[-1].startswith("8 warps that hold tiles, 1 thread block on an SM at most:")


@pytest.mark.parametrize("schedules", [(), ("one.json",)])
def test_fewer_blocks_share_an_sm_before_schedules_change(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated, schedules: tuple[str, ...]
) -> None:
    """Given schedules stay: they keep the kernel that has more registers for a thread."""
    tried = list[int]()

    def again(inputs: Inputs, options: GenerateOptions, *_: object) -> Generated:
        assert inputs.registers is None
        assert options.schedules == schedules
        tried.append(options.lowering.most_blocks)
        return gemm

    def said(made: Generated) -> Sequence[str]:
        return () if tried and tried[-1] <= 2 else SPILLED

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    launch = replace(gemm.program.launch, blocks=4)
    shared = replace(gemm, program=replace(gemm.program, launch=launch))
    found = without_warnings(GEMM, replace(OPTIONS, schedules=schedules), shared, SPILLED)
    assert found
    assert tried == [3, 2]
    assert found.program.notes[-1].startswith("2 thread blocks on an SM at most: otherwise 260")


@pytest.mark.parametrize(("slower", "least", "tried"), [(2.0, 96, [96]), (2.0, 88, [96, 88]), (1.5, 96, [])])
def test_scheduled_for_the_registers_of_as_many_blocks(
    monkeypatch: pytest.MonkeyPatch, slower: float, least: int, tried: list[int]
) -> None:
    """One group that computes and loads, which an SM in one thread block in place of two takes so many times
    as long for; ptxas spills what is scheduled for more registers than `least`."""
    loading = replace(OPTIONS, lowering=Options(multistage=True))
    bands = generate(replace(BANDS, groups=2, persistent=False), loading)
    asked = list[int | None]()

    def again(inputs: Inputs, options: GenerateOptions, *_: object) -> Generated:
        if options.lowering.most_blocks == 1:
            raise TwillError("no more slots")
        asked.append(inputs.registers)
        return replace(shared, inputs=inputs)

    def said(made: Generated) -> Sequence[str]:
        few = made.program.launch.blocks == 1
        return () if few or (made.inputs.registers or least + 1) <= least else SPILLED

    def pace(made: Generated) -> float:
        return 1000.0 if made.program.launch.blocks == 2 else 1000.0 * slower

    for place in (instead, retries):
        monkeypatch.setattr(place, "generate", again)
    monkeypatch.setattr(instead, "pace_of_sm", pace)
    monkeypatch.setattr(spills, "_warnings", said)
    launch = replace(bands.program.launch, blocks=2, entry_registers=96)
    shared = replace(bands, program=replace(bands.program, launch=launch, by_tma=None), cuda="")
    found = without_warnings(BANDS, OPTIONS, shared, SPILLED)
    assert found
    assert asked == tried
    assert found.program.launch.blocks == (2 if tried else 1)
    if tried:
        assert found.program.notes[-1].startswith(
            f"scheduled for {least} registers per thread, 2 thread blocks on an SM: otherwise 260"
        )


def granted(made: Generated) -> tuple[int, ...]:
    """Registers of a thread, of one that loads first."""
    return tuple(group.registers for group in sorted(made.program.groups, key=lambda one: one.warps))


@pytest.mark.parametrize(
    ("spilled", "taken", "left"),
    [
        ({(24, 240): 32, (40, 232): 8}, (56, 224), None),
        ({(24, 240): 32, (40, 232): 40, (56, 224): 40, (88, 208): 40}, (24, 240), None),
        ({(24, 240): 32, (40, 232): 40}, (56, 224), None),
        ({(24, 240): 32, (40, 232): 8, (56, 224): 16}, (40, 232), 8),
    ],
)
def test_groups_that_load_get_registers_of_those_that_compute(
    monkeypatch: pytest.MonkeyPatch,
    gemm: Generated,
    spilled: dict[tuple[int, ...], int],
    taken: tuple[int, ...],
    left: int | None,
) -> None:
    """As long as that spills less; nothing is scheduled again where nothing is spilled then."""
    assert granted(gemm) == (24, 240)
    tried = list[Inputs]()

    def again(inputs: Inputs, *_: object) -> Generated:
        tried.append(inputs)
        raise TwillError("no schedule")

    def said(made: Generated) -> Sequence[str]:
        count = spilled.get(granted(made), 0)
        return [f"{count} bytes of registers are spilled, of 240"] if count else ()

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    found = without_warnings(GEMM, OPTIONS, gemm, ["32 bytes of registers are spilled, of 240"])
    if taken == granted(gemm):
        assert found is None
        return
    assert found
    assert granted(found) == taken
    assert bool(tried) == bool(left)
    assert found.program.notes[-1].startswith(
        f"{taken[0]} registers for each thread that loads: otherwise 32"
    )
    assert f"registers_decrease<{taken[0]}>" in found.cuda
    validate(found.program, found.loops[0].machine.limits)


def test_no_grant_is_tried_where_far_too_much_is_spilled(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated
) -> None:
    """The schedule is another one at once."""
    built = list[tuple[int, ...]]()

    def again(inputs: Inputs, *_: object) -> Generated:
        raise TwillError("no schedule")

    def said(made: Generated) -> Sequence[str]:
        built.append(granted(made))
        return SPILLED

    gemm = replace(gemm, loading=None)
    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    assert without_warnings(GEMM, OPTIONS, gemm, ["1025 bytes of registers are spilled, of 240"]) is None
    assert not built
    assert without_warnings(GEMM, OPTIONS, gemm, ["1024 bytes of registers are spilled, of 240"])
    assert built


@pytest.mark.parametrize(("kept", "lean"), [(frozenset({"mask"}), True), (frozenset[str](), False)])
def test_masks_are_kept_as_bits_where_far_too_much_is_spilled(
    monkeypatch: pytest.MonkeyPatch, kept: frozenset[str], lean: bool
) -> None:
    """The lean form is tried then, which no grant of registers comes before; not where it packs nothing."""
    made = generate(Inputs("tests/kernels/ttgir/pointers_16.sm90.ttgir", arch="sm90"), OPTIONS)
    monkeypatch.setattr(spills, "kept_masks", lambda group: kept)  # pyright: ignore
    monkeypatch.setattr(spills, "_warnings", lambda made: ("76 bytes of registers are spilled, of 192",))  # pyright: ignore
    found = spills.least_spilled(spills.Compiled(made, ("1464 bytes of registers are spilled, of 192",)))
    assert found.made.program.lean == lean


@pytest.mark.parametrize(
    ("blocks", "little", "sooner"), [(2, True, True), (2, False, False), (3, True, False)]
)
def test_fewer_registers_come_first_where_little_is_spilled(
    gemm: Generated, blocks: int, little: bool, sooner: bool
) -> None:
    """In few thread blocks; more warps and fewer groups come before it otherwise."""
    launch = replace(gemm.program.launch, blocks=blocks)
    shared = replace(gemm, program=replace(gemm.program, launch=launch), loading=None, several=None)
    inputs = replace(GEMM, subtile=1)
    found = retries.retries(inputs, OPTIONS, shared, 1.0, lambda name, event: None, solved, little=little)
    tried = [one.what for one in found]
    first = next(number for number, what in enumerate(tried) if what.endswith("registers per thread"))
    others = [number for number, what in enumerate(tried) if "warps" in what or "on an SM" in what]
    assert others
    assert (first < min(others)) == sooner
    assert len(set(tried)) == len(tried)


@pytest.mark.parametrize(("left", "taken"), [(130, True), (131, False)])
def test_a_kernel_that_spills_half_is_taken_where_all_spill(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated, left: int, taken: bool
) -> None:
    tried = list[int | None]()

    def again(inputs: Inputs, *_: object) -> Generated:
        tried.append(inputs.registers)
        return gemm

    def said(made: Generated) -> Sequence[str]:
        return [f"{left} bytes of registers are spilled, of 240"] if len(tried) == 2 else SPILLED

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    found = without_warnings(GEMM, OPTIONS, gemm, SPILLED)
    assert len(tried) > 2
    assert (found is not None) == taken
    if found:
        assert found.program.notes[-1].startswith(
            f"scheduled for {tried[1]} registers per thread: otherwise 260"
        )


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (("(C7517) a wait",), False),
        ((), True),
        (("(C7517) a wait", "(C7514) serialized"), False),
    ],
)
def test_a_kernel_with_as_many_warnings_is_no_remedy(
    gemm: Generated, said: Sequence[str], *, taken: bool
) -> None:
    first = spills.Compiled(gemm, ("(C7517) a wait",))
    found = best_retry._far_less(spills.Compiled(gemm, tuple(said)), first)  # pyright: ignore[reportPrivateUsage]
    assert found == taken


def test_what_the_check_refuses_is_not_taken(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    """Though ptxas spills nothing of it."""
    tried = tried_with(monkeypatch, gemm, 0)

    def refused(*_: object) -> Generated:
        raise TwillError("a slot holds nothing")

    def said(made: Generated) -> Sequence[str]:
        return () if granted(made) == (40, 232) else SPILLED

    monkeypatch.setattr(instead, "right", refused)
    monkeypatch.setattr(spills, "_warnings", said)
    assert without_warnings(GEMM, OPTIONS, gemm, SPILLED) is None
    assert len(tried) == 3


@pytest.mark.parametrize(
    ("paces", "close", "limits", "taken", "tried"),
    [
        ((1.4, 1.2, 1.3), 1.1, (9, 9), 1, [inf, 1.4, 1.2]),
        ((1.4, 1.2, 1.3), 1.5, (9, 9), 0, [inf]),
        ((1.4, 1.2, 1.3), 1.1, (1, 9), 1, [inf, 1.4]),
        ((None, None, 1.3), 1.1, (0, 9), 2, [inf, inf, inf]),
        ((None, None, 1.3), 1.1, (0, 1), None, [inf, inf]),
        ((1.6, 1.2, 1.3), 1.1, (1, 2.5), 1, [inf, 1.6]),
        ((1.6, 1.7, 1.3), 1.1, (1, 2.5), 2, [inf, 1.6, 1.6]),
    ],
)
def test_the_search_for_a_kernel_without_spills_ends(
    monkeypatch: pytest.MonkeyPatch,
    gemm: Generated,
    paces: Sequence[float | None],
    close: float,
    limits: tuple[int, int],
    taken: int | None,
    tried: Sequence[float],
) -> None:
    """With the first that is close; sooner where there is one that is not far slower than where there is
    none. Each retry takes a second here, and hears what is of interest."""
    asked, pace = list[float](), {id(gemm): 1.0}

    def retry(number: int, found: float | None) -> retries.Retry:
        def make(slowest: float) -> Generated:
            asked.append(slowest)
            if found is None:
                raise TwillError("no schedule")
            made = replace(gemm, form=str(number))
            kept.append(made)
            pace[id(made)] = found
            return made

        return retries.Retry(f"{number}", "", make, close=close)

    kept = list[Generated]()

    def paced(made: Generated) -> float:
        return pace[id(made)]

    def built(made: Generated, *_: object) -> spills.Compiled:
        return spills.Compiled(made, ())

    def as_built(found: spills.Compiled) -> spills.Compiled:
        return found

    for name, value in (
        ("BUILT", 0.9),
        ("FOUND", limits[0]),
        ("RETRIES", limits[1]),
        ("pace_of_sm", paced),
        ("least_spilled", as_built),
        ("compiled", built),
    ):
        monkeypatch.setattr(best_retry, name, value)
    given = [retry(number, found) for number, found in enumerate(paces)]
    found = best_retry.best_retry(
        spills.Compiled(gemm, SPILLED), given, 1.0, lambda what: None, lambda built: built.made
    )
    assert (found and found.form) == (None if taken is None else f"{taken}")
    assert asked == tried


@pytest.mark.parametrize(("blocks", "said", "slots"), [(4, (), 4), (4, SPILLED, 1), (3, (), 1), (16, (), 1)])
def test_fewer_thread_blocks_have_the_slots_that_they_have_room_for(
    monkeypatch: pytest.MonkeyPatch, blocks: int, said: Sequence[str], slots: int
) -> None:
    """Not where ptxas warns of that kernel, or it would be one of other blocks. As if many thread blocks of
    one slot were clearly faster."""
    monkeypatch.setattr("twill.warp.block_memory.ONE_SLOT", 0.5)
    options = GenerateOptions(time_limit=5.0, check=False, lowering=Options(multistage=True))
    made = generate(Inputs("tests/kernels/ttgir/pointers_16.sm90.ttgir", arch="sm90"), options)
    assert (made.program.launch.blocks, made.program.channels[0].depth) == (16, 1)
    launch = replace(made.program.launch, blocks=blocks)
    fewer = replace(made, program=replace(made.program, launch=launch))

    def compiled(made: Generated, *_: object) -> spills.Compiled:
        return spills.Compiled(made, tuple(said))

    monkeypatch.setattr(instead, "compiled", compiled)
    found = instead._roomy(  # pyright: ignore[reportPrivateUsage]
        spills.Compiled(fewer, ()), options, lambda name, event: None, solved
    )
    assert (found.made.program.launch.blocks, found.made.program.channels[0].depth) == (blocks, slots)


@pytest.mark.parametrize(
    ("pace", "spilled", "taken"),
    [(1.1, 128, "little"), (1.2, 128, "nothing"), (1.1, 129, "nothing")],
)
def test_a_kernel_that_spills_little_comes_before_slower_ones(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated, pace: float, spilled: int, taken: str
) -> None:
    """As if it took a quarter longer."""
    nothing, little = (replace(gemm, form=form) for form in ("nothing", "little"))
    paces = {id(gemm): 1.0, id(nothing): 1.4, id(little): pace}
    warned = {id(nothing): (), id(little): (f"{spilled} bytes of registers are spilled, of 248",)}

    def paced(made: Generated) -> float:
        return paces[id(made)]

    def built(made: Generated, *_: object) -> spills.Compiled:
        return spills.Compiled(made, warned[id(made)])

    def as_built(found: spills.Compiled) -> spills.Compiled:
        return found

    def retry(made: Generated) -> retries.Retry:
        def make(slowest: float) -> Generated:
            return made

        return retries.Retry(made.form, "", make)

    for name, value in (
        ("pace_of_sm", paced),
        ("least_spilled", as_built),
        ("compiled", built),
        ("in_fewer_registers", as_built),
    ):
        monkeypatch.setattr(best_retry, name, value)
    found = best_retry.best_retry(
        spills.Compiled(gemm, SPILLED),
        [retry(nothing), retry(little)],
        9.0,
        lambda what: None,
        lambda built: built.made,
    )
    assert found
    assert found.form == taken


@pytest.mark.parametrize(
    ("spilled", "spared", "order"),
    [
        ((40, 0, 8), (0, 0, 0), "1 2"),
        ((40, 8, 0), (40, 8, 0), "1 2"),
        ((40, 8, 200), (0, 8, 0), "0-spared 1 2 0-spared"),
        ((40, 8, 12), (40, 0, 0), "1-spared 2-spared 1-spared 2-spared"),
        ((400, 200, 12), (0, 0, 8), "1 2-spared"),
        ((40, 60, 60), (8, 60, 60), "1 2 0-spared"),
    ],
)
def test_what_spills_nothing_in_fewer_registers_comes_first(
    monkeypatch: pytest.MonkeyPatch,
    gemm: Generated,
    spilled: Sequence[int],
    spared: Sequence[int],
    order: str,
) -> None:
    """Of the kernel that ptxas warned of and those that are tried, where the best of these spills; not of
    those that spill more than a little."""

    def of(number: int, count: int, what: str = "") -> spills.Compiled:
        said = (f"{count} bytes of registers are spilled, of 248",) if count else ()
        return spills.Compiled(gemm, said, what=f"{number}{what}")

    def in_fewer(built: spills.Compiled) -> spills.Compiled:
        number = int(built.what)
        found = of(number, spared[number], "-spared")
        return found if spared[number] < spilled[number] else built

    monkeypatch.setattr(best_retry, "in_fewer_registers", in_fewer)
    first, *others = (of(number, count) for number, count in enumerate(spilled))
    found = best_retry._without_spills(first, first, others)  # pyright: ignore[reportPrivateUsage]
    taken = [one.what for one in found if one is not first]
    assert " ".join(taken) == order


@pytest.mark.parametrize("groups", [None, 3])
def test_one_group_computes_and_loads_in_place_of_several(
    monkeypatch: pytest.MonkeyPatch, groups: int | None
) -> None:
    """Behind more warps; not where the user says how many groups there are."""
    bands = generate(BANDS, OPTIONS)

    def few(inputs: Inputs, made: Generated) -> tuple[int, ...]:
        return (2,) if inputs.groups is None else ()

    monkeypatch.setattr(retries, "_fewer_groups", few)
    inputs = replace(BANDS, groups=groups)
    found = [
        one.what for one in retries.retries(inputs, OPTIONS, bands, 1.0, lambda name, event: None, solved)
    ]
    assert (retries.ALONE in found) == (groups is None)
    assert groups or found.index(retries.ALONE) > found.index("8 warps that hold tiles")


def test_the_kernel_stays_where_nothing_helps(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    tried = tried_with(monkeypatch, gemm, 0)
    assert without_warnings(GEMM, OPTIONS, gemm, SPILLED) is None
    assert len(tried) == 3


def test_what_the_user_has_fixed_stays(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    tried = tried_with(monkeypatch, gemm, 255)
    fixed = Inputs(GEMM.spec, arch="sm90", subtile=1, registers=200)
    assert without_warnings(fixed, OPTIONS, gemm, SPILLED) is None
    assert without_warnings(GEMM, OPTIONS, gemm, ()) is None
    assert not tried


def test_a_schedule_that_cannot_be_lowered_right_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another error is of the input: nothing else is tried."""
    found, tried = generation.candidates, list[int | None]()

    def candidates(
        inputs: Inputs,
        options: GenerateOptions,
        on_progress: ProgressCallback,
        searched: Sequence[Result] = (),
        solve: Solve = solved,
        slowest: float = inf,
    ) -> tuple[Generated, ...]:
        tried.append(options.max_in_flight)
        if options.max_in_flight != 1:
            raise error("acc is overwritten before store has read it")
        return found(inputs, options, on_progress, searched, solve, slowest)

    monkeypatch.setattr(generation, "candidates", candidates)
    error: type[TwillError] = DefectError
    (warning,) = generate(GEMM, OPTIONS).program.warnings
    assert warning.startswith("one iteration is in flight at a time: acc is overwritten")
    error = TwillError
    with pytest.raises(TwillError, match="acc is overwritten"):
        generate(GEMM, OPTIONS)
    assert tried == [OPTIONS.max_in_flight, 1, OPTIONS.max_in_flight]


@pytest.mark.parametrize("wrong", [2, 1])
def test_a_kernel_whose_overlap_is_wrong_has_none(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """`wrong` iterations in flight, and more."""

    def checked(made: Generated, *_: object) -> None:
        if made.loops[0].solution.in_flight(made.loops[0].problem) >= wrong:
            raise TwillError("a slot holds nothing")

    monkeypatch.setattr(generation, "_checked", checked)
    options = replace(OPTIONS, check=True)
    if wrong == 1:
        with pytest.raises(TwillError, match="a slot holds nothing"):
            generate(GEMM, options)
        return
    made = generate(GEMM, options)
    (warning,) = made.program.warnings
    assert warning.startswith("one iteration is in flight at a time: a slot holds nothing")
    assert f"// {warning}" in made.cuda


@pytest.mark.parametrize(("multistage", "tried"), [(None, True), (False, False)])
def test_more_warps_load_for_themselves_where_all_that_hold_tiles_spill(
    multistage: bool | None, tried: bool
) -> None:
    """Those that load take registers. They come behind more warps beside them."""
    bands = generate(BANDS, OPTIONS)
    options = replace(OPTIONS, lowering=replace(OPTIONS.lowering, multistage=multistage))
    found = [
        one.what for one in retries.retries(BANDS, options, bands, 1.0, lambda name, event: None, solved)
    ]
    assert ("8 warps that hold tiles and load" in found) == tried
    assert not tried or found.index("8 warps that hold tiles") < found.index(
        "8 warps that hold tiles and load"
    )


@pytest.mark.parametrize(
    ("kernel", "first"), [("matmul_bands", "8 warps that hold tiles"), ("chunked", "2 warp groups")]
)
def test_fewer_groups_come_before_more_warps_that_would_share_rows(
    monkeypatch: pytest.MonkeyPatch, kernel: str, first: str
) -> None:
    """Eight warps divide the columns of 64 rows."""
    inputs = Inputs(f"tests/kernels/ttgir/{kernel}.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
    made = generate(inputs, OPTIONS)
    launch = replace(made.program.launch, blocks=1)

    def quiet(name: str, progress: object) -> None:
        pass

    def few(*_: object) -> tuple[int, ...]:
        return (2,)

    monkeypatch.setattr(retries, "_fewer_groups", few)
    alone = replace(made, program=replace(made.program, launch=launch))
    tried = [one.what for one in retries.retries(inputs, OPTIONS, alone, 1.0, quiet, solved)]
    wanted = ["8 warps that hold tiles", "2 warp groups"]
    assert sorted((one for one in tried if one in wanted), key=lambda one: one != first) == [
        one for one in tried if one in wanted
    ]
    assert set(wanted) <= set(tried)


@pytest.mark.parametrize(
    ("blocks", "far", "wanted"), [(3, False, True), (2, False, True), (1, False, False), (1, True, True)]
)
def test_the_group_that_computes_loads_too_where_several_blocks_spill_or_one_does_far_too_much(
    blocks: int, far: bool, wanted: bool
) -> None:
    inputs = Inputs("tests/kernels/ttgir/queries.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
    made = generate(inputs, OPTIONS)
    launch = replace(made.program.launch, blocks=blocks)
    spilled = replace(made, program=replace(made.program, launch=launch))
    tried = retries.retries(inputs, OPTIONS, spilled, 1.0, lambda name, event: None, solved, far)
    first = next(one for one in tried if not one.what.endswith(retries.ON_AN_SM))
    assert (first.what == retries.TOGETHER) == wanted
    if wanted:
        assert first.close == (retries.SLOWER if blocks == 2 else retries.CLOSE), "no other one is tried then"
        (group,) = first.make(inf).program.groups
        assert not group.only_moves


@pytest.mark.parametrize(("kernel", "counted"), [("matmul_bands", 1.0), ("chunked", retries.DIVIDED_COLUMNS)])
def test_more_warps_than_tiles_have_rows_for_take_longer_than_simulated(kernel: str, counted: float) -> None:
    """A form of more warps, lowered already, is no better than spilling where it is far slower."""
    inputs = Inputs(f"tests/kernels/ttgir/{kernel}.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
    made = generate(inputs, OPTIONS)
    attributes = {**made.program.module.attributes, "ttg.num-warps": 8}
    module = replace(made.program.module, attributes=attributes)
    wide = replace(made, form="", program=replace(made.program, module=module))
    tight = replace(made, form="in as few registers", others=(wide,))
    tried = retries.retries(inputs, OPTIONS, tight, 1.0, lambda name, event: None, solved, True)
    first = next(tried)
    assert (first.what, first.counted) == ("it not in as few registers", counted)
    assert first.slowest == pytest.approx(retries.SLOWER * pace_of_sm(made) / counted)
    wider = next(one for one in tried if one.what == "8 warps that hold tiles")
    assert wider.counted == counted


def test_the_kernel_before_its_group_loaded_too_comes_first(gemm: Generated) -> None:
    """It is scheduled and lowered already."""
    apart = replace(gemm, cuda="")
    tried = retries.retries(
        GEMM, OPTIONS, replace(gemm, loading_apart=apart), 1.0, lambda name, event: None, solved
    )
    first = next(tried)
    assert (first.what, first.searches, first.counted) == (APART, False, 1.0)
    assert first.make(inf).cuda


def test_several_groups_come_first_where_one_in_their_place_spills(gemm: Generated) -> None:
    """They are scheduled and lowered already, and each of their threads has less to hold."""
    several = replace(gemm, cuda="")
    instead = replace(gemm, several=several)
    tried = retries.retries(GEMM, OPTIONS, instead, 1.0, lambda name, event: None, solved)
    first = next(tried)
    assert first.what == SEVERAL
    assert not first.searches
    assert first.make(inf).cuda
    without = retries.retries(GEMM, OPTIONS, gemm, 1.0, lambda name, event: None, solved)
    assert [one.what for one in tried] == [one.what for one in without]
