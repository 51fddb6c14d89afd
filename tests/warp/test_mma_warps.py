"""MMAs of groups that compute are issued by warps of their own, beside the one that loads."""

import pytest

from tests.kernels.programs import loops, program
from twill.ir.statements import BarrierWait, ConsumerWait, MmaIssue, walk


@pytest.mark.parametrize("kernel", ["fa_fwd_passed.sm100", "fa_fwd_subtiled.sm100", "fa_fwd_causal.sm100"])
def test_groups_that_compute_issue_no_mma(kernel: str) -> None:
    made = program(kernel)
    issuing = [g for g in made.groups if any(isinstance(s, MmaIssue) for s in walk(g.body))]
    assert issuing
    for group in issuing:
        assert group.warps == 1
        assert group.registers == made.groups[0].registers
    for group in (g for g in made.groups if g.warps >= 4):
        waits = [s for s in walk(group.body) if isinstance(s, BarrierWait | ConsumerWait)]
        assert not any(isinstance(wait, BarrierWait) and wait.issuer for wait in waits)


def test_a_schedule_with_a_group_for_its_mmas_keeps_it() -> None:
    made = program("gemm.sm100")
    assert len(made.groups) == len(loops("gemm.sm100")[1][0].solution.groups) + 1  # and the epilogue


def test_a_group_that_copies_tiles_needs_all_of_its_warps() -> None:
    made = program("panels.sm100")
    assert [g.warps for g in made.groups] == [4, 8]
