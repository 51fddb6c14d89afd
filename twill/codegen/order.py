"""In which order the groups take the tensor core, and how an order that nothing else forces is kept.

Takes the tasks of a loop; gives `Turn`s: consecutive products of one group, and the hand-overs between them. In every interval the last
product of a turn is followed by a signal and the first of the next turn preceded by a wait.
"""

from collections import deque
from dataclasses import dataclass

from twill.codegen.nodes import Scheduled, Task


@dataclass(frozen=True, slots=True)
class Handover:
    """After product `after`, group `signaller` lets group `waiter` issue `before`."""

    after: str
    before: str
    signaller: int
    waiter: int
    wraps: bool
    """The wait belongs to the interval after that of the signal."""


def handovers(scheduled: Scheduled, products: tuple[Task, ...]) -> tuple[Handover, ...]:
    """Between consecutive turns, round the interval; those that dependences force are left out. None where one group has them all."""
    interval = scheduled.solution.interval
    ordered = sorted(products, key=lambda task: (task.start % interval, task.group))
    turns: list[list[Task]] = []
    for task in ordered:
        if turns and turns[-1][-1].group == task.group:
            turns[-1].append(task)
        else:
            turns.append([task])
    if len(turns) > 1 and turns[0][0].group == turns[-1][0].group:
        turns[0] = [*turns.pop(), *turns[0]]
    if len(turns) < 2:
        return ()
    pairs = zip(turns, [*turns[1:], turns[0]], strict=True)
    found = (_handover(scheduled, one[-1], other[0]) for one, other in pairs)
    return tuple(handover for handover in found if not _forced(scheduled, handover))


def _handover(scheduled: Scheduled, after: Task, before: Task) -> Handover:
    interval = scheduled.solution.interval
    wraps = before.start % interval <= after.start % interval
    return Handover(after.id, before.id, after.group, before.group, wraps)


def _forced(scheduled: Scheduled, handover: Handover) -> bool:
    """A path of dependences leads from the one to the other, of no more iterations than lie between them in the schedule."""
    interval = scheduled.solution.interval
    apart = scheduled.start(handover.after) // interval - scheduled.start(handover.before) // interval + handover.wraps
    todo, seen = deque([(handover.after, 0)]), {(handover.after, 0)}
    while todo:
        node, distance = todo.popleft()
        for edge in scheduled.problem.edges:
            state = (edge.dst, distance + edge.distance)
            if edge.src == node and state[1] <= apart and state not in seen:
                if edge.dst == handover.before:
                    return True
                seen.add(state)
                todo.append(state)
    return False
