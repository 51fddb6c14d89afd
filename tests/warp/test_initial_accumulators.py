"""Waits for MMAs on accumulators whose initial value is arithmetic's: ptxas serializes the MMAs of a loop, or
injects a wait, where it takes such a value for the result of an MMA in flight."""

import pytest

from tests.kernels.programs import program
from twill.ir.operands import Read, Register
from twill.ir.statements import (
    CommitGroup,
    Compute,
    MmaIssue,
    MmaWait,
    Pipelined,
    ProducerStore,
    Statement,
    walk,
)
from twill.targets.hopper import mma_waits


def issue(accumulator: str) -> MmaIssue:
    return MmaIssue(accumulator, (0,), (), Register(accumulator), "always", 0, 64, completion=CommitGroup())


def reads(variable: str) -> Compute:
    return Compute(f"of {variable}", (0,), (Read(0, Register(variable)),))


@pytest.mark.parametrize(
    ("prologue", "wanted"),
    [
        ((issue("v"), reads("h"), MmaWait(0), issue("h")), True),
        ((issue("v"), MmaWait(1), reads("h"), issue("h")), True),
        ((reads("h"), issue("v"), MmaWait(0), issue("h")), False),
        ((issue("v"), MmaWait(0), reads("h"), issue("h")), False),
        ((issue("v"), reads("x"), MmaWait(0), issue("h")), False),
        ((issue("h"), issue("v"), MmaWait(1), reads("h")), False),
    ],
)
def test_initial_values_are_waited_for_where_an_mma_is_in_flight(
    prologue: tuple[Statement, ...], *, wanted: bool
) -> None:
    found = mma_waits._initial_beside_mma(  # pyright: ignore[reportPrivateUsage]
        prologue, frozenset({"h", "v"})
    )
    assert found == wanted


def test_a_carried_accumulator_that_a_store_reads_is_complete_at_the_back_edge() -> None:
    """`prefixes` stores its running sum to shared memory at the beginning of the next iteration."""
    loops = [s for g in program("prefixes").groups for s in walk(g.body) if isinstance(s, Pipelined)]
    found = [
        (one.steady, next(s.accumulator for s in one.steady if isinstance(s, MmaIssue)))
        for one in loops
        if any(isinstance(s, MmaIssue) for s in one.steady)
    ]
    assert found
    for steady, accumulator in found:
        stores = [s for s in steady if isinstance(s, ProducerStore)]
        assert any(read.location == accumulator for s in stores for read in s.reads)
        assert isinstance(steady[-1], MmaWait)
        assert steady[-1].pending == 0
