"""One group of twice the warps that computes, in place of several that divide their work in vain."""

import pytest

from twill.generation import candidates
from twill.generation.choices import shared_sm, subtiles
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.simulate.check import check
from twill.warp.plan import Options as Lowering

PAGED = Inputs("tests/kernels/ttgir/paged.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
OPTIONS = GenerateOptions(time_limit=30, check=False, lowering=Lowering(most_blocks=1, multistage=False))


def _never(*given: object) -> bool:
    return False


def _always(*given: object) -> bool:
    return True


@pytest.mark.parametrize(("vain", "gained"), [(True, True), (True, False), (False, True)])
def test_one_group_of_more_warps_computes_where_several_divide_in_vain(
    monkeypatch: pytest.MonkeyPatch, vain: bool, gained: bool
) -> None:
    """As if four warps had no schedule for one group; what is gained is decided here."""
    monkeypatch.setattr(shared_sm, "divided_in_vain", _never)
    monkeypatch.setattr(candidates, "divided_in_vain", _always if vain else _never)
    monkeypatch.setattr(candidates, "JOINING", 0.1 if gained else 100.0)
    made = generate(PAGED, OPTIONS)
    computing = [group.warps for group in made.program.groups if not group.only_moves]
    assert (computing == [subtiles.MORE_WARPS]) == (vain and gained)
    if vain and gained:
        assert made.several
        assert len(made.several.program.groups) > len(made.program.groups)
        assert made.program.notes[-1].startswith("one group of 8 warps computes:")
        check(made.program)
