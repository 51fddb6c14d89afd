"""Long operations of a group in slices, with what is due meanwhile between them.

Takes the group's events; gives them with every operation on tiles divided where the schedule issues an MMA,
or waits for one, while it is under way. What follows it chunk by chunk is divided likewise, and never
overtakes.

Operations that a wait may divide (`Operation.divisible`) go row by row: the exchange of one row's maximum
with other lanes then overlaps the exponentials of another (FlashAttention-3's order; attention forward on an
H200: 1%, reports/h200.md).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter

from twill.ir.loop import Op, Tensor
from twill.ir.problem import Time
from twill.ir.statements import SLICES
from twill.ops.table import is_elementwise, role
from twill.warp.dataflow import cheap
from twill.warp.events import Event, first_readers, is_mma
from twill.warp.kernel import Group
from twill.warp.tasks import Task

LAG = 2
"""Slices by which an operation follows another: results of the special-function unit are then there."""


def divided(group: Group, found: Sequence[Event]) -> list[Event]:
    """The events, with divided ones in several slices."""
    if group.flat or not group.kernel.settings.split:
        return list(found)
    waiting = {task.id for task in first_readers(group).values()}
    cuts = [
        event.time
        for event in found
        if event.task and event.channel is None and (event.span is not None or event.task.id in waiting)
    ]
    cut = [
        event
        for event in sorted(found, key=lambda event: event.time)
        if event.task and event.span is None and event.channel is None and _divisible(group, event.task)
    ]
    divisible = {event.task.id for event in cut if event.task}
    needed = _needed_whole(group, divisible)
    done = dict[str, dict[Time, int]]()
    for event in cut:
        assert event.task is not None
        done[event.task.id] = _slices(group, event.task, cuts, done, needed[event.task.id])
    return _by_rows(group, list(_in_parts(found, _streams(group, cut, done, waiting, needed))))


def _in_parts(found: Sequence[Event], done: Mapping[str, Mapping[Time, int]]) -> Iterator[Event]:
    for event in sorted(found, key=lambda event: event.time):
        whole = event.span is None and event.channel is None
        named = event.task.id if event.task and whole else ""
        yield from _parts(event, done.get(named, dict[Time, int]()))


# --- operations that go slice by slice one behind the other -----------------------------------------------


def _streams(
    group: Group,
    cut: Sequence[Event],
    done: Mapping[str, Mapping[Time, int]],
    waiting: Collection[str],
    needed: Mapping[str, Time],
) -> dict[str, Mapping[Time, int]]:
    """`done` with the neighbours of every operation that a wait divides, slice by slice: before it what it
    alone reads, behind it what reads nothing else. So the compiler finds work for all units next to each
    other (attention forward on an H200: 1 to 2%, reports/h200.md)."""
    problem, made = group.scheduled.problem, dict(done)
    waits = {group.when(event.time)[1] for event in cut if event.task and event.task.id in waiting}
    for event in cut:
        task = event.task
        assert task is not None
        within = {time: n for time, n in done[task.id].items() if n and group.when(time)[1] in waits}
        if not within or not problem.operation(task.id).divisible:
            continue
        starts = _starts(task, problem.operation(task.id).issue, within)
        if max(starts) >= needed[task.id]:
            continue
        made[task.id] = starts
        made |= dict.fromkeys(_leaders(group, cut, task, max(starts)), starts)
        made |= {other: _behind(starts) for other in _followers(group, cut, task)}
    return made


def _starts(task: Task, length: Time, within: Mapping[Time, int]) -> dict[Time, int]:
    """When each slice begins behind the first wait, and how many are done by then."""
    wait, first = min(within.items())
    return {max(wait, task.start + length * n // SLICES): n for n in range(first, SLICES)}


def _behind(starts: Mapping[Time, int]) -> dict[Time, int]:
    """Those of a follower, LAG slices behind; what is made before the first wait it reads there."""
    return {time: max(0, n - LAG) for time, n in starts.items()} | {min(starts): 0}


def _leaders(group: Group, cut: Sequence[Event], task: Task, last: Time) -> Iterator[str]:
    """Operations just before it that nothing else reads, and whose operands last."""
    edges = group.scheduled.problem.edges
    for event in cut:
        other = event.task
        assert other is not None
        readers = {edge.dst for edge in edges if edge.src == other.id and edge.kind == "data"}
        flagged = group.scheduled.problem.operation(other.id).divisible
        if (
            flagged
            and readers == {task.id}
            and other.start <= task.start
            and last < _overwritten(group, other)
        ):
            yield other.id


def _followers(group: Group, cut: Sequence[Event], task: Task) -> Iterator[str]:
    """Operations later in the same interval, with no MMA between, that read nothing else of the loop."""
    edges = group.scheduled.problem.edges
    issued = [group.when(other.start) for other in group.own if is_mma(group.code, other)]
    for event in cut:
        other = event.task
        assert other is not None
        read = {edge.src for edge in edges if edge.dst == other.id and edge.kind == "data"}
        begin, end = group.when(task.start), group.when(other.start)
        between = any(begin[1] <= cycle < end[1] for _, cycle in issued)
        if read == {task.id} and begin[0] == end[0] and begin[1] < end[1] and not between:
            yield other.id


def _by_rows(group: Group, parts: Sequence[Event]) -> list[Event]:
    """Row by row where all divided operations of the group may be: one that follows another slice by slice
    keeps its order."""
    divided = [event for event in parts if event.task and event.slices != (0, SLICES)]
    tasks = {event.task.id: event.task for event in divided if event.task}
    waited = any(group.scheduled.problem.operation(name).divisible for name in tasks)
    if not waited or not all(_row_by_row(group, task) for task in tasks.values()):
        return list(parts)
    return [replace(event, by_rows=event in divided) for event in parts]


def _row_by_row(group: Group, task: Task) -> bool:
    """It may be divided by a wait, or reduces rows."""
    return (
        group.scheduled.problem.operation(task.id).divisible or role(group.code.ops[task.ops[-1]]) == "reduce"
    )


def _divisible(group: Group, task: Task) -> bool:
    """All that it computes are tiles of one shape, at most reduced along rows in the end."""
    computed = [op for op in (group.code.ops[index] for index in task.ops) if not cheap(op)]
    if not task.writes or not computed or not all(op.results for op in computed):
        return False
    *rest, last = computed
    reduced = role(last) == "reduce" and len(last.results) == 1 and len(last.regions[0].blocks[0].ops) == 2
    tiles = [op.results[0].type for op in (rest if reduced else computed)] + (
        [last.operands[0].type] if reduced else []
    )
    plain = (
        reduced
        and last.attributes["axis"] == 1
        and last.results[0].id in {value.id for value in task.writes}
        and last.index == task.ops[-1]
    )
    shapes = {tile.shape for tile in tiles if isinstance(tile, Tensor)}
    return all(_tile(group, op) for op in rest) and (plain or _tile(group, last)) and len(shapes) == 1


def _tile(group: Group, op: Op) -> bool:
    """Elementwise, on a tile that can be divided among a thread's registers in whole words of each slice."""
    kind = op.results[0].type if len(op.results) == 1 else None
    if not is_elementwise(op) and (
        role(op) != "layout" or group.kernel.target.tiles.moves(op.operands[0].type, op.results[0].type)
    ):
        return False
    return (
        not op.regions
        and isinstance(kind, Tensor)
        and len(kind.shape) == 2
        and kind.shape[1] % (8 * SLICES) == 0
    )


def _slices(
    group: Group, task: Task, cuts: Sequence[Time], done: Mapping[str, Mapping[Time, int]], needed: Time
) -> dict[Time, int]:
    """How much is done at each cut before it is `needed` whole."""
    interval, length = group.scheduled.solution.interval, group.scheduled.problem.operation(task.id).issue
    before = [
        done[e.src]
        for e in group.scheduled.problem.edges
        if e.dst == task.id and not e.distance and e.src in done and e.kind != "order"
    ]
    times = {time for cut in cuts if 0 < (time := (cut - task.start) % interval) < length}
    times = {task.start + time for time in times}
    times |= {time for made in before for time in made if time >= task.start}
    end = min(_overwritten(group, task), needed)
    times = {time for time in times if time < end}
    limits = {time: min([_at(made, time) for made in before], default=SLICES) for time in times}
    slices = {
        time: min(limits[time], SLICES * (time - task.start) // length if length else SLICES)
        for time in sorted(times)
    }
    return {time: done_slices for time, done_slices in slices.items() if done_slices < SLICES}


def _needed_whole(group: Group, divisible: Collection[str]) -> dict[str, Time]:
    """For each task, when an operation that cannot be divided reads what it makes, or what others make of it
    slice by slice."""
    interval, needed = group.scheduled.solution.interval, dict[str, Time]()
    readers = {task.id: list[str]() for task in group.own}
    starts = {task.id: task.start for task in group.own}
    for edge in group.scheduled.problem.edges:
        if edge.src in readers and edge.dst in readers and not edge.distance and edge.kind != "order":
            readers[edge.src].append(edge.dst)
    for task in TopologicalSorter(readers).static_order():
        times = [needed[one] if one in divisible else starts[one] for one in readers[task]]
        needed[task] = min(times, default=starts[task] + interval)
    return needed


def _overwritten(group: Group, task: Task) -> Time:
    """When something that a task reads next is overwritten by a newer instance."""
    interval = group.scheduled.solution.interval
    writers = {value.id: other for other in group.own for value in other.writes}
    starts = [writers[leaf.source.id].start for leaf in task.leaves if leaf.source.id in writers]
    return task.start + min(
        [(start - task.start) % interval or interval for start in starts], default=interval
    )


def _at(slices: Mapping[Time, int], time: Time) -> int:
    return min([done_slices for other, done_slices in slices.items() if other >= time], default=SLICES)


def _parts(event: Event, slices: Mapping[Time, int]) -> Iterator[Event]:
    """What follows a cut stands after what is issued there, also where the task starts at the cut: the slices
    that it reads are made only then."""
    begin, time, late = 0, event.time, False
    for cut, done_slices in sorted(slices.items()):
        if done_slices > begin:
            yield replace(event, time=time, slices=(begin, done_slices), late=late)
        begin, time, late = done_slices, cut, True
    yield replace(event, time=time, slices=(begin, SLICES), late=late)
