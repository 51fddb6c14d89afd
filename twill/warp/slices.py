"""Long operations of a group in slices, with what is due meanwhile between them.

Takes the group's events; gives them with every operation on tiles divided where the schedule issues an MMA,
or waits for one, while it is under way. What follows it chunk by chunk is divided likewise, and never
overtakes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

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
    done = dict[str, dict[Time, int]]()
    parts = list[Event]()
    for event in sorted(found, key=lambda event: event.time):
        if (
            event.task is None
            or event.span is not None
            or event.channel is not None
            or not _divisible(group, event.task)
        ):
            parts.append(event)
            continue
        done[event.task.id] = _slices(group, event.task, cuts, done)
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
    group: Group, task: Task, cuts: Sequence[Time], done: Mapping[str, Mapping[Time, int]]
) -> dict[Time, int]:
    """How much is done at each cut."""
    interval, length = group.scheduled.solution.interval, group.scheduled.problem.operation(task.id).issue
    before = [
        done[e.src]
        for e in group.scheduled.problem.edges
        if e.dst == task.id and not e.distance and e.src in done
    ]
    times = {
        time for cut in cuts if (time := task.start + (cut - task.start) % interval) < task.start + length
    }
    times |= {time for made in before for time in made if time >= task.start}
    times = {time for time in times if time < _overwritten(group, task)}
    limits = {time: min([_at(made, time) for made in before], default=SLICES) for time in times}
    slices = {
        time: min(limits[time], SLICES * (time - task.start) // length if length else SLICES)
        for time in sorted(times)
    }
    return {time: done_slices for time, done_slices in slices.items() if done_slices < SLICES}


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
    begin, time = 0, event.time
    for cut, done_slices in sorted(slices.items()):
        if done_slices > begin:
            yield replace(event, time=time, slices=(begin, done_slices), late=time != event.time)
        begin, time = done_slices, cut
    yield replace(event, time=time, slices=(begin, SLICES), late=time != event.time)
