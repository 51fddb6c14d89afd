"""Kernels in the forms that the examples do not have: values, interleavings, and one file of all their CUDA
that builds."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.gpu import test_forms as on_a_gpu
from tests.kernels.builds import assembled
from tests.kernels.programs import FORMS, loops, program
from tests.simulate.test_values import grid
from twill.ir.loop import Pointer
from twill.simulate.compare import compare
from twill.simulate.explore import explore, same
from twill.targets.hopper import TARGET, source
from twill.warp.lower import lower

NUMBERS = {"M": 256, "N": 256, "K": 256, "COUNT": 256}


@pytest.mark.parametrize("kernel", FORMS)
@pytest.mark.parametrize("prefer", [(0, 1, 2), (2, 1, 0)])
def test_a_program_computes_what_its_ttgir_computes(kernel: str, prefer: tuple[int, ...]) -> None:
    made = program(kernel)
    names = {arg.name.lstrip("%") for arg in made.function.args}
    given = {
        "L": 1,
        "groups": 5,
        "taps": 2,
        "slope": 0.125,
        "which": 0,
        "pages": 8,
        "E": 40,
        "D": 48,
        "done": 0,
        "steps": 2,
        "heads": 1,
        "n": 5,
        "size": 16,
        "stride_h": 256,
    }
    given |= {**dict.fromkeys(("stride", "apart", "a_stride", "b_stride", "pitch", "row"), 256), "first": 8}
    found = compare(
        made,
        {name: value for name, value in (NUMBERS | given).items() if name in names},
        grid(0, 0, (1, 1)),
        prefer=prefer,
    )
    assert all(one.good for one in found), found
    assert any(one.changed for one in found)


@pytest.mark.parametrize("kernel", FORMS)
def test_the_tests_on_a_gpu_have_a_number_for_every_scalar(kernel: str) -> None:
    scalars = [arg for arg in program(kernel).function.args if not isinstance(arg.type, Pointer)]
    assert {arg.name.lstrip("%") for arg in scalars} <= set(on_a_gpu.NUMBERS)


SERIALIZED = ("recalled_kernel", "recalled_tma_kernel", "slots_ahead_kernel", "circling_tma_kernel")
"""Of the kept schedules those in which ptxas waits for an MMA earlier (C7517), or has too few registers in as
many thread blocks on an SM (C7512); `codegen` takes another."""


@pytest.mark.parametrize("kernel", FORMS)
def test_no_interleaving_goes_wrong(kernel: str) -> None:
    for trips in range(6):
        assert explore(program(kernel), same(trips)).complete


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_all_of_them_build(tmp_path: Path) -> None:
    said = assembled(FORMS, tmp_path)
    serialized = [line for line in said.splitlines() if "C75" in line]
    assert not [line for line in serialized if not any(name in line for name in SERIALIZED)]
    assert "warning" not in said


def test_halves_of_an_accumulator_meet_a_loaded_tile_in_registers() -> None:
    """The layout of a half is linear, that of the tile which TMA loaded is free: no thread lacks an element."""
    text = source(program("modulated"))
    assert "scratch" not in text
    assert "store_elements" not in text


def test_columns_are_counted_in_the_layout_of_the_store() -> None:
    """A vector of columns in one layout is stored by an operation in an exact one; all threads stored column 0."""
    text = source(program("confined"))
    assert "+ 0)" not in text
    assert "(thread.lane & 15)" in next(line for line in text.splitlines() if "*((c + " in line)


def test_an_accumulator_that_arithmetic_writes_is_complete_before_the_fence() -> None:
    text = source(program("queries"))
    (name,) = {
        line.split("(")[1].split(",")[0]
        for line in text.splitlines()
        if "wgmma_f16_f16_n128<MN_MAJOR>" in line
    }
    assert f"registers_fence({name});\n" in text.replace(" ", "")
    fenced = [
        line.strip() for line in text.splitlines() if "wgmma_fence" in line or "registers_fence" in line
    ]
    assert (f"registers_fence({name});", "wgmma_fence();") in set(pairwise(fenced))


def test_a_tile_beside_which_registers_do_not_suffice_is_staged_before_the_loop() -> None:
    one = program("queries")
    assert [c.id for c in one.channels if c.producer in c.consumers] == ["x_18"]
    assert not any(c.producer in c.consumers for c in program("fa_fwd").channels)


def test_no_slot_is_released_for_an_iteration_before_the_first() -> None:
    """Of a loop of one iteration; in a loop around it, the arrival would count for a later one."""
    lines = [line.strip() for line in source(program("dequantized")).splitlines()]
    assert "if (n > 1) channel_whole_21.consumer_release(count_whole_21 + n - 2);" in lines


def test_a_load_behind_the_update_of_what_it_is_addressed_by_reads_the_older_value() -> None:
    """Its iteration begins before the update, which the schedule may start first."""
    module, (one,) = loops("jumping")
    starts = {
        name: one.start(name) + (one.solution.interval if name.startswith(("load.x", "load.y", "dot")) else 0)
        for name in (op.id for op in one.problem.operations)
    }
    later = replace(one.solution, start=tuple(starts.values()))
    made = lower(module, (replace(one, solution=later),), TARGET)
    found = compare(made, NUMBERS, grid(0, 0, (1, 1)))
    assert all(result.good for result in found), found
    assert any(result.changed for result in found)
