"""In which order the groups take the tensor core, and how an order that nothing else forces is kept.

Takes the products of a loop as tasks; gives the `HandOff`s between turns, a turn being consecutive products of one group. In every
interval the last product of a turn is followed by a signal and the first of the next turn preceded by a wait.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from twill.ir.problem import Time
from twill.warp.tasks import Scheduled, Task


@dataclass(frozen=True, slots=True)
class HandOff:
    """After product `after`, group `signaller` lets group `waiter` issue `before`."""

    after: str
    before: str
    signaller: int
    waiter: int
    wraps: bool
    """The wait belongs to the interval after that of the signal."""


def hand_offs(scheduled: Scheduled, products: tuple[Task, ...]) -> tuple[HandOff, ...]:
    """Between the first turns of the groups, round the interval; those that dependences force are left out. None where one group has all
    products. One turn an interval keeps the groups apart; further ones find their places in the tensor core's queue (measured: four
    turns instead of two cost a tenth, benchmarks/notebook.md)."""
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
    taken = list({turn[0].group: turn for turn in reversed(turns)}.values())[::-1]
    if len(taken) < 2:
        return ()
    pairs = zip(taken, [*taken[1:], taken[0]], strict=True)
    found = (_handover(scheduled, one[-1], other[0]) for one, other in pairs)
    return tuple(hand_off for hand_off in found if not _forced(scheduled, hand_off))


def _handover(scheduled: Scheduled, after: Task, before: Task) -> HandOff:
    interval = scheduled.solution.interval
    wraps = before.start % interval <= after.start % interval
    return HandOff(after.id, before.id, after.group, before.group, wraps)


def ahead(scheduled: Scheduled, hand_off: HandOff, shifts: Mapping[int, Time]) -> int:
    """How many intervals of the waiter after that of the signaller the wait for a signal stands, where intervals begin at `shifts`."""
    interval = scheduled.solution.interval
    given, taken = (
        (scheduled.start(node) - shifts[group]) % interval + shifts[group]
        for node, group in ((hand_off.after, hand_off.signaller), (hand_off.before, hand_off.waiter))
    )
    return (given - taken) // interval + 1


def _forced(scheduled: Scheduled, hand_off: HandOff) -> bool:
    """A path of dependences leads from the one to the other, of no more iterations than lie between them in the schedule."""
    interval = scheduled.solution.interval
    apart = scheduled.start(hand_off.after) // interval - scheduled.start(hand_off.before) // interval + hand_off.wraps
    todo, seen = deque([(hand_off.after, 0)]), {(hand_off.after, 0)}
    while todo:
        node, distance = todo.popleft()
        for edge in scheduled.problem.edges:
            state = (edge.dst, distance + edge.distance)
            if edge.src == node and state[1] <= apart and state not in seen:
                if edge.dst == hand_off.before:
                    return True
                seen.add(state)
                todo.append(state)
    return False
