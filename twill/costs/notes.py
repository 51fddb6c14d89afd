"""What to know of the costs behind a result: estimates that set its bound, and loads that a whole grid slows
down.

Takes a problem with its bounds, and where its costs come from; gives a line for each.
"""

from collections.abc import Iterator, Mapping

from twill.ir.graph import Graph
from twill.ir.machine import Machine
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Bounds

SHOWN = 6
"""Operations that a line names."""


def estimated(source: str) -> bool:
    """The machine file calls a number of this cost an estimate."""
    return "estimate" in source.lower()


def binding_estimates(problem: Problem, bounds: Bounds, sources: Mapping[str, str]) -> Iterator[str]:
    """The operations of the unit or circuit that sets the lower bound whose costs are estimates."""
    unit, resource = bounds.resource.unit, bounds.resource.value >= bounds.recurrence.value
    users = (op.id for op in problem.operations if any(r.unit == unit and r.cycles for r in op.reservations))
    binding = tuple(dict.fromkeys(users if resource else bounds.recurrence.ops))
    marked = [op for op in binding if estimated(sources.get(op, ""))]
    if marked:
        what = f"unit {unit}" if resource else "a circuit"
        more = f" and {len(marked) - SHOWN} more" if len(marked) > SHOWN else ""
        yield (
            f"{what} sets the bound with costs that are estimates in the machine file:"
            f" {', '.join(marked[:SHOWN])}{more} ({len(marked)} of its {len(binding)} operations)"
        )


def grid_loads(graph: Graph, machine: Machine, interval: Time) -> Iterator[str]:
    """Where the loads of one iteration need more than L2 gives an SM when all of them load. That does not
    depend on the instruction: one SM alone gets three times as much."""
    share = machine.loads.grid
    loads = (node.id for node in graph.nodes if node.kind == "load")
    loaded = sum(value.tile.bytes for load in loads for value in graph.made(load))
    if share is not None and loaded > share * interval:
        yield (
            f"an SM loads {loaded / interval:.0f} bytes per cycle; where all SMs load at once, each of them"
            f" tiles of its own, L2 gives one {share:g}, and an iteration takes {-(-loaded // share):.0f}"
            " cycles (tiles that several SMs load at the same time come faster)"
        )
