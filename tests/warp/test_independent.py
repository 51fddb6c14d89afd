"""Warpgroups that store tiles by themselves: who fills, who stores, what is found where that is wrong, and when it is
refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels.programs import changed, loops, program
from twill.diagnostics import TwillError
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.program import Program
from twill.ir.statements import (
    Advance,
    ConsumerRelease,
    ConsumerWait,
    For,
    ProducerStore,
    Statement,
    StoreTile,
    StoreWait,
    walk,
    with_inner,
)
from twill.simulate.compare import compare, wrong
from twill.simulate.explore import adversaries, explore, same
from twill.simulate.predict import tile_time
from twill.simulate.protocol import HazardError
from twill.simulate.warpgroups import by_warpgroup
from twill.targets.hopper import source
from twill.warp.plan import Options

KERNEL = "gemm_persistent_independent"
CHANNELS = ("truncf_10_rows0", "truncf_10_rows64")


def _without(made: Program, group: int, dropped: Callable[[Statement], bool]) -> Program:
    """The program without some statements of a group."""

    def change(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(with_inner(one, change) for one in statements if not dropped(one))

    groups = (replace(one, body=change(one.body)) if one.id == group else one for one in made.groups)
    return replace(made, groups=tuple(groups))


def test_each_warpgroup_hands_its_rows_to_the_warp_that_stores() -> None:
    loading, computing, storing = program(KERNEL).groups
    assert (computing.independent, computing.warps) == (True, 8)
    assert (storing.warps, storing.first_warp, storing.only_moves) == (1, loading.first_warp + 1, True)
    (tiles,) = (one for one in storing.body if isinstance(one, For))
    kinds = (ConsumerWait, StoreTile, StoreWait, ConsumerRelease, Advance)
    assert [type(one) for one in tiles.body[-10:]] == [*kinds, *kinds]
    assert [one.channel for one in tiles.body if isinstance(one, ConsumerWait)] == list(CHANNELS)
    (fill,) = (one for one in walk(computing.body) if isinstance(one, ProducerStore))
    assert fill.channel == CHANNELS[0]
    assert not any(isinstance(one, StoreTile | StoreWait) for one in walk(computing.body))


def test_the_warpgroups_share_one_slot_and_have_barriers_of_their_own() -> None:
    made = program(KERNEL)
    first, second = map(made.channel, CHANNELS)
    assert (first.depth, first.offset, first.stride) == (second.depth, second.offset, second.stride)
    assert (first.depth, first.barriers, first.stride) == (1, 2, 64 * 256 * 2)
    assert [first.tensors[0].first_row, second.tensors[0].first_row] == [0, 64]


def test_no_barrier_of_the_group_is_left() -> None:
    assert "named_barrier_sync" in source(program("gemm_persistent"))
    assert "named_barrier_sync" not in source(program(KERNEL))


def test_simulators_run_each_warpgroup() -> None:
    members = by_warpgroup(program(KERNEL)).groups
    assert [one.of and (one.of.index, one.of.number) for one in members] == [None, (0, 2), (1, 2), None]
    filled = [[s.channel for s in walk(one.body) if isinstance(s, ProducerStore)] for one in members]
    assert filled == [[], [CHANNELS[0]], [CHANNELS[1]], []]


@pytest.mark.parametrize("trips", [0, 1, 2])
@pytest.mark.parametrize("slots", [1, 2])
def test_every_interleaving_of_three_tiles(trips: int, slots: int) -> None:
    depths = {CHANNELS[0]: slots, "x_y": 2}
    made = changed("gemm_persistent", Options(independent=True, depths=depths))
    assert made.channel(CHANNELS[0]).depth == slots
    assert explore(made, same(trips, 3)).complete


@pytest.mark.parametrize("shape", [(128, 256), (512, 512), (200, 300)])
def test_values_on_several_tiles_and_ragged_ends(shape: tuple[int, int]) -> None:
    rows, columns = shape
    made = program(KERNEL)
    grid = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 1, "grid.y": 1, "grid.z": 1}
    found = compare(made, {"M": rows, "N": columns, "K": 192}, grid)
    assert wrong(made.function, found) is None


DEFECTS: dict[str, tuple[int, Callable[[Statement], bool], str]] = {
    "a release is missing": (
        2,
        lambda one: isinstance(one, ConsumerRelease) and one.channel == CHANNELS[0],
        "deadlock",
    ),
    "no wait for what the store reads": (
        2,
        lambda one: isinstance(one, StoreWait) and one.buffer == f"{CHANNELS[1]}.store",
        "while a store reads",
    ),
    "no wait for a full slot": (
        2,
        lambda one: isinstance(one, ConsumerWait) and one.channel == CHANNELS[1],
        "outside of its ConsumerWait",
    ),
    "a counter that stands still": (
        1,
        lambda one: isinstance(one, Advance) and one.channel == CHANNELS[0],
        "overwrites tile 0",
    ),
    "rows that nobody hands over": (1, lambda one: isinstance(one, ProducerStore), "deadlock"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str) -> None:
    group, dropped, message = DEFECTS[defect]
    with pytest.raises(HazardError, match=message):
        adversaries(_without(program(KERNEL), group, dropped), same(2, 3))


def test_one_pair_of_barriers_for_all_warpgroups_would_not_do() -> None:
    """As channels of one group that share slots have it: a warpgroup takes a phase for another one."""
    made = program(KERNEL)
    plain = tuple(
        replace(one, tensors=tuple(replace(tensor, first_row=None) for tensor in one.tensors))
        if one.sharers
        else one
        for one in made.channels
    )
    with pytest.raises(HazardError):
        explore(replace(made, channels=plain), same(1, 3))


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        ("gemm", "no loop over tiles"),
        ("fa_fwd_subtiled", "several groups compute"),
        ("fa_bwd", "several groups compute|exchange values|no warp|loop over tiles"),
    ],
)
def test_what_can_not_be_is_refused_with_the_reason(kernel: str, why: str) -> None:
    with pytest.raises(TwillError, match=why):
        changed(kernel, Options(independent=True))


def test_several_tiles_in_flight_stay_as_they_are() -> None:
    with pytest.raises(TwillError, match="several tiles are in flight"):
        changed("gemm_persistent", Options(independent=True, tiles=2))


@pytest.mark.parametrize("trips", [4, 16])
def test_a_tile_is_predicted_to_take_its_mmas_alone(trips: int) -> None:
    """Staged together, the tensor core waits while TMA reads the first part of the tile: 32 KB at 32 bytes a
    cycle."""
    scheduled = loops("gemm_persistent")[1]
    together = tile_time(program("gemm_persistent"), scheduled, trips)
    alone = tile_time(program(KERNEL), scheduled, trips)
    assert alone == trips * scheduled[0].solution.interval
    assert 1024 < together - alone < 3 * 1024


@pytest.mark.parametrize("given", [None, False])
def test_it_is_chosen_where_it_is_predicted_to_be_faster(given: bool | None) -> None:
    kept = ("reports/schedules/gemm_persistent.for.0.for.0.json",)
    options = GenerateOptions(schedules=kept, lowering=Options(independent=given), check=False)
    made = generate(Inputs("examples/ttgir/gemm_persistent.sm90.ttgir", arch="sm90"), options)
    assert any(group.independent for group in made.program.groups) == (given is None)
    notes = [note for note in made.program.notes if "store tiles by themselves" in note]
    assert bool(notes) == (given is None)
