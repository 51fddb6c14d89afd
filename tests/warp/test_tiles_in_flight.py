"""Several tiles in flight: when, and that every mistake in the hand-off is caught."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels.programs import changed, loops, program
from tests.simulate.mutate import mutants
from tests.simulate.test_values import grid
from twill.diagnostics import TwillError
from twill.ir.program import Program
from twill.ir.statements import (
    Advance,
    Alternate,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    Statement,
    walk,
)
from twill.simulate.compare import compare
from twill.simulate.explore import adversaries, explore, same
from twill.simulate.protocol import HazardError
from twill.targets.cuda.kernel import _init  # pyright: ignore[reportPrivateUsage]
from twill.warp.plan import Options

NUMBERS = {"M": 512, "N": 256, "K": 320}
"""Eight tiles of 2, 4, 5 and 5 iterations."""


def test_the_groups_of_alternate_tiles() -> None:
    made = program("alternating")
    assert made.tiles_in_flight == 2
    assert [(group.id, group.warps, group.first_warp) for group in made.groups] == [
        (0, 1, 8),
        (1, 4, 0),
        (2, 4, 4),
    ]
    assert [(one.signaller, one.waiter, one.signalled) for one in made.orders] == [
        (2, 1, True),
        (1, 2, False),
    ]
    assert any(note.startswith("tiles in flight: 2, ") for note in made.notes)


def test_a_slot_is_released_by_the_group_of_its_tile() -> None:
    made = program("alternating")
    once, operands = made.channels
    assert once.depth == 2, "one tile is read while the next arrives"
    for channel in (once, operands):
        assert channel.alternating == ((1,), (2,))
        assert ".init(1, 4);" in _init(made, channel), "the four warps of one group"


def test_a_group_counts_the_iterations_of_tiles_that_are_not_its_own() -> None:
    """Their trip counts differ from those of its own tiles."""
    made = program("alternating")
    for group in made.groups[1:]:
        (both,) = (one for one in walk(group.body) if isinstance(one, Alternate))
        kinds = {type(one) for one in walk(both.other)}
        assert {Pipelined, Advance} <= kinds
        assert not kinds & {OrderBarrierWait, OrderBarrierArrive}


@pytest.mark.parametrize("prefer", [(0, 1, 2), (2, 1, 0), (2, 0, 1)])
def test_values(prefer: tuple[int, ...]) -> None:
    for blocks in (1, 3):
        found = compare(program("alternating"), NUMBERS, grid(0, 0, (blocks, 1)), prefer=prefer)
        assert all(one.good for one in found), found
        assert any(one.changed for one in found)


def test_no_interleaving_goes_wrong() -> None:
    for trips in range(4):
        assert explore(program("alternating"), same(trips, 5)).complete
    assert adversaries(program("alternating"), same(9, 5)) > 20


def without_hand_off(statement: Statement) -> tuple[Statement, ...] | None:
    """A loop that signals no other group once its last MMA is issued."""
    if not isinstance(statement, Pipelined) or not statement.epilogue:
        return None
    kept = tuple(one for one in statement.epilogue if not isinstance(one, OrderBarrierArrive))
    return (replace(statement, epilogue=kept),) if kept != statement.epilogue else None


def dropped(*kinds: type[Statement]) -> Callable[[Statement], tuple[Statement, ...] | None]:  # pyright: ignore[reportGeneralTypeIssues]
    return lambda statement: () if isinstance(statement, kinds) else None


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (dropped(Advance), "deadlock|belongs|another tile|holds|other values|twice|without"),
        (dropped(OrderBarrierWait), "twice"),
        (without_hand_off, "deadlock"),
    ],
)
def test_mistakes_are_caught(
    edit: Callable[[Statement], tuple[Statement, ...] | None], complaint: str
) -> None:
    made = list(mutants(program("alternating"), edit))
    assert made
    for where, mutant in made:
        assert re.search(complaint, caught(mutant)), where


def caught(mutant: Program) -> str:
    """The complaint about a program; empty where there is none."""
    try:
        for trips in (1, 3):
            explore(mutant, same(trips, 5))
        found = compare(mutant, NUMBERS, grid(0, 0, (1, 1)))
        return "" if all(one.good for one in found) else "other values"
    except (HazardError, TwillError) as problem:
        return str(problem)


def test_both_groups_on_the_same_tiles_are_caught() -> None:
    made = program("alternating")

    def first(statement: Statement) -> Statement:
        match statement:
            case Alternate():
                return replace(statement, index=0)
            case _ if hasattr(statement, "body"):
                return replace(statement, body=tuple(map(first, statement.body)))  # type: ignore[attr-defined]
            case _:
                return statement

    groups = tuple(replace(group, body=tuple(map(first, group.body))) for group in made.groups)
    with pytest.raises(HazardError, match=r"another tile|without|deadlock|holds"):
        explore(replace(made, groups=groups), same(2, 5))


def test_one_tile_where_registers_do_not_suffice() -> None:
    made = program("gemm_persistent")
    assert made.tiles_in_flight == 1
    assert "tiles in flight: 1, 2 would need 78592 registers of 65536" in made.notes
    with pytest.raises(TwillError, match="2 tiles can not be in flight: 2 would need 78592 registers"):
        changed("gemm_persistent", Options(tiles=2))
    with pytest.raises(TwillError, match="4 tiles can not be in flight: 4 would need 1152 threads of 1024"):
        changed("gemm_persistent", Options(tiles=4))


def test_one_tile_where_its_groups_synchronize(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of the groups are at other tiles: they can not come to one barrier."""

    def several(*_: object) -> bool:
        return True

    monkeypatch.setattr("twill.warp.planning.stored_by_several", several)
    with pytest.raises(TwillError, match="all groups synchronize between stores of a tile"):
        changed("alternating", Options(tiles=2))


def test_the_number_can_be_given() -> None:
    assert changed("alternating", Options(tiles=1)).tiles_in_flight == 1
    assert changed("alternating", Options(tiles=3)).tiles_in_flight == 3
    with pytest.raises(TwillError, match="no loop over tiles around all loops"):
        changed("gemm", Options(tiles=2))


def test_loops_between_the_tiles_and_the_pipelined_loop() -> None:
    assert program("grouped").tiles_in_flight == 1
    _, (one,) = loops("grouped")
    assert one.loop.path.count(".") > 2, "a while loop is between"
