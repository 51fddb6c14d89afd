"""Positions in channels that loops keep."""

import re

import pytest

from tests.kernels.programs import changed, loops
from twill.emulate.check import check
from twill.targets.hopper import source
from twill.warp.plan import Options


@pytest.mark.parametrize("kernel", ["pointers_16", "leftover"])
def test_a_slot_that_is_filled_again_needs_no_position_of_its_own(kernel: str) -> None:
    """Its phase is the other one."""
    made = changed(kernel, Options(multistage=True))
    text = source(made)
    (channel,) = made.channels
    kept = set(re.findall(r"auto (position\w*) = ", text))
    advanced = set(re.findall(r"(position\w*)\.advance\(\);", text))
    assert kept == advanced
    assert not any("_ahead" in one for one in kept)
    (filled,) = set(re.findall(r"producer_acquire\((position\w*)\.next_round\(\)\)", text))
    assert filled in kept
    assert channel.depth > 1
    assert check(made, loops(kernel)[1], text, lambda what: None).values
