"""Notes on costs: estimates that set the bound, and loads that a whole grid slows down."""

from dataclasses import replace

from tests.samples import attention
from twill.costs.machine import load
from twill.costs.notes import binding_estimates, estimated_capacity, estimates_of, grid_loads
from twill.inputs import Inputs, cases
from twill.ir.schedule import RecurrenceBound, ResourceBound
from twill.modulo.bounds import bounds as lower_bounds


def test_estimates_of_the_binding_unit_are_named() -> None:
    sample = attention()
    ops = [op.id for op in sample.problem.operations if any(use.unit == "TC" for use in op.reservations)]
    bounds = replace(sample.bounds, resource=ResourceBound("TC", 1000), recurrence=RecurrenceBound(1))
    estimates = {ops[0]: ("rate.TC.f16",), ops[1]: ("latency", "rate.SFU", "rate.TC2")}
    (line,) = binding_estimates(sample.problem, bounds, estimates)
    assert line.startswith("unit TC sets the bound")
    assert line.endswith(f"{ops[0]} (1 of its {len(ops)} operations)")
    assert list(binding_estimates(sample.problem, bounds, dict.fromkeys(ops, ("issue", "latency")))) == []


def test_estimates_of_the_binding_circuit_are_named() -> None:
    sample = attention()
    first, second = (op.id for op in sample.problem.operations[:2])
    circuit = RecurrenceBound(9, (first, second))
    bounds = replace(sample.bounds, resource=ResourceBound("TC", 1), recurrence=circuit)
    (line,) = binding_estimates(sample.problem, bounds, {first: ("latency",), second: ("issue",)})
    assert line.startswith("a circuit sets the bound")
    assert line.endswith(f": {first} (1 of its 2 operations)")


def test_a_measured_rate_is_no_estimate_though_another_number_is() -> None:
    """wgmma's rate is measured; what its launch holds the warp is not."""
    (case,) = cases(Inputs("examples/ttgir/gemm.sm90.ttgir"))
    assert case.graph is not None
    estimates = estimates_of(case.graph, load("h200"))
    assert estimates["dot.acc_9"] == ("issue",)
    assert list(binding_estimates(case.problem, lower_bounds(case.problem), estimates)) == []


def test_instructions_count_on_the_unit_of_issue_slots() -> None:
    (case,) = cases(Inputs("examples/ttgir/fa_fwd.sm90.ttgir"))
    assert case.graph is not None
    h200 = load("h200")
    counted = replace(
        h200,
        costs={name: replace(cost, between={"instructions": (1, 2)}) for name, cost in h200.costs.items()},
    )
    assert set(estimates_of(case.graph, counted).values()) == {("rate.issue",)}


def test_an_estimated_capacity_is_named() -> None:
    bounds = replace(attention().bounds, resource=ResourceBound("issue", 9), recurrence=RecurrenceBound(1))
    (line,) = estimated_capacity(bounds, load("b200"))
    assert line.startswith("unit issue sets the bound with a capacity")
    assert list(estimated_capacity(replace(bounds, resource=ResourceBound("sfu", 9)), load("b200"))) == []


def test_loads_beyond_the_share_of_an_sm_are_noted() -> None:
    """A GEMM of 128 x 256 x 64 loads 48 KB in 1024 cycles: 48 bytes per cycle, more than 35."""
    (case,) = cases(Inputs("examples/ttgir/gemm.sm90.ttgir"))
    assert case.graph is not None
    (line,) = grid_loads(case.graph, load("h200"), 1024)
    assert line.startswith("an SM loads 48 bytes per cycle;")
    assert "L2 gives one 35, and an iteration takes 1405 cycles" in line
    assert list(grid_loads(case.graph, load("h200"), 1405)) == []
    assert list(grid_loads(case.graph, load("b200"), 512)) == []


def test_loads_through_pointers_count_as_well() -> None:
    """L2 gives no more to asynchronous copies of threads than to TMA."""
    (case,) = cases(Inputs("tests/kernels/ttgir/columns.sm90.ttgir"))
    assert case.graph is not None
    assert {work.op for node in case.graph.nodes if node.kind == "load" for work in node.work} == {"tt.load"}
    loaded = 8192 + 16384
    assert list(grid_loads(case.graph, load("h200"), -(-loaded // 35))) == []
    (line,) = grid_loads(case.graph, load("h200"), 512)
    assert line.startswith(f"an SM loads {loaded // 512} bytes per cycle;")
