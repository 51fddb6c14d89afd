"""Lean programs whose loading threads wait for tiles that pass through their registers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.kernels.programs import loops, program
from twill.generation.builds import retries, spills
from twill.generation.builds import without_warnings as module
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.choices import shared_sm
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs
from twill.warp.lean import lean
from twill.warp.plan import Options as Lowering

SPILLED = ("60 bytes of registers are spilled, of 176 registers per thread: take a smaller tile",)
PAGED = Inputs("tests/kernels/ttgir/paged.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
OPTIONS = GenerateOptions(time_limit=30, check=False, lowering=Lowering(most_blocks=1))


@pytest.mark.parametrize(("kernel", "waits"), [("thumbed", True), ("consulted", False)])
def test_few_accesses_in_flight_take_longer_than_an_iteration(kernel: str, waits: bool) -> None:
    """Tiles of which a thread reads 32 elements by themselves, and tiles that are copied."""
    plain = Generated(PAGED, program(kernel), loops(kernel)[1], {}, "")
    assert not retries.starved(plain)
    assert retries.starved(replace(plain, program=lean(plain.program))) == waits


def _never(*given: object) -> bool:
    return False


@pytest.mark.parametrize("waits", [True, False])
def test_one_group_computes_where_the_lean_form_makes_loads_wait(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """ptxas spills nothing in the lean form; with two groups it does not in any."""
    with monkeypatch.context() as several:
        several.setattr(shared_sm, "divided_in_vain", _never)
        made = generate(PAGED, OPTIONS)
    assert len(made.program.groups) > retries.LEAST_GROUPS

    def said(one: Generated) -> Sequence[str]:
        return () if one.program.lean or len(one.program.groups) <= retries.LEAST_GROUPS else SPILLED

    def starved(one: Generated) -> bool:
        return waits and one.program.lean

    monkeypatch.setattr(spills, "_warnings", said)
    monkeypatch.setattr(module, "starved", starved)
    monkeypatch.setattr(retries, "SLOWER", 100.0)
    found = without_warnings(PAGED, OPTIONS, made, SPILLED)
    assert found
    assert found.program.lean != waits
    assert (len(found.program.groups) == retries.LEAST_GROUPS) == waits
    assert ("scheduled for 2 warp groups" in found.program.notes[-1]) == waits
