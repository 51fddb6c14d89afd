"""Predicted cycles: against what can be worked out by hand, against what was measured, and the trace that
they are drawn from."""

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from tests.kernels.programs import EXAMPLES, changed, loops, measured, program
from twill.costs.machine import load
from twill.ir.program import Program
from twill.ir.statements import Compute, MmaIssue, Pipelined
from twill.simulate.explore import same
from twill.simulate.predict import paces, predict
from twill.simulate.protocol import HazardError
from twill.simulate.report import Steady, lines, steady, trace
from twill.simulate.timed import simulate
from twill.simulate.times import Costs, Event, Paces, Run
from twill.targets import target
from twill.warp.lower import lower
from twill.warp.plan import Options

COSTS = Costs.of(load("h200"))


def predicted(
    kernel: str, made: Program | None = None, costs: Costs = COSTS, given: Paces | None = None
) -> Steady:
    """The steady state of an example's first loop; beside a tensor core that slows nothing down unless
    `given`."""
    _, scheduled = loops(kernel)
    events = simulate(made or program(kernel), scheduled, same(32, 1), costs, given)
    return steady(events, scheduled[0].loop.op.index, 32)


def test_costs_are_the_machines() -> None:
    found = Costs(
        barrier=105,
        order=44,
        poll=55,
        load=480,
        launch=30,
        ahead=300,
        beside=1.17,
        stored=1000,
        shared="smem",
        slots="issue",
        behind=0.5,
    )
    assert found == COSTS
    silent = Costs.of(load("toy"))
    assert (silent.ahead, silent.beside) == (0, 1.0), "a machine that says nothing of it"


def test_a_matrix_product_keeps_the_tensor_core_busy() -> None:
    found = predicted("gemm")
    assert found.interval == pytest.approx(1024, rel=0.001)
    assert found.busy["tensor"] == pytest.approx(1.0, abs=0.001)


def test_a_shallow_channel_exposes_the_latency_of_loads() -> None:
    """With one spare slot a load of 5000 cycles arrives every other iteration: (5000 + synchronization) / 2 a
    piece at least."""
    found = predicted("gemm", changed("gemm", Options(depths={"x_y": 2})), replace(COSTS, load=5000))
    assert found.interval > 2600
    assert any(location.startswith("consumer_wait") for _, location in found.waits)


def test_groups_that_synchronize_wait_for_each_other_and_for_stores() -> None:
    """`settled` loads what another group stores: its end moves by what that takes."""

    def end(costs: Costs) -> float:
        made, (_, scheduled) = program("settled"), loops("settled")
        assert made.orders_stores
        assert len(made.groups) > 1
        return max(one.end for one in simulate(made, scheduled, same(4, 1), costs))

    before = end(replace(COSTS, stored=0))
    assert end(COSTS) == pytest.approx(before + COSTS.stored, abs=1)


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_no_prediction_beats_the_units(kernel: str) -> None:
    """Shared memory and issue slots included."""
    _, scheduled = loops(kernel)
    found = predict(program(kernel), scheduled, 48)
    for one in scheduled:
        asked = {
            unit.name: sum(
                r.cycles * r.amount
                for op in one.problem.operations
                for r in op.reservations
                if r.unit == unit.name
            )
            / unit.capacity
            for unit in one.problem.units
        }
        assert found.loops[one.loop.path].interval >= 0.995 * max(asked.values())


def test_short_runs_do_not_beat_aggregate_units() -> None:
    """Whose first intervals have more of shared memory than those that follow."""
    _, (one,) = loops("fa_bwd_subtiled.sm100")
    taken = [r.cycles for op in one.problem.operations for r in op.reservations if r.unit == "smem"]
    (found,) = predict(program("fa_bwd_subtiled.sm100"), (one,)).loops.values()
    assert found.interval >= sum(taken)


@pytest.mark.parametrize("kernel", ["fa_fwd_subtiled", "fa_fwd"])
def test_no_unit_and_no_warpgroup_does_two_things_at_once(kernel: str) -> None:
    _, scheduled = loops(kernel)
    shared = {unit.name for unit in scheduled[0].problem.units if unit.aggregate}
    free = dict[str, float]()
    for event in predict(program(kernel), scheduled, 16).events:
        if event.track not in shared:
            assert event.begin >= free.get(event.track, 0.0) - 1e-6
            free[event.track] = event.end


def test_eight_warps_are_two_warpgroups_that_share_the_units() -> None:
    _, scheduled = loops("fa_fwd")
    tracks = {
        event.track
        for event in predict(program("fa_fwd"), scheduled, 12).events
        if event.track.startswith("group")
    }
    assert tracks == {"group 0", "group 1 warps 0-3", "group 1 warps 4-7"}


def test_operations_take_longer_beside_a_busy_tensor_core() -> None:
    """An exponential of 64 x 128 that the tensor core works beside all along takes 4/3 of the 512 cycles that
    it takes alone."""
    _, scheduled = loops("fa_fwd_subtiled")
    pace = paces(scheduled)[scheduled[0].loop.op.index, "exp2.weights_20"]
    assert pace.idle.issue == 512
    assert pace.busy.issue == pytest.approx(512 * 1.33, abs=1)
    idle = {key: replace(one, busy=one.idle) for key, one in paces(scheduled).items()}
    assert (
        predict(program("fa_fwd_subtiled"), scheduled).loops["fa_fwd_subtiled/for.0"].interval
        > predicted("fa_fwd_subtiled", given=idle).interval
    )
    took = defaultdict[int, float](float)
    for event in predict(program("fa_fwd_subtiled"), scheduled).events:
        if event.name == "exp2.weights_20":
            took[event.iteration] += event.end - event.begin
    assert min(took.values()) >= 511


def test_a_warpgroup_computes_more_slowly_beside_another_one() -> None:
    alone, beside = (
        predicted("fa_fwd_subtiled", costs=replace(COSTS, beside=factor)).interval for factor in (1.0, 1.3)
    )
    assert alone < beside <= 1.3 * alone
    assert predicted("gemm", costs=replace(COSTS, beside=1.3)).interval == predicted("gemm").interval, (
        "where MMAs are all that a group executes"
    )


def test_a_sum_behind_the_issue_of_an_mma_delays_it() -> None:
    """The compiler puts it between the MMA's instructions, and the tensor core waits for the others."""
    moved = program("fa_fwd_subtiled")
    for group in (1, 2):
        moved = _sum_behind_the_issue(moved, group)
    _, scheduled = loops("fa_fwd_subtiled")
    pace = paces(scheduled)[scheduled[0].loop.op.index, "reduce_sum.24"]
    before, after = (
        predict(made, scheduled).loops["fa_fwd_subtiled/for.0"]
        for made in (program("fa_fwd_subtiled"), moved)
    )
    assert after.interval > before.interval
    tensor = [event for event in predict(moved, scheduled).events if event.track == "tensor"]
    assert max(event.end - event.begin for event in tensor) == pytest.approx(512 + pace.idle.latency, abs=1)


def _sum_behind_the_issue(made: Program, group: int) -> Program:
    """The row sum of the iteration before, right behind the issue of the first MMA of the steady state."""
    warps = made.groups[group]
    at = next(i for i, statement in enumerate(warps.body) if isinstance(statement, Pipelined))
    loop = warps.body[at]
    assert isinstance(loop, Pipelined)
    (total,) = (one for one in loop.steady if isinstance(one, Compute) and one.node.startswith("reduce_sum"))
    (narrowed,) = (one for one in loop.steady if isinstance(one, Compute) and one.node.startswith("trunc"))
    late = replace(total, at=replace(total.at, iteration=narrowed.at.iteration))
    others = [one for one in loop.steady if one is not total]
    issue = next(i for i, one in enumerate(others) if isinstance(one, MmaIssue))
    steady_state = (*others[: issue + 1], late, *others[issue + 1 :])
    body = (*warps.body[:at], replace(loop, steady=steady_state), *warps.body[at + 1 :])
    return replace(made, groups=(*made.groups[:group], replace(warps, body=body), *made.groups[group + 1 :]))


def test_what_is_ready_still_takes_a_look() -> None:
    """A wait that is over already costs `poll`, at least once for each of the two ConsumerWaits of an
    iteration, where the warps set the pace."""
    slow, slower = (
        predicted("fa_fwd_subtiled", costs=replace(COSTS, poll=poll)).interval for poll in (400, 600)
    )
    assert slower >= slow + 2 * 200
    assert predicted("gemm", costs=replace(COSTS, poll=400)).interval == predicted("gemm").interval, (
        "the tensor core does, here"
    )


def test_tensor_memory_is_free_when_a_load_from_it_is_complete() -> None:
    """Not when it has been issued: the scores of the next iteration overwrite what is loaded."""
    _, (one,) = loops("fa_fwd.sm100")
    latency = one.problem.operation("get.scores_19").latency
    events = predict(program("fa_fwd.sm100"), (one,)).events
    loaded = {e.iteration: e.begin for e in events if e.name == "get.scores_19" and "group" in e.track}
    written = {e.iteration: e.begin for e in events if e.name == "dot.scores_18" and e.track == "tensor"}
    overwritten = [i for i in loaded if i + 1 in written]
    assert len(overwritten) > 20
    assert all(written[i + 1] >= loaded[i] + latency for i in overwritten)


def test_a_trace_is_what_perfetto_reads() -> None:
    run = Run(
        (
            Event("group 1", "exp2", 10, 30, 4, 2.5),
            Event("sfu", "exp2", 10, 20, 4),
            Event("tensor", "dot", 0, 9, 4),
        )
    )
    found = json.loads(trace(run, ("tensor", "alu", "sfu")))["traceEvents"]
    assert [event["ph"] for event in found] == ["M"] * 9 + ["X"] * 3
    assert found[9] == {
        "name": "exp2",
        "ph": "X",
        "ts": 10,
        "dur": 20,
        "pid": 1,
        "tid": 1,
        "args": {"iteration": 4, "waited": 2.5},
    }
    names = [
        (event["pid"], event["tid"], event["args"]["name"])
        for event in found
        if event["name"] == "thread_name"
    ]
    assert names == [(1, 1, "group 1"), (2, 1, "tensor"), (2, 2, "sfu")], "units are in the given order"


def test_arrows_lead_from_the_filling_of_a_slot_to_each_wait_for_it() -> None:
    done = predict(program("fa_fwd_subtiled"), loops("fa_fwd_subtiled")[1])
    found = json.loads(trace(done.run, done.units))["traceEvents"]
    slices = [event for event in found if event["ph"] == "X"]
    flows: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for event in found:
        if event["ph"] in "sf":
            flows[event["id"]][event["ph"]] = event
    keys = [(event["name"], event["ts"]) for event in found if event["ph"] == "f"]
    assert len(keys) > 2 * 32
    for flow in flows.values():
        assert flow["s"]["ts"] <= flow["f"]["ts"]
        for end, word in ((flow["s"], "fill"), (flow["f"], "consumer_wait")):
            assert any(
                one["name"] == f"{word} {end['name']}"
                and (one["pid"], one["tid"]) == (end["pid"], end["tid"])
                and one["ts"] <= end["ts"] <= one["ts"] + one["dur"]
                for one in slices
            ), end


@pytest.mark.parametrize("kernel", ["gemm", "fa_fwd_subtiled"])
def test_counters_stay_between_none_and_all_slots(kernel: str) -> None:
    done = predict(program(kernel), loops(kernel)[1])
    found = json.loads(trace(done.run, done.units))["traceEvents"]
    for channel in program(kernel).channels:
        levels = [event["args"]["slots"] for event in found if event["name"] == f"full slots of {channel.id}"]
        assert min(levels) >= 0
        assert max(levels) <= channel.depth


def test_a_report_in_words() -> None:
    found = Steady(
        2317.0, {"tensor": 0.88}, {("group 1", "consumer_wait z"): 55.0, ("group 1", "wait 0"): 425.0}
    )
    assert lines("fa/for.0", found, 2048) == [
        "fa/for.0: 2317 cycles per iteration, +13.1% of the schedule's 2048",
        "  units  tensor 88%",
        "  group 1 waits 480 cycles of 2317: 425 wait 0, 55 consumer_wait z",
    ]


def test_a_deadlock_is_reported() -> None:
    made, (_, scheduled) = program("gemm"), loops("gemm")
    shallow = replace(made, channels=tuple(replace(channel, depth=1) for channel in made.channels))
    with pytest.raises(HazardError, match="deadlock"):
        simulate(shallow, scheduled, same(4), COSTS)


def test_the_branch_with_the_loop_is_timed() -> None:
    """A kernel whose first branch returns early: the loop stands in the other one."""
    found = predict(program("branching"), loops("branching")[1])
    assert found.loops["branching/for.0"].interval > 0


def test_the_loops_in_both_parts_of_a_branch_are_simulated() -> None:
    """None is faster than its schedule."""
    _, scheduled = loops("nested")
    found = predict(program("nested"), scheduled).loops
    for one in scheduled:
        assert found[one.loop.path].busy
        cycles = one.solution.interval * one.problem.resolution.cycles_per_unit
        assert found[one.loop.path].interval >= round(cycles)


def test_groups_of_several_warpgroups_synchronize_as_one() -> None:
    """The first of two warpgroups does not pass before the other one has come."""
    predicted = predict(program("continued.sm100"), loops("continued.sm100")[1]).loops
    assert [found.interval for found in predicted.values()] == pytest.approx([256, 256], abs=1)


def test_stores_from_one_slot_are_ranked_as_measured() -> None:
    """Backward attention with two tiles on an H200, million SM cycles (reports/h200.md): 26.95 as it is kept,
    28.46 with the second result staged behind the issue of dV, 27.8 in the order before."""
    module, (kept,) = measured("fa_bwd_subtiled")
    starts = dict(zip((op.id for op in kept.problem.operations), kept.solution.start, strict=True))
    starts["reduce.dq_desc.2"] = starts["dot.dz_53"] + 40
    late = replace(kept, solution=replace(kept.solution, start=tuple(starts.values())))
    before = loops("fa_bwd_subtiled")[1][0]
    cycles = [
        predict(lower(module, (one,), target("sm90")), (one,)).loops["fa_bwd_subtiled/for.0"].interval
        for one in (kept, before, late)
    ]
    assert cycles == sorted(cycles)
    assert cycles[1] > 1.01 * cycles[0]


def test_an_iteration_is_counted_by_an_operation_that_always_waits() -> None:
    """The one group that computes has an MMA alone, for whose operands it waits each time."""
    one, made = loops("peeked")[1], program("peeked")
    (found,) = predict(made, one).loops.values()
    assert found.marker.startswith("dot")
    assert found.interval >= one[0].solution.interval
