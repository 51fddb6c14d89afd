"""A scheduled loop, as each of its groups executes it.

Takes the tasks of the loop, the kernel's channels and settings; gives a `Pipelined` statement per group. All
groups share the number of stages: the most that any of them needs, the release of its slots included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twill.ir.loop import Type
from twill.ir.problem import Time
from twill.ir.program import ConsumerRelease, InitializeCarried, MmaIssue, Pipelined, Read, Register
from twill.targets.hopper.mma_waits import Parts, crossing, pending, straight, with_waits
from twill.targets.hopper.scheduling_fences import fenced
from twill.warp.slices import divided
from twill.warp.steady_state import (
    Event,
    Group,
    Step,
    epilogue,
    events,
    filled,
    is_mma,
    ordered,
    overwritten,
    prologue,
    releases,
    steps,
)
from twill.warp.tasks import Task


def pipelined(groups: Sequence[Group]) -> tuple[Pipelined, ...]:
    """The loop for each of its groups, in their order."""
    sequences = [_flat(steps(group, _sequence(group))) for group in groups]
    stages = max(_stages(sequence) for sequence in sequences)
    return tuple(_pipelined(group, sequence, stages) for group, sequence in zip(groups, sequences, strict=True))


def shifted(group: Group) -> Group:
    """The group with its interval begun where no MMA is in flight, if there is such a point: ptxas serializes
    all MMAs (C7514) where arithmetic of the loop touches registers of one that is in flight across the back
    edge."""
    mmas = sorted({task.start % group.scheduled.solution.interval for task in group.own if is_mma(group.code, task)})
    earliest = min((event.time for event in (*events(group), *releases(group))), default=0)
    for shift in (0, *(time for time in mmas if 0 < time <= earliest)):
        found = replace(group, shift=shift)
        flat = _flat(steps(found, _sequence(found)))
        if not crossing(group.code, _parts(found, flat, 1 + max((step.stage for step in flat), default=0))):
            return found
    return group


def _flat(parts: Sequence[Sequence[Step]]) -> tuple[Step, ...]:
    return tuple(step for part in parts for step in part)


def _stages(sequence: Sequence[Step]) -> int:
    """How many intervals an iteration takes to start everything. Releases do not count, except that one after
    the only interval peels the first iteration, whose MMAs then know that they are the first."""
    started = 1 + max((step.stage for step in sequence if not isinstance(step.statement, ConsumerRelease)), default=0)
    return max(started, min(2, 1 + max((step.stage for step in sequence), default=0)))


def _pipelined(group: Group, sequence: tuple[Step, ...], stages: int) -> Pipelined:
    parts = _parts(group, sequence, stages)
    first, steady, last = with_waits(group.code, parts)
    loop = group.scheduled.loop
    steady = fenced(steady, _types(group))
    interval = round(group.scheduled.solution.interval * group.scale)
    short = _short(group) if stages > 2 else ()
    return Pipelined(loop.op.index, loop.path, stages, interval, first, steady, last, short, bounds(group), zeroed(group))


def _parts(group: Group, sequence: tuple[Step, ...], stages: int) -> Parts:
    interval = group.scheduled.solution.interval
    return Parts(prologue(sequence, stages), sequence, epilogue(sequence, stages), stages, interval)


def _types(group: Group) -> dict[str, Type]:
    """Of the variables that the loop assigns."""
    return {group.names[value.id]: value.type for task in group.own for value in task.writes}


def _short(group: Group):
    flat = replace(group, flat=True)
    return straight(group.code, _flat(steps(flat, ordered(flat, [*events(flat), *releases(flat)]))))


def bounds(group: Group) -> tuple[Read, ...]:
    """Where the loop's bounds and step are."""
    code, loop = group.code, group.scheduled.loop
    values = [value for value in (loop.lower, loop.upper, loop.step) if value is not None]
    makers = [(value, code.maker(value)) for value in values]
    return tuple(Read(value.id, Register(group.names[value.id])) for value, maker in makers if maker and maker.name != "arith.constant")


def zeroed(group: Group) -> tuple[InitializeCarried, ...]:
    """Accumulators that nothing reads before the first MMA overwrites them."""
    found = [carried for task in group.own if (carried := overwritten(group, task))]
    return tuple(InitializeCarried(one.init.id, None, Register(group.names[one.arg.id])) for one in found)


# --- releases ---------------------------------------------------------------------------------------------------------


def _sequence(group: Group) -> list[Event]:
    """The group's events with its releases, each at the first wait that covers it anyway (before the MMA, if
    one waits), or behind the next MMA, if the channel's slots allow that delay."""
    found = ordered(group, divided(group, events(group)))
    made = steps(group, found)
    owner = [i for i, part in enumerate(made) for _ in part]
    flat = _flat(made)
    stages = 1 + max((step.stage for step in flat), default=0)
    waits = pending(group.code, _parts(group, flat, stages))
    moved = [_release(group, event, found, flat, owner, waits) for event in releases(group)]
    return ordered(group, [*found, *moved])


def _release(
    group: Group, event: Event, found: Sequence[Event], flat: Sequence[Step], owner: Sequence[int], waits: Mapping[int, int]
) -> Event:
    task = group.tasks[event.index]
    if not is_mma(group.code, task):
        return event
    interval = group.scheduled.solution.interval
    issued = max(i for i, step in enumerate(flat) if isinstance(step.statement, MmaIssue) and step.statement.node == task.id)
    began = found[owner[issued]].time
    for ahead in range(1, len(flat) + 1):
        position = (issued + ahead) % len(flat)
        younger = sum(isinstance(flat[(issued + i) % len(flat)].statement, MmaIssue) for i in range(1, ahead))
        if position in waits and younger >= waits[position]:
            waiting = found[owner[position]]
            time = began + (waiting.time - began) % interval - (waiting.span is not None)
            if time >= event.time:
                return replace(event, time=time, rank=-1) if time <= _latest(group, event, task) else event
    return _behind(group, event, task, found, began)


def _behind(group: Group, event: Event, task: Task, found: Sequence[Event], began: Time) -> Event:
    """A release with a wait of its own stands behind the group's next MMA, which keeps the tensor core busy
    meanwhile."""
    interval = group.scheduled.solution.interval
    mmas = [(began + ((other.time - began) % interval or interval)) for other in found if other.span is not None and not other.span[0]]
    after = min(mmas) + 1
    return replace(event, time=after) if event.time <= after <= _latest(group, event, task) else event


def _latest(group: Group, event: Event, task: Task) -> Time:
    """When a slot must be released: so that what is loaded into it next arrives in time for its first reader,
    and before the loader comes to that load, which would hold up the loads behind it (in the order of the
    schedule, what is waited for comes before the wait).
    """
    assert event.channel is not None
    readers = [
        other.start for other in group.own for leaf in other.leaves if (location := group.channel(leaf)) and location[0] == event.channel
    ]
    fills = [other.start for other in group.tasks if filled(group, other) == event.channel]
    again = event.channel.depth * group.scheduled.solution.interval
    return min([min(readers) + again - int(group.scheduled.machine.loads.arrival / group.scale), *(fill + again for fill in fills)])
