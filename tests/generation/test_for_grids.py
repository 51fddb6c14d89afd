"""Launches that choose how many of their thread blocks an SM holds."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.generation.test_multistage import _generated
from tests.kernels.programs import changed, loops, program
from twill.emulate.build import Build, Request, architecture, run, wrong
from twill.emulate.host import compiled
from twill.emulate.module import Kernel, Module
from twill.generation.builds import for_grids
from twill.generation.builds.for_grids import with_choice
from twill.generation.generated import Generated, GenerateOptions
from twill.ir.program import BlockPace, Program
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest
from twill.launch.manifest import read, write
from twill.targets import target
from twill.targets.cuda.host import host_trips
from twill.warp.plan import Options

KERNEL = "matmul_32"
MANY, FEW = BlockPace(8, 400, 100), BlockPace(1, 200, 100)


def quiet(name: str, event: object) -> None:
    """No progress."""


def chosen(
    monkeypatch: pytest.MonkeyPatch, kernel: str = KERNEL, right: bool = True, lowering: Options | None = None
) -> Generated:
    """The kernel with a choice where that is predicted to be worth it; other forms are `right`."""

    def checked(made: Generated, program: Program, *rest: object) -> bool:
        return right

    monkeypatch.setattr(for_grids, "_is_right", checked)
    made = _generated(kernel)
    return with_choice(made, GenerateOptions(lowering=lowering or Options()), quiet)


def paced(monkeypatch: pytest.MonkeyPatch, alone: float, busy: float, slots: float) -> None:
    """A block of the first form takes `alone` cycles without others, one of a form with more slots fewer by
    so many for each."""

    def pace(made: Generated, program: Program) -> BlockPace:
        more = sum(one.depth for one in program.channels) - sum(one.depth for one in made.program.channels)
        return BlockPace(program.resident_blocks, alone - slots * more, busy)

    monkeypatch.setattr(for_grids, "_pace", pace)


def test_few_blocks_get_a_form_with_more_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    paced(monkeypatch, 400, 50, 50)
    made = chosen(monkeypatch)
    (other,) = made.program.others
    assert made.program.pace
    assert other.resident_blocks < made.program.resident_blocks
    assert "times as fast predicted with" in made.program.notes[-1]
    assert f"const Form forms[] = {{{{{made.program.resident_blocks}, 400, 50}}" in made.cuda
    assert f"_{other.resident_blocks}_blocks_launch(" in made.cuda


def test_a_form_that_is_wrong_or_spills_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    paced(monkeypatch, 400, 50, 50)
    assert chosen(monkeypatch, right=False).program.others == ()


def test_blocks_that_are_as_fast_in_any_number_have_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The busiest unit is all that they wait for, and what is left over behind whole waves is little."""
    paced(monkeypatch, 10, 10, 0)
    monkeypatch.setattr(for_grids, "PER_SM", (16,))
    made = chosen(monkeypatch)
    assert made.program.pace is None
    assert "Form forms" not in made.cuda


def test_fewer_blocks_of_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no other form is needed for has none."""
    paced(monkeypatch, 265, 136, 0)
    made = chosen(monkeypatch)
    assert made.program.pace
    assert made.program.others == ()


@pytest.mark.parametrize("given", [Options(blocks=1000), Options(multistage=False), Options(most_blocks=2)])
def test_what_the_user_decides_stays(monkeypatch: pytest.MonkeyPatch, given: Options) -> None:
    paced(monkeypatch, 400, 50, 50)
    assert chosen(monkeypatch, lowering=given).program.pace is None


@pytest.mark.parametrize("kernel", ["grouped"])
def test_a_kernel_that_walks_over_programs_has_no_choice(
    monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    paced(monkeypatch, 400, 50, 50)
    assert chosen(monkeypatch, kernel).program.pace is None


def joint() -> Program:
    """A kernel of eight thread blocks on an SM, and of one with more slots."""
    other = replace(changed(KERNEL, Options(most_blocks=1)), pace=FEW)
    return replace(changed(KERNEL, Options()), pace=MANY, others=(other,))


def test_the_manifest_has_all_forms() -> None:
    made, (_, scheduled) = joint(), loops(KERNEL)
    described = manifest(made, scheduled, {one.loop.path: 0.0 for one in scheduled})
    assert [one.blocks for one in described.forms] == [8, 1]
    assert described.forms[0].threads == described.threads
    assert read(write(described), "kernel.json") == described


def taken(
    made: Program, launches: Sequence[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> list[bool]:
    """Whether launches of eight blocks, with so many in the sum and processors, take the form of one block
    on an SM; each is right."""
    source = folder / "kernel.cu"
    source.write_text(target("sm90").source(made))
    host = compiled(source, folder, [RUNTIME], architecture(made.module))
    scheduled = loops(KERNEL)[1]
    described = manifest(made, scheduled, {one.loop.path: 0.0 for one in scheduled})
    build, names = Build(described, made.function, host), list[bool]()
    original = Module.kernel

    def noted(module: Module, name: str) -> Kernel:
        names.append("_1_blocks" in name)
        return original(module, name)

    monkeypatch.setattr(Module, "kernel", noted)
    for k, processors in launches:
        numbers = {"M": 128, "N": 128, "K": k}
        found = run(build, Request(numbers, (8, 1, 1), ((0, 0, 0),), processors=processors))
        assert found
        assert wrong(build, found) is None
    return names


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_a_launch_takes_the_form_for_its_blocks_and_both_are_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert taken(joint(), [(128, 1000), (128, 1)], monkeypatch, tmp_path) == [True, False]


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_a_launch_of_few_iterations_takes_the_form_of_more_blocks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They hide from each other what stands around their loops."""
    made, counted = joint(), {"around": 1600, "trips": 32}
    other = replace(made.others[0], pace=BlockPace(1, 100, 50, **counted))
    made = replace(made, pace=BlockPace(8, 1550, 50, **counted), others=(other,))
    assert taken(made, [(64, 1), (1024, 1)], monkeypatch, tmp_path) == [False, True]


@pytest.mark.parametrize(("kernel", "counted"), [(KERNEL, True), ("grouped", False)])
def test_launches_count_iterations_that_follow_from_arguments(kernel: str, counted: bool) -> None:
    made = _generated(kernel)
    pace = for_grids._pace(made, made.program)
    assert (pace.around > 0) == counted


CLAMPED = "clamped"
"""TMA makes room for more thread blocks of it on an SM."""


def test_long_loops_have_more_slots_in_fewer_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the number of iterations is known when a kernel is made."""
    made = chosen(monkeypatch, CLAMPED)
    (other,) = made.program.others
    residency = made.loops[0].machine.residency
    assert made.program.by_tma
    assert other.pace
    assert residency
    assert other.pace.long_loop == residency.long_loop
    assert other.resident_blocks < made.program.resident_blocks
    assert other.shared.bytes > made.program.shared.bytes
    launched = f"_{other.resident_blocks}_blocks_launch("
    assert f"if (iterations >= {residency.long_loop}) return " in made.cuda
    assert made.cuda.count(launched) == 2
    assert "with more slots where a loop has" in made.program.notes[-1]


def test_loops_whose_iterations_follow_from_arguments_are_counted() -> None:
    made = program(CLAMPED)
    (loop,) = host_trips.loops(made)
    assert loop in {one.loop.op.index for one in loops(CLAMPED)[1]}
    assert sum("divide_ceiling(" in line for line in host_trips.computed(made)) == 1


def test_loops_that_begin_by_the_index_of_a_program_are_not_counted() -> None:
    assert host_trips.loops(program("fa_fwd_causal")) == ()


def test_blocks_of_few_iterations_hide_what_stands_around_them() -> None:
    """Also where no more than the most iterations is known, as of a part of a sum."""
    made = _generated(KERNEL)
    short = tuple(replace(one, loop=replace(one.loop, most_trips=4)) for one in made.loops)
    paces = [for_grids._pace(replace(made, loops=loops), made.program) for loops in (made.loops, short)]
    assert paces[0].alone < paces[1].alone
