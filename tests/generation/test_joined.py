"""One group that computes, in place of several that divide their work in vain."""

from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import cast

import pytest

from twill.generation import candidates
from twill.generation.choices import persistence, shared_sm, subtiles
from twill.generation.choices.persistence import alternating_faster
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.searches import Session, solved
from twill.inputs import Inputs
from twill.ir.program import Program
from twill.simulate.check import check
from twill.warp.plan import Options as Lowering

PAGED = Inputs("tests/kernels/ttgir/paged.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
OPTIONS = GenerateOptions(time_limit=30, check=False, lowering=Lowering(most_blocks=1, multistage=False))


def _never(*given: object) -> bool:
    return False


def _always(*given: object) -> bool:
    return True


def _computing(made: Generated) -> list[int]:
    """The warps of each group that computes."""
    return [group.warps for group in made.program.groups if not group.only_moves]


@pytest.mark.parametrize(("vain", "gained"), [(True, True), (True, False), (False, True)])
def test_one_group_of_more_warps_computes_where_several_divide_in_vain(
    monkeypatch: pytest.MonkeyPatch, vain: bool, gained: bool
) -> None:
    """As if four warps had no schedule for one group; what is gained is decided here."""
    monkeypatch.setattr(shared_sm, "divided_in_vain", _never)
    monkeypatch.setattr(candidates, "divided_in_vain", _always if vain else _never)
    monkeypatch.setattr(candidates, "JOINING", 0.1 if gained else 100.0)
    made = generate(PAGED, OPTIONS)
    computing = _computing(made)
    assert (computing == [subtiles.MORE_WARPS]) == (vain and gained)
    if vain and gained:
        assert made.several
        assert len(made.several.program.groups) > len(made.program.groups)
        assert made.program.notes[-1].startswith("one group of 8 warps computes:")
        check(made.program)


@pytest.mark.parametrize("faster", [True, False])
def test_tiles_alternate_in_place_of_groups_that_divide_one(
    monkeypatch: pytest.MonkeyPatch, faster: bool
) -> None:
    """In a persistent kernel; whether that is faster is decided here."""
    monkeypatch.setattr(persistence, "alternating_faster", _always if faster else _never)
    walking = candidates.candidates(replace(PAGED, persistent=True), OPTIONS, lambda name, event: None)[-1]
    session = Session(OPTIONS, lambda name, event: None, solved, {}, [], inf)
    made = candidates._alternating(walking, session)  # pyright: ignore[reportPrivateUsage]
    assert len(_computing(walking)) > 1
    assert (made is not walking) == faster
    if faster:
        assert len(made.loops[0].solution.groups) == 2
        check(made.program)


@pytest.mark.parametrize(
    ("tiles", "divided", "alternating", "faster"),
    [(1, 1300.0, 1000.0, True), (1, 1200.0, 1000.0, False), (2, 1300.0, 1000.0, False)],
)
def test_alternating_tiles_have_to_be_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, tiles: int, divided: float, alternating: float, faster: bool
) -> None:
    """By what a tile takes of each, in machine cycles."""
    several, alone = (cast("Program", SimpleNamespace(tiles_in_flight=count)) for count in (tiles, 2))
    taken = {id(several): divided, id(alone): alternating}
    monkeypatch.setattr(persistence, "_persistent", lambda made, loops: taken[id(made)])  # pyright: ignore
    assert alternating_faster((several, ()), (alone, ())) == faster
