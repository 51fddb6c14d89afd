"""Long operations of a group in slices, with what is due meanwhile between them.

Takes the group's events; gives them with every operation on tiles divided where the schedule issues an MMA,
or waits for one, while it is under way. What follows it chunk by chunk is divided likewise, and never
overtakes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter

from twill.ir.loop import Op, Tensor
from twill.ir.problem import Time
from twill.ir.statements import SLICES
from twill.ops.table import is_elementwise, role
from twill.warp.dataflow import cheap
from twill.warp.events import Event, first_readers
from twill.warp.kernel import Group
from twill.warp.tasks import Task


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
    divisible = {task.id for task in group.own if _divisible(group, task)}
    needed = _needed_whole(group, divisible)
    done = dict[str, dict[Time, int]]()
    parts = list[Event]()
    for event in sorted(found, key=lambda event: event.time):
        if (
            event.task is None
            or event.span is not None
            or event.channel is not None
            or event.task.id not in divisible
        ):
            parts.append(event)
            continue
        done[event.task.id] = _slices(group, event.task, cuts, done, needed[event.task.id])
        parts += _parts(event, done[event.task.id])
    return parts


def _divisible(group: Group, task: Task) -> bool:
    """All that it computes are tiles of one shape, at most reduced along rows in the end."""
    computed = [op for op in (group.code.ops[index] for index in task.ops) if not cheap(op)]
    if not computed or not task.writes:
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
        if e.dst == task.id and not e.distance and e.src in done
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
        if edge.src in readers and edge.dst in readers and not edge.distance:
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
