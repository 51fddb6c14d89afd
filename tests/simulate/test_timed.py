"""Predicted cycles: against what can be worked out by hand, and the trace that they are drawn from."""

import json
from dataclasses import replace

import pytest

from tests.codegen.programs import EXAMPLES, changed, loops, program
from twill.codegen.lower import Options
from twill.simulate.explore import same
from twill.simulate.protocol import HazardError
from twill.simulate.report import Steady, lines, steady, trace
from twill.simulate.timed import Costs, Event, simulate

COSTS = Costs(barrier=105, load=480)


def predicted(kernel: str, costs: Costs = COSTS) -> Steady:
    _, scheduled = loops(kernel)
    events = simulate(program(kernel), scheduled, same(32, 1), costs)
    return steady(events, scheduled[0].loop.op.index, 32)


def test_a_matrix_product_keeps_the_tensor_core_busy() -> None:
    found = predicted("gemm")
    assert found.interval == pytest.approx(1024, rel=0.001)
    assert found.busy["tensor"] == pytest.approx(1.0, abs=0.001)


def test_a_shallow_ring_exposes_the_latency_of_loads() -> None:
    """With one spare slot a load of 5000 cycles arrives every other iteration: (5000 + handing over) / 2 a piece at least."""
    _, scheduled = loops("gemm")
    made = changed("gemm", Options(depths={"x_y": 2}))
    found = steady(simulate(made, scheduled, same(32), Costs(barrier=105, load=5000)), scheduled[0].loop.op.index, 32)
    assert found.interval > 2600
    assert any(place.startswith("get") for _, place in found.waits)


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_no_prediction_beats_the_units(kernel: str) -> None:
    """Shared memory and issue slots included."""
    _, scheduled = loops(kernel)
    events = simulate(program(kernel), scheduled, same(48, 1), COSTS)
    for one in scheduled:
        asked = {
            unit.name: sum(r.cycles * r.amount for op in one.problem.operations for r in op.reservations if r.unit == unit.name)
            / unit.capacity
            for unit in one.problem.units
        }
        assert steady(events, one.loop.op.index, 48).interval >= 0.995 * max(asked.values())


def test_no_unit_does_two_things_at_once() -> None:
    _, scheduled = loops("fa_fwd_subtiled")
    shared = {unit.name for unit in scheduled[0].problem.units if unit.aggregate}
    free = dict[str, float]()
    for event in simulate(program("fa_fwd_subtiled"), scheduled, same(12), COSTS):
        if not event.track.startswith("group") and event.track not in shared:
            assert event.begin >= free.get(event.track, 0.0) - 1e-9
            free[event.track] = event.end


def test_a_trace_is_what_perfetto_reads() -> None:
    text = trace([Event("group 1", "exp2", 10, 30, 4, 2.5), Event("tensor", "dot", 0, 512, 4)])
    found = json.loads(text)["traceEvents"]
    assert [event["ph"] for event in found] == ["M", "M", "M", "M", "X", "X"]
    assert found[4] == {"name": "exp2", "ph": "X", "ts": 10, "dur": 20, "pid": 1, "tid": 1, "args": {"iteration": 4, "waited": 2.5}}
    assert found[5]["pid"] == 2


def test_a_report_in_words() -> None:
    found = Steady(2317.0, {"tensor": 0.88}, {("group 1", "wait 0"): 425.0})
    assert lines("fa/for.0", found, 2048) == [
        "fa/for.0: 2317 cycles per iteration, +13.1% of the schedule's 2048",
        "  units  tensor 88%",
        "  group 1 waits 425 cycles at wait 0",
    ]


def test_a_deadlock_is_reported() -> None:
    made, (_, scheduled) = program("gemm"), loops("gemm")
    shallow = replace(made, channels=tuple(replace(channel, depth=1) for channel in made.channels))
    with pytest.raises(HazardError, match="deadlock"):
        simulate(shallow, scheduled, same(4), COSTS)
