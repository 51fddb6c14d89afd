"""Both thread blocks of a pair run together: how their groups wait for each other, and what is found without
a wait."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels.programs import PAIRED, program
from tests.simulate.mutate import mutants
from twill.ir.program import Program
from twill.ir.statements import BarrierArrive, BarrierWait, ConsumerWait, MmaIssue, ProducerLoad, Statement
from twill.simulate.explore import adversaries, explore, same
from twill.simulate.protocol import HazardError

ATTENTION = tuple(kernel for kernel in PAIRED if kernel.startswith("fa_"))
"""With too many groups for all interleavings of two blocks."""
REDUCTION = "gemm_reduction_pairs.sm100"
"""Threads and MMAs read the same slots."""


@pytest.mark.parametrize("kernel", [one for one in PAIRED if one not in ATTENTION])
@pytest.mark.parametrize("trips", [0, 1, 2])
def test_no_interleaving_goes_wrong(kernel: str, trips: int) -> None:
    assert explore(program(kernel), same(trips, 3)).complete
    assert adversaries(program(kernel), same(9, 3)) > 20


@pytest.mark.parametrize("kernel", ATTENTION)
def test_some_interleavings_of_many_groups(kernel: str) -> None:
    assert explore(program(kernel), same(2), 1_000).states == 1_000


def without(*kinds: type[Statement]) -> Callable[[Statement], tuple[Statement, ...] | None]:
    return lambda one: () if isinstance(one, kinds) else None


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        *(("gemm_pairs.sm100", kind) for kind in (ConsumerWait, ProducerLoad, MmaIssue)),
        *((REDUCTION, kind) for kind in (BarrierArrive, BarrierWait, ConsumerWait, MmaIssue)),
    ],
)
def test_a_missing_statement_is_caught(kernel: str, kind: type[Statement]) -> None:
    made = list(mutants(program(kernel), without(kind)))
    assert made
    for where, mutant in made:
        assert wrong(mutant), where


def test_the_second_block_is_waited_for() -> None:
    """One block alone is right without the barrier that the threads of both arrive on."""
    made = program(REDUCTION)
    groups = tuple(replace(group, body=tuple(map(_without_barriers, group.body))) for group in made.groups)
    mutant = replace(made, groups=groups)
    assert not wrong(replace(mutant, pairs=False))
    assert wrong(mutant)


def _without_barriers(one: Statement) -> Statement:
    parts = {part: getattr(one, part) for part in ("prologue", "steady", "epilogue") if hasattr(one, part)}
    kept = {
        part: tuple(it for it in body if not isinstance(it, BarrierArrive | BarrierWait))
        for part, body in parts.items()
    }
    return replace(one, **kept)


def wrong(mutant: Program) -> bool:
    """Whether some order of the groups of both blocks ends badly."""
    try:
        for trips in (1, 3, 9):
            explore(mutant, same(trips), 2_000)
            adversaries(mutant, same(trips))
    except HazardError:
        return True
    return False
