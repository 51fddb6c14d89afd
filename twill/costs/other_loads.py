"""Another choice of the loads that run ahead, where shared memory does not hold a further slot of each.

Of tiles of one size, the last ones of the text do not run ahead, and room is kept for all that operations
need while they run (`costs.model`). A reader waits for a load that does not run ahead, unless the reader
follows from another one, and a group that waits must not be issuing anything: waits exclude orders.
`others_ahead` keeps room for the largest of what operations need while they run, which is not needed at the
same time if one group executes them, and lets those loads go first that fewest readers wait for.

Attention backward with two tiles on an H200 (`fa_bwd_subtiled`): three of four loads run ahead so, all but
the second queries, and the order is found that measures best (reports/h200.md). If the second gradient does
not run ahead, its second reader is issued before a result is staged, and 4 bytes of registers are spilled.
"""

from collections.abc import Mapping

from twill.costs.model import fitting
from twill.ir.graph import Graph, Value
from twill.ir.problem import Problem


def others_ahead(problem: Problem, graph: Graph) -> Mapping[str, int]:
    """How many iterations each load may run ahead in this choice; none where it is that of the problem."""
    loads = {value.node: value for value in graph.values if graph.node(value.node).streaming}
    before = {value.src: value.slots for value in problem.values if value.src in loads}
    most = max(before.values(), default=0)
    if not most or min(before.values()) == most:
        return {}
    places, room = {load: i for i, load in enumerate(before)}, _room(problem)
    ahead = dict.fromkeys(before, most)
    order = sorted(
        ahead, key=lambda load: (-loads[load].tile.bytes, waiting(graph, loads[load]), -places[load])
    )
    ahead = fitting(ahead, [(load, loads[load].tile.bytes) for load in order], room)
    return ahead if ahead != before else {}


def _room(problem: Problem) -> int:
    """Bytes of shared memory beside one slot of each tile, and the most that an operation needs while it
    runs."""
    own = [value.shared for value in problem.values if all(use.op == value.src for use in value.uses)]
    return problem.limits.shared - sum(value.shared for value in problem.values) + sum(own) - max([0, *own])


def waiting(graph: Graph, load: Value) -> int:
    """How many readers of a load that does not run ahead may wait for it: those that follow from another one
    in an iteration find its tile there."""
    readers = {use.node for use in load.uses}
    return len(readers - set[str]().union(*(graph.following(reader) for reader in readers)))
