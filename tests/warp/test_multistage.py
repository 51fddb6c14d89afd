"""One group that computes and loads: its program, what is refused, and what its PTX computes."""

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeGuard

import pytest

from tests.kernels.programs import changed, loops, program
from twill.costs.machine import load as loads_machine
from twill.diagnostics import TwillError
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.check import check as executed
from twill.emulate.host import compiled
from twill.ir.channels import SlotTensor
from twill.ir.loop import Scalar
from twill.ir.operands import Iteration
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    Pipelined,
    ProducerLoad,
    Statement,
    walk,
)
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest
from twill.simulate.check import check
from twill.simulate.explore import explore, same
from twill.simulate.protocol import HazardError
from twill.targets import target
from twill.targets.gluon.kernel import source as gluon
from twill.targets.tilelang import schedule
from twill.warp import run_ahead
from twill.warp.channels import ChannelPlan
from twill.warp.plan import Options
from twill.warp.residency import equal_slots
from twill.warp.validate import validate

COPIES, TMA, VECTORS, ROWS, NESTED = "pointers", "matmul_half", "scaled", "overturned", "fa_fwd"
GATHERED, LOOKED_UP, BESIDE = "gathered_rows", "consulted", "weighed"
BETWEEN = "tilted"
"""A vector is read between two MMAs, so that its slot is released in the prologue too."""
INSIDE = "nested"
"""A loop of a loop."""
CONVERTED = "promoted"
"""All that is loaded is converted for MMAs of warps."""
OF_32_ROWS = "matmul_32_e4m3"
"""The same with two instructions' rows of A for each warp."""
ATTENTION = "queries"
AHEAD = "hopping", "hopped"
"""Where to load from follows from numbers that the loop carries and loads; one reads them in time, too."""
OVERTAKEN = "overtaken"
"""The number moves between two loads of an iteration."""
THROUGH = "pacing"
"""Tiles pass through registers in accesses of 2 bytes."""
KEPT = "distilled"
"""The second operand of the last MMA is from before the loop: no release of a slot waits for it."""
ONWARD = "wandering"
"""A number that a load alone needs is left to a loop around the loop."""
UP_TO = "rationed"
"""What is stored in the loop depends on numbers from memory."""
MULTISTAGE = Options(multistage=True)


def _loop(made: Program) -> tuple[WarpProgram, Pipelined]:
    (group,) = made.groups
    return group, next(one for one in walk(group.body) if isinstance(one, Pipelined))


@pytest.mark.parametrize("kernel", [COPIES, TMA, VECTORS, ROWS])
def test_the_group_that_computes_fills_every_slot(kernel: str) -> None:
    made = changed(kernel, MULTISTAGE)
    group, loop = _loop(made)
    assert made.launch.threads == 32 * group.warps < program(kernel).launch.threads
    assert made.launch.even
    assert not group.only_moves
    for channel in made.channels:
        assert channel.producer == group.id
        assert channel.consumers == (group.id,)
    filled = {(one.channel, one.slots) for one in loop.filled if isinstance(one, ProducerLoad)}
    assert filled == {(one.id, one.depth) for one in made.channels}
    validate(made, loops(kernel)[1][0].machine.limits)


@pytest.mark.parametrize("kernel", [COPIES, TMA, VECTORS])
def test_a_slot_is_filled_again_right_behind_its_release(kernel: str) -> None:
    made = changed(kernel, MULTISTAGE)
    _, loop = _loop(made)
    parts = loop.steady, loop.short or loop.steady
    for before, load in ((one, part[i + 1]) for part in parts for i, one in enumerate(part[:-1])):
        if not isinstance(before, ConsumerRelease):
            continue
        assert isinstance(load, ProducerLoad)
        assert load.channel == before.channel
        assert load.slots == made.channel(load.channel).depth
        assert before.at.iteration.offset - load.at.iteration.offset == load.slots


def test_what_is_converted_for_mmas_of_warps_is_released_behind_them() -> None:
    _, loop = _loop(changed(CONVERTED, MULTISTAGE))
    (release,) = [i for i, one in enumerate(loop.steady) if isinstance(one, ConsumerRelease)]
    computed = [i for i, one in enumerate(loop.steady) if isinstance(one, Compute)]
    assert len(computed) == 3, "two conversions and the MMA"
    assert max(computed) < release


def test_a_part_of_what_is_converted_for_mmas_of_warps_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = changed(CONVERTED, MULTISTAGE).launch
    monkeypatch.setattr("twill.warp.multistage._for_mmas", lambda *given: {})  # pyright: ignore
    whole = changed(CONVERTED, MULTISTAGE).launch
    assert parts.entry_registers < whole.entry_registers
    assert parts.blocks > whole.blocks


def test_all_of_it_is_held_where_a_warp_has_more_rows_than_an_instruction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = changed(OF_32_ROWS, MULTISTAGE).launch
    monkeypatch.setattr("twill.warp.multistage._of_one_row_of_instructions", lambda op: True)  # pyright: ignore
    assert changed(OF_32_ROWS, MULTISTAGE).launch.entry_registers < whole.entry_registers


@pytest.mark.parametrize(
    "kernel",
    [
        *(COPIES, TMA, VECTORS, ROWS, ATTENTION, BETWEEN, *AHEAD, OVERTAKEN, THROUGH, CONVERTED, UP_TO),
        *(KEPT, ONWARD),
    ],
)
def test_values_are_right_for_any_number_of_iterations(kernel: str) -> None:
    made = changed(kernel, MULTISTAGE)
    for trips in range(made.channels[0].depth + 4):
        assert explore(made, same(trips)).complete
    assert check(made, lambda what: None).values


def test_a_loop_of_few_iterations_inside_another_one_has_as_few_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group that only loads fills more, for the next time that the loop is entered. Both loops of the kernel
    fill the one channel."""
    alone = replace(MULTISTAGE, most_blocks=1)
    most = max(one.depth for one in changed(INSIDE, alone).channels)

    def once(*_: object) -> int:
        return 1

    monkeypatch.setattr("twill.warp.channels.constant_trips", once)
    made = changed(INSIDE, alone)
    assert [one.depth for one in made.channels] == [2]
    assert most > 2
    assert max(one.depth for one in changed(INSIDE, Options(most_blocks=1)).channels) > 2
    for trips in range(4):
        assert explore(made, same(trips)).complete


@pytest.mark.parametrize("kernel", [COPIES, ATTENTION])
def test_the_last_mma_of_an_iteration_is_in_flight_when_the_next_one_begins(kernel: str) -> None:
    made = changed(kernel, MULTISTAGE)
    _, loop = _loop(made)
    kinds = [type(one) for one in loop.steady]
    issue, release = kinds.index(MmaIssue), kinds.index(ConsumerRelease)
    assert kinds[:issue] == [ConsumerWait]
    assert kinds[issue + 1 : release] == [MmaWait]
    assert (kinds[-1] is MmaIssue) == (kinds.count(MmaIssue) > 1) == (kernel == ATTENTION)
    (late,) = (one for one in loop.steady if isinstance(one, ConsumerRelease))
    assert late.at.iteration.offset == 1
    assert [type(one) for one in loop.epilogue] == [MmaWait, ConsumerRelease]


def test_a_slot_that_the_prologue_releases_is_filled_again() -> None:
    """With as many iterations as slots there is nothing to load, with more there is."""
    _, loop = _loop(changed(BETWEEN, MULTISTAGE))
    ((release, load),) = (
        (one, loop.prologue[i + 1]) for i, one in enumerate(loop.prologue) if isinstance(one, ConsumerRelease)
    )
    assert isinstance(load, ProducerLoad)
    assert load.channel == release.channel
    assert (release.at.iteration, load.at.iteration) == (
        Iteration("first", 0),
        Iteration("first", load.slots),
    )


def test_an_mma_whose_result_is_used_at_once_is_waited_for() -> None:
    _, loop = _loop(changed(VECTORS, MULTISTAGE))
    assert not loop.prologue
    assert not loop.epilogue


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", [ATTENTION, BETWEEN, KEPT])
def test_the_ptx_of_two_mmas_in_a_row_is_right(kernel: str) -> None:
    made, (_, scheduled) = changed(kernel, MULTISTAGE), loops(kernel)
    run = executed(made, scheduled, target("sm90").source(made), lambda what: None)
    assert run.values > 1000


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", [*AHEAD, OVERTAKEN, THROUGH])
def test_the_ptx_of_loads_that_are_ahead_is_right(kernel: str) -> None:
    made, (_, scheduled) = changed(kernel, MULTISTAGE), loops(kernel)
    run = executed(made, scheduled, target("sm90").source(made), lambda what: None)
    assert run.values > 1000


@pytest.mark.parametrize("kernel", AHEAD)
def test_numbers_for_later_loads_are_variables_of_their_own(kernel: str) -> None:
    made = changed(kernel, MULTISTAGE)
    group, loop = _loop(made)
    for part in (loop.filled, loop.steady):
        (place,) = (i for i, one in enumerate(part) if isinstance(one, ProducerLoad))
        load, numbers = part[place], part[place + 1]
        assert isinstance(load, ProducerLoad)
        assert isinstance(numbers, Compute)
        assert numbers.slots == load.slots
        assert {write.register for write in numbers.writes} <= {read.location for read in load.reads}
    own = {write.register.variable for one in walk(group.body) if _in_time(one) for write in one.writes}
    ahead = {write.register.variable for one in walk(group.body) if _ahead(one) for write in one.writes}
    assert ahead
    assert not own & ahead


def _in_time(one: Statement) -> TypeGuard[Compute]:
    return isinstance(one, Compute) and not one.slots


def _ahead(one: Statement) -> TypeGuard[Compute]:
    return isinstance(one, Compute) and bool(one.slots)


def test_numbers_that_loads_alone_need_are_computed_once_for_each() -> None:
    _, loop = _loop(changed(AHEAD[0], MULTISTAGE))
    assert [one.slots for one in loop.steady if isinstance(one, Compute)] == [2]
    _, loop = _loop(changed(AHEAD[1], MULTISTAGE))
    assert any(not one.slots and "load.at" in one.node for one in loop.steady if isinstance(one, Compute))


def test_numbers_that_the_kernel_may_write_are_not_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_ahead, "may_write", lambda code, store, load: True)  # pyright: ignore
    with pytest.raises(TwillError, match="the kernel may write the numbers"):
        changed(AHEAD[0], MULTISTAGE)


@pytest.mark.parametrize("part", ["filled", "steady"])
@pytest.mark.parametrize("kernel", AHEAD)
def test_numbers_that_are_left_out_are_found(kernel: str, part: str) -> None:
    made = changed(kernel, MULTISTAGE)
    group, loop = _loop(made)
    left = tuple(one for one in getattr(loop, part) if not _ahead(one))
    body = tuple(replace(loop, **{part: left}) if one is loop else one for one in group.body)
    with pytest.raises(TwillError, match="computes a wrong c"):
        check(replace(made, groups=(replace(group, body=body),)), lambda what: None)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", [GATHERED, LOOKED_UP, BESIDE])
def test_rows_by_numbers_from_memory_are_found_by_the_threads_that_copy(kernel: str) -> None:
    """Which share a tile otherwise than the same threads share what they compute."""
    made, (_, scheduled) = changed(kernel, MULTISTAGE), loops(kernel)
    run = executed(made, scheduled, target("sm90").source(made), lambda what: None)
    assert run.values > 1000


def test_numbers_of_pages_are_loaded_by_the_threads_that_copy_alone() -> None:
    """The group would wait for a tile of numbers that it does not read."""
    group, _ = _loop(changed(LOOKED_UP, MULTISTAGE))
    made = program(LOOKED_UP)
    (load,) = (op.index for op in made.function.walk() if op.results and op.result.name == "%page_21")
    executed = (one.ops for one in walk(group.body) if isinstance(one, Compute))
    assert not any(load in ops for ops in executed)
    assert any(
        load in one.ops for each in walk(group.body) if isinstance(each, ProducerLoad) for one in each.loads
    )


def test_numbers_are_loaded_at_the_beginning_of_the_iteration_that_copies_with_them() -> None:
    """What is copied for a later iteration begins in the middle of this one, and would wait there."""
    text = target("sm90").source(changed(LOOKED_UP, MULTISTAGE))
    body = text[text.rindex("for (int32_t i = ") :]
    number, wait, copy = (body.index(one) for one in ("page_21_of_lane = (", "consumer_wait", "cp_async<16>"))
    assert number < wait < copy
    assert body.count("page_21_of_lane = (") == 1


def test_threads_that_copy_a_vector_load_their_own_numbers_ahead_too() -> None:
    text = target("sm90").source(changed(BESIDE, MULTISTAGE))
    body = text[text.rindex("for (int32_t i = ") :]
    assert body.index("_of_thread = thread.index < 16 ? ") < body.index("consumer_wait")
    before = body[: body.index("if (thread.index < 16) cp_async")]
    begins = before[before.rindex("from_ = ") :]
    assert "_of_thread" in begins
    assert "*(table" not in begins


def test_loads_of_an_iteration_share_a_barrier() -> None:
    """In the kernel with a group that loads, each has one of its own."""
    for kernel in (COPIES, THROUGH):
        assert len(changed(kernel, MULTISTAGE).channels) == 1
    made = changed(VECTORS, MULTISTAGE)
    assert len(program(VECTORS).channels) > len(made.channels) == 2


def test_tiles_are_loaded_again_before_scales_of_their_product_are_read() -> None:
    made = changed(VECTORS, MULTISTAGE)
    _, loop = _loop(made)
    tiles, scales = made.channels
    assert {len(one.shape) for one in tiles.tensors} == {2}
    assert {len(one.shape) for one in scales.tensors} == {1}
    events = [
        (type(one), one.channel if isinstance(one, ConsumerWait | ConsumerRelease | ProducerLoad) else "")
        for one in loop.steady
    ]
    assert [one for one in events if one[0] is not Compute] == [
        (ConsumerWait, tiles.id),
        (MmaIssue, ""),
        (MmaWait, ""),
        (ConsumerRelease, tiles.id),
        (ProducerLoad, tiles.id),
        (ConsumerWait, scales.id),
        (ConsumerRelease, scales.id),
        (ProducerLoad, scales.id),
    ]


def test_tiles_that_tma_loads_need_no_fence_beside_copies() -> None:
    """The tensor core reads what TMA has written, threads what they have copied."""
    text = target("sm90").source(changed(VECTORS, MULTISTAGE))
    tma, copies = text.split("scaled_tma_kernel(", 1)[1].split("scaled_kernel(", 1)
    assert "tma_load(" in tma
    assert "cp_async<" in tma
    assert "fence_async_shared" not in tma
    assert "fence_async_shared" in copies


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_the_ptx_of_tiles_and_scales_apart_is_right() -> None:
    made, (_, scheduled) = changed(VECTORS, MULTISTAGE), loops(VECTORS)
    run = executed(made, scheduled, target("sm90").source(made), lambda what: None)
    assert run.values > 1000


def _without(part: tuple[Statement, ...], left: type) -> tuple[Statement, ...]:
    return tuple(one for one in part if not isinstance(one, left))


def test_a_load_before_the_release_of_its_slot_is_found() -> None:
    made = changed(COPIES, MULTISTAGE)
    group, loop = _loop(made)
    loads = tuple(one for one in loop.steady if isinstance(one, ProducerLoad))
    early = replace(loop, steady=(*loads, *_without(loop.steady, ProducerLoad)))
    body = tuple(early if one is loop else one for one in group.body)
    with pytest.raises(HazardError, match=r"deadlock|before group"):
        explore(replace(made, groups=(replace(group, body=body),)), same(made.channels[0].depth + 3))


def test_a_load_that_is_left_out_is_found() -> None:
    made = changed(COPIES, MULTISTAGE)
    group, loop = _loop(made)
    body = tuple(replace(loop, filled=()) if one is loop else one for one in group.body)
    with pytest.raises(HazardError, match="deadlock"):
        explore(replace(made, groups=(replace(group, body=body),)), same(3))


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        ("dequantized", "2 groups compute"),
        ("revolving", "a division of 64 bits"),
        ("matmul_half.sm100", "one group that computes and loads"),
        ("unrolled", "shared memory"),
    ],
)
def test_what_is_refused(kernel: str, why: str) -> None:
    with pytest.raises(TwillError, match=why):
        changed(kernel, MULTISTAGE)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", [COPIES, TMA, VECTORS, CONVERTED])
def test_the_ptx_computes_the_same(kernel: str) -> None:
    """With fewer iterations than slots and with more, in several orders of what is asynchronous."""
    made, (_, scheduled) = changed(kernel, MULTISTAGE), loops(kernel)
    described = manifest(made, scheduled, dict.fromkeys((one.loop.path for one in scheduled), 1.0))
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.cu").write_text(target("sm90").source(made))
        library = compiled(Path(folder) / "kernel.cu", Path(folder), [RUNTIME], "90a")
        built = Build(described, made.function, library)
        for k, schedule in ((64, 0), (512, 1), (512, 2)):
            numbers = {"N": 128, "K": k} | ({} if kernel == CONVERTED else {"M": 128})
            compared = run(built, Request(numbers, schedule=schedule))
            assert wrong(built, compared) is None, compared
            assert sum(one.values for one in compared) > 500


def test_what_other_compilers_can_not_express_is_refused() -> None:
    made = changed(COPIES, MULTISTAGE)
    with pytest.raises(TwillError, match="a group that computes and loads"):
        gluon(made)
    with pytest.raises(TwillError, match="a group that computes and loads"):
        schedule(made, loops(COPIES)[1])


@pytest.mark.parametrize("kernel", ["apportioned", ROWS])
def test_an_sm_holds_more_blocks_whose_loads_fit_apart(kernel: str) -> None:
    made, machine = changed(kernel, MULTISTAGE), loops(kernel)[1][0].machine
    assert machine.residency
    assert made.launch.blocks > program(kernel).launch.blocks
    under_way = sum(one.depth * one.stride for one in made.channels)
    assert made.launch.blocks * under_way <= machine.residency.shared


def test_slots_are_as_many_as_there_is_room_for() -> None:
    """Two at least, so that a load is under way while a tile is read."""
    machine = loads_machine("h200")
    assert machine.residency
    plan = ChannelPlan(
        "x", 0, (0,), (SlotTensor("x", (64, 64), Scalar("f16"), None, 0, 8192),), "cp_async", 1, ((),)
    )
    counts = [equal_slots([plan], machine, blocks) for blocks in (1, 2, 4, 10, 32)]
    assert counts == [machine.residency.shared // blocks // 8192 for blocks in (1, 2, 4, 10)] + [2]


def test_tiles_before_the_loop_are_loaded_behind_its_first_loads() -> None:
    """They would be waited for, and passed on among warps, before a loop of few iterations begins to load."""
    text = target("sm90").source(changed(BESIDE, MULTISTAGE))
    first, tile = text.index("// copy y_62 "), text.rindex("// load.x_28")
    assert first < tile < text.index("consumer_wait(", first)


@pytest.mark.parametrize("kernel", [LOOKED_UP, BESIDE])
def test_the_numbers_of_all_first_slots_are_loaded_at_once(kernel: str) -> None:
    """Else those of a slot would be waited for behind the copies to the slot before. (Their values are checked
    above, by the PTX.)"""
    text = target("sm90").source(changed(kernel, MULTISTAGE))
    loaded = text.index("_first0_[i] = ")
    assert "#pragma unroll\n" in text[text.rindex("#pragma", 0, loaded) : loaded]
    assert loaded < text.index("cp_async<")


def _first(made: Program) -> str:
    """What is printed for the first loads of the last loop that has some."""
    text = target("sm90").source(made)
    begun = text.rindex("i < min(n, ")
    return text[begun : text.index("consumer_wait(", begun)]


@pytest.mark.parametrize("kernel", [COPIES, GATHERED])
def test_no_thread_waits_for_slots_that_were_never_filled(kernel: str) -> None:
    made = changed(kernel, MULTISTAGE)
    first = _first(made)
    assert "cp_async<" in first
    assert "producer_acquire(" not in first
    assert "producer_acquire(" in target("sm90").source(made), "later fills wait for the release"


def test_first_loads_of_a_loop_that_is_executed_again_wait_for_its_last_reads() -> None:
    first = _first(changed(ONWARD, MULTISTAGE))
    assert "cp_async<" in first
    assert "producer_acquire(" in first
