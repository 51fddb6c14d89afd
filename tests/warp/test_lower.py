"""What lowering makes of the examples' schedules."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels.programs import EXAMPLES, changed, loops, program
from twill.diagnostics import TwillError
from twill.ir.loop import Scalar, Tensor, Type
from twill.ir.operands import Read, Register, Write
from twill.ir.statements import (
    Advance,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    For,
    MmaIssue,
    MmaWait,
    Move,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
    SchedulingFence,
    Statement,
    StoreTile,
    walk,
)
from twill.ops.table import role
from twill.targets.cuda.loads.loads_first import uses_slots
from twill.targets.cuda.registers.fragments import scratch
from twill.targets.hopper import TARGET
from twill.targets.hopper.scheduling_fences import fenced
from twill.warp.alignment import CarriedSplitError
from twill.warp.kernel import Settings
from twill.warp.listing import text
from twill.warp.lower import lower
from twill.warp.plan import Options
from twill.warp.shared_memory import Demand, SharedMemoryPlan, layout


def loop(kernel: str, group: int) -> Pipelined:
    """The first pipelined loop of a group."""
    warps = next(warps for warps in program(kernel).groups if warps.id == group)
    return next(statement for statement in walk(warps.body) if isinstance(statement, Pipelined))


@pytest.mark.parametrize("kernel", ["gemm", "fa_fwd", "fa_fwd_subtiled"])
def test_the_whole_program(kernel: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{kernel}.warps.txt", text(program(kernel)))


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_lowering_is_deterministic(kernel: str) -> None:
    assert text(lower(*loops(kernel), TARGET)) == text(program(kernel))


def test_a_matrix_product_waits_once_for_the_product_before() -> None:
    """Loads of one MMA share a channel; the slot of the MMA before is released while the next one runs."""
    steady = loop("gemm", 1).steady
    assert [type(s) for s in steady] == [ConsumerWait, MmaIssue, MmaWait, ConsumerRelease]
    wait, release = steady[2], steady[3]
    assert isinstance(wait, MmaWait)
    assert wait.pending == 1
    assert isinstance(release, ConsumerRelease)
    assert release.at.iteration.offset == 1
    (channel,) = program("gemm").channels
    assert [tensor.name for tensor in channel.tensors] == ["x", "y"]
    assert channel.depth == 4


def test_the_first_product_is_peeled_so_that_it_need_not_add() -> None:
    (get, issue) = loop("gemm", 1).prologue
    assert isinstance(get, ConsumerWait)
    assert isinstance(issue, MmaIssue)
    assert issue.accumulate == "not_first"
    assert issue.at.iteration.base == "first"
    assert issue.at.iteration.offset == 0


def test_a_result_leaves_between_the_parts_of_the_next_product() -> None:
    """An MMA is issued in parts around the wait for the one before it where issuing holds the group, as the
    fastest attention kernel written by hand does."""
    module, (one,) = loops("fa_bwd")
    operations = tuple(
        replace(op, issue=424) if op.name == "ttng.warp_group_dot" else op for op in one.problem.operations
    )
    made = lower(module, [replace(one, problem=replace(one.problem, operations=operations))], TARGET)
    (steady,) = (s.steady for s in walk(made.groups[1].body) if isinstance(s, Pipelined))
    names = [
        s.node if isinstance(s, MmaIssue) else type(s).__name__
        for s in steady
        if not isinstance(s, ConsumerRelease)
    ]
    first = names.index("dot.dy_32")
    assert names[first : first + 4] == ["dot.dy_32", "MmaWait", "ProducerStore", "dot.dy_32"]
    parts = [s for s in steady if isinstance(s, MmaIssue) and s.node == "dot.dy_32"]
    assert parts[0].begin == 0
    assert parts[0].end == parts[1].begin
    assert parts[1].end == 64


def test_products_are_issued_whole_on_request() -> None:
    whole = changed("fa_fwd", Options(settings=Settings(split=False)))
    assert all(
        s.begin == 0 and s.end == 128
        for warps in whole.groups
        for s in walk(warps.body)
        if isinstance(s, MmaIssue)
    )


def test_groups_alternate_at_the_tensor_core() -> None:
    orders = program("fa_fwd_subtiled").orders
    assert [(order.signaller, order.waiter) for order in orders] == [(1, 2), (2, 1)] or [
        (o.signaller, o.waiter) for o in orders
    ] == [
        (2, 1),
        (1, 2),
    ]
    assert sum(order.signalled for order in orders) == 1
    for group in (1, 2):
        steady = loop("fa_fwd_subtiled", group).steady
        assert (
            sum(isinstance(s, OrderBarrierWait) for s in steady)
            == sum(isinstance(s, OrderBarrierArrive) for s in steady)
            == 1
        )
    assert not program("fa_fwd").orders


def test_an_older_maximum_is_kept() -> None:
    """exp2(old - new) needs both: the only value with two ages."""
    moves = [s for s in loop("fa_fwd_subtiled", 1).steady if isinstance(s, Move)]
    assert [(move.variable, move.age) for move in moves] == [("highest0", 1)]


@pytest.mark.parametrize(("kernel", "group"), [("fa_fwd", 1), ("fa_fwd_subtiled", 1), ("fa_fwd_subtiled", 2)])
def test_nothing_is_in_flight_at_the_back_edge(kernel: str, group: int) -> None:
    """After the last MMA of an interval comes a wait for it, though what reads it is in the next one."""
    steady = loop(kernel, group).steady
    last = max(i for i, statement in enumerate(steady) if isinstance(statement, MmaIssue))
    assert any(isinstance(statement, MmaWait) and statement.pending == 0 for statement in steady[last:])


def test_vectors_alone_are_no_reason_for_a_pin() -> None:
    """The scheduling fences of an interval stand around arithmetic on tiles."""
    vector, tile = (Tensor(shape, Scalar("f32")) for shape in ((64,), (64, 64)))
    types: dict[str, Type] = {"t": tile, "u": tile, "v": vector, "w": vector}

    def compute(read: str, write: str) -> Compute:
        return Compute("", (), (Read(0, Register(read)),), (Write(0, Register(write)),))

    def between(middle: Compute) -> tuple[type[Statement], ...]:
        found = fenced(
            [compute("t", "u"), compute("u", "v"), MmaWait(1), middle, MmaWait(0), compute("w", "t")], types
        )
        first, second = (i for i, statement in enumerate(found) if isinstance(statement, MmaWait))
        return tuple(type(statement) for statement in found[first + 1 : second])

    assert between(compute("v", "w")) == (Compute,)
    assert SchedulingFence in between(
        Compute("", (), (Read(0, Register("v")), Read(0, Register("u"))), (Write(0, Register("w")),))
    )


def test_few_waits() -> None:
    """Two waits for MMAs and two slots in a steady state of two MMAs."""
    steady = loop("fa_fwd_subtiled", 1).steady
    assert sum(isinstance(s, MmaWait) for s in steady) <= 2
    assert (
        sum(isinstance(s, ConsumerWait) for s in steady)
        == sum(isinstance(s, ConsumerRelease) for s in steady)
        == 2
    )


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_shared_memory_is_disjoint_and_fits(kernel: str) -> None:
    made = program(kernel)
    first = [channel for channel in made.channels if channel.sharers[:1] in ((), (channel.id,))]
    spans = [(channel.offset, channel.offset + channel.depth * channel.stride) for channel in first]
    for channel in made.channels:  # those that share slots lie in the slots of the first
        assert channel.offset == made.channel(channel.sharers[0] if channel.sharers else channel.id).offset
    spans += [
        (buffer.offset, buffer.offset + buffer.bytes) for buffer in made.buffers if buffer.overlays is None
    ]
    spans.append((made.shared.barriers, made.shared.bytes))
    spans.sort()
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert spans[-1][1] == made.shared.bytes <= made.shared.limit - 1024
    for buffer in made.buffers:
        if buffer.overlays is not None:
            channel = made.channel(buffer.overlays)
            assert channel.offset <= buffer.offset
            assert buffer.offset + buffer.bytes <= channel.offset + channel.depth * channel.stride


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_registers_fit(kernel: str) -> None:
    made = program(kernel)
    wide = sum(32 * warps.warps * warps.registers for warps in made.groups if warps.warps >= 4)
    assert wide + 128 * 24 <= made.launch.entry_registers * made.launch.threads <= 65536
    assert all(
        warps.registers % 8 == 0 and warps.first_warp % 4 == 0 for warps in made.groups if warps.warps >= 4
    )


def test_results_are_staged_in_dead_tiles() -> None:
    staged = {buffer.id: buffer.overlays for buffer in program("fa_fwd_subtiled").buffers}
    assert sorted(filter(None, staged.values())) == ["x0", "x1"]
    (own,) = program("gemm_persistent").buffers
    assert own.overlays is None, "the loader is at the next tile already"
    store = next(
        s for warps in program("gemm_persistent").groups for s in walk(warps.body) if isinstance(s, StoreTile)
    )
    assert store.parts * own.bytes == 128 * 256 * 2


def test_layouts_are_changed_in_dead_slots() -> None:
    """After the loop, and by the only group that reads the slots; the channel has a slot more for it. A vector
    is exchanged by another operation, and the tiles of `chosen` change their layout in the loop."""
    made = changed("exactly_deep", Options(most_blocks=2))
    (scratch,), (channel,) = made.buffers, made.channels
    assert scratch.overlays == channel.id
    assert channel.depth == 3
    assert scratch.offset + scratch.bytes == channel.offset + channel.depth * channel.stride
    for kernel in ("centered", "chosen"):
        assert {buffer.overlays for buffer in program(kernel).buffers if "scratch" in buffer.id} == {None}


@pytest.mark.parametrize("kernel", ["turned_32", "widened"])
def test_slots_that_hold_something_behind_a_loop_stay(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of layout, or a tile that is stored. Of a channel that is filled once, and whose second slot
    only lets loads run ahead."""

    def ahead(demand: Demand) -> SharedMemoryPlan:
        plans = (replace(plan, depth=2, spare=1, fills=1) for plan in demand.plans)
        return layout(replace(demand, plans=tuple(plans)))

    monkeypatch.setattr("twill.warp.block_memory.layout", ahead)
    made = changed(kernel, Options())
    (buffer,) = (one for one in made.buffers if one.overlays)
    (channel,) = (one for one in made.channels if one.id == buffer.overlays)
    assert channel.depth == 2
    assert channel.offset <= buffer.offset
    assert buffer.offset + buffer.bytes == channel.offset + channel.depth * channel.stride


def test_what_only_code_behind_a_loop_exchanges_lies_in_dead_slots() -> None:
    """Beside a smaller buffer for what the loop exchanges; both hold their operations."""
    made = program("quarters_and_whole")
    own, behind = sorted(made.buffers, key=lambda one: one.id == "behind_scratch1")
    (channel,) = (one for one in made.channels if one.id == behind.overlays)
    assert (own.id, own.overlays, own.ops) == ("scratch1", None, ())
    assert behind.offset + behind.bytes == channel.offset + channel.depth * channel.stride
    inside = {op.index for loop in made.function.walk() if role(loop) == "for" for op in loop.inner()}
    assert behind.ops
    assert not inside & set(behind.ops)
    assert all(scratch(made.op(index)) <= behind.bytes for index in behind.ops)
    using, other = (Compute("", ops) for ops in (behind.ops, (min(inside),)))
    assert uses_slots(made, [other, using])
    assert not uses_slots(made, [other])


def test_the_loader_runs_on_into_the_next_tile() -> None:
    loader = program("gemm_persistent").groups[0]
    (tiles,) = [s for s in loader.body if isinstance(s, For)]
    assert [type(s) for s in tiles.body if not isinstance(s, Compute)] == [Pipelined, Advance]


def test_loads_stand_in_the_order_of_their_readers() -> None:
    """The schedule has one with a single slot begin before others that are needed first. The first slots of an
    iteration are waited for at the end of the interval before."""
    loads = [s.channel for s in loop("fa_bwd_subtiled", 0).steady if isinstance(s, ProducerLoad)]
    waits = [s.channel for s in loop("fa_bwd_subtiled", 1).steady if isinstance(s, ConsumerWait)]
    first = waits.index(loads[0])
    assert loads == [channel for channel in (*waits[first:], *waits[:first]) if channel in loads]


def test_two_loops_share_channels() -> None:
    made = program("fa_fwd_causal")
    loads = [s for s in walk(made.groups[0].body) if isinstance(s, ProducerLoad)]
    assert len(made.channels) == 4
    assert len({load.channel for load in loads}) == 4
    assert all(len(warps.body) > 0 for warps in made.groups)


def test_a_slot_is_released_before_the_schedule_fills_it_again() -> None:
    """While the operation that reads it goes on: the one slot is filled again before that ends."""
    (group,) = (one for one in program("straight").groups if "p_21" in str(one.body) and one.id == 2)
    (loop,) = (one for one in walk(group.body) if isinstance(one, Pipelined))
    release = next(
        i for i, s in enumerate(loop.steady) if isinstance(s, ConsumerRelease) and s.channel == "p_21"
    )
    before = next(s for s in loop.steady[release::-1] if isinstance(s, Compute))
    assert "p_21" in str(before.reads)
    assert before.at.iteration == loop.steady[release].at.iteration  # pyright: ignore


def test_depths_can_be_given() -> None:
    assert changed("gemm", Options(depths={"x_y": 2})).channels[0].depth == 2
    with pytest.raises(TwillError, match="no channel 'z'"):
        changed("gemm", Options(depths={"z": 2}))
    with pytest.raises(TwillError, match="bytes of shared memory"):
        changed("gemm", Options(depths={"x_y": 5}))


def test_a_split_variable_is_refused_with_its_loop() -> None:
    """The second loop's partition crossed: acc0 and highest0 in two groups."""
    module, (first, second) = loops("fa_fwd_causal")
    swapped = {"add.26", "mul.24"}
    group = tuple(
        3 - g if op.id in swapped else g
        for op, g in zip(second.problem.operations, second.solution.group, strict=True)
    )
    torn = replace(second, solution=replace(second.solution, group=group))
    with pytest.raises(CarriedSplitError, match="would change its group") as problem:
        lower(module, [first, torn], TARGET)
    assert problem.value.location == second.loop.location


def test_a_tile_stored_in_every_iteration_is_staged_whole_before_channels_get_spare_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where no warp is free to store it."""
    monkeypatch.setattr("twill.warp.designs.store_group", lambda granted, registers: None)  # pyright: ignore
    module, scheduled = loops("fa_bwd")
    made = lower(module, scheduled, TARGET)
    (steady,) = (s.steady for s in walk(made.groups[1].body) if isinstance(s, Pipelined))
    (store,) = (s for s in steady if isinstance(s, StoreTile))
    staging = next(buffer for buffer in made.buffers if buffer.id == store.buffer)
    assert store.parts == 1
    assert staging.bytes == 64 * 128 * 4, "dQ, 64 x 128 of float32"


def test_groups_of_a_second_loop_are_renumbered() -> None:
    """A mirror image of the partition is the same partition."""
    module, (first, second) = loops("fa_fwd_causal")
    mirror = tuple(3 - g if g else 0 for g in second.solution.group)
    groups = tuple(replace(g, id=3 - g.id if g.id else 0) for g in second.solution.groups)
    mirrored = replace(second, solution=replace(second.solution, group=mirror, groups=groups))
    assert text(lower(module, [first, mirrored], TARGET)) == text(program("fa_fwd_causal"))


def test_what_is_not_supported_is_refused_with_its_line() -> None:
    from twill.extract.reader.ttgir import read

    module, (one,) = loops("gemm")
    source = module.text.replace("%13 = arith.truncf %acc_4", '%13 = "tt.elementwise_inline_asm"(%acc_4)', 1)
    assert source != module.text
    line = source[: source.index("tt.elementwise_inline_asm")].count("\n") + 1
    try:
        odd = read(source, module.file)
    except TwillError as problem:
        pytest.skip(f"the reader refuses it: {problem.message}")
    from twill.extract.dependence.loops import loops as found

    with pytest.raises(TwillError, match="can not be generated") as refused:
        lower(odd, [replace(one, loop=found(odd)[0])], TARGET)
    assert refused.value.location
    assert refused.value.location.line == line
