"""Operands of wgmma in registers that a loop never writes are carried round it by a fence."""

from collections.abc import Iterator, Sequence

import pytest

from tests.kernels.programs import program
from twill.ir.effects import effects, registers
from twill.ir.operands import Read, Register
from twill.ir.statements import (
    MmaIssue,
    MmaWait,
    Pipelined,
    SchedulingFence,
    Statement,
    walk,
)
from twill.targets.hopper.kept_operands import kept

Q = Register("q")


def _loops(name: str) -> Iterator[Sequence[Statement]]:
    for group in program(name).groups:
        yield from (one.steady for one in walk(group.body) if isinstance(one, Pipelined))


def _operands(statements: Sequence[Statement]) -> set[Register]:
    """What MMAs read in registers and nothing writes."""
    read = {
        one.location
        for statement in statements
        if isinstance(statement, MmaIssue)
        for one in statement.reads
        if isinstance(one.location, Register)
    }
    return read - {
        register
        for statement in statements
        if not isinstance(statement, SchedulingFence)
        for register in registers(effects(statement).writes)
    }


@pytest.mark.parametrize("name", ["drained", "gleaning", "scored", "walled", "sieved", "hopped"])
def test_a_fence_holds_what_the_loop_only_reads(name: str) -> None:
    found = [loop for loop in _loops(name) if _operands(loop)]
    assert found
    for loop in found:
        held = {r for one in loop if isinstance(one, SchedulingFence) for r in one.registers}
        assert _operands(loop) <= held


def _issue(operand: Register) -> MmaIssue:
    return MmaIssue("dot", (0,), (Read(1, operand),), Register("s"), "never", 0, 64)


def test_the_fence_stands_where_no_mma_reads_the_operand() -> None:
    fence = SchedulingFence((Q,))
    assert kept((_issue(Q), MmaWait(0))) == (_issue(Q), MmaWait(0), fence)
    p = Register("p")
    written = MmaIssue("write", (1,), (), p, "never", 0, 64)
    loop = (_issue(Q), MmaWait(1), _issue(p), MmaWait(1), written)
    assert kept(loop) == (*loop[:4], fence, written)


def test_a_fence_that_stands_there_holds_the_operand_too() -> None:
    other = SchedulingFence((Register("row"),))
    assert kept((_issue(Q), MmaWait(0), other)) == (
        _issue(Q),
        MmaWait(0),
        SchedulingFence((Register("row"), Q)),
    )


def test_a_loop_in_which_an_mma_always_reads_the_operand_waits_for_it() -> None:
    loop = (_issue(Q), MmaWait(1))
    assert kept(loop) == (*loop, MmaWait(0), SchedulingFence((Q,)))


def test_what_the_loop_writes_is_carried_as_it_is() -> None:
    loop = (_issue(Register("s")), MmaWait(0))
    assert kept(loop) == loop
