"""More thread blocks on an SM than were scheduled, where ptxas spills nothing so."""

from dataclasses import replace

import pytest

from tests.generation.test_multistage import SPILLED, _generated
from twill.generation.generated import Generated
from twill.generation.more_blocks import in_more_blocks
from twill.generation.spills import Compiled
from twill.warp.residency import registers_in_warps


def tried(monkeypatch: pytest.MonkeyPatch, used: int, least: int, most: int = 32) -> Compiled | None:
    """For a kernel of which ptxas used so many registers, and which spills with less than `least`."""

    def said(made: Generated) -> tuple[str, ...]:
        return () if made.program.launch.entry_registers >= least else SPILLED

    def waiting(made: Generated) -> float:
        return 1e9

    monkeypatch.setattr("twill.generation.spills._warnings", said)
    monkeypatch.setattr("twill.generation.more_blocks.pace_of_sm", waiting)
    return in_more_blocks(Compiled(_few(), ()), used, most)


def _few() -> Generated:
    """A kernel with eight thread blocks of two warps on an SM."""
    made = _generated("pointers_two_warps")
    launch = replace(made.program.launch, blocks=8, entry_registers=128)
    return replace(made, program=replace(made.program, launch=launch))


def test_as_many_blocks_as_spill_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried(monkeypatch, used=112, least=96)
    assert found is not None
    launch = found.made.program.launch
    assert (launch.blocks, launch.entry_registers) == (10, 96)
    assert "__maxnreg__(96)" in found.made.cuda


def test_not_where_ptxas_spills_or_has_far_fewer_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, used=112, least=104) is None
    assert tried(monkeypatch, used=160, least=0) is None


def test_no_more_than_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, used=112, least=0, most=8) is None


def test_an_sm_is_in_four_partitions() -> None:
    limits = _generated("pointers_two_warps").loops[0].machine.limits
    assert [registers_in_warps(limits, warps) for warps in (8, 9, 12, 16, 17)] == [248, 168, 168, 128, 96]
