"""The effects of statements agree with what the programs' statements name."""

from typing import get_args

import pytest

from tests.kernels.programs import BLACKWELL, EXAMPLES, program
from twill.ir.effects import OrderSignal, SlotPhase, StagingBuffer, SyncPoint, at, effects, registers
from twill.ir.operands import At, Iteration, Read, Register, Slot
from twill.ir.statements import (
    BarrierPhase,
    MmaIssue,
    ProducerLoad,
    ProducerStore,
    Statement,
    StoreTile,
    walk,
)


@pytest.mark.parametrize("kernel", [*EXAMPLES, "grouped", "alternating", *BLACKWELL])
def test_effects_name_what_the_program_has(kernel: str) -> None:
    made = program(kernel)
    channels, orders = {one.id for one in made.channels}, {one.id for one in made.orders}
    buffers = {one.id for one in made.buffers}
    for group in made.groups:
        variables = {one.id: one.ages for one in group.variables}
        for statement in walk(group.body):
            found = effects(statement)
            assert all(one.age < variables[one.variable] for one in registers((*found.reads, *found.writes)))
            for resource in (*found.acquires, *found.releases):
                match resource:
                    case SlotPhase(channel):
                        assert channel in channels
                    case OrderSignal(order):
                        assert order in orders
                    case StagingBuffer(buffer):
                        assert buffer in buffers
                    case BarrierPhase(barrier):
                        assert barrier in {one.id for one in made.dependences}
                    case SyncPoint():
                        assert group.id in made.synchronized


def test_every_kind_of_statement_occurs_in_the_examples() -> None:
    """So the test above covers all of them."""
    seen = {
        type(statement)
        for kernel in (*EXAMPLES, "grouped", "alternating", *BLACKWELL)
        for group in program(kernel).groups
        for statement in walk(group.body)
    }
    assert {kind.__name__ for kind in get_args(Statement)} == {kind.__name__ for kind in seen}


def test_an_mma_goes_on_after_its_issue() -> None:
    location = Slot("x", 0, Iteration("newest"))
    found = effects(MmaIssue("dot", (0,), (Read(1, location),), Register("acc"), "always", 0, 64))
    assert found.asynchronous
    assert found.reads == (location,)
    assert found.writes == (Register("acc"),)
    assert not found.shared


def test_filling_a_slot_acquires_it_empty_and_releases_it_full() -> None:
    when = At(Iteration("newest", 1))
    for fill in (ProducerLoad("x", (), 0, when), ProducerStore("n", "x", (), (), (7,), when)):
        found = effects(fill)
        assert [(one.state, one.iteration) for one in found.acquires if isinstance(one, SlotPhase)] == [
            ("empty", when.iteration)
        ]
        assert [(one.state, one.iteration) for one in found.releases if isinstance(one, SlotPhase)] == [
            ("full", when.iteration)
        ]
        assert found.shared
        assert at(fill) == when


def test_staging_concerns_one_group() -> None:
    assert not effects(StoreTile((0,), (), "staging1")).shared
