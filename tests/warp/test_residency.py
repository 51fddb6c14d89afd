"""How many thread blocks an SM holds at the same time."""

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from tests.kernels.programs import changed, loops, program
from twill.costs.machine import load
from twill.extract.reader import ttgir
from twill.ir.channels import SlotTensor
from twill.ir.loop import NvmmaShared, Scalar, Tensor
from twill.ir.schedule import Group
from twill.ops.table import role
from twill.targets.cuda.loads.tiled_form import tiled_form
from twill.warp import residency
from twill.warp.block_memory import Paced, paced
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import read
from twill.warp.footprint import Footprint
from twill.warp.plan import Options
from twill.warp.residency import (
    ahead,
    between_iterations,
    enough_slots,
    even_launches,
    never_waits,
    shared_bytes,
    tiles_and_vectors,
    waits_for_each,
)
from twill.warp.shared_memory import SharedMemoryPlan
from twill.warp.slot_counts import deepen
from twill.warp.tasks import tasks
from twill.warp.thread_block import OnlyGroup
from twill.warp.validate import validate

SHARED_BY = {
    "matmul_32": 3,
    "matmul_narrow": 2,
    "pointers_one_warp": 4,
    "searched": 2,
    "marching": 4,
    "strips": 2,
    "allotted": 4,
}
"""Kernels of small tiles, with the blocks that an SM holds at least. In the last three a loop around the
scheduled one goes on with its sums; that of the last one begins and ends where memory says for a program."""


@pytest.mark.parametrize("kernel", sorted(SHARED_BY))
def test_blocks_of_small_tiles_share_an_sm(kernel: str) -> None:
    made, limits = program(kernel), load("h200").residency
    assert limits is not None
    blocks = made.launch.blocks
    assert blocks >= SHARED_BY[kernel]
    assert blocks * (made.shared.bytes + 1024 + limits.reserved) <= limits.shared
    assert blocks * made.launch.threads <= limits.threads
    assert blocks * made.launch.threads * made.launch.entry_registers <= 65536
    validate(made, loops(kernel)[1][0].machine.limits)


@pytest.mark.parametrize(("warps", "blocks"), [(4, 2), (8, 1)])
def test_registers_of_the_only_block_are_enough_for_two(
    monkeypatch: pytest.MonkeyPatch, warps: int, blocks: int
) -> None:
    """A thread has no more in any block than in two of 128 threads, whatever its MMAs take together."""
    module, scheduled = loops("queries")
    code = read(module, scheduled[0].loop.function)
    monkeypatch.setattr(residency, "_mmas", lambda code: residency._Mmas(together=300, single=64))  # pyright: ignore
    given = code, (OnlyGroup(0, warps, 248),), [(one, tasks(code, one)) for one in scheduled]
    assert next(residency.candidates(*given, 4)) == blocks


def test_one_block_has_the_shared_memory_that_several_would_have_together() -> None:
    many, one = program("matmul_32"), changed("matmul_32", Options(most_blocks=1))
    assert one.launch.blocks == 1
    assert one.shared.bytes > many.shared.bytes
    assert max(group.registers for group in one.groups) > max(group.registers for group in many.groups)


@pytest.mark.parametrize(("blocks", "most"), [(132, 1), (133, 2), (264, 2), (None, 8)])
def test_no_more_blocks_share_an_sm_than_a_launch_has_for_it(blocks: int | None, most: int) -> None:
    assert load("h200").multiprocessors == 132
    assert changed("matmul_32", Options(blocks=blocks)).resident_blocks == most


@pytest.mark.parametrize("kernel", ["gemm", "fa_fwd", "grouped", "gemm_persistent"])
def test_a_block_with_large_tiles_or_a_persistent_one_is_alone(kernel: str) -> None:
    assert program(kernel).launch.blocks == 1


@pytest.mark.parametrize("second", ["x", "y"])
def test_a_walk_along_one_of_several_axes_is_one_of_each_program(second: str) -> None:
    """The grid of such a kernel does not follow from the number of SMs."""
    text = Path("tests/kernels/ttgir/grouped.sm90.ttgir").read_text()
    assert text.count("    tt.return") == 1
    text = text.replace("    tt.return", f"    %other = tt.get_program_id {second} : i32\n    tt.return")
    (function,) = (module := ttgir.read(text, "grouped")).functions
    found = residency.persistent(read(module, function), loops("grouped")[1], nested=False)
    assert found == (second == "x")


@pytest.mark.parametrize("kernel", ["accrued", "mapped"])
def test_a_loop_around_others_that_all_programs_execute_alike_is_no_walk(kernel: str) -> None:
    """As long as its numbers do not follow from the index of a program."""
    made = program(kernel)
    scheduled = {one.loop.op.index for one in loops(kernel)[1]}
    around = (op for op in made.function.walk() if role(op) == "for" and op.index not in scheduled)
    assert any(inner.index in scheduled for op in around for inner in op.inner())
    assert made.launch.blocks > 1


@pytest.mark.parametrize("kernel", ["query_gradient", "matmul_narrow", "searched"])
def test_what_mmas_keep_in_registers_fits_the_registers_at_entry(kernel: str) -> None:
    made, residency = program(kernel), load("h200").residency
    assert residency is not None
    threads = 32 * max(group.warps for group in made.groups)
    tiles = [op.result.type for op in made.function.walk() if role(op) == "wgmma"]
    accumulators = sum(prod(tile.shape) // threads for tile in tiles if isinstance(tile, Tensor))
    assert accumulators
    assert made.launch.entry_registers >= accumulators
    assert max(group.registers for group in made.groups) >= accumulators + residency.beside_mmas


@pytest.mark.parametrize(("fills", "slots"), [(None, 8), (8, 8), (3, 3), (1, 2)])
def test_a_channel_has_no_more_slots_than_it_is_filled(fills: int | None, slots: int) -> None:
    """But as many as the schedule has in flight."""
    one = SlotTensor("x", (64, 64), Scalar("bf16"), None, 0, 8192)
    plan = ChannelPlan("x", 0, (1,), (one,), "tma", 3, ((),), spare=1, fills=fills)
    (made,) = deepen((plan,), 1 << 17, {}, 8, Footprint({"x": ()}, {}))
    assert made.depth == slots


def test_a_machine_without_residency_has_one_block_at_a_time() -> None:
    machine = replace(load("h200"), residency=None)
    assert shared_bytes(machine, 4, 232448) == 232448
    assert enough_slots(machine, 8) == 8
    assert shared_bytes(load("h200"), 4, 232448) == 233472 // 4 - 1024
    assert enough_slots(load("h200"), 8) == 4


@pytest.mark.parametrize("kernel", ["matmul_32", "pointers_two_warps", "pointers_one_warp"])
def test_loads_of_many_blocks_do_not_run_far_ahead(kernel: str) -> None:
    made, residency = program(kernel), load("h200").residency
    assert residency is not None
    assert made.launch.blocks > 2
    loaded = [channel for channel in made.channels if channel.filled_by in ("tma", "cp_async")]
    assert loaded
    assert max(channel.depth for channel in loaded) <= residency.slots
    assert made.launch.blocks * sum(one.depth * one.stride for one in loaded) <= residency.shared


def test_a_group_that_waits_for_nothing_loads_within_one_that_computes() -> None:
    """Every tile has a slot of its own: an SM holds a warp less of each of its blocks."""
    made = program("straight")
    assert made.by_tma is not None
    assert made.by_tma.within
    assert made.by_tma.blocks == 2 > made.launch.blocks
    assert made.by_tma.threads == 32 * sum(group.warps for group in made.groups if not group.only_moves)
    form = tiled_form(made)
    assert form is not None
    loading, first, *_ = sorted(
        form.program.groups, key=lambda group: (not group.only_moves, group.first_warp)
    )
    assert (loading.first_warp, loading.warps, first.first_warp) == (0, 1, 0)


@pytest.mark.parametrize(("fills", "depth", "waits"), [(2, 2, False), (3, 2, True), (None, 2, True)])
def test_a_group_that_loads_waits_where_a_slot_is_filled_again(
    fills: int | None, depth: int, waits: bool
) -> None:
    one = SlotTensor("x", (64, 64), Scalar("bf16"), None, 0, 8192)
    plan = ChannelPlan("x", 0, (1,), (one,), "cp_async", depth, ((),), fills=fills)
    assert never_waits((Group(0, 1, 24), Group(1, 4, 128)), (plan,)) != waits


TILE, VECTOR = (
    SlotTensor("x", (64, 64), Scalar("bf16"), NvmmaShared(128, False, 16, False), 0, 8192),
    SlotTensor("v", (64,), Scalar("f32"), None, 0, 256),
)
"""Of slots that threads copy to."""


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ((TILE, VECTOR), True),
        ((TILE, VECTOR, replace(VECTOR, shape=(512,), bytes=2048)), False),
        ((VECTOR,), False),
        ((replace(TILE, shape=(8, 64), bytes=1024), VECTOR), False),
    ],
)
def test_one_warp_copies_vectors_beside_tiles_that_tma_loads(
    held: tuple[SlotTensor, ...], wanted: bool
) -> None:
    """No more than 2 KB of an iteration, and there is a tile for TMA."""
    made, machine = program("pointers"), load("h200")
    plans = [ChannelPlan(f"c{i}", 0, (1,), (one,), "cp_async", 3, ((),)) for i, one in enumerate(held)]
    code, groups = read(made.module, made.function), (Group(0, 1, 24), Group(1, 4, 200))
    assert tiles_and_vectors(code, groups, plans, machine) == wanted
    long = [replace(one, fills=64) for one in plans]
    assert not tiles_and_vectors(code, groups, long, machine)


def test_slots_beyond_those_that_are_enough_do_not_keep_a_thread_block_out() -> None:
    """Two blocks of eight slots have no more loads under way, as far as these hide a load, than two of four;
    two of three slots have more than three of one."""
    most = enough_slots(load("h200"), 8)
    plans = [ChannelPlan("x", 0, (1,), (TILE,), "tma", depth, ((),)) for depth in (8, 4, 3, 1)]
    eight, four, three, one = (ahead([plan], most) for plan in plans)
    assert most == 4
    assert eight == four == 4 * plans[0].stride < ahead(plans[:1])
    assert 3 * four >= 2 * eight
    assert 3 * one < 2 * three


def test_blocks_of_fewer_registers_than_scheduled_are_tried_where_ptxas_decides() -> None:
    """A thread of three blocks has 128 registers; the schedule counts 200, of which 0.6 may be enough."""
    made, (_, parts) = program("pointers_one_warp"), loops("pointers_one_warp")
    given = (read(made.module, made.function), (Group(0, 1, 24), Group(1, 4, 200)), [(parts[0], ())], 8)
    assert [(one.blocks, one.entry_registers) for one in even_launches(*given, tight=True)] == [
        (3, 128),
        (2, 168),
    ]
    assert not any(one.blocks > 2 for one in even_launches(*given))


def _apart(depth: int, blocks: int, fills: int | None = None) -> float:
    _, (_, parts) = program("pointers_one_warp"), loops("pointers_one_warp")
    plan = ChannelPlan("x", 0, (0,), (TILE,), "cp_async", depth, ((),), fills=fills)
    return between_iterations([plan], parts, blocks)


def test_blocks_that_wait_for_each_load_hide_it_together() -> None:
    """Of a group that loads and computes. A second slot is of use to few blocks, not to so many that the
    units of the schedule are always busy."""
    _, (_, parts) = program("pointers_one_warp"), loops("pointers_one_warp")
    (one,) = parts
    alone, deep = _apart(1, 1), _apart(64, 1)
    assert alone == deep + one.machine.loads.arrival
    assert deep < _apart(2, 1) == alone / 2
    assert _apart(1, 2) == max(one.solution.interval, alone / 2)
    assert _apart(1, 64) == _apart(2, 64) == one.solution.interval


def test_slots_for_every_tile_are_waited_for_once() -> None:
    _, (_, parts) = program("pointers_one_warp"), loops("pointers_one_warp")
    arrival = parts[0].machine.loads.arrival
    assert _apart(4, 1, fills=4) == _apart(64, 1) + arrival / 4
    assert _apart(1, 1, fills=4) == _apart(1, 1)


@pytest.mark.parametrize("fastest", [2, 5])
def test_one_group_that_loads_is_in_the_blocks_that_are_predicted_to_be_fastest(
    monkeypatch: pytest.MonkeyPatch, fastest: int
) -> None:
    def predicted(plans: object, parts: object, blocks: int) -> float:
        return 100.0 + (blocks != fastest)

    monkeypatch.setattr("twill.warp.block_memory.between_iterations", predicted)
    made = changed("pointers_one_warp", Options(multistage=True, most=3))
    assert made.launch.blocks == fastest


@pytest.mark.parametrize(
    ("cycles", "fewer", "slots"),
    [(100.0, 4, 2), (109.0, 4, 2), (111.0, 4, 1), (100.0, 3, 2), (100.0, 2, 1), (99.0, 1, 2)],
)
def test_more_slots_where_fewer_blocks_are_as_fast(cycles: float, fewer: int, slots: int) -> None:
    """Blocks with one slot wait for each tile that they read, and a grid may have fewer than fit."""
    plans = {
        blocks: [ChannelPlan("x", 0, (0,), (TILE,), "cp_async", 1 if blocks == 8 else 2, ((),))]
        for blocks in (8, fewer)
    }
    assert waits_for_each(plans[8])
    assert not waits_for_each(plans[fewer])

    def laid_out(blocks: int) -> SharedMemoryPlan:
        made = object.__new__(SharedMemoryPlan)
        object.__setattr__(made, "plans", plans[blocks])
        return made

    found = paced([Paced(laid_out(8), 8, 100.0, 900.0), Paced(laid_out(fewer), fewer, cycles, 900.0)])
    assert found[0].plans[0].depth == slots
    assert found[1] == (fewer if slots == 2 else 8)


@pytest.mark.parametrize(
    ("fewer", "cycles", "alone", "blocks"),
    [(7, 100.0, 500.0, 7), (7, 100.0, 900.0, 8), (7, 101.0, 500.0, 8), (6, 100.0, 500.0, 8)],
)
def test_hardly_fewer_blocks_that_wait_less_by_themselves(
    fewer: int, cycles: float, alone: float, blocks: int
) -> None:
    """A grid may have fewer thread blocks than SMs hold, which hide less for each other."""
    memory = object.__new__(SharedMemoryPlan)
    object.__setattr__(memory, "plans", [ChannelPlan("x", 0, (0,), (TILE,), "cp_async", 2, ((),))])
    assert paced([Paced(memory, 8, 100.0, 900.0), Paced(memory, fewer, cycles, alone)])[1] == blocks


def test_one_slot_that_holds_all_of_a_block_is_waited_for_once() -> None:
    assert not waits_for_each([ChannelPlan("x", 0, (0,), (TILE,), "tma", 1, ((),), fills=1)])
