"""How many cycles a warp program takes, and where its groups wait.

Takes a program with the problems of its loops (costs in units of time) and a few costs of hand-over; gives every statement with its time.
Groups execute their statements in order; an operation starts when its group has come to it, its operands are there (the delays of
the problem's edges) and its unit is free; the tensor core and TMA work on while the group goes on, the issue of a product holds the
group once it is too far ahead. Code outside of the loops takes no time.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twill.codegen.nodes import Scheduled
from twill.ir.problem import Operation, Problem
from twill.ir.program import Compute, Consumed, Get, MmaIssue, MmaWait, OrderSignal, OrderWait, Program, PutLoad, PutTile, StoreTile
from twill.simulate.actions import Action, unfold
from twill.simulate.explore import Counts, describe
from twill.simulate.protocol import HazardError, Protocol, State


@dataclass(frozen=True, slots=True)
class Costs:
    """What the problem does not say; cycles."""

    barrier: int
    """From an arrival to the end of a wait for it."""
    load: int
    """From the end of a load's occupancy of TMA to its arrival."""
    ahead: int = 300
    """How far the issue of a product runs ahead of the tensor core (measured, benchmarks/notebook.md)."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time; cycles."""

    track: str
    """`group 1`, or a unit."""
    name: str
    begin: float
    end: float
    iteration: int
    waited: float = 0.0
    """How long its group stood still before it."""
    loop: int | None = None


@dataclass(slots=True)
class _Group:
    id: int
    actions: list[Action]
    done: int = 0
    now: float = 0.0
    flying: list[float] = field(default_factory=list[float])
    """When the products in flight complete."""


@dataclass(slots=True)
class _Clock:
    protocol: Protocol
    state: State
    problems: Mapping[int | None, Problem]
    intervals: Mapping[int | None, float]
    costs: Costs
    k: Mapping[int, int]
    """K of products, by operation."""
    lines: Mapping[int, int]
    """Where operations stand in the text."""
    free: dict[str, float] = field(default_factory=dict[str, float])
    started: dict[tuple[int | None, str, int], float] = field(default_factory=dict[tuple[int | None, str, int], float])
    full: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    empty: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    signalled: dict[str, float] = field(default_factory=dict[str, float])
    events: list[Event] = field(default_factory=list[Event])


def simulate(program: Program, loops: Sequence[Scheduled], counts: Counts, costs: Costs) -> tuple[Event, ...]:
    """Every statement of the loops with its time, by time. Raises HazardError where the program stands still."""
    protocol = Protocol.of(program)
    products = [op for op in program.function.walk() if op.name == "ttng.warp_group_dot"]
    k = {op.index: getattr(op.operands[0].type, "shape")[-1] for op in products}  # noqa: B009
    lines = {op.index: op.location.line for op in program.function.walk()}
    problems: dict[int | None, Problem] = {one.loop.op.index: one.problem for one in loops}
    intervals: dict[int | None, float] = {
        one.loop.op.index: one.solution.interval * one.problem.resolution.cycles_per_unit for one in loops
    }
    clock = _Clock(protocol, protocol.initial(), problems, intervals, costs, k, lines)
    groups = [_Group(warps.id, list(unfold(warps.body, counts))) for warps in program.groups]
    queue, parked = [(0.0, i) for i in range(len(groups))], set[int]()
    while queue:
        _, i = heapq.heappop(queue)
        group = groups[i]
        if group.done == len(group.actions):
            continue
        action = group.actions[group.done]
        if protocol.concerns(action) and not protocol.ready(clock.state, action):
            parked.add(i)
            continue
        _advance(clock, group, action)
        group.done += 1
        for j in (i, *sorted(parked)):
            heapq.heappush(queue, (groups[j].now, j))
        parked.clear()
    if parked:
        waits = "; ".join(f"group {groups[i].id} at {describe(groups[i].actions[groups[i].done])}" for i in sorted(parked))
        raise HazardError(f"deadlock: {waits}")
    return tuple(sorted(clock.events, key=lambda event: (event.begin, event.track)))


def _advance(clock: _Clock, group: _Group, action: Action) -> None:
    """One statement of a group."""
    came, barrier = group.now, clock.costs.barrier
    match action.statement:
        case MmaWait(pending=pending, at=at):
            while len(group.flying) > pending:
                group.now = max(group.now, group.flying.pop(0))
            _note(clock, group, action, f"wait {pending}", came, at.cycle)
        case PutLoad(channel=name, at=at) | PutTile(channel=name, at=at):
            number = action.sequence(name, at.iteration)
            channel = clock.protocol.channels[name][1]
            if number >= channel.depth:
                group.now = max(group.now, clock.empty[name, number - channel.depth] + barrier)
            _note(clock, group, action, f"put {name}", came, at.cycle)
            _put(clock, group, action, name, number)
        case Get(channel=name, at=at):
            group.now = max(group.now, clock.full[name, action.sequence(name, at.iteration)] + barrier)
            _note(clock, group, action, f"get {name}", came, at.cycle)
        case Consumed(channel=name, at=at) if action.iteration(at.iteration) >= 0:
            slot = (name, action.sequence(name, at.iteration))
            clock.empty[slot] = max(group.now, clock.empty.get(slot, 0.0))
        case OrderWait(order=name, at=at):
            group.now = max(group.now, clock.signalled.get(name, -barrier) + barrier)
            _note(clock, group, action, f"take {name}", came, at.cycle)
        case OrderSignal(order=name):
            clock.signalled[name] = group.now
        case Compute() | MmaIssue() | StoreTile():
            _work(clock, group, action, came)
        case _:
            pass
    if clock.protocol.concerns(action):
        clock.state = clock.protocol.after(clock.state, group.id, action)


def _note(clock: _Clock, group: _Group, action: Action, name: str, came: float, cycle: int | None) -> None:
    """The time that a group stood still at a wait."""
    if group.now > came and cycle is not None:
        at = getattr(action.statement, "at")  # noqa: B009
        clock.events.append(
            Event(f"group {group.id}", name, came, group.now, action.iteration(at.iteration), group.now - came, action.loop)
        )


def _put(clock: _Clock, group: _Group, action: Action, name: str, number: int) -> None:
    """Tiles on their way: TMA is taken, then they arrive."""
    arrival = group.now
    if isinstance(action.statement, PutLoad):
        for load in action.statement.loads:
            op = _load_operation(clock, action, load.ops)
            if op is not None:
                begin = _units(clock, action, op, group.now, 1.0, number)
                group.now += op.issue * _scale(clock, action)
                arrival = max(arrival, begin + max((r.cycles for r in op.reservations), default=0) * _scale(clock, action))
        arrival += clock.costs.load
    clock.full[name, number] = arrival


def _load_operation(clock: _Clock, action: Action, ops: tuple[int, ...]) -> Operation | None:
    """The operation of the problem that a load is: the one at its line. None outside of the loops."""
    problem = clock.problems.get(action.loop)
    line = clock.lines[ops[-1]]
    return next((op for op in problem.operations if op.location and op.location.line == line), None) if problem else None


def _scale(clock: _Clock, action: Action) -> float:
    problem = clock.problems.get(action.loop)
    return problem.resolution.cycles_per_unit if problem else 1.0


def _units(clock: _Clock, action: Action, op: Operation, ready: float, part: float, iteration: int) -> float:
    """Take an operation's units as soon as they are free; when it starts. Of an aggregate unit, so much is left as the schedule's interval
    has of it: only what goes beyond makes an operation wait."""
    problem, scale = clock.problems[action.loop], _scale(clock, action)
    shared = {unit.name: unit.capacity for unit in problem.units if unit.aggregate}
    taken = [r for r in op.reservations if r.unit not in shared]
    spare = clock.intervals[action.loop]
    begin = max([ready, *(clock.free.get(r.unit, 0.0) - r.offset * scale for r in taken)])
    begin = max([begin, *(clock.free.get(r.unit, 0.0) - spare for r in op.reservations if r.unit in shared)])
    for r in op.reservations:
        if r.unit in shared:
            used = r.cycles * scale * part * r.amount / shared[r.unit]
            clock.free[r.unit] = max(clock.free.get(r.unit, 0.0), begin) + used
            continue
        end = begin + r.offset * scale + r.cycles * scale * part
        clock.free[r.unit] = end
        clock.events.append(Event(r.unit, op.id, begin + r.offset * scale, end, iteration, 0.0, action.loop))
    return begin


def _work(clock: _Clock, group: _Group, action: Action, came: float) -> None:
    """An operation of a loop."""
    statement, problem = action.statement, clock.problems.get(action.loop)
    node = getattr(statement, "node", "")
    if problem is None or node not in {op.id for op in problem.operations}:
        return
    op, scale = problem.operation(node), _scale(clock, action)
    iteration = action.iteration(getattr(statement, "at").iteration)  # noqa: B009
    ready = max([came, *_operands(clock, action, problem, node, iteration)])
    part = 1.0
    if isinstance(statement, MmaIssue):
        part = (statement.end - statement.begin) / clock.k[statement.ops[-1]]
    begin = _units(clock, action, op, ready, part, iteration)
    clock.started.setdefault((action.loop, node, iteration), begin)
    if isinstance(statement, MmaIssue):
        taken = max((r.cycles for r in op.reservations), default=0) * scale
        group.flying.append(begin + taken * part + op.latency * scale - taken)
        group.now = max(ready + op.issue * scale, begin + taken * part - clock.costs.ahead)
        begin = ready
    else:
        group.now = begin + op.issue * scale
    clock.events.append(Event(f"group {group.id}", node, begin, group.now, iteration, begin - came, action.loop))


def _operands(clock: _Clock, action: Action, problem: Problem, node: str, iteration: int) -> list[float]:
    """When what an operation reads from its own group's registers is there; products are waited for by statements."""
    return [
        clock.started[action.loop, edge.src, iteration - edge.distance] + edge.delay * problem.resolution.cycles_per_unit
        for edge in problem.edges
        if edge.dst == node and not _is_product(problem, edge.src) and (action.loop, edge.src, iteration - edge.distance) in clock.started
    ]


def _is_product(problem: Problem, node: str) -> bool:
    return problem.operation(node).name == "ttng.warp_group_dot"
