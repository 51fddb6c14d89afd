"""All registers of a thread, where ptxas spills in a multiple of eight."""

from dataclasses import replace

import pytest

from twill.costs.machine import load
from twill.generation.builds.spills import ALL_REGISTERS, Compiled, all_registers, least_spilled
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs
from twill.ir.program import Launch
from twill.warp.plan import Options as Lowering

LIMITS = load("h200").limits
POINTERS = Inputs("tests/kernels/ttgir/pointers_16.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
SPILLED = ("12 bytes of registers are spilled, of 248 registers per thread: lower the limit",)


@pytest.mark.parametrize(
    ("threads", "blocks", "even", "registers", "found"),
    [
        (128, 2, True, 248, 255),
        (64, 4, True, 248, 255),
        (160, 1, True, 248, 255),
        (256, 1, True, 248, 255),
        (128, 2, False, 248, 248),
        (128, 2, True, 240, 240),
        (288, 1, True, 248, 248),
    ],
)
def test_where_an_sm_has_them(threads: int, blocks: int, even: bool, registers: int, found: int) -> None:
    """Not where other threads, or partitions of the SM, have the rest."""
    launch = Launch(threads, registers, blocks, even=even)
    assert all_registers(launch, LIMITS) == replace(launch, entry_registers=found)


def test_they_are_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    lowering = Lowering(multistage=True, most_blocks=2)
    made = generate(POINTERS, GenerateOptions(time_limit=20, check=False, lowering=lowering))
    launch = replace(made.program.launch, entry_registers=248, blocks=2, even=True)
    made = replace(made, program=replace(made.program, launch=launch))

    def said(one: Generated) -> tuple[str, ...]:
        return () if one.program.launch.entry_registers == 255 else SPILLED

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    found = least_spilled(Compiled(made, SPILLED))
    assert found.changes == (ALL_REGISTERS,)
    assert "__maxnreg__(255)" in found.made.cuda
    assert not found.made.program.lean
