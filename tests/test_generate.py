"""Kernels that ptxas would build with spills: scheduled again for fewer registers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from twill import generate as module
from twill.generate import Generated, GenerateOptions, generate, with_fewer_registers
from twill.inputs import Inputs

SPILLED = ("260 bytes of registers are spilled, of 240 registers per thread: take a smaller tile",)
GEMM = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90")
OPTIONS = GenerateOptions(time_limit=20, check=False)


@pytest.fixture(scope="module")
def gemm() -> Generated:
    return generate(GEMM, OPTIONS)


def tried_with(monkeypatch: pytest.MonkeyPatch, gemm: Generated, good: int) -> list[int | None]:
    """The registers that are tried, where a kernel of at most `good` has no warnings."""
    tried = list[int | None]()

    def again(inputs: Inputs, options: GenerateOptions, on_progress: object) -> Generated:
        tried.append(inputs.registers)
        return gemm

    def said(made: Generated) -> Sequence[str]:
        last = tried[-1]
        return () if last is not None and last <= good else SPILLED

    monkeypatch.setattr(module, "generate", again)
    monkeypatch.setattr(module, "_said", said)
    return tried


def test_fewer_registers_until_nothing_is_spilled(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    most = max(group.registers for one in gemm.loops for group in one.solution.groups)
    tried = tried_with(monkeypatch, gemm, most - 20)
    found = with_fewer_registers(GEMM, OPTIONS, gemm, SPILLED)
    assert found
    assert tried == [most - 8, most - 24]
    assert found.program.notes[-1].startswith(
        f"scheduled for {most - 24} registers per thread: otherwise 260"
    )
    assert f"// {found.program.notes[-1]}" in found.cuda


def test_fewer_blocks_share_an_sm_before_schedules_change(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated
) -> None:
    tried = list[int]()

    def again(inputs: Inputs, options: GenerateOptions, on_progress: object) -> Generated:
        assert inputs.registers is None
        tried.append(options.lowering.most_blocks)
        return gemm

    def said(made: Generated) -> Sequence[str]:
        return () if tried[-1] <= 2 else SPILLED

    monkeypatch.setattr(module, "generate", again)
    monkeypatch.setattr(module, "_said", said)
    launch = replace(gemm.program.launch, blocks=4)
    shared = replace(gemm, program=replace(gemm.program, launch=launch))
    found = with_fewer_registers(GEMM, OPTIONS, shared, SPILLED)
    assert found
    assert tried == [3, 2]
    assert found.program.notes[-1].startswith("2 thread blocks on an SM at most: otherwise 260")


def test_the_kernel_stays_where_nothing_helps(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    tried = tried_with(monkeypatch, gemm, 0)
    assert with_fewer_registers(GEMM, OPTIONS, gemm, SPILLED) is None
    assert len(tried) == 3


def test_what_the_user_has_fixed_stays(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    tried = tried_with(monkeypatch, gemm, 255)
    fixed = Inputs(GEMM.spec, arch="sm90", registers=200)
    assert with_fewer_registers(fixed, OPTIONS, gemm, SPILLED) is None
    given = GenerateOptions(schedules=("one.json",))
    assert with_fewer_registers(GEMM, given, gemm, SPILLED) is None
    assert with_fewer_registers(GEMM, OPTIONS, gemm, ()) is None
    assert not tried
