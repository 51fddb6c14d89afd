"""A scheduled loop, as each of its groups executes it: the passes that lower it.

Takes the tasks of the loop, the kernel's channels and settings; gives a `Pipelined` statement per group. All
groups share the number of stages: the most that any of them needs, the release of its slots included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from twill.diagnostics import DefectError
from twill.ir.loop import Type
from twill.ir.operands import Read, Register
from twill.ir.problem import Time
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    InitializeCarried,
    MmaIssue,
    Pipelined,
    ProducerLoad,
)
from twill.ops.table import role
from twill.warp.channels import ChannelPlan
from twill.warp.events import Event, events, filled, is_mma, ordered, releases
from twill.warp.kernel import Group
from twill.warp.ordering import ahead
from twill.warp.prologue import epilogue, prologue
from twill.warp.slices import divided
from twill.warp.steady_state import overwritten, steps
from twill.warp.steps import Parts, Step
from twill.warp.target import Statements
from twill.warp.tasks import Task
from twill.warp.tensor_dependences import Span


@dataclass(frozen=True, slots=True)
class LoopStatements:
    """The statements of a pipelined loop."""

    prologue: Statements
    steady: Statements
    epilogue: Statements
    short: Statements
    """For fewer iterations than stages: one iteration on its own, or the steady state under predicates
    (`Pipelined.predicated`); empty where a loop has at most two stages."""
    filled: tuple[ProducerLoad | Compute, ...] = ()
    """As `Pipelined.filled`."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopDraft:
    """One scheduled loop in one of its groups, on its way to statements; each pass adds to it."""

    group: Group
    events: tuple[Event, ...] = ()
    """What happens in an interval of the steady state, in order."""
    parts: Parts | None = None
    """Prologue, steady state and epilogue without waits for MMAs."""
    statements: LoopStatements | None = None


# --- passes over the groups of one loop -------------------------------------------------------------------


def shifted(groups: tuple[LoopDraft, ...]) -> tuple[LoopDraft, ...]:
    """Each group's interval begun where the target has it, if the hand-offs between the groups allow that."""
    found = [_shifted(draft.group) for draft in groups]
    shifts, scheduled = {group.id: group.shift for group in found}, groups[0].group.scheduled
    allowed = all(ahead(scheduled, hand_off, shifts) in (0, 1) for _, hand_off in groups[0].group.hand_offs)
    return (
        tuple(replace(draft, group=group) for draft, group in zip(groups, found, strict=True))
        if allowed
        else groups
    )


def in_schedule_order(draft: LoopDraft) -> LoopDraft:
    """The events of the group, releases aside, in the order of the schedule."""
    return replace(draft, events=tuple(events(draft.group)))


def sliced(draft: LoopDraft) -> LoopDraft:
    """Long tile operations divided into slices around the MMAs that are due meanwhile."""
    return replace(draft, events=tuple(ordered(draft.group, divided(draft.group, draft.events))))


def released(draft: LoopDraft) -> LoopDraft:
    """Releases of slots, where a wait covers them anyway."""
    return replace(draft, events=tuple(_with_releases(draft.group, draft.events)))


def staged(groups: tuple[LoopDraft, ...]) -> tuple[LoopDraft, ...]:
    """Prologue, steady state and epilogue, with the number of stages that the group with most of them
    needs."""
    sequences = [_flat(steps(draft.group, draft.events)) for draft in groups]
    stages = max(_stages(draft.group, sequence) for draft, sequence in zip(groups, sequences, strict=True))
    return tuple(
        replace(draft, parts=_parts(draft.group, own, stages))
        for draft, own in zip(groups, sequences, strict=True)
    )


def awaited(draft: LoopDraft) -> LoopDraft:
    """Statements, with waits for MMAs as the target has them."""
    assert draft.parts is not None
    prologue, steady, epilogue = draft.group.kernel.target.legalization.waits(draft.group.code, draft.parts)
    if _predicated(draft):
        short = tuple(step.statement for step in draft.parts.steady)
    else:
        short = one_by_one(draft.group)
    short = short if draft.parts.stages > 2 else ()
    return replace(draft, statements=LoopStatements(prologue, steady, epilogue, short))


def fenced(draft: LoopDraft) -> LoopDraft:
    """The steady state, or all parts, with the target's scheduling fences, and those for operands that a loop
    reads again and again."""
    assert draft.statements is not None
    found, types = draft.statements, _types(draft.group)
    legalization = draft.group.kernel.target.legalization

    def held(part: Statements) -> Statements:
        return legalization.fences(part, types)

    if legalization.fenced == "all":
        prologue, epilogue = held(found.prologue), held(found.epilogue)
        found = replace(found, prologue=prologue, epilogue=epilogue, short=held(found.short))
    steady, short = legalization.kept(held(found.steady)), legalization.kept(found.short)
    return replace(draft, statements=replace(found, steady=steady, short=short))


def pipelined(draft: LoopDraft) -> Pipelined:
    """The finished loop."""
    group, made = draft.group, draft.statements
    assert draft.parts is not None
    assert made is not None
    loop, interval = group.scheduled.loop, round(group.scheduled.solution.interval * group.scale)
    text = (made.prologue, made.steady, made.epilogue, made.short)
    return Pipelined(
        loop.op.index,
        loop.path,
        draft.parts.stages,
        interval,
        *text,
        bounds(group),
        zeroed(group),
        filled=made.filled,
        predicated=_predicated(draft),
    )


def _predicated(draft: LoopDraft) -> bool:
    """Whether fewer iterations than stages overlap: their waits may be for later iterations. A single one is
    executed on its own."""
    assert draft.parts is not None
    return draft.group.kernel.by_mbarrier and draft.parts.stages > ALONE


ALONE = 3
"""Stages of a loop that has one iteration at most where it has fewer than stages - 1."""


# --- intervals and stages ---------------------------------------------------------------------------------


def _shifted(group: Group) -> Group:
    """The group with its interval begun at the start of the schedule's, or at the first of its MMAs, where
    the target lets the back edge be; rather where that cuts no operation that a wait divides: ptxas
    serializes attention whose scores and weights live across the back edge (C7511)."""
    mmas = sorted(
        {task.start % group.scheduled.solution.interval for task in group.own if is_mma(group.code, task)}
    )
    earliest = min((event.time for event in (*events(group), *releases(group))), default=0)
    shifts = (0, *(time for time in mmas if 0 < time <= earliest))
    allowed = [found for shift in shifts if _may_begin(found := replace(group, shift=shift))]
    return next((found for found in allowed if not _cuts(found)), next(iter(allowed), group))


def _may_begin(group: Group) -> bool:
    """Whether the target lets the back edge be where the group's interval begins: not between MMAs of one
    accumulator whose older result is still read."""
    try:
        flat = _flat(steps(group, _sequence(group)))
    except DefectError:
        return False
    parts = _parts(group, flat, 1 + max((step.stage for step in flat), default=0))
    return not group.kernel.target.legalization.crossing(group.code, parts)


def _cuts(group: Group) -> bool:
    """Whether the back edge is between two slices of an operation that a wait may divide."""
    flagged = {op.id for op in group.scheduled.problem.operations if op.divisible}
    slices = [event for event in _sequence(group) if event.task and event.task.id in flagged]
    stages = {(event.task.id, group.when(event.time)[0]) for event in slices if event.task}
    return len(stages) > len({name for name, _ in stages})


def spans(group: Group) -> dict[str, Span]:
    """Where each task of the group begins and ends in its interval."""
    found = dict[str, Span]()
    for position, event in enumerate(sliced(in_schedule_order(LoopDraft(group))).events):
        if event.task is not None:
            point = (group.when(event.time)[0], position)
            old = found.get(event.task.id, Span(point, point))
            found[event.task.id] = Span(min(old.begin, point), max(old.end, point))
    return found


def _sequence(group: Group) -> tuple[Event, ...]:
    """The events of the group as the passes up to `released` have them."""
    return released(sliced(in_schedule_order(LoopDraft(group)))).events


def interval_of(
    group: Group,
) -> tuple[tuple[Event, ...], tuple[Step, ...], tuple[int, ...], Mapping[int, int]]:
    """An interval of the steady state: events, statements without waits for MMAs, the event of each, and by
    statement how many MMAs may stay in flight before it, where it waits."""
    found = _sequence(group)
    made = steps(group, found)
    flat, owner = _flat(made), tuple(i for i, part in enumerate(made) for _ in part)
    parts = _parts(group, flat, 1 + max((step.stage for step in flat), default=0))
    return found, flat, owner, group.kernel.target.legalization.pending(group.code, parts)


def _flat(parts: Sequence[Sequence[Step]]) -> tuple[Step, ...]:
    return tuple(step for part in parts for step in part)


def _stages(group: Group, sequence: Sequence[Step]) -> int:
    """How many intervals an iteration takes to start everything. Releases do not count. The first iteration
    is peeled where its MMAs then know that they are the first (backward attention on an H200: 27.9 million SM
    cycles with it, 28.6 without): behind the interval in which only waits of an iteration stand, if there is
    one."""
    started = 1 + max(
        (step.stage for step in sequence if not isinstance(step.statement, ConsumerRelease)), default=0
    )
    peeled = any(
        isinstance(step.statement, MmaIssue) and step.statement.accumulate == "not_first" for step in sequence
    )
    before = max(0, -(group.shift // group.scheduled.solution.interval))
    later = min(2, 1 + max((step.stage for step in sequence), default=0))
    return max(started, before + (2 if peeled else 1), later)


def _parts(group: Group, sequence: tuple[Step, ...], stages: int) -> Parts:
    interval = group.scheduled.solution.interval
    return Parts(prologue(sequence, stages), sequence, epilogue(sequence, stages), stages, interval)


def _types(group: Group) -> dict[str, Type]:
    """Of the variables that the loop assigns."""
    return {group.names[value.id]: value.type for task in group.own for value in task.writes}


def one_by_one(group: Group) -> Statements:
    """An iteration on its own: nothing of it overlaps another one."""
    return group.kernel.target.legalization.straight(group.code, on_its_own(group))


def on_its_own(group: Group) -> tuple[Step, ...]:
    """The steps of an iteration that overlaps no other one."""
    flat = replace(group, flat=True)
    return _flat(steps(flat, ordered(flat, [*events(flat), *releases(flat)])))


def bounds(group: Group) -> tuple[Read, ...]:
    """Where the loop's bounds and step are."""
    code, loop = group.code, group.scheduled.loop
    values = [value for value in (loop.lower, loop.upper, loop.step) if value is not None]
    makers = [(value, code.maker(value)) for value in values]
    return tuple(
        Read(value.id, Register(group.names[value.id]))
        for value, maker in makers
        if (maker and role(maker) != "constant") or value.id in code.carried
    )


def zeroed(group: Group) -> tuple[InitializeCarried, ...]:
    """Accumulators that nothing reads before the first MMA overwrites them."""
    found = [carried for task in group.own if (carried := overwritten(group, task))]
    return tuple(InitializeCarried(one.init.id, None, Register(group.names[one.arg.id])) for one in found)


# --- releases ---------------------------------------------------------------------------------------------


def _with_releases(group: Group, found: Sequence[Event]) -> list[Event]:
    """Events with releases, each at the first wait that covers it anyway (before the MMA, if one waits; or at
    the back edge), or after the next MMA, if the channel's slots allow that delay."""
    made = steps(group, found)
    owner = [i for i, part in enumerate(made) for _ in part]
    flat = _flat(made)
    stages = 1 + max((step.stage for step in flat), default=0)
    waits = group.kernel.target.legalization.pending(group.code, _parts(group, flat, stages))
    moved = [_release(group, event, found, flat, owner, waits) for event in releases(group)]
    return ordered(group, [*found, *moved])


def _release(
    group: Group,
    event: Event,
    found: Sequence[Event],
    flat: Sequence[Step],
    owner: Sequence[int],
    waits: Mapping[int, int],
) -> Event:
    task = group.tasks[event.index]
    if not is_mma(group.code, task):
        return _before_the_next_fill(group, event, task, found)
    interval = group.scheduled.solution.interval
    issued = max(
        i
        for i, step in enumerate(flat)
        if isinstance(step.statement, MmaIssue) and step.statement.node == task.id
    )
    began = found[owner[issued]].time
    for later in range(1, len(flat) + 1):
        position = (issued + later) % len(flat)
        younger = sum(isinstance(flat[(issued + i) % len(flat)].statement, MmaIssue) for i in range(1, later))
        if position == 0 and younger >= waits.get(len(flat), len(flat)):
            return _at_back_edge(group, event, began)
        if position in waits and younger >= waits[position]:
            waiting = found[owner[position]]
            time = began + (waiting.time - began) % interval - (waiting.span is not None)
            if time >= event.time:
                return replace(event, time=time, rank=-1) if time <= _latest(group, event) else event
    return _behind(group, event, found, began)


def _before_the_next_fill(group: Group, event: Event, task: Task, found: Sequence[Event]) -> Event:
    """A release by threads: where the schedule fills the slot again while the operation that reads it goes
    on, directly behind the statement that reads it. (A schedule needs the slot of a tile from another group
    until the operation has begun, which then has the tile in registers.)"""
    assert event.channel is not None
    _, again = _used_next(group, event.channel)
    if event.channel.filled_by != "threads" or event.time <= min(again, default=event.time):
        return event
    last = max(other.time for other in found if other.task is task)
    return replace(event, time=last, late=True)


def _at_back_edge(group: Group, event: Event, began: Time) -> Event:
    """A release at the end of the interval in which its MMA was issued, where a wait covers it."""
    end = began + group.scheduled.solution.interval - 1 - group.when(began)[1]
    return replace(event, time=end, rank=-1, late=True) if end <= _latest(group, event) else event


def _behind(group: Group, event: Event, found: Sequence[Event], began: Time) -> Event:
    """A release with a wait of its own comes after the group's next MMA, which keeps the tensor core busy
    meanwhile."""
    interval = group.scheduled.solution.interval
    mmas = [
        (began + ((other.time - began) % interval or interval))
        for other in found
        if other.span is not None and not other.span[0]
    ]
    after = min(mmas) + 1
    return replace(event, time=after) if event.time <= after <= _latest(group, event) else event


def _latest(group: Group, event: Event) -> Time:
    """When a slot must be released: so that what is loaded into it next arrives in time for its first reader,
    and before the loader comes to that load, which would hold up the loads after it (in the order of the
    schedule, what is waited for comes before the wait).
    """
    assert event.channel is not None
    reads, fills = _used_next(group, event.channel)
    return min([min(reads) - int(group.scheduled.machine.loads.arrival / group.scale), *fills])


def _used_next(group: Group, channel: ChannelPlan) -> tuple[list[Time], list[Time]]:
    """When this group reads, and when a slot of a channel is filled, the next time: by the channel itself, or
    by another one that shares its slots."""
    sharers = channel.sharers or (channel.id,)
    back, at = divmod(sharers.index(channel.id) + channel.depth, len(sharers))
    following = next(one for one in group.kernel.channels if one.id == sharers[at])
    later = back * group.scheduled.solution.interval
    reads = [
        other.start + later
        for other in group.own
        for leaf in other.leaves
        if (location := group.channel(leaf)) and location[0] == following
    ]
    return reads, [other.start + later for other in group.tasks if following in filled(group, other)]
