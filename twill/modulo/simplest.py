"""Lower bounds on what is minimized after the interval, and whether a schedule meets them all.

Takes a `Problem` and a schedule of it; gives the goals that no other schedule at its interval improves, by
counting, longest paths and a small branch and bound. A schedule that meets them all needs no solver.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

from twill.engine import decode
from twill.ir.problem import Edge, Problem, Time
from twill.ir.schedule import Solution

Labels = Sequence[int]
"""Group label of every operation."""

Link = tuple[int, int, Time]
"""(a, b, w): b starts at least w after a."""

Machine = str | int
"""What runs one operation at a time: a unit, by name, or the instruction issue of a group, by label."""


@dataclass(frozen=True, slots=True)
class Window:
    """Longest paths at one interval: an operation starts at `head` at the earliest, and the iteration ends
    `tail` after that start at the earliest."""

    head: tuple[Time, ...]
    tail: tuple[Time, ...]

    @property
    def longest(self) -> Time:
        """Cycles that one iteration takes at least."""
        return max((h + t for h, t in zip(self.head, self.tail, strict=True)), default=0)


@dataclass(frozen=True, slots=True)
class Proven:
    """Which goals of a schedule are at their lower bounds."""

    groups: bool
    channels: bool
    stages: bool
    length: bool

    @property
    def all(self) -> bool:
        return self.groups and self.channels and self.stages and self.length


def proven(problem: Problem, found: Solution, *, joint: bool, in_order: bool, length: bool = True) -> Proven:
    """Which goals of `found` are at their lower bounds, in the order groups, channels, stages, length: a
    bound holds for schedules that are as good by the goals before. `in_order`: of the schedules whose groups
    issue one operation after the other. Where `found` is `issuable`, fewer groups count only if those
    schedules are, too. Without `length`, which takes longest, nothing is said of that."""
    labels = tuple(int(not op.variable) for op in problem.operations)
    single = not joint or len(set(found.group)) == len(set(labels))
    fewest = single or len(set(found.group)) <= least_groups(problem, found)
    fixed = labels if single and joint else None
    window = windows(problem, found.interval, fixed, joint=joint)
    if window is None:
        return Proven(False, False, False, False)
    return Proven(
        fewest,
        single or not decode.channels(problem, found.group),
        found.stages <= 1 + max(window.head, default=0) // found.interval,
        length and no_shorter(problem, found, fixed, joint=joint, ordered=in_order and fixed is not None),
    )


def issuable(
    problem: Problem, interval: Time, labels: Labels, besides: Mapping[int, float] | None = None
) -> bool:
    """No group has more to issue in one iteration than fits an interval, with what it has `besides`; more of
    it the rules allow, but no warp issues two instructions at once."""
    issued = defaultdict[int, float](int, besides or {})
    for op, group in zip(problem.operations, labels, strict=True):
        issued[group] += 0 if op.variable else problem.held(op)
    return max(issued.values(), default=0) <= interval


def least_groups(problem: Problem, found: Solution) -> int:
    """One for loads, one for the rest; where `found` is issuable, as many as issue all that within an
    interval."""
    rest = [problem.held(op) for op in problem.operations if not op.variable]
    loads = len(rest) < len(problem.operations)
    needed = -(-sum(rest) // found.interval) if issuable(problem, found.interval, found.group) else 0
    return loads + max(bool(rest), needed)


def delay(problem: Problem, edge: Edge, labels: Labels | None, *, joint: bool) -> Time:
    """The delay of an edge under a partition; the cheaper one where there is none."""
    if not joint:
        return edge.delay
    if labels is None:
        return min(edge.delay, edge.crossing)
    same = labels[problem.index(edge.src)] == labels[problem.index(edge.dst)]
    return edge.delay if same else edge.crossing


def arcs(problem: Problem, interval: Time, labels: Labels | None, *, joint: bool) -> list[Link]:
    """What the edges ask for."""
    return [
        (
            problem.index(edge.src),
            problem.index(edge.dst),
            delay(problem, edge, labels, joint=joint) - edge.distance * interval,
        )
        for edge in problem.edges
    ]


def windows(
    problem: Problem,
    interval: Time,
    labels: Labels | None = None,
    *,
    joint: bool = True,
    links: Iterable[Link] = (),
) -> Window | None:
    """Earliest starts and shortest rests of the iteration; None where the dependences exclude the interval
    under this partition. `links` hold besides: (a, b, w), b starts at least w after a."""
    return _window(problem, [*arcs(problem, interval, labels, joint=joint), *links])


def _window(problem: Problem, links: Sequence[Link]) -> Window | None:
    heads = longest([0] * len(problem.operations), links)
    tails = longest([op.duration for op in problem.operations], [(b, a, w) for a, b, w in links])
    return None if heads is None or tails is None else Window(tuple(heads), tuple(tails))


def longest(least: Sequence[Time], links: Sequence[Link]) -> list[Time] | None:
    """The least numbers with x[b] >= x[a] + w for every link and x >= `least` (Bellman-Ford); None where a
    circuit pushes them without end."""
    found = list(least)
    for _ in range(len(found) + 1):
        moved = False
        for a, b, weight in links:
            if found[a] + weight > found[b]:
                found[b], moved = found[a] + weight, True
        if not moved:
            return found
    return None


def no_shorter(
    problem: Problem, found: Solution, labels: Labels | None, *, joint: bool, ordered: bool
) -> bool:
    """Whether no schedule under this partition is shorter than `found`: by longest paths and by the order of
    operations on each machine, both orders of a pair tried where neither is excluded."""
    links = arcs(problem, found.interval, labels, joint=joint)
    tasks = list(_tasks(problem, labels if ordered else None))
    return _Shorter(problem, tasks, found.length(problem) - 1, [NODES]).refuted(links)


NODES = 200
"""Orders of operations that are tried before the proof is left to a solver."""


@dataclass(frozen=True, slots=True)
class _Task:
    """What one operation keeps to itself of a machine that runs one at a time."""

    op: int
    machine: Machine
    offset: Time
    cycles: Time


def _tasks(problem: Problem, labels: Labels | None) -> Iterator[_Task]:
    alone = {unit.name for unit in problem.units if unit.capacity == 1 and not unit.aggregate}
    for i, op in enumerate(problem.operations):
        for use in op.reservations:
            if use.unit in alone and use.cycles and use.amount:
                yield _Task(i, use.unit, use.offset, use.cycles)
        if labels is not None and op.issue:
            yield _Task(i, labels[i], 0, problem.held(op))


@dataclass(frozen=True, slots=True)
class _Shorter:
    """Refutes all schedules of at most `length`, by branch and bound on the order of two tasks of a machine.

    Two windows that are disjoint modulo the interval are disjoint, so that one comes after the other.
    """

    problem: Problem
    tasks: Sequence[_Task]
    length: Time
    nodes: list[int]
    """How many more orders may be tried, in one element."""

    def refuted(self, links: list[Link]) -> bool:
        window = _window(self.problem, links)
        if window is None or self._too_long(window):
            return True
        pair = self._undecided(window)
        self.nodes[0] -= 1
        if pair is None or self.nodes[0] < 0:
            return False
        return all(self.refuted([*links, link]) for link in pair)

    def _too_long(self, window: Window) -> bool:
        """Carlier's bound on each machine, and the longest path."""
        found: defaultdict[Machine, list[tuple[Time, Time, Time]]] = defaultdict(list)
        for task in self.tasks:
            head, after = window.head[task.op] + task.offset, window.tail[task.op] - task.offset - task.cycles
            found[task.machine].append((head, task.cycles, after))
        return max([window.longest, *map(_one_by_one, found.values())]) > self.length

    def _undecided(self, window: Window) -> tuple[Link, Link] | None:
        """Both orders of two tasks that may overlap at their earliest starts."""
        for a, b in combinations(self.tasks, 2):
            if a.machine == b.machine and a.op != b.op and self._overlap(window, a, b):
                return _after(a, b), _after(b, a)
        return None

    def _overlap(self, window: Window, a: _Task, b: _Task) -> bool:
        first, second = window.head[a.op] + a.offset, window.head[b.op] + b.offset
        return first < second + b.cycles and second < first + a.cycles


def _after(a: _Task, b: _Task) -> Link:
    """`b` begins when `a` ends, or later."""
    return a.op, b.op, a.offset + a.cycles - b.offset


def _one_by_one(tasks: Sequence[tuple[Time, Time, Time]]) -> Time:
    """Of (earliest start, time, what follows): those that start no earlier than some, and have no less after
    them than some, follow each other."""
    best = 0
    for first in {head for head, _, _ in tasks}:
        late = sorted(((after, time) for head, time, after in tasks if head >= first), reverse=True)
        times = accumulate(time for _, time in late)
        best = max(best, *(first + total + after for total, (after, _) in zip(times, late, strict=True)))
    return best
