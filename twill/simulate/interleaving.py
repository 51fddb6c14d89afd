"""What the compiler of the generated code executes between the instructions of an MMA.

ptxas keeps asynchronous MMAs, waits and fences in order, and moves arithmetic that depends on none of them. A
sum of numbers that are there already, which the program has right behind the issue of an MMA, ends up behind
the MMA's first instruction: the others, and the tensor core, wait for it. (Profiles of twelve schedules of
attention forward on an H200, benchmarks/notebook.md: 53 of 64 additions.)
"""

from collections.abc import Iterator, Sequence

from twill.ir.problem import Problem
from twill.ir.statements import Compute, MmaIssue, SchedulingFence
from twill.ops.table import role_of
from twill.simulate.actions import Action


def mixed_in(actions: Sequence[Action], at: int, problem: Problem) -> Iterator[tuple[int, Action, str]]:
    """The reductions that are executed between the instructions of the MMA issued by `actions[at]`: those
    behind it, up to the next wait or issue, whose operands nothing in between computes; their places in
    `actions`, with their operations."""
    issued = actions[at].statement
    assert isinstance(issued, MmaIssue)
    made = {(issued.node, actions[at].iteration(issued.at.iteration))}
    for index in range(at + 1, len(actions)):
        action = actions[index]
        if isinstance(action.statement, SchedulingFence):
            continue
        if not isinstance(action.statement, Compute) or action.loop != actions[at].loop:
            return
        node, number = action.statement.node, action.number
        read = {(edge.src, number - edge.distance) for edge in problem.edges if edge.dst == node}
        if role_of(problem.operation(node).name) == "reduce" and not read & made:
            yield index, action, node
        else:
            made.add((node, number))
