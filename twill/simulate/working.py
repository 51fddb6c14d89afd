"""Operations of a timed run (`timed`): when their operands are there, where they work, and how fast."""

from dataclasses import replace

from twill.ir.problem import Operation, Problem
from twill.ir.statements import SLICES, Compute, MbarrierArrival, MmaIssue, Statement
from twill.simulate.actions import Action
from twill.simulate.clock import Clock, Group, Working, arrive
from twill.simulate.interleaving import mixed_in
from twill.simulate.passing import loaded
from twill.simulate.times import Event, Pace

STEP = 32.0
"""Cycles of an operation that are done at once: finer than any interaction with the tensor core."""

# --- units ------------------------------------------------------------------------------------------------


def shared_from(clock: Clock, action: Action, op: Operation, ready: float, part: float = 1.0) -> float:
    """Take a part of an operation's fraction of aggregate units; when it starts. Of such a unit so much is
    left as the schedule's interval has: only what goes beyond makes an operation wait."""
    problem, scale = clock.model.problems[action.loop], clock.model.scale(action)
    shared = {unit.name: unit.capacity for unit in problem.units if unit.aggregate}
    taken = [r for r in op.reservations if r.unit in shared]
    begin = max(
        [ready, *(clock.units.free.get(r.unit, 0.0) - clock.model.intervals[action.loop] for r in taken)]
    )
    for r in taken:
        clock.units.free[r.unit] = (
            max(clock.units.free.get(r.unit, 0.0), begin)
            + r.cycles * scale * part * r.amount / shared[r.unit]
        )
    return begin


def _exclusive(clock: Clock, action: Action, op: Operation) -> list[str]:
    """Units that an operation has to itself."""
    shared = {unit.name for unit in clock.model.problems[action.loop].units if unit.aggregate}
    return [r.unit for r in op.reservations if r.unit not in shared and r.cycles]


def _take(
    clock: Clock, action: Action, unit: str, node: str, begin: float, end: float, iteration: int
) -> None:
    """A unit works; steps of one operation that follow each other are one event."""
    clock.units.free[unit] = end
    last = clock.events[clock.units.latest[unit]] if unit in clock.units.latest else None
    if last and (last.name, last.iteration, last.loop, last.end) == (node, iteration, action.loop, begin):
        clock.events[clock.units.latest[unit]] = replace(last, end=end)
        return
    clock.units.latest[unit] = len(clock.events)
    clock.events.append(Event(unit, node, begin, end, iteration, 0.0, action.loop))


# --- operations -------------------------------------------------------------------------------------------


def _begin(clock: Clock, group: Group, action: Action, node: str, fraction: float) -> None:
    """Wait for the operands of an operation of a loop."""
    problem, came, iteration = clock.model.problems[action.loop], group.now, action.number
    streamed = _by_rows(action.statement) and _end(action.statement) < SLICES
    operands = [] if streamed else _operands(clock, group, action, problem, node, iteration)
    ready = max([came, *operands])
    group.now = group.began = shared_from(clock, action, problem.operation(node), ready, fraction)
    if group.now > came:
        waited = group.now - came
        what = f"operands of {node}"
        clock.events.append(Event(group.track, what, came, group.now, iteration, waited, action.loop))
    group.now += loaded(action.statement, clock.model.passing)


def work(clock: Clock, group: Group, action: Action, node: str) -> bool:
    """A step of an operation of a loop; whether it was the last."""
    op, scale = clock.model.problems[action.loop].operation(node), clock.model.scale(action)
    fraction, iteration = _part(action.statement) / group.parts, action.number
    if group.left == 1.0:
        _begin(clock, group, action, node, fraction)
    pace = _pace(clock, action, node)
    units = _exclusive(clock, action, op)
    taken = (r for r in pace.busy.reservations if r.unit in units)
    principal = max(taken, key=lambda r: r.cycles, default=None)
    streamed = _by_rows(action.statement) and principal is not None
    slice_cycles = principal.cycles * scale / group.parts / SLICES if streamed and principal else 0.0
    slack = clock.model.costs.behind * slice_cycles
    begin = max(group.now, clock.units.free.get(principal.unit, 0.0) - slack if principal else 0.0)
    chosen = pace.busy if clock.units.working(begin) else pace.idle
    part = min(group.left, STEP / (chosen.issue * scale * fraction)) if chosen.issue else group.left
    step = scale * fraction * part
    beside = _beside(clock, group, begin)
    group.now = ended = begin + (_slots(clock, chosen) if streamed else chosen.issue) * step * beside
    for r in chosen.reservations:
        if r.unit in units:
            first = max(begin, clock.units.free.get(r.unit, 0.0))
            end = first + r.cycles * step * (beside if streamed else 1.0)
            _take(clock, action, r.unit, node, first, end, iteration)
            ended = max(ended, end)
            group.now = max(group.now, min(end, first + chosen.issue * step) - max(slack, STEP))
    clock.steps[group.track] = begin, group.now
    group.left -= part
    if group.left > 1e-9:
        return False
    group.left = 1.0
    clock.ended[action.loop, node, iteration, group.member] = ended if streamed else group.now
    if isinstance(action.statement, Compute):
        group.complete = max(group.complete, ended, group.now + max(0, op.latency - op.issue) * scale)
    clock.events.append(Event(group.track, node, group.began, group.now, iteration, 0.0, action.loop))
    return True


def _by_rows(statement: Statement) -> bool:
    """Whether it is a slice that the compiler puts between those of other operations, so that one unit works
    while instructions for another one are issued. What such a slice reads was computed slices before, but for
    the last."""
    return isinstance(statement, Compute) and statement.by_rows


def _end(statement: Statement) -> int:
    return statement.end if isinstance(statement, Compute) else SLICES


def _slots(clock: Clock, op: Operation) -> int:
    """Cycles in which it issues instructions."""
    unit = clock.model.costs.slots
    return next((r.cycles for r in op.reservations if r.unit == unit), op.issue)


def _beside(clock: Clock, group: Group, time: float) -> float:
    """How many times as long a step takes."""
    others = (step for track, step in clock.steps.items() if track != group.track)
    return clock.model.costs.beside if any(begin <= time < end for begin, end in others) else 1.0


def _part(statement: Statement) -> float:
    """How much of its operation a statement executes."""
    return (statement.end - statement.begin) / SLICES if isinstance(statement, Compute) else 1.0


def issue(clock: Clock, group: Group, action: Action, statement: MmaIssue) -> None:
    """An MMA, or a part of one."""
    problem, came = clock.model.problems.get(action.loop), group.now
    if problem is None:
        return
    op, scale, iteration = (
        problem.operation(statement.node),
        clock.model.scale(action),
        action.iteration(statement.at.iteration),
    )
    part = (statement.end - statement.begin) / clock.model.k[statement.ops[-1]] / group.parts
    ready = max([came, *_operands(clock, group, action, problem, statement.node, iteration)])
    units = _exclusive(clock, action, op)
    begin = max(
        [shared_from(clock, action, op, ready, part), *(clock.units.free.get(unit, 0.0) for unit in units)]
    )
    taken = max((r.cycles for r in op.reservations if r.unit in units), default=0) * scale
    mixed = _mixed(clock, group, problem, begin)
    end = begin + taken * part + mixed
    for unit in units:
        _take(clock, action, unit, statement.node, begin, end, iteration)
    clock.units.mmas.append(Working(begin, end, _of_shared(clock, op, end - begin, scale * part)))
    done = end + op.latency * scale - taken
    if isinstance(statement.completion, MbarrierArrival):
        for slot in statement.completion.slots:
            channel = clock.model.protocol.channels[slot.channel][1]
            number = channel.fill(action.sequence(slot.channel, slot.iteration))
            arrive(clock.barriers.empty, (channel.slot_owner, number), done)
        for phase in statement.completion.barriers:
            number = action.sequence(phase.barrier, phase.iteration)
            arrive(clock.barriers.arrived, (phase.barrier, number), done)
    else:
        group.in_flight.append(done)
    group.now = ready + clock.model.costs.launch + mixed
    if not isinstance(statement.completion, MbarrierArrival):
        group.now = max(group.now, end - clock.model.costs.ahead)
    clock.events.append(
        Event(group.track, statement.node, ready, group.now, iteration, ready - came, action.loop)
    )


def _of_shared(clock: Clock, op: Operation, cycles: float, scale: float) -> float:
    """The part of the cycles of shared memory that an MMA takes while it works."""
    taken = sum(r.cycles for r in op.reservations if r.unit == clock.model.costs.shared)
    return min(1.0, taken * scale / cycles) if cycles else 0.0


def _mixed(clock: Clock, group: Group, problem: Problem, begin: float) -> float:
    """Execute what the compiler puts between the instructions of this MMA; how long that takes."""
    statement, spent = group.actions[group.done].statement, 0.0
    if not isinstance(statement, MmaIssue) or isinstance(statement.completion, MbarrierArrival):
        return spent
    for index, action, node in mixed_in(group.actions, group.done, problem):
        fraction = _part(action.statement) / group.parts
        spent += _pace(clock, action, node).idle.latency * clock.model.scale(action) * fraction
        clock.ended[action.loop, node, action.number, group.member] = begin + spent
        clock.events.append(Event(group.track, node, begin, begin + spent, action.number, 0.0, action.loop))
        group.mixed.add(index)
    return spent


def _operands(
    clock: Clock, group: Group, action: Action, problem: Problem, node: str, iteration: int
) -> list[float]:
    """When what an operation reads from its own warpgroup's registers is there; MMAs are waited for by
    statements."""
    scale, found = problem.resolution.cycles_per_unit, list[float]()
    for edge in problem.edges:
        ended = (
            clock.ended.get((action.loop, edge.src, iteration - edge.distance, group.member))
            if edge.dst == node
            else None
        )
        if ended is not None and (left := edge.delay - problem.operation(edge.src).issue) > 0:
            found.append(ended + left * scale)
    return found


def _pace(clock: Clock, action: Action, node: str) -> Pace:
    op = clock.model.problems[action.loop].operation(node)
    return clock.model.paces.get((action.loop, node), Pace(op, op))
