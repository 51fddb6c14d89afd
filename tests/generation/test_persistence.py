"""Kernels that are made persistent without being told to, and those that stay as they are written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.programs import loops, program
from twill.diagnostics import TwillError
from twill.generation import candidates as candidates_module
from twill.generation import generate as module
from twill.generation.builds import retries, spills
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.candidates import candidates
from twill.generation.choices import persistence
from twill.generation.choices.persistence import gathers, kept_as_grid, open_to_it
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions, ProgressCallback
from twill.generation.searches import solved
from twill.inputs import Inputs
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.pipeline import Begun
from twill.simulate import predict as predict_module
from twill.targets.cuda.loads import tiled_form
from twill.warp.plan import Options as Lowering
from twill.warp.tiles_in_flight import TRIPS

TTGIR = Path("examples/ttgir/gemm.sm90.ttgir")
GEMM = Inputs(str(TTGIR), arch="sm90", persistent=None)
OPTIONS = GenerateOptions(time_limit=20, check=False)
FAR_TOO_MUCH = ("5264 bytes of registers are spilled, of 232 registers per thread: take a smaller tile",)
SPILLED = ("4 bytes of registers are spilled, of 240 registers per thread: take a smaller tile",)


@pytest.fixture(scope="module")
def gemm() -> Generated:
    return generate(GEMM, OPTIONS)


def test_it_is_not_scheduled_where_thread_blocks_hide_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What walks over programs is compared with what shares an SM only where that does not decide."""
    tried = list[bool | None]()
    lowered = candidates_module.lowered

    def noted(inputs: Inputs, session: Any) -> Generated:
        tried.append(inputs.persistent)
        return lowered(inputs, session)

    monkeypatch.setattr(candidates_module, "lowered", noted)
    monkeypatch.setattr(persistence, "hidden_better", lambda *_: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert not walks(generate(GEMM, OPTIONS))
    assert tried == [False]


def walks(made: Generated) -> bool:
    """Whether thread blocks walk over the grid."""
    return "twill_grid_x" in made.cuda


def test_a_kernel_is_made_persistent_where_that_is_predicted_to_be_faster(gemm: Generated) -> None:
    assert walks(gemm)
    (written,) = gemm.others
    assert not walks(written)
    (note,) = (note for note in gemm.program.notes if note.startswith("made persistent: a tile of 16 "))
    assert f"// {note}" in gemm.cuda


@pytest.mark.parametrize(("gain", "taken"), [(1.001, True), (0.999, False)])
def test_it_has_to_be_clearly_faster(
    gemm: Generated, monkeypatch: pytest.MonkeyPatch, gain: float, taken: bool
) -> None:
    (written,) = gemm.others
    walking = (gemm.program, gemm.loops)

    def as_grid(made: Program, scheduled: object) -> float:
        cycles = persistence._persistent(*walking)  # pyright: ignore[reportPrivateUsage]
        return cycles * persistence.CLEARLY * gain

    monkeypatch.setattr(persistence, "_as_grid", as_grid)
    assert (persistence.faster((written.program, written.loops), walking) is not None) == taken


def test_the_loop_is_solved_once(gemm: Generated) -> None:
    names = list[str]()

    def counted(
        problem: Problem, search: Options, on_progress: ProgressCallback, known: Begun | None
    ) -> Result:
        names.append(problem.name)
        return solved(problem, search, on_progress, known)

    again, *_ = candidates(GEMM, OPTIONS, lambda name, event: None, solve=counted)
    assert names == ["gemm/for.0"]
    assert list(again.results) == ["gemm/for.0/for.0"]
    assert again.results["gemm/for.0/for.0"].problem.name == "gemm/for.0/for.0"
    assert again.cuda == gemm.cuda


def test_a_given_number_of_tiles_in_flight_leaves_it_as_it_is_written() -> None:
    assert not walks(generate(GEMM, replace(OPTIONS, lowering=Lowering(tiles=1))))


@pytest.mark.parametrize("persistent", [False, True])
def test_the_user_decides(persistent: bool) -> None:
    made = generate(replace(GEMM, persistent=persistent), OPTIONS)
    assert (walks(made), made.others) == (persistent, ())


@pytest.mark.parametrize("example", ["gemm_persistent.sm90", "gemm.sm100"])
def test_kernels_that_walk_already_and_other_architectures_stay(example: str) -> None:
    """Accumulators in tensor memory have their own way (`alternating`)."""
    spec = f"examples/ttgir/{example}.ttgir"
    assert not walks(generate(replace(GEMM, spec=spec, arch=example.split(".")[1]), OPTIONS))


@pytest.mark.parametrize("form", ["drawn", "searched"])
def test_programs_that_wait_for_others_stay_side_by_side(form: str) -> None:
    """One uses the results of atomic operations, the other loops while a condition holds."""
    spec = f"tests/kernels/ttgir/{form}.sm90.ttgir"
    made = generate(replace(GEMM, spec=spec, persistent=False), OPTIONS)
    assert not open_to_it(made.program, made.loops)
    assert not walks(generate(replace(GEMM, spec=spec), OPTIONS))


def test_an_atomic_operation_whose_result_is_not_used_is_no_reason_to_stay() -> None:
    spec = "tests/kernels/ttgir/split.sm90.ttgir"
    made = generate(replace(GEMM, spec=spec, persistent=False), OPTIONS)
    assert open_to_it(made.program, made.loops)


@pytest.mark.parametrize(("iterations", "open"), [(7, False), (8, True)])
def test_short_loops_stay(iterations: int, open: bool) -> None:
    """More thread blocks hide the arrival of their loads better."""
    end = f"%end = arith.constant {64 * iterations} : i32\n    %acc_4 = scf.for"
    with TTGIR.open(encoding="utf-8") as file:
        text = file.read().replace("%acc_4 = scf.for", end).replace("to %K step", "to %end step")
    made = generate(Inputs(text, arch="sm90"), OPTIONS)
    assert open_to_it(made.program, made.loops) == open


@pytest.mark.parametrize(("slower", "walking"), [(1.0, True), (1.1, False)])
def test_thread_blocks_that_overlap_arithmetic_with_mmas_stay(
    monkeypatch: pytest.MonkeyPatch, slower: float, walking: bool
) -> None:
    """Two of them share an SM. Where the loop of one alone is slower than scheduled, as simulated, the other
    one's MMAs fill the gap; tiles in flight would leave it."""
    predicted = persistence.predict

    def predict(made: Program, loops: Any) -> Any:
        found = predicted(made, loops)
        times = {path: replace(one, interval=slower * one.interval) for path, one in found.loops.items()}
        return replace(found, loops=times)

    monkeypatch.setattr(persistence, "predict", predict)
    made = generate(replace(GEMM, spec="tests/kernels/ttgir/clamped.sm90.ttgir"), OPTIONS)
    by_tma = (*made.others, made)[0].program.by_tma
    assert by_tma is not None
    assert by_tma.blocks == 2
    assert walks(made) == walking


@pytest.mark.parametrize(("tiles", "counted"), [(1, True), (2, False)])
def test_loops_of_one_tile_in_flight_take_as_long_as_simulated(
    monkeypatch: pytest.MonkeyPatch, tiles: int, counted: bool
) -> None:
    """The next tile hides nothing of it."""
    made, (_, scheduled) = program("gemm"), loops("gemm")
    monkeypatch.setattr(Program, "tiles_in_flight", tiles)
    tile_time = persistence._persistent  # pyright: ignore[reportPrivateUsage]
    predicted, before = persistence.predict, tile_time(made, scheduled)

    def predict(made: Program, loops: Any) -> Any:
        found = predicted(made, loops)
        times = {path: replace(one, interval=one.interval + 100) for path, one in found.loops.items()}
        return replace(found, loops=times)

    monkeypatch.setattr(persistence, "predict", predict)
    later = tile_time(made, scheduled) - before
    assert round(later) == (100 * TRIPS if counted else 0)


def test_tiles_in_flight_have_the_slots_of_all_thread_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that waits for loads with few slots keeps up with those of two thread blocks."""
    made, (_, scheduled) = program("gemm"), loops("gemm")
    (most,) = {one.depth for one in made.channels}

    def keeps_up(made: Program, _: object) -> bool:
        return all(one.depth > most for one in made.channels)

    monkeypatch.setattr(persistence, "_keeps_up", keeps_up)
    shared = replace(made, launch=replace(made.launch, blocks=2), by_tma=None)
    assert not persistence.hidden_better(shared, scheduled)
    assert persistence.hidden_better(shared, scheduled, (made, scheduled)), "known to have no more"


@pytest.mark.parametrize(("pace", "busy"), [(1, True), (10_000, False)])
def test_threads_that_copy_slowly_hold_up_tiles_in_flight(
    monkeypatch: pytest.MonkeyPatch, pace: int, busy: bool
) -> None:
    """They share the threads of one thread block."""
    made, (_, scheduled) = program("gathered"), loops("gathered")
    monkeypatch.setattr(Program, "tiles_in_flight", 2)
    monkeypatch.setattr(persistence, "time_of_sm", lambda *_: 5000.0)  # pyright: ignore
    machine = scheduled[0].machine
    slow = replace(machine, copies=replace(machine.copies, pace=pace))
    timed = [replace(one, machine=slow) for one in scheduled]
    assert persistence.as_busy((made, scheduled), (made, timed)) == busy


@pytest.mark.parametrize(
    ("kernel", "blocks", "hidden"), [("bytewise", 2, True), ("bytewise", 1, False), ("gemm", 2, False)]
)
def test_thread_blocks_that_load_through_registers_stay(
    monkeypatch: pytest.MonkeyPatch, kernel: str, blocks: int, hidden: bool
) -> None:
    """Tiles in flight share the threads of one block, which have so many accesses at a time."""
    monkeypatch.setattr(persistence, "gathers", lambda *_: False)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(persistence, "_keeps_up", lambda *_: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    made, (_, scheduled) = program(kernel), loops(kernel)
    shared = replace(made, launch=replace(made.launch, blocks=blocks), by_tma=None)
    assert persistence.hidden_better(shared, scheduled) == hidden


@pytest.mark.parametrize(
    ("kernel", "pace", "late"),
    [("gathered", 10_000, True), ("gathered", 1, False), ("pointers", 10_000, False)],
)
def test_thread_blocks_whose_threads_copy_slowly_stay(kernel: str, pace: int, late: bool) -> None:
    """Tiles in flight share the threads of one block; those that TMA can load take no thread's time."""
    made, (_, scheduled) = program(kernel), loops(kernel)
    machine = scheduled[0].machine
    slow = replace(machine, copies=replace(machine.copies, pace=pace))
    timed = [replace(one, machine=slow) for one in scheduled]
    assert persistence.copies_late(made, timed) == late


@pytest.mark.parametrize(("tiles", "times", "busy"), [(2, 0.99, True), (2, 1.01, False), (1, 0.99, False)])
def test_several_tiles_may_take_as_long_as_thread_blocks_that_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch, tiles: int, times: float, busy: bool
) -> None:
    """Two of them, each busy for half of an iteration, take 1.26 times as long as the unit is busy for."""
    monkeypatch.setattr(Program, "tiles_in_flight", tiles)
    made, (_, scheduled) = program("gemm"), loops("gemm")
    shared = replace(made, launch=replace(made.launch, blocks=2), by_tma=None)
    monkeypatch.setattr(predict_module, "intervals", lambda *_: {one.loop.path: 2048.0 for one in scheduled})  # pyright: ignore
    taken = times * persistence.BESIDE_ENDS * TRIPS * 1024 * 2 ** (1 / 3)
    monkeypatch.setattr(persistence, "_on_time", lambda *_: taken)  # pyright: ignore
    monkeypatch.setattr(persistence, "_late", lambda *_: 0.0)  # pyright: ignore
    assert persistence.as_busy((shared, scheduled), (made, scheduled)) == busy


@pytest.mark.parametrize(("kernel", "times"), [("paged", 2), ("pointers", 1)])
def test_tiles_that_lie_where_an_iteration_loads_take_longer_to_copy(kernel: str, times: int) -> None:
    """Each of a thread's copies has an address of its own; not one that TMA makes."""
    made, (_, scheduled) = program(kernel), loops(kernel)
    machine = scheduled[0].machine
    slow = replace(machine, copies=replace(machine.copies, lean_pace=2 * machine.copies.pace))
    timed = [replace(one, machine=slow) for one in scheduled]
    even = replace(machine, copies=replace(machine.copies, lean_pace=machine.copies.pace))
    alike = [replace(one, machine=even) for one in scheduled]
    path = scheduled[0].loop.path
    taken, plain = (persistence.copied_in(made, one)[path] for one in (timed, alike))
    assert plain < taken <= times * plain if times > 1 else taken == plain
    ops = frozenset(op.index for op in made.function.walk())
    assert persistence.copied_in(made, timed, ops)[path] == 0


def test_thread_blocks_that_no_launch_has_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them share an SM where TMA loads all tiles; that it can is known when the kernel is printed."""
    inputs = replace(GEMM, spec="tests/kernels/ttgir/clamped.sm90.ttgir", persistent=False)
    with_form = generate(inputs, OPTIONS).program
    assert with_form.by_tma
    assert tiled_form.launched_by_tma(with_form)
    monkeypatch.setattr(tiled_form, "tiled_form", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    without = generate(inputs, OPTIONS).program
    assert without.by_tma is None
    assert without.resident_blocks == without.launch.blocks < with_form.resident_blocks


def test_a_kernel_that_becomes_slower_without_spills_is_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated
) -> None:
    tried = list[tuple[int | None, bool | None]]()
    (written,) = gemm.others

    def again(inputs: Inputs, *_: object) -> Generated:
        tried.append((inputs.registers, inputs.persistent))
        return gemm

    def said(made: Generated) -> tuple[str, ...]:
        return () if made is written else SPILLED

    monkeypatch.setattr(retries, "generate", again)
    monkeypatch.setattr(spills, "_warnings", said)
    found = without_warnings(replace(GEMM, subtile=1), OPTIONS, gemm, SPILLED)
    assert [persistent for _, persistent in tried] == [True] * 3
    assert found
    assert not walks(found)
    assert found.program.notes[-1].startswith(
        "not made persistent: otherwise 4 bytes of registers are spilled"
    )
    tried.clear()
    found = without_warnings(replace(GEMM, subtile=1), OPTIONS, gemm, FAR_TOO_MUCH)
    assert found
    assert not walks(found)
    assert not tried


def test_a_persistent_kernel_that_is_wrong_is_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated
) -> None:
    check = module._checked  # pyright: ignore[reportPrivateUsage]

    def checked(made: Generated, *rest: Any) -> Any:
        if any("twill_grid_x" in one.name for one in made.program.function.args):
            raise TwillError("a slot holds nothing")
        return check(made, *rest)

    monkeypatch.setattr(module, "_checked", checked)
    found = generate(GEMM, replace(OPTIONS, check=True))
    assert not walks(found)
    assert found.checked
    assert found.program.notes[-1] == "not made persistent: a slot holds nothing"


@pytest.mark.parametrize(("kernel", "found"), [("chosen", True), ("pointers", False), ("decayed", False)])
def test_tiles_whose_place_an_iteration_loads_are_gathered(kernel: str, *, found: bool) -> None:
    assert gathers(program(kernel), loops(kernel)[1]) is found


@pytest.mark.parametrize(("blocks", "tiles", "kept"), [(1, 2, False), (1, 1, True), (2, 2, True)])
def test_a_program_that_returns_early_walks_alone_with_several_tiles(
    blocks: int, tiles: int, kept: bool
) -> None:
    """A grid gives unequal programs to the SMs as these are done."""
    assert kept_as_grid(program("branching"), loops("branching")[1], blocks, tiles) == kept
    assert not kept_as_grid(program("pointers"), loops("pointers")[1], blocks, tiles)
