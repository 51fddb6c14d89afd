"""Register tiles that groups pass to each other: the time that this takes, against the machine's rates."""

from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import pytest

from tests.kernels.programs import EXAMPLES, changed, loops, program
from twill.generation.loop_nest import program as lowered
from twill.inputs import Inputs, cases
from twill.ir.problem import Operation, Reservation
from twill.ir.program import Program
from twill.ir.search import Options as Search
from twill.modulo.simplest import issuable
from twill.pipeline import solve
from twill.simulate.explore import same
from twill.simulate.passing import loop_stores, passed, passing, slot_stores
from twill.simulate.predict import intervals, paces
from twill.simulate.timed import run
from twill.simulate.times import Costs
from twill.targets import EXACT_LAYOUTS
from twill.warp.plan import Options
from twill.warp.tasks import Scheduled

CONVERTED, SCALED = "sitofp.whole_16", "stage.whole_21"
BYTES = 64 * 128 * 2
STORED = 64 * 128 * 4


@cache
def converted() -> tuple[Program, Scheduled]:
    """A product of packed weights of which one group converts them and another scales and multiplies."""
    found = cases(
        Inputs("tests/kernels/ttgir/dequantized.sm90.ttgir", arch="sm90", exact_layouts=EXACT_LAYOUTS)
    )
    made, (one,) = lowered(
        found, lambda problem: solve(replace(problem, apart=((CONVERTED, SCALED),)), Search(time_limit=20))
    )
    return made, one


def with_rate(one: Scheduled, bytes_per_cycle: float) -> Scheduled:
    given = one.machine
    return replace(
        one, machine=replace(given, handover=replace(given.handover, bytes_per_cycle=bytes_per_cycle))
    )


def test_both_groups_are_held_for_half_of_the_way() -> None:
    made, one = converted()
    ((name, tile),) = passing(made, (one,)).items()
    assert tile.groups == (one.group(CONVERTED), one.group(SCALED))
    assert tile.held == BYTES / one.machine.handover.bytes_per_cycle / 2
    assert tile.shared == 2 * BYTES / 128, "written once and read once"
    assert passed(one, (tile,)) == dict.fromkeys(tile.groups, tile.held)
    events = run(made, (one,), same(32, 1), Costs.of(one.machine), paces((one,))).events
    writes = [event for event in events if event.name == f"write {name}"]
    assert len(writes) == 32
    assert {round(event.end - event.begin, 6) for event in writes} == {round(tile.held, 6)}


def test_an_iteration_takes_longer_by_it() -> None:
    """Where the groups wait alternately for each other's tiles, by both halves of the way at most."""
    made, one = converted()
    ((path, cycles),) = intervals(made, (one,)).items()
    free = intervals(made, (with_rate(one, 1e9),))[path]
    slow = intervals(made, (with_rate(one, 10.0),))[path]
    assert free < cycles < slow
    assert slow - free == pytest.approx(2 * BYTES / 10.0 / 2, rel=0.25)


def test_tiles_are_part_of_what_a_group_issues() -> None:
    """An interval that the group which converts just fits is too short with them."""
    made, one = converted()
    labels, tiles = one.solution.group, passing(made, (one,)).values()
    issued = [
        sum(
            one.problem.held(op) for op, of in zip(one.problem.operations, labels, strict=True) if of == group
        )
        for group in passed(one, tiles)
    ]
    assert issuable(one.problem, max(issued), labels)
    assert not issuable(one.problem, max(issued), labels, passed(one, tiles))
    assert issuable(one.problem, max(issued) + 118, labels, passed(one, tiles))


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_what_tma_stores_is_part_of_its_cost(kernel: str) -> None:
    """The examples pass no tile that threads load: fa_bwd hands a sum to the warp that starts its store."""
    assert passing(program(kernel), loops(kernel)[1]) == {}


def test_a_group_is_held_while_it_writes_what_another_warp_stores() -> None:
    """Both warpgroups, each for all of that: a tile of 32 KB at 128 bytes per cycle, after the launch."""
    made, (one,) = program("fa_bwd"), loops("fa_bwd")[1]
    ((name, stored),) = slot_stores(made, loop_stores(made, (one,))).items()
    assert stored.written == 60 + STORED / 128
    events = run(made, (one,), same(8, 1), Costs.of(one.machine), paces((one,))).events
    writes = [event for event in events if event.name == f"write {name}"]
    assert {event.track for event in writes} == {"group 1 warps 0-3", "group 1 warps 4-7"}
    assert {round(event.end - event.begin, 6) for event in writes} == {stored.written}


def test_tma_reads_a_slot_with_what_mmas_leave_of_shared_memory() -> None:
    """Alone at its rate; more slowly beside MMAs that take a part, and not at all beside those that take
    all."""
    made, (one,) = program("fa_bwd"), loops("fa_bwd")[1]
    ((_, stored),) = slot_stores(made, loop_stores(made, (one,))).items()
    assert (stored.read, stored.latency) == (STORED / 25.6, 100)
    assert stored.shared == pytest.approx(STORED / 35)

    def reading(taken: float) -> float:
        """Cycles of the longest reading, where every MMA takes such a part of shared memory."""
        other = replace(
            one, problem=replace(one.problem, operations=tuple(map(partial(_taking, taken), ops)))
        )
        events = run(made, (other,), same(16, 1), Costs.of(one.machine), paces((one,))).events
        return max(event.end - event.begin for event in events if event.name == "reduce.dq_desc")

    ops = one.problem.operations
    alone, half, all_of_it = map(reading, (0.0, 0.5, 1.0))
    assert alone == pytest.approx(stored.read)
    assert alone < half < all_of_it
    tensor = sum(r.cycles for op in ops for r in op.reservations if r.unit == "tensor")
    assert all_of_it - alone <= tensor


def test_a_group_that_stages_a_tile_waits_until_tma_has_read_the_one_before() -> None:
    """Slots of loads leave no room for one that another warp stores from: all of the reading passes between
    two tiles. (Measured so on an H200: 4831 cycles an iteration, benchmarks/notebook.md.)"""
    _, (one,) = loops("fa_bwd")
    made = changed("fa_bwd", Options(depths={"x": 4, "g": 4}))
    assert slot_stores(made, loop_stores(made, (one,))) == {}
    ((_, stored),) = loop_stores(made, (one,)).items()
    events = run(made, (one,), same(16, 1), Costs.of(one.machine), paces((one,))).events
    ends = [e.end for e in events if e.name == "reduce.dq_desc" and e.track == "group 1 warps 0-3"]
    apart = [after - before for before, after in pairwise(ends)]
    assert len(apart) == 15
    assert min(apart) >= stored.read + stored.written
    ((_, cycles),) = intervals(made, (one,)).items()
    assert cycles == pytest.approx(4831, rel=0.1)


def _taking(part: float, op: Operation) -> Operation:
    """The operation with such a part of the cycles of shared memory while it keeps the tensor core."""
    tensor = sum(r.cycles for r in op.reservations if r.unit == "tensor")
    others = tuple(r for r in op.reservations if r.unit != "smem")
    return replace(op, reservations=(*others, Reservation("smem", int(tensor * part)))) if tensor else op
