"""Columns of tensor memory for several loops: what is live at once lies apart, and schedules keep what they
have where that is possible."""

from tests.kernels.programs import program
from twill.warp.tensor_placement import Extent, placed


def test_addresses_of_the_schedules_stay() -> None:
    extents = {1: Extent(128, 0), 2: Extent(64, 256), 3: Extent(128, 0)}
    assert placed(extents, frozenset({(1, 2), (2, 3)}), 512) == {1: 0, 2: 256, 3: 0}


def test_what_must_lie_apart_does() -> None:
    extents = {1: Extent(128, 0), 2: Extent(128, 0), 3: Extent(64, 64), 4: Extent(128, 0)}
    separate = frozenset({(1, 2), (1, 3), (2, 3), (1, 4), (2, 4)})
    found = placed(extents, separate, 384)
    assert found is not None
    for one, other in separate:
        assert (
            found[one] + extents[one].columns <= found[other]
            or found[other] + extents[other].columns <= found[one]
        )
    assert max(found[buffer] + extents[buffer].columns for buffer in extents) <= 384


def test_too_much_does_not_fit() -> None:
    extents = {1: Extent(128, 0), 2: Extent(128, 0), 3: Extent(64, 0)}
    assert placed(extents, frozenset({(1, 2), (1, 3), (2, 3)}), 256) is None
    assert placed(extents, frozenset({(1, 2), (1, 3)}), 256) == {1: 0, 2: 128, 3: 128}


def test_an_accumulator_of_two_loops_shares_columns_with_nothing() -> None:
    tiles = {tile.id: tile for tile in program("fa_fwd_causal.sm100").tensor_memory}
    for name in ("acc0", "acc1"):
        own = range(tiles[name].column, tiles[name].column + tiles[name].columns)
        for other in tiles.values():
            used = range(other.column, other.column + other.columns)
            assert other.id == name or not set(own) & set(used), (name, other.id)


def test_buffers_on_both_sides_of_a_copy_lie_apart() -> None:
    one, other = program("continued_scaled.sm100").tensor_memory
    assert one.column + one.columns <= other.column
