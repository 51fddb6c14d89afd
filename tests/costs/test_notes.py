"""Notes on costs: estimates that set the bound, and loads that a whole grid slows down."""

from dataclasses import replace

from tests.samples import attention
from twill.costs.machine import load
from twill.costs.notes import binding_estimates, grid_loads
from twill.inputs import Inputs, cases
from twill.ir.schedule import RecurrenceBound, ResourceBound


def test_estimates_of_the_binding_unit_are_named() -> None:
    sample = attention()
    ops = [op.id for op in sample.problem.operations if any(use.unit == "TC" for use in op.reservations)]
    bounds = replace(sample.bounds, resource=ResourceBound("TC", 1000), recurrence=RecurrenceBound(1))
    (line,) = binding_estimates(sample.problem, bounds, {ops[0]: "latency estimate", ops[1]: "measured"})
    assert line.startswith("unit TC sets the bound")
    assert line.endswith(f"{ops[0]} (1 of its {len(ops)} operations)")
    assert list(binding_estimates(sample.problem, bounds, dict.fromkeys(ops, "measured"))) == []


def test_estimates_of_the_binding_circuit_are_named() -> None:
    sample = attention()
    first = sample.problem.operations[0].id
    bounds = replace(sample.bounds, resource=ResourceBound("TC", 1), recurrence=RecurrenceBound(9, (first,)))
    (line,) = binding_estimates(sample.problem, bounds, {first: "Estimate"})
    assert line.startswith("a circuit sets the bound")
    assert first in line


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
