"""Stores to the same memory, and what they read besides the stored tile."""

import pytest

from twill.inputs import Inputs, cases
from twill.ir.problem import Problem


def problem(arch: str) -> Problem:
    (case,) = cases(Inputs(f"tests/kernels/ttgir/overwritten.{arch}.ttgir", arch=arch))
    return case.problem


@pytest.mark.parametrize("arch", ["sm90", "sm100"])
def test_stores_to_the_same_memory_are_in_one_group(arch: str) -> None:
    """Nothing in a loop orders what two groups store."""
    assert {"store.place_10", "store.place_10.2"} in map(set, problem(arch).together)


@pytest.mark.parametrize(("arch", "tile"), [("sm90", "dot.t_20"), ("sm100", "get.t_29")])
def test_a_tile_lives_until_a_mask_is_computed_from_it(arch: str, tile: str) -> None:
    """The mask is folded into the store, which reads the tile long after its other readers."""
    (value,) = (one for one in problem(arch).values if one.id == tile)
    assert "store.place_10.2" in {use.op for use in value.uses}
