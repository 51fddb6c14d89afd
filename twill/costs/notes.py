"""What to know of the costs behind a result: estimates that set its bound, and loads that a whole grid slows
down.

Takes a problem with its bounds, and where its costs come from; gives a line for each.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from twill.ir.graph import Graph, Node
from twill.ir.machine import Cost, Machine
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Bounds

SHOWN = 6
"""Operations that a line names."""
IN_CIRCUITS = ("rate", "latency", "latency_rate", "step")
"""Numbers of a cost that say how long a result takes."""


Estimates: TypeAlias = Mapping[str, Collection[str]]
"""The numbers of each operation's costs that are estimates, as paths in its table (`rate.sfu`), by operation
id; `rate.issue` stands for its instructions."""


def estimates_of(graph: Graph, machine: Machine) -> Estimates:
    """Those of a graph's operations, alternatives included: numbers that have a range (`between`)."""
    return {node.id: tuple(dict.fromkeys(_estimated(node, machine))) for node in graph.nodes}


def sources_of(graph: Graph, machine: Machine) -> dict[str, str]:
    """The sources of each operation's costs, by operation id."""
    found = {node.id: dict.fromkeys(cost.source for cost in _costs(node, machine)) for node in graph.nodes}
    return {op: "; ".join(sources) for op, sources in found.items() if sources}


def _costs(node: Node, machine: Machine) -> Iterator[Cost]:
    """Of its operations, alternatives included."""
    found = (machine.cost(work.op) for work in (*node.work, *node.otherwise))
    return (cost for cost in found if cost)


def _estimated(node: Node, machine: Machine) -> Iterator[str]:
    instructions = f"rate.{machine.issue.unit}" if machine.issue else "instructions"
    for path in (path for cost in _costs(node, machine) for path in cost.between):
        yield instructions if path == "instructions" else path


def binding_estimates(problem: Problem, bounds: Bounds, estimates: Estimates) -> Iterator[str]:
    """The operations of the unit or circuit that sets the lower bound, where how long they take the unit, or
    when their results are there, is an estimate."""
    unit, resource = bounds.resource.unit, bounds.resource.value >= bounds.recurrence.value
    users = (op.id for op in problem.operations if any(r.unit == unit and r.cycles for r in op.reservations))
    binding = tuple(dict.fromkeys(users if resource else bounds.recurrence.ops))
    counted = (f"rate.{unit}",) if resource else IN_CIRCUITS
    marked = [op for op in binding if any(_within(path, counted) for path in estimates.get(op, ()))]
    if marked:
        what = f"unit {unit}" if resource else "a circuit"
        more = f" and {len(marked) - SHOWN} more" if len(marked) > SHOWN else ""
        yield (
            f"{what} sets the bound with costs that are estimates in the machine file:"
            f" {', '.join(marked[:SHOWN])}{more} ({len(marked)} of its {len(binding)} operations)"
        )


def estimated_capacity(bounds: Bounds, machine: Machine) -> Iterator[str]:
    """Where the unit that sets the lower bound has a capacity that is an estimate."""
    unit, resource = bounds.resource.unit, bounds.resource.value >= bounds.recurrence.value
    if resource and ("units", unit, "capacity") in machine.between:
        yield f"unit {unit} sets the bound with a capacity that is an estimate in the machine file"


def _within(path: str, numbers: Collection[str]) -> bool:
    """A number of the table, or one inside of it (`rate.tensor.f16` in `rate.tensor`)."""
    return any(path == number or path.startswith(f"{number}.") for number in numbers)


def loaded(graph: Graph) -> int:
    """Bytes of the tiles that one iteration loads."""
    loads = (node.id for node in graph.nodes if node.kind == "load")
    return sum(value.tile.bytes for load in loads for value in graph.made(load))


def grid_loads(graph: Graph, machine: Machine, interval: Time) -> Iterator[str]:
    """Where the loads of one iteration need more than L2 gives an SM when all of them load. That does not
    depend on the instruction: one SM alone gets three times as much."""
    share, total = machine.loads.grid, loaded(graph)
    if share is not None and total > share * interval:
        yield (
            f"an SM loads {total / interval:.0f} bytes per cycle; where all SMs load at once, each of them"
            f" tiles of its own, L2 gives one {share:g}, and an iteration takes {-(-total // share):.0f}"
            " cycles (tiles that several SMs load at the same time come faster)"
        )
