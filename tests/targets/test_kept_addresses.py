"""What threads that copy keep from one iteration to the next."""

import re
from collections import Counter

import pytest

from tests.kernels.programs import changed, cuda, loops
from twill.emulate.check import check
from twill.targets.cuda import kept_addresses
from twill.targets.hopper import source
from twill.warp.lean import lean
from twill.warp.plan import Options

READ = r"(?<!\w)kept_\w+_(?:to|at\d|inside)\b"
DECLARED = rf"uint(?:32|64)_t ({READ})"


def test_a_group_that_computes_keeps_the_addresses_that_it_loads_from() -> None:
    """But in a program that is to take few registers."""
    made = changed("pointers_16", Options(multistage=True))
    text = source(made)
    assert re.findall(DECLARED, text)
    assert not re.findall(READ, source(lean(made)))
    assert check(made, loops("pointers_16")[1], text, lambda what: None).values


@pytest.mark.parametrize("room", range(6))
def test_it_keeps_what_there_are_registers_for(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Nothing is read that is not declared."""
    monkeypatch.setattr(kept_addresses, "BESIDE", room)
    text = source(changed("pointers_16", Options(multistage=True)))
    declared = re.findall(DECLARED, text)
    assert set(re.findall(READ, text)) == set(declared)
    assert bool(declared) == (room > 0)


def test_loads_that_go_alike_share_what_they_keep() -> None:
    """Two tiles of the same shape: where a thread's copies go in a slot, and its columns."""
    text = cuda("sieved")
    computed = re.findall(r"kept_\w+?_((?:to|at\d)\[0\]) = ([^;]+);", text)
    assert computed
    assert set(Counter(computed).values()) == {1}
