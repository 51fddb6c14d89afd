"""Kernels for Blackwell: their CUDA as a whole, what nvcc says to it, values, and the order of accesses to
tensor memory."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.builds import assembled
from tests.kernels.programs import BLACKWELL, PAIRED, PASSED, cuda, program
from tests.simulate.test_values import grid
from twill.diagnostics import TwillError
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.program import Program
from twill.ir.statements import (
    BarrierArrive,
    BarrierWait,
    For,
    If,
    MbarrierArrival,
    MmaIssue,
    Pipelined,
    Statement,
    TensorMemorySync,
    walk,
)
from twill.simulate.compare import compare
from twill.simulate.explore import adversaries, explore, same
from twill.simulate.protocol import HazardError
from twill.simulate.races import races

GIVEN = {
    "M": 256,
    "N": 256,
    "K": 256,
    "split": 128,
    "heads": 1,
    "length": 640,
    "scale": 0.09,
    "pitch": 16,
    "a_stride": 256,
    "b_stride": 256,
}
WITH_BARRIERS = [kernel for kernel in (*BLACKWELL, *PASSED) if program(kernel).dependences]


@pytest.mark.parametrize("kernel", [*BLACKWELL, *PAIRED, *PASSED])
def test_the_cuda_of_a_kernel(kernel: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{kernel}.cu", cuda(kernel))


@pytest.mark.parametrize("kernel", [*BLACKWELL, *PASSED])
@pytest.mark.parametrize("prefer", [(0, 1, 2), (2, 1, 0)])
def test_a_program_computes_what_its_ttgir_computes(kernel: str, prefer: tuple[int, ...]) -> None:
    made = program(kernel)
    names = {arg.name.lstrip("%") for arg in made.function.args}
    numbers = {name: value for name, value in GIVEN.items() if name in names}
    found = compare(made, numbers, grid(0, 0, (1, 1)), prefer=prefer)
    assert all(one.good for one in found), found
    assert any(one.changed for one in found)


@pytest.mark.parametrize("kernel", [*BLACKWELL, *PASSED])
@pytest.mark.parametrize("trips", range(6))
def test_no_interleaving_goes_wrong(kernel: str, trips: int) -> None:
    """All of up to three iterations; of more, where there are too many, those of adversaries too."""
    explored = explore(program(kernel), same(trips), 100_000 if trips < 4 else 25_000)
    assert explored.complete or (trips > 3 and adversaries(program(kernel), same(trips)) > 100)
    assert races(program(kernel), same(trips)) > 0 or not trips


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_they_build_without_warnings(tmp_path: Path) -> None:
    said = assembled([*BLACKWELL, *PAIRED, *PASSED], tmp_path, 3)
    assert "warning" not in said
    spilled = [
        line
        for line in said.splitlines()
        if "spill" in line and "0 bytes stack frame, 0 bytes spill" not in line
    ]
    assert not spilled


# --- every barrier is needed --------------------------------------------------------------------------------


def without(made: Program, barrier: str) -> Program:
    """The program without one dependence barrier."""

    def kept(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(map(one, (s for s in statements if getattr(s, "barrier", None) != barrier)))

    def one(statement: Statement) -> Statement:
        match statement:
            case Pipelined(prologue=prologue, steady=steady, epilogue=epilogue, short=short):
                parts = (kept(prologue), kept(steady), kept(epilogue), kept(short))
                return replace(
                    statement, **dict(zip(("prologue", "steady", "epilogue", "short"), parts, strict=True))
                )
            case For(body=body):
                return replace(statement, body=kept(body))
            case If(then=then, otherwise=otherwise):
                return replace(statement, then=kept(then), otherwise=kept(otherwise))
            case MmaIssue(completion=MbarrierArrival(slots, barriers)):
                left = tuple(phase for phase in barriers if phase.barrier != barrier)
                return replace(statement, completion=MbarrierArrival(slots, left))
            case _:
                return statement

    return replace(made, groups=tuple(replace(group, body=kept(group.body)) for group in made.groups))


@pytest.mark.parametrize("kernel", WITH_BARRIERS)
def test_a_missing_barrier_is_found(kernel: str) -> None:
    made = program(kernel)
    for barrier in made.dependences:
        with pytest.raises(HazardError, match=r"may not be complete|deadlock|is over when"):
            races(without(made, barrier.id), same(5, 4))


@pytest.mark.parametrize(("kernel", "count"), [("gemm", 1), ("gemm_persistent", 0)])
def test_groups_synchronize_behind_loops_whose_accumulators_do_not_alternate(kernel: str, count: int) -> None:
    made = program(f"{kernel}.sm100")
    for group in made.groups:
        found = sum(isinstance(s, TensorMemorySync) for s in walk(group.body))
        assert found == (count if group.id in made.synchronized else 0)


@pytest.mark.parametrize(
    "kernel", ["fa_fwd.sm100", "fa_fwd_passed.sm100", "fa_fwd_causal.sm100", "guarded.sm100"]
)
def test_the_first_iteration_waits_for_phases_before_it(kernel: str) -> None:
    """Without a condition: a fresh barrier has completed them."""
    assert not re.search(r"if \(i >= \d+[^;]*dependence\d+\.wait", cuda(kernel))


def test_the_mmas_of_the_next_tile_are_issued_before_this_one_is_read() -> None:
    """The first two tiles find their columns free; the third waits until the first has been read."""
    made = program("gemm_persistent.sm100")
    (tile,) = made.tensor_memory
    assert (tile.columns, tile.buffers, tile.counter) == (256, 2, "accumulators_done")
    issuer = next(g for g in made.groups if any(isinstance(s, MmaIssue) for s in walk(g.body)))
    waits = [s for s in walk(issuer.body) if isinstance(s, BarrierWait)]
    assert [(s.barrier, s.issuer) for s in waits] == [("accumulators_free", True)]
    assert races(made, same(3, 5)) > 0
    assert explore(made, same(2, 3), 100_000)


def test_waits_and_arrivals_of_the_same_barriers() -> None:
    for kernel in WITH_BARRIERS:
        made = program(kernel)
        for barrier in made.dependences:
            waits = {
                g.id
                for g in made.groups
                for s in walk(g.body)
                if isinstance(s, BarrierWait) and s.barrier == barrier.id
            }
            arrivals = {
                g.id
                for g in made.groups
                for s in walk(g.body)
                if isinstance(s, BarrierArrive) and s.barrier == barrier.id
            }
            assert waits == {barrier.waiter}
            by_statement = barrier.by == "threads" or any(barrier.id == t.counter for t in made.tensor_memory)
            assert arrivals == ({barrier.signaller} if by_statement else set())


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("blockM = 128", "blockM = 32", "another number of rows than 64 or 128"),
        ("blockM = 128", "blockM = 64", "into 128x"),
        ("%acc_11, %true : !ttg.memdesc", "%acc_11, %acc_11 : !ttg.memdesc", "executed under a condition"),
        ("%acc_11 = %acc,", "%acc_11 = %true,", "adds to its accumulator now and then"),
    ],
)
def test_what_is_refused(old: str, new: str, complaint: str, tmp_path: Path) -> None:
    """At the line of the operation."""
    text = Path("examples/ttgir/gemm.sm100.ttgir").read_text()
    assert old in text
    changed = text.replace(old, new)
    if "now and then" in complaint:
        changed = changed.replace("scf.yield %true, %acc_16", "scf.yield %acc, %acc_16")
    (tmp_path / "changed.ttgir").write_text(changed)
    inputs = Inputs(str(tmp_path / "changed.ttgir"), arch="sm100")
    options = GenerateOptions(schedules=("tests/kernels/schedules/sm100/gemm.for.0.json",), check=False)
    with pytest.raises(TwillError, match=complaint) as error:
        generate(inputs, options)
    assert error.value.location
