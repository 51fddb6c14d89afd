"""How many cycles a warp program takes, and where its groups wait.

Takes a program with the problems of its loops (costs in units of time), a few costs of synchronization, and
how fast operations are beside an idle and under a busy tensor core; gives every statement with its time.
Warpgroups execute their statements in order (a group of 8 warps is two of them, each with its half of every
tile). An operation starts when its warpgroup has come to it and its operands are there (the delays of the
problem's edges), and goes on in small steps, each as fast as the tensor core lets it and when its unit is
free, and slower beside another warpgroup that computes; the tensor core and TMA work on while the warpgroup
goes on, the issue of an MMA that is waited for by number (wgmma) holds it once it is too far ahead. Code
outside of the loops takes no time.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from twill.ir.effects import at
from twill.ir.machine import Machine
from twill.ir.problem import Operation, Problem
from twill.ir.program import Program
from twill.ir.schedule import WARPGROUP
from twill.ir.statements import (
    SLICES,
    BarrierArrive,
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    MbarrierArrival,
    MmaIssue,
    MmaWait,
    OrderBarrierArrive,
    OrderBarrierWait,
    ProducerLoad,
    ProducerStore,
    Statement,
    StoreTile,
    TensorMemorySync,
)
from twill.ops.mma import depth
from twill.simulate.actions import Action, unfold
from twill.simulate.explore import Counts, describe
from twill.simulate.interleaving import mixed_in
from twill.simulate.protocol import HazardError, Protocol, State
from twill.warp.dataflow import LOAD, MMAS
from twill.warp.tasks import Scheduled

STEP = 32.0
"""Cycles of an operation that are done at once: finer than any interaction with the tensor core."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What the problem does not say; cycles."""

    barrier: int
    """From an arrival to the end of a wait for it."""
    order: int
    """The same of an ordering barrier."""
    poll: int
    """Of a wait that is over already."""
    load: int
    """From the end of a load's occupancy of TMA to its arrival."""
    launch: int
    """Issuing an MMA at least."""
    ahead: int
    """How far the issue of an MMA runs ahead of the tensor core."""
    beside: float
    """How many times as long a warpgroup computes beside another one that does."""
    slots: str = ""
    """The unit whose reservations are cycles in which instructions are issued."""
    behind: float = 0.0
    """Slices by which a unit may be behind the instructions issued to it, where operations go row by row."""

    @staticmethod
    def of(machine: Machine) -> "Costs":
        """What a machine file says; 0 for what it lacks."""
        costs = (machine.cost(name) for name in sorted(MMAS))
        mma, load = next((cost for cost in costs if cost), None), machine.cost(LOAD)
        one = machine.handover
        launch, ahead = (mma.issue, mma.queue or 0) if mma else (0, 0)
        return Costs(
            one.barrier,
            one.order,
            one.poll,
            load.latency if load else 0,
            launch,
            ahead,
            machine.contention.warpgroups if machine.contention else 1.0,
            machine.issue.unit if machine.issue else "",
            machine.stream.behind,
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """An operation beside an idle tensor core, and beside one that works; cycles."""

    idle: Operation
    busy: Operation


Paces = Mapping[tuple[int | None, str], Pace]
"""By loop and operation; one that is not there goes as the problem says."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time; cycles."""

    track: str
    """`group 1`, `group 1 warps 4-7` (of eight), or a unit."""
    name: str
    begin: float
    end: float
    iteration: int
    waited: float = 0.0
    """How long its group stood still before it."""
    loop: int | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """A group fills a slot, or waits until one is full; cycles."""

    channel: str
    number: int
    """Of the tile, counted from the start of the kernel."""
    track: str
    kind: Literal["fill", "wait"]
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Run:
    """What happened."""

    events: tuple[Event, ...]
    """By time."""
    transfers: tuple[Transfer, ...] = ()
    full: Mapping[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """When each tile of each channel had arrived."""
    empty: Mapping[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """When its last reader had released its slot."""


@dataclass(slots=True)
class _Group:
    """One warpgroup of a group, or a narrow group."""

    id: int
    member: int
    """Which of the group's warpgroups."""
    members: int
    actions: list[Action]
    done: int = 0
    now: float = 0.0
    in_flight: list[float] = field(default_factory=list[float])
    """When the MMAs in flight complete."""
    left: float = 1.0
    """The part of the operation that is still to be done."""
    began: float = 0.0
    """When it was begun."""
    mixed: set[int] = field(default_factory=set[int])
    """Actions that were executed between the instructions of an MMA before them."""

    @property
    def track(self) -> str:
        first = WARPGROUP * self.member
        return f"group {self.id}" + (f" warps {first}-{first + WARPGROUP - 1}" if self.members > 1 else "")


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """What a run follows from."""

    protocol: Protocol
    problems: Mapping[int | None, Problem]
    intervals: Mapping[int | None, float]
    costs: Costs
    paces: Paces
    k: Mapping[int, int]
    """K of MMAs, by operation."""
    nodes: Mapping[int, str]
    """The operation of the problem that a TTGIR operation belongs to."""

    @staticmethod
    def of(program: Program, loops: Sequence[Scheduled], costs: Costs, paces: Paces) -> "_Model":
        mmas = [op for op in program.function.walk() if op.name in MMAS]
        return _Model(
            Protocol.of(program),
            {one.loop.op.index: one.problem for one in loops},
            {
                one.loop.op.index: one.solution.interval * one.problem.resolution.cycles_per_unit
                for one in loops
            },
            costs,
            paces,
            {op.index: depth(op) for op in mmas},
            {index: node.id for one in loops for node in one.graph.nodes for index in node.ops},
        )

    def scale(self, action: Action) -> float:
        """Cycles of a unit of time in the action's loop."""
        problem = self.problems.get(action.loop)
        return problem.resolution.cycles_per_unit if problem else 1.0


@dataclass(slots=True)
class _Units:
    """When the units are free, and when the tensor core works."""

    free: dict[str, float] = field(default_factory=dict[str, float])
    mmas: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    latest: dict[str, int] = field(default_factory=dict[str, int])
    """Where the latest event of a unit is."""


@dataclass(slots=True)
class _Barriers:
    """When slots became full and empty, and ordering barriers signalled."""

    full: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    empty: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    signalled: dict[str, float] = field(default_factory=dict[str, float])
    arrived: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """By dependence barrier and sequence number."""


@dataclass(slots=True)
class _Clock:
    """A run: its model, where it stands, and what happened."""

    model: _Model
    state: State
    units: _Units = field(default_factory=_Units)
    barriers: _Barriers = field(default_factory=_Barriers)
    ended: dict[tuple[int | None, str, int, int], float] = field(
        default_factory=dict[tuple[int | None, str, int, int], float]
    )
    """By loop, operation, iteration and warpgroup."""
    passed: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    """How many of a group's warpgroups have executed its action of that number."""
    events: list[Event] = field(default_factory=list[Event])
    transfers: list[Transfer] = field(default_factory=list[Transfer])
    steps: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """When each warpgroup executed the latest step of an operation, by track."""


def simulate(
    program: Program, loops: Sequence[Scheduled], counts: Counts, costs: Costs, paces: Paces | None = None
) -> tuple[Event, ...]:
    """Every statement of the loops with its time, by time. Raises HazardError where the program stands
    still."""
    return run(program, loops, counts, costs, paces).events


def run(
    program: Program, loops: Sequence[Scheduled], counts: Counts, costs: Costs, paces: Paces | None = None
) -> Run:
    """The same, with what passes through the channels. Raises HazardError."""
    model = _Model.of(program, loops, costs, paces or {})
    clock = _Clock(model, model.protocol.initial())
    groups = list[_Group]()
    for warps in program.groups:
        members = max(1, warps.warps // WARPGROUP)
        groups += [
            _Group(warps.id, member, members, list(unfold(warps.body, counts))) for member in range(members)
        ]
    _run(clock, groups)
    events = tuple(sorted(clock.events, key=lambda event: (event.begin, event.track)))
    return Run(events, tuple(clock.transfers), clock.barriers.full, clock.barriers.empty)


def _run(clock: _Clock, groups: Sequence[_Group]) -> None:
    """The earliest warpgroup goes on; one that the protocol holds back tries again whenever another one has
    gone on."""
    queue, parked = [(0.0, i) for i in range(len(groups))], set[int]()
    while queue:
        _, i = heapq.heappop(queue)
        group = groups[i]
        if group.done == len(group.actions):
            continue
        action = group.actions[group.done]
        if _held_back(clock, group, action):
            parked.add(i)
            continue
        if _advance(clock, group, action):
            _pass(clock, group, action)
        for j in (i, *sorted(parked)):
            heapq.heappush(queue, (groups[j].now, j))
        parked.clear()
    if parked:
        waits = "; ".join(
            f"{groups[i].track} at {describe(groups[i].actions[groups[i].done])}" for i in sorted(parked)
        )
        raise HazardError(f"deadlock: {waits}")


def _held_back(clock: _Clock, group: _Group, action: Action) -> bool:
    """What the first warpgroup of a group has passed, the others pass too; all of them arrive where groups
    synchronize."""
    protocol = clock.model.protocol
    if isinstance(action.statement, TensorMemorySync) and action.statement.half == "wait":
        arrived = clock.passed[group.id, group.done - 1] == group.members
        return not (arrived and protocol.ready(clock.state, group.id, action))
    passed = clock.passed[group.id, group.done] > 0
    return not passed and protocol.concerns(action) and not protocol.ready(clock.state, group.id, action)


def _pass(clock: _Clock, group: _Group, action: Action) -> None:
    """On to the next statement. A group acquires with its first warpgroup, and releases with its last."""
    before = clock.passed[group.id, group.done]
    clock.passed[group.id, group.done] += 1
    deciding = (
        before == 0
        if isinstance(action.statement, ConsumerWait | OrderBarrierWait | BarrierWait)
        else before == group.members - 1
    )
    if deciding and clock.model.protocol.concerns(action):
        clock.state = clock.model.protocol.after(clock.state, group.id, action)
    group.done += 1


def _consumer_wait(clock: _Clock, group: _Group, action: Action, it: ConsumerWait) -> None:
    came, costs, number = group.now, clock.model.costs, action.sequence(it.channel, it.at.iteration)
    group.now = max(came + costs.poll, clock.barriers.full[it.channel, number] + costs.barrier)
    _note(clock, group, action, f"consumer_wait {it.channel}", came, it.at.cycle)
    clock.transfers.append(Transfer(it.channel, number, group.track, "wait", came, group.now))


def _advance(clock: _Clock, group: _Group, action: Action) -> bool:
    """One statement of a group, or a step of one; whether it is done."""
    came, costs = group.now, clock.model.costs
    match action.statement:
        case MmaWait(pending=pending, at=at):
            while len(group.in_flight) > pending:
                group.now = max(group.now, group.in_flight.pop(0))
            _note(clock, group, action, f"wait {pending}", came, at.cycle)
        case ProducerLoad(channel=name):
            _room(clock, group, action, name)
            _producer_load(clock, group, action, name)
        case ProducerStore(channel=name, ops=ops, node=node):
            if group.left == 1.0:
                _room(clock, group, action, name)
            if ops and action.loop is not None and not _work(clock, group, action, node):
                return False
            _producer_load(clock, group, action, name)
        case ConsumerWait() as wait:
            _consumer_wait(clock, group, action, wait)
        case ConsumerRelease(channel=name, at=at) if action.iteration(at.iteration) >= 0:
            slot = (name, action.sequence(name, at.iteration))
            _arrive(clock.barriers.empty, slot, group.now)
        case OrderBarrierWait(order=name, at=at):
            group.now = max(group.now, clock.barriers.signalled.get(name, -costs.order) + costs.order)
            _note(clock, group, action, f"wait {name}", came, at.cycle)
        case OrderBarrierArrive(order=name):
            clock.barriers.signalled[name] = group.now
        case BarrierArrive(barrier=name, at=at):
            by_mma = clock.model.protocol.dependences[name][1].by == "mma"
            done = [end for _, end in clock.units.mmas[-1:]] if by_mma else []
            phase = name, action.sequence(name, at.iteration)
            _arrive(clock.barriers.arrived, phase, max([group.now, *done]))
        case BarrierWait(barrier=name, at=at) as wait if clock.model.protocol.concerns(action):
            done = clock.barriers.arrived[name, action.awaited(wait)]
            by_mma = clock.model.protocol.dependences[name][1].by == "mma"
            group.now = max(group.now + costs.poll, done + (0 if by_mma else costs.barrier))
            _note(clock, group, action, f"wait {name}", came, at.cycle)
        case Compute(node=node) if action.loop is not None:
            return group.done in group.mixed or _work(clock, group, action, node)
        case StoreTile(ops=ops) if action.loop is not None:
            return _work(clock, group, action, clock.model.nodes[ops[-1]])
        case MmaIssue():
            _issue(clock, group, action, action.statement)
        case _:
            pass
    return True


def _arrive(arrived: dict[tuple[str, int], float], phase: tuple[str, int], time: float) -> None:
    """A phase is complete when the last arrival is in."""
    arrived[phase] = max(time, arrived.get(phase, 0.0))


def _note(clock: _Clock, group: _Group, action: Action, name: str, came: float, cycle: int | None) -> None:
    """The time that a group stood still at a wait."""
    if group.now > came and cycle is not None:
        clock.events.append(
            Event(group.track, name, came, group.now, action.number, group.now - came, action.loop)
        )


def _room(clock: _Clock, group: _Group, action: Action, name: str) -> None:
    """Wait until a slot is empty."""
    when, came = at(action.statement), group.now
    number = action.sequence(name, when.iteration)
    depth = clock.model.protocol.channels[name][1].depth
    if number >= depth:
        group.now = max(
            came + clock.model.costs.poll,
            clock.barriers.empty[name, number - depth] + clock.model.costs.barrier,
        )
    _note(clock, group, action, f"producer_acquire {name}", came, when.cycle)


def _producer_load(clock: _Clock, group: _Group, action: Action, name: str) -> None:
    """Tiles on their way: TMA is taken, then they arrive."""
    arrival = began = group.now
    number = action.sequence(name, at(action.statement).iteration)
    if isinstance(action.statement, ProducerLoad):
        for load in action.statement.loads:
            problem, scale = clock.model.problems.get(action.loop), clock.model.scale(action)
            if problem is not None:
                op = problem.operation(clock.model.nodes[load.ops[-1]])
                begin = _shared(clock, action, op, group.now)
                group.now += op.issue * scale
                arrival = max(arrival, begin + max((r.cycles for r in op.reservations), default=0) * scale)
        arrival += clock.model.costs.load
    clock.barriers.full[name, number] = max(arrival, clock.barriers.full.get((name, number), 0.0))
    clock.transfers.append(Transfer(name, number, group.track, "fill", began, group.now))


# --- units ------------------------------------------------------------------------------------------------


def _shared(clock: _Clock, action: Action, op: Operation, ready: float, part: float = 1.0) -> float:
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


def _exclusive(clock: _Clock, action: Action, op: Operation) -> list[str]:
    """Units that an operation has to itself."""
    shared = {unit.name for unit in clock.model.problems[action.loop].units if unit.aggregate}
    return [r.unit for r in op.reservations if r.unit not in shared and r.cycles]


def _take(
    clock: _Clock, action: Action, unit: str, node: str, begin: float, end: float, iteration: int
) -> None:
    """A unit works; steps of one operation that follow each other are one event."""
    clock.units.free[unit] = end
    last = clock.events[clock.units.latest[unit]] if unit in clock.units.latest else None
    if last and (last.name, last.iteration, last.loop, last.end) == (node, iteration, action.loop, begin):
        clock.events[clock.units.latest[unit]] = replace(last, end=end)
        return
    clock.units.latest[unit] = len(clock.events)
    clock.events.append(Event(unit, node, begin, end, iteration, 0.0, action.loop))


def _tensor_works(clock: _Clock, time: float) -> bool:
    return any(begin <= time < end for begin, end in reversed(clock.units.mmas[-8:]))


# --- operations -------------------------------------------------------------------------------------------


def _begin(clock: _Clock, group: _Group, action: Action, node: str, fraction: float) -> None:
    """Wait for the operands of an operation of a loop."""
    problem, came, iteration = clock.model.problems[action.loop], group.now, action.number
    streamed = _by_rows(action.statement) and _end(action.statement) < SLICES
    operands = [] if streamed else _operands(clock, group, action, problem, node, iteration)
    ready = max([came, *operands])
    group.now = group.began = _shared(clock, action, problem.operation(node), ready, fraction)
    if group.now > came:
        waited = group.now - came
        what = f"operands of {node}"
        clock.events.append(Event(group.track, what, came, group.now, iteration, waited, action.loop))


def _work(clock: _Clock, group: _Group, action: Action, node: str) -> bool:
    """A step of an operation of a loop; whether it was the last."""
    op, scale = clock.model.problems[action.loop].operation(node), clock.model.scale(action)
    fraction, iteration = _part(action.statement) / group.members, action.number
    if group.left == 1.0:
        _begin(clock, group, action, node, fraction)
    pace = _pace(clock, action, node)
    units = _exclusive(clock, action, op)
    taken = (r for r in pace.busy.reservations if r.unit in units)
    principal = max(taken, key=lambda r: r.cycles, default=None)
    streamed = _by_rows(action.statement) and principal is not None
    slice_cycles = principal.cycles * scale / group.members / SLICES if streamed and principal else 0.0
    slack = clock.model.costs.behind * slice_cycles
    begin = max(group.now, clock.units.free.get(principal.unit, 0.0) - slack if principal else 0.0)
    chosen = pace.busy if _tensor_works(clock, begin) else pace.idle
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
    clock.events.append(Event(group.track, node, group.began, group.now, iteration, 0.0, action.loop))
    return True


def _by_rows(statement: Statement) -> bool:
    """Whether it is a slice that the compiler puts between those of other operations, so that one unit works
    while instructions for another one are issued. What such a slice reads was computed slices before, but for
    the last."""
    return isinstance(statement, Compute) and statement.by_rows


def _end(statement: Statement) -> int:
    return statement.end if isinstance(statement, Compute) else SLICES


def _slots(clock: _Clock, op: Operation) -> int:
    """Cycles in which it issues instructions."""
    unit = clock.model.costs.slots
    return next((r.cycles for r in op.reservations if r.unit == unit), op.issue)


def _beside(clock: _Clock, group: _Group, time: float) -> float:
    """How many times as long a step takes."""
    others = (step for track, step in clock.steps.items() if track != group.track)
    return clock.model.costs.beside if any(begin <= time < end for begin, end in others) else 1.0


def _part(statement: Statement) -> float:
    """How much of its operation a statement executes."""
    return (statement.end - statement.begin) / SLICES if isinstance(statement, Compute) else 1.0


def _issue(clock: _Clock, group: _Group, action: Action, statement: MmaIssue) -> None:
    """An MMA, or a part of one."""
    problem, came = clock.model.problems.get(action.loop), group.now
    if problem is None:
        return
    op, scale, iteration = (
        problem.operation(statement.node),
        clock.model.scale(action),
        action.iteration(statement.at.iteration),
    )
    part = (statement.end - statement.begin) / clock.model.k[statement.ops[-1]] / group.members
    ready = max([came, *_operands(clock, group, action, problem, statement.node, iteration)])
    units = _exclusive(clock, action, op)
    begin = max(
        [_shared(clock, action, op, ready, part), *(clock.units.free.get(unit, 0.0) for unit in units)]
    )
    taken = max((r.cycles for r in op.reservations if r.unit in units), default=0) * scale
    mixed = _mixed(clock, group, problem, begin)
    end = begin + taken * part + mixed
    for unit in units:
        _take(clock, action, unit, statement.node, begin, end, iteration)
    clock.units.mmas.append((begin, end))
    done = end + op.latency * scale - taken
    if isinstance(statement.completion, MbarrierArrival):
        for slot in statement.completion.slots:
            _arrive(clock.barriers.empty, (slot.channel, action.sequence(slot.channel, slot.iteration)), done)
        for phase in statement.completion.barriers:
            number = action.sequence(phase.barrier, phase.iteration)
            _arrive(clock.barriers.arrived, (phase.barrier, number), done)
    else:
        group.in_flight.append(done)
    group.now = ready + clock.model.costs.launch + mixed
    if not isinstance(statement.completion, MbarrierArrival):
        group.now = max(group.now, end - clock.model.costs.ahead)
    clock.events.append(
        Event(group.track, statement.node, ready, group.now, iteration, ready - came, action.loop)
    )


def _mixed(clock: _Clock, group: _Group, problem: Problem, begin: float) -> float:
    """Execute what the compiler puts between the instructions of this MMA; how long that takes."""
    statement, spent = group.actions[group.done].statement, 0.0
    if not isinstance(statement, MmaIssue) or isinstance(statement.completion, MbarrierArrival):
        return spent
    for index, action, node in mixed_in(group.actions, group.done, problem):
        fraction = _part(action.statement) / group.members
        spent += _pace(clock, action, node).idle.latency * clock.model.scale(action) * fraction
        clock.ended[action.loop, node, action.number, group.member] = begin + spent
        clock.events.append(Event(group.track, node, begin, begin + spent, action.number, 0.0, action.loop))
        group.mixed.add(index)
    return spent


def _operands(
    clock: _Clock, group: _Group, action: Action, problem: Problem, node: str, iteration: int
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


def _pace(clock: _Clock, action: Action, node: str) -> Pace:
    op = clock.model.problems[action.loop].operation(node)
    return clock.model.paces.get((action.loop, node), Pace(op, op))
