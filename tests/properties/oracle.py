"""The reference of the property tests: an exhaustive search over partitions, start times and addresses, for
tiny problems.

Takes a `Problem`; gives the best answer in the stated order: smallest interval, then fewest groups, fewest
cross-group channels, fewest stages, shortest length. Nothing is encoded and nothing is shared with the
engines or the verifier: every rule is counted out, one unit of time at a time, on each candidate. A partial
schedule that breaks a rule is dropped, which is safe because no rule is mended by adding an operation; and
where no start is pinned, some operation may as well start at 0. Clear and slow: up to about six operations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from twill.ir.problem import Edge, Limits, Problem, Time, Value
from twill.ir.schedule import Allocation, Group, Solution
from twill.verify.packing import Box, pack

Starts = Mapping[str, Time]
Span = tuple[Time, Time]


class TooLargeError(Exception):
    """The search visited more partial schedules than it was allowed to."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The best schedule there is, and the figures in the order in which they were made small."""

    interval: Time
    groups: int
    channels: int
    stages: int
    length: Time
    solution: Solution


@dataclass(frozen=True, slots=True)
class _Case:
    """One interval, one partition, schedules of at most `stages` stages and length `length`; `visits` counts
    partial schedules down."""

    problem: Problem
    interval: Time
    stages: int
    length: Time
    group: Mapping[str, int]
    joint: bool
    visits: list[int]
    gaps: Mapping[tuple[str, str], Time]
    """Least s(b) - s(a) that the dependences between a and b force, where they force any."""
    widths: Mapping[int, int]


def search(
    problem: Problem, in_flight: int, last: Time, *, joint: bool = True, visits: int = 10**7
) -> Answer | None:
    """The best answer of length <= in_flight * I at the smallest interval up to `last` that has one; raises
    `TooLargeError`."""
    left = [visits]
    found = (best(problem, interval, in_flight, joint=joint, left=left) for interval in range(1, last + 1))
    return next((answer for answer in found if answer is not None), None)


def best(
    problem: Problem, interval: Time, in_flight: int, *, joint: bool = True, left: list[int] | None = None
) -> Answer | None:
    """The best answer at one interval; `left` counts the partial schedules still allowed."""
    visits = left if left is not None else [10**7]
    if not _whole_iteration_fits(problem, interval):
        return None
    ranked = (
        sorted(partitions(problem), key=lambda group: _rank(problem, group))
        if joint
        else [dict.fromkeys(_ids(problem), 0)]
    )
    champion: Answer | None = None
    for group in ranked:
        rank = _rank(problem, group)
        if champion and rank > (champion.groups, champion.channels):
            break
        case = _case(problem, interval, group, joint, visits)
        if case is None:
            continue
        most = in_flight + 1  # an operation of no duration may start as the last interval ends
        for stages in range(1, (champion.stages if champion else most) + 1):
            longest = champion.length - 1 if champion and stages == champion.stages else in_flight * interval
            solution = _shortest(replace(case, stages=stages, length=longest))
            if solution:
                champion = Answer(interval, *rank, stages, solution.length(problem), solution)
                break
    return champion


def _shortest(case: _Case) -> Solution | None:
    """The last of ever shorter solutions."""
    found: Solution | None = None
    while solution := next(_solutions(case), None):
        found, case = solution, replace(case, length=solution.length(case.problem) - 1)
    return found


def partitions(problem: Problem) -> Iterator[dict[str, int]]:
    """Every assignment to groups that keeps VARIABLE, TOGETHER, APART, GROUPS and THREADS, each up to
    renaming of groups once."""
    fixed = {op.id: 0 for op in problem.operations if op.variable}
    free = [op.id for op in problem.operations if not op.variable]
    for labels in _growth(len(free), problem.limits.groups):
        group = fixed | dict(zip(free, labels, strict=True))
        if _partition_allowed(problem, group):
            yield {op: group[op] for op in _ids(problem)}


def _growth(count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Labels from 1 on, each at most one above all before it: set partitions in restricted growth form."""
    if count == 0:
        yield ()
        return
    for head in _growth(count - 1, most):
        for label in range(1, min(most, max(head, default=0) + 1) + 1):
            yield (*head, label)


def _partition_allowed(problem: Problem, group: Mapping[str, int]) -> bool:
    widths, limits = _widths(problem, group), problem.limits
    return (
        len(widths) <= limits.groups
        and sum(w for w in widths.values() if w > 1) + 4 * _narrow(widths) <= limits.warps
        and all(len({group[op] for op in ops}) == 1 for ops in problem.together if ops)
        and all(group[a] != group[b] for a, b in problem.apart)
    )


def _widths(problem: Problem, group: Mapping[str, int]) -> dict[int, int]:
    used = sorted(set(group.values()))
    return {g: max(op.warps for op in problem.operations if group[op.id] == g) for g in used}


def _narrow(widths: Mapping[int, int]) -> int:
    """Warpgroups that groups of one warp fill, four to one."""
    return (sum(w == 1 for w in widths.values()) + 3) // 4


def _rank(problem: Problem, group: Mapping[str, int]) -> tuple[int, int]:
    """Groups used, and the distinct pairs of a source and another group that reads it, streaming sources left
    out."""
    pairs = {
        (e.src, group[e.dst])
        for e in problem.edges
        if group[e.src] != group[e.dst] and not problem.operation(e.src).streaming
    }
    return len(set(group.values())), len(pairs)


def _ids(problem: Problem) -> list[str]:
    return [op.id for op in problem.operations]


def _whole_iteration_fits(problem: Problem, interval: Time) -> bool:
    """UNITS summed over an iteration: all there is to an aggregate unit."""
    need = {unit.name: 0 for unit in problem.units}
    for r in (r for op in problem.operations for r in op.reservations):
        need[r.unit] += r.amount * r.cycles
    return all(need[unit.name] <= unit.capacity * interval for unit in problem.units)


def _case(
    problem: Problem, interval: Time, group: Mapping[str, int], joint: bool, visits: list[int]
) -> _Case | None:
    """No stage and no length yet; None where the dependences alone refute the interval."""
    gaps = _gaps(problem, interval, group)
    if any(gaps.get((op, op), 0) > 0 for op in _ids(problem)):
        return None
    return _Case(problem, interval, 0, 0, group, joint, visits, gaps, _widths(problem, group))


def _gaps(problem: Problem, interval: Time, group: Mapping[str, int]) -> dict[tuple[str, str], Time]:
    """DEPENDENCE, closed over paths (Floyd and Warshall)."""
    gaps: dict[tuple[str, str], Time] = {}
    for e in problem.edges:
        delay = e.delay if group[e.src] == group[e.dst] else e.crossing
        gaps[e.src, e.dst] = max(
            gaps.get((e.src, e.dst), delay - e.distance * interval), delay - e.distance * interval
        )
    for via in _ids(problem):
        before = [(a, gap) for (a, b), gap in gaps.items() if b == via]
        after = [(b, gap) for (a, b), gap in gaps.items() if a == via]
        for a, first in before:
            for b, second in after:
                gaps[a, b] = max(gaps.get((a, b), first + second), first + second)
    return gaps


def _solutions(case: _Case) -> Iterator[Solution]:
    """All solutions whose first start is 0, or whose pinned starts are as they must be."""
    windows = {
        op.id: (0, min(case.length - op.duration, case.stages * case.interval - 1))
        for op in case.problem.operations
    }
    if case.problem.starts or not windows:
        for op, time in case.problem.starts:
            low, high = windows[op]
            windows[op] = (max(low, time), min(high, time))
        yield from _extend(case, {}, windows)
        return
    for anchor in windows:
        yield from _extend(case, {}, _anchored(windows, anchor))


def _anchored(windows: Mapping[str, Span], anchor: str) -> dict[str, Span]:
    """The anchor at 0, and whatever stands before it in the order later than that, so that every schedule is
    met once."""
    earlier = takewhile(lambda op: op != anchor, windows)
    return {**windows, **{op: (1, windows[op][1]) for op in earlier}, anchor: (0, min(0, windows[anchor][1]))}


def _extend(case: _Case, start: Starts, windows: Mapping[str, Span]) -> Iterator[Solution]:
    """Gives the operation with the smallest window each of its starts, as long as no rule breaks."""
    case.visits[0] -= 1
    if case.visits[0] < 0:
        raise TooLargeError
    if not _allowed(case, start):
        return
    if not windows:
        yield from _complete(case, start)
        return
    op = min(windows, key=lambda o: windows[o][1] - windows[o][0])
    low, high = windows[op]
    for time in range(low, high + 1):
        rest = {
            other: _narrowed(case, op, time, other, window)
            for other, window in windows.items()
            if other != op
        }
        if all(a <= b for a, b in rest.values()):
            yield from _extend(case, {**start, op: time}, rest)


def _narrowed(case: _Case, op: str, time: Time, other: str, window: Span) -> Span:
    low, high = window
    after, before = case.gaps.get((op, other)), case.gaps.get((other, op))
    return (low if after is None else max(low, time + after)), (
        high if before is None else min(high, time - before)
    )


def _allowed(case: _Case, start: Starts) -> bool:
    """No rule is broken among the operations that have a start."""
    return _units_fit(case, start) and (
        not case.joint
        or (
            _issue_free(case, start) and _registers_fit(case, start) is not None and _memory_fits(case, start)
        )
    )


def _units_fit(case: _Case, start: Starts) -> bool:
    for unit in (unit for unit in case.problem.units if not unit.aggregate):
        level = [0] * case.interval
        for op in (case.problem.operation(op) for op in start):
            for r in (r for r in op.reservations if r.unit == unit.name):
                _count(level, (start[op.id] + r.offset, start[op.id] + r.offset + r.cycles), r.amount)
        if max(level) > unit.capacity:
            return False
    return True


def _count(level: list[int], span: Span, amount: int) -> None:
    for time in range(*span):
        level[time % len(level)] += amount


def _issue_free(case: _Case, start: Starts) -> bool:
    """CONCURRENCY, one unit of time at a time: a waiting operation does not start while its group is issuing
    another."""
    waiting = {e.dst for e in case.problem.edges if e.dst in start and _waits(case, e)}
    return not any(
        (start[other] + tick - start[v]) % case.interval == 0
        for v in waiting
        for other in start
        if other != v and case.group[other] == case.group[v]
        for tick in range(case.problem.operation(other).undivided)
    )


def _waits(case: _Case, edge: Edge) -> bool:
    same = case.group[edge.src] == case.group[edge.dst]
    return edge.blocking if same else not case.problem.operation(edge.src).streaming


def _registers_fit(case: _Case, start: Starts) -> tuple[Group, ...] | None:
    """REGISTERS: the groups with what they are granted; None where that is too much."""
    limits = case.problem.limits
    levels = {g: [0] * case.interval for g in case.widths}
    for value in (v for v in case.problem.values if v.registers and v.src in start):
        for group, span in _holders(case, start, value):
            _count(levels[group], span, value.registers)
    groups = tuple(
        Group(g, w, _grant(limits, max(levels[g])) if w > 1 else limits.narrow_registers)
        for g, w in case.widths.items()
    )
    wide = [g for g in groups if g.warps > 1]
    total = sum(32 * g.warps * g.registers for g in wide) + 128 * limits.narrow_registers * _narrow(
        case.widths
    )
    fits = total <= limits.registers_total and all(g.registers <= limits.registers_per_thread for g in wide)
    return groups if fits else None


def _grant(limits: Limits, peak: int) -> int:
    least = limits.register_base + peak
    return next(r for r in range(least, least + limits.register_step) if r % limits.register_step == 0)


def _holders(case: _Case, start: Starts, value: Value) -> Iterator[tuple[int, Span]]:
    """Who keeps the value in registers and when, as far as its readers have starts."""
    home, born = case.group[value.src], start[value.src]
    reads = [
        (case.group[u.op], start[u.op] + u.distance * case.interval, u.hold)
        for u in value.uses
        if u.op in start
    ]
    away = any(case.group[u.op] != home for u in value.uses)
    ends = [begin + hold for group, begin, hold in reads if group == home]
    transfer = born + case.problem.operation(value.src).latency if away else born
    yield home, (born, born + case.interval if value.resident else max([born, transfer, *ends]))
    for other in sorted({group for group, _, _ in reads} - {home}):
        mine = [(begin, begin + hold) for group, begin, hold in reads if group == other]
        yield other, (min(a for a, _ in mine), max(b for _, b in mine))


def _memory_fits(case: _Case, start: Starts) -> bool:
    boxes = _boxes(case, start)
    for memory, capacity in _capacities(case.problem):
        level = [0] * case.interval
        for key, box in boxes.items():
            for residue in box.residues if key[1] == memory else ():
                level[residue] += box.size
        if max(level) > capacity:
            return False
    return True


def _capacities(problem: Problem) -> tuple[tuple[str, int], ...]:
    return ("shared", problem.limits.shared), ("tensor", problem.limits.tensor)


Key = tuple[str, str, bool]


def _boxes(case: _Case, start: Starts) -> dict[Key, "Box"]:
    """What has to lie in which memory, as far as starts are known: key (value, memory, staging)."""
    boxes: dict[Key, Box] = {}
    for value in (v for v in case.problem.values if v.src in start):
        born = start[value.src]
        reads = [
            (case.group[u.op], start[u.op] + u.distance * case.interval + u.hold)
            for u in value.uses
            if u.op in start
        ]
        dies = born + case.interval if value.resident else max([born, *(end for _, end in reads)])
        given = max([born, *(end for group, end in reads if group != case.group[value.src])])
        boxes[value.id, "shared", False] = _box(case, value.shared, (born, dies), value.slots)
        boxes[value.id, "tensor", False] = _box(case, value.tensor, (born, dies), value.slots)
        boxes[value.id, "shared", True] = _box(case, value.staging, (born, given), 0)
    return {key: box for key, box in boxes.items() if box.size}


def _box(case: _Case, size: int, span: Span, slots: int) -> Box:
    """One slot shared where it is dead; or as many as iterations meet, plus its extra slots, at all
    residues."""
    iterations = -(-(span[1] - span[0]) // case.interval) + slots
    if iterations == 1 and not slots:
        return Box(size, 1, frozenset(time % case.interval for time in range(*span)))
    return Box(size * iterations, iterations, frozenset(range(case.interval)))


def _complete(case: _Case, start: Starts) -> Iterator[Solution]:
    """The solution, where its values can be laid down."""
    ids = _ids(case.problem)
    solution = Solution(case.interval, tuple(start[op] for op in ids), tuple(case.group[op] for op in ids))
    if not case.joint:
        yield solution
        return
    boxes = _boxes(case, start)
    placed = [_lay(boxes, memory, capacity) for memory, capacity in _capacities(case.problem)]
    groups = _registers_fit(case, start)
    if groups is not None and all(p is not None for p in placed):
        yield replace(
            solution, groups=groups, allocations=tuple(chain(*(p for p in placed if p is not None)))
        )


def _lay(boxes: Mapping[Key, Box], memory: str, capacity: int) -> tuple[Allocation, ...] | None:
    mine: Sequence[tuple[Key, Box]] = [(key, box) for key, box in boxes.items() if key[1] == memory]
    addresses = pack([box for _, box in mine], capacity)
    if addresses is None:
        return None
    return tuple(
        Allocation(
            key[0],
            "shared" if memory == "shared" else "tensor",
            address,
            box.size // box.slots,
            box.slots,
            key[2],
        )
        for (key, box), address in zip(mine, addresses, strict=True)
    )


def issues_in_order(problem: Problem, found: Solution) -> bool:
    """Whether no group issues two operations at once."""
    ops = range(len(problem.operations))
    return all(
        (found.start[b] - found.start[a]) % found.interval >= problem.operations[a].issue
        for a in ops
        for b in ops
        if a != b and found.group[a] == found.group[b] and problem.operations[b].issue
    )
