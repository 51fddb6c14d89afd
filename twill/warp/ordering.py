"""Ordering barriers: in which order the groups use the tensor core, where no dependence enforces that order.

Takes the MMAs of a loop as tasks; gives the `HandOff`s of the tensor core between runs, a run being
consecutive MMAs of one group. In every interval the last MMA of a run is followed by a signal and the first
of the next run preceded by a wait: also in the intervals of prologue and epilogue that issue none of the two.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from twill.ir.problem import Time
from twill.warp.tasks import Scheduled, Task


@dataclass(frozen=True, slots=True)
class HandOff:
    """After MMA `after`, group `signaller` signals group `waiter`, which then issues `before`."""

    after: str
    before: str
    signaller: int
    waiter: int
    wraps: bool
    """The wait belongs to the interval after that of the signal."""


def hand_offs(scheduled: Scheduled, mmas: tuple[Task, ...]) -> tuple[HandOff, ...]:
    """Between the first runs of the groups, around the interval. None where one group has all MMAs, or where
    dependences enforce the whole order. Where they enforce a part of it, that part has hand-offs too: in
    intervals of prologue and epilogue without its MMAs a group would signal a second time before the first
    signal is consumed. One run per interval and group keeps the groups apart; the tensor
    core's queue orders further ones (measured: four hand-offs instead of two cost a tenth,
    benchmarks/notebook.md). None either for a loop of one iteration: the group that comes to it first goes
    first."""
    if _once(scheduled):
        return ()
    interval = scheduled.solution.interval
    ordered = sorted(mmas, key=lambda task: (task.start % interval, task.group))
    runs: list[list[Task]] = []
    for task in ordered:
        if runs and runs[-1][-1].group == task.group:
            runs[-1].append(task)
        else:
            runs.append([task])
    if len(runs) > 1 and runs[0][0].group == runs[-1][0].group:
        runs[0] = [*runs.pop(), *runs[0]]
    first = dict[int, list[Task]]()
    for run in runs:
        first.setdefault(run[0].group, run)
    taken = list(first.values())
    if len(taken) < 2:
        return ()
    pairs = zip(taken, [*taken[1:], taken[0]], strict=True)
    found = tuple(_hand_off(scheduled, one[-1], other[0]) for one, other in pairs)
    return () if all(_forced(scheduled, hand_off) for hand_off in found) else found


def _once(scheduled: Scheduled) -> bool:
    """Whether the loop has one iteration at most, and is scheduled so."""
    most = scheduled.loop.most_trips
    return most is not None and most <= 1 and scheduled.solution.in_flight(scheduled.problem) == 1


def _hand_off(scheduled: Scheduled, after: Task, before: Task) -> HandOff:
    interval = scheduled.solution.interval
    wraps = before.start % interval <= after.start % interval
    return HandOff(after.id, before.id, after.group, before.group, wraps)


def ahead(scheduled: Scheduled, hand_off: HandOff, shifts: Mapping[int, Time]) -> int:
    """How many intervals of the waiter after that of the signaller the wait for a signal stands, where
    intervals begin at `shifts`."""
    interval = scheduled.solution.interval
    given, taken = (
        (scheduled.start(node) - shifts[group]) % interval + shifts[group]
        for node, group in ((hand_off.after, hand_off.signaller), (hand_off.before, hand_off.waiter))
    )
    return (given - taken) // interval + 1


def _forced(scheduled: Scheduled, hand_off: HandOff) -> bool:
    """A path of dependences leads from the one to the other, of no more iterations than lie between them in
    the schedule."""
    interval = scheduled.solution.interval
    apart = (
        scheduled.start(hand_off.after) // interval
        - scheduled.start(hand_off.before) // interval
        + hand_off.wraps
    )
    todo, seen = deque([(hand_off.after, 0)]), {(hand_off.after, 0)}
    while todo:
        node, distance = todo.popleft()
        leaving = (edge for edge in scheduled.problem.edges if edge.src == node)
        near = ((edge.dst, distance + edge.distance) for edge in leaving if distance + edge.distance <= apart)
        for state in (one for one in near if one not in seen):
            if state[0] == hand_off.before:
                return True
            seen.add(state)
            todo.append(state)
    return False
