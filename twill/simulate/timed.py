"""How many cycles a warp program takes, and where its groups wait.

Takes a program with the problems of its loops (costs in units of time), a few costs of synchronization, and
how fast operations are beside an idle and under a busy tensor core; gives every statement with its time.
Warpgroups execute their statements in order (a group of 8 warps is two of them, each with its half of every
tile). An operation starts when its warpgroup has come to it and its operands are there (the delays of the
problem's edges), and goes on in small steps, each as fast as the tensor core lets it and when its unit is
free, and slower beside another warpgroup that computes; the tensor core and TMA work on while the warpgroup
goes on, the issue of an MMA that is waited for by number (wgmma) holds it once it is too far ahead. Code
outside of the loops takes no time, except for stores whose costs are given (`stored`).
"""

import heapq
from collections.abc import Sequence

from twill.ir.effects import at
from twill.ir.operands import At
from twill.ir.program import Program
from twill.ir.schedule import WARPGROUP
from twill.ir.statements import (
    BarrierArrive,
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    OrderBarrierArrive,
    OrderBarrierWait,
    ProducerLoad,
    ProducerStore,
    StoreTile,
    StoreWait,
    TensorMemorySync,
)
from twill.simulate.actions import Action, toward_loops, unfold
from twill.simulate.clock import SYNC, Clock, Group, Model, arrive
from twill.simulate.explore import Counts, describe
from twill.simulate.protocol import HazardError
from twill.simulate.stored import from_slot, read, slot_of, stage, stage_in_loop, together, write
from twill.simulate.times import Costs, Event, Paces, Run, Storing, Transfer
from twill.simulate.warpgroups import by_warpgroup
from twill.simulate.working import issue, shared_from, work
from twill.warp.tasks import Scheduled


def simulate(
    program: Program, loops: Sequence[Scheduled], counts: Counts, costs: Costs, paces: Paces | None = None
) -> tuple[Event, ...]:
    """Every statement of the loops with its time, by time. Raises HazardError where the program stands
    still."""
    return run(program, loops, counts, costs, paces).events


def run(
    program: Program,
    loops: Sequence[Scheduled],
    counts: Counts,
    costs: Costs,
    paces: Paces | None = None,
    stores: Storing | None = None,
    *,
    second: bool = False,
) -> Run:
    """The same, with what passes through the channels, and with the time of some stores behind the loops;
    of a branch with loops in both of its parts the first part, or the `second`. Raises HazardError."""
    program = by_warpgroup(program)
    model = Model.of(program, loops, costs, paces or {}, stores)
    clock = Clock(model, model.protocol.initial())
    groups, taken = list[Group](), toward_loops([one.body for one in program.groups], second=second)
    for warps in program.groups:
        members = max(1, warps.warps // WARPGROUP)
        groups += [
            Group(warps.id, member, members, list(unfold(warps.body, counts, taken)), of=warps.of)
            for member in range(members)
        ]
    _run(clock, groups)
    events = tuple(sorted(clock.events, key=lambda event: (event.begin, event.track)))
    return Run(events, tuple(clock.transfers), clock.barriers.full, clock.barriers.empty)


def _run(clock: Clock, groups: Sequence[Group]) -> None:
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


def _held_back(clock: Clock, group: Group, action: Action) -> bool:
    """What the first warpgroup of a group has passed, the others pass too; all of them arrive where groups
    synchronize."""
    protocol = clock.model.protocol
    if isinstance(action.statement, StoreTile) and action.loop is None:
        return not together(clock, group, action.statement)
    if isinstance(action.statement, TensorMemorySync) and action.statement.half == "wait":
        arrived = clock.passed[group.id, group.done - 1] == group.members
        return not (arrived and protocol.ready(clock.state, group.id, action))
    passed = clock.passed[group.id, group.done] > 0
    return not passed and protocol.concerns(action) and not protocol.ready(clock.state, group.id, action)


def _pass(clock: Clock, group: Group, action: Action) -> None:
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


def _consumer_wait(clock: Clock, group: Group, action: Action, it: ConsumerWait) -> None:
    came, costs, filled = group.now, clock.model.costs, _fill(clock, action, it.channel, it.at)
    group.now = max(came + costs.poll, clock.barriers.full[filled] + costs.barrier)
    _note(clock, group, action, f"consumer_wait {it.channel}", came, it.at.cycle)
    clock.transfers.append(Transfer(*filled, group.track, "wait", came, group.now))


def _by_mma(clock: Clock, barrier: str) -> bool:
    """Whether the completion of an MMA arrives at a dependence barrier."""
    return clock.model.protocol.dependences[barrier][1].by == "mma"


def _barrier_arrive(clock: Clock, group: Group, action: Action, it: BarrierArrive) -> None:
    """Threads arrive when the accesses before are complete (`tcgen05.wait`), which holds up no arithmetic
    behind them."""
    done = [one.end for one in clock.units.mmas[-1:]] if _by_mma(clock, it.barrier) else [group.complete]
    phase = it.barrier, action.sequence(it.barrier, it.at.iteration)
    arrive(clock.barriers.arrived, phase, max([group.now, *done]))


def _barrier_wait(clock: Clock, group: Group, action: Action, it: BarrierWait) -> None:
    came, costs = group.now, clock.model.costs
    done = clock.barriers.arrived[it.barrier, action.awaited(it)]
    group.now = max(came + costs.poll, done + (0 if _by_mma(clock, it.barrier) else costs.barrier))
    _note(clock, group, action, f"wait {it.barrier}", came, it.at.cycle)


def _advance(clock: Clock, group: Group, action: Action) -> bool:
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
            if ops and action.loop is not None and not work(clock, group, action, node):
                return False
            _pass_on(clock, group, action, name)
            write(clock, group, name)
            _producer_load(clock, group, action, name)
        case ConsumerWait() as wait:
            _consumer_wait(clock, group, action, wait)
        case ConsumerRelease(channel=name, at=at) if action.iteration(at.iteration) >= 0:
            arrive(clock.barriers.empty, _fill(clock, action, name, at), group.now)
        case OrderBarrierWait(order=name, at=at):
            group.now = max(group.now, clock.barriers.signalled.get(name, -costs.order) + costs.order)
            _note(clock, group, action, f"wait {name}", came, at.cycle)
        case OrderBarrierArrive(order=name):
            clock.barriers.signalled[name] = group.now
        case BarrierArrive() as arrival:
            _barrier_arrive(clock, group, action, arrival)
        case BarrierWait() as wait if clock.model.protocol.concerns(action):
            _barrier_wait(clock, group, action, wait)
        case Compute(node=node) if action.loop is not None:
            return group.done in group.mixed or work(clock, group, action, node)
        case StoreTile() as store if action.loop is not None:
            return _store(clock, group, action, store)
        case StoreTile(staged=True, ops=ops) as store:
            stage(clock, group, store, clock.model.tiles[ops[-1]])
        case StoreTile() as store:
            from_slot(clock, group, store)
        case StoreWait():
            group.now = max(group.now, group.reading)
        case TensorMemorySync(half=half) if clock.model.orders_stores:
            _synchronize(clock, group, half)
        case MmaIssue():
            issue(clock, group, action, action.statement)
        case _:
            pass
    return True


def _synchronize(clock: Clock, group: Group, half: str) -> None:
    """All groups wait for each other, and for what they have stored: a group that loads runs no further
    ahead. (fla's prepare_wy_repr_bwd_kernel, whose last loop loads what its second one stores, on an H200:
    0.243 ms with a group that loads, 0.172 in as many thread blocks of one group that loads too.)"""
    if half == "arrive":
        group.met += 1
        arrive(clock.barriers.met, (SYNC, group.met), group.now)
    else:
        stored = clock.barriers.met[SYNC, group.met] + clock.model.costs.stored
        group.now = max(group.now, stored + clock.model.costs.barrier)


def _store(clock: Clock, group: Group, action: Action, store: StoreTile) -> bool:
    """A step of a store of a loop: TMA reads a slot, or the group stages the tile."""
    node, stored = clock.model.nodes[store.ops[-1]], clock.model.loop_stores[store.ops[-1]]
    if not stored.shared:
        return work(clock, group, action, node)
    if slot_of(store) is not None:
        return read(clock, group, action, node, stored)
    stage_in_loop(clock, group, action, store)
    return True


def _note(clock: Clock, group: Group, action: Action, name: str, came: float, cycle: int | None) -> None:
    """The time that a group stood still at a wait."""
    if group.now > came and cycle is not None:
        clock.events.append(
            Event(group.track, name, came, group.now, action.number, group.now - came, action.loop)
        )


def _fill(clock: Clock, action: Action, name: str, when: At) -> tuple[str, int]:
    """Of a statement on a channel: whose slots it has, and which of their fills is meant."""
    channel = clock.model.protocol.channels[name][1]
    return channel.slot_owner, channel.fill(action.sequence(name, when.iteration))


def _room(clock: Clock, group: Group, action: Action, name: str) -> None:
    """Wait until a slot is empty."""
    when, came = at(action.statement), group.now
    owner, number = _fill(clock, action, name, when)
    depth = clock.model.protocol.channels[name][1].depth
    if number >= depth:
        group.now = max(
            came + clock.model.costs.poll,
            clock.barriers.empty[owner, number - depth] + clock.model.costs.barrier,
        )
    _note(clock, group, action, f"producer_acquire {name}", came, when.cycle)


def _pass_on(clock: Clock, group: Group, action: Action, name: str) -> None:
    """The threads write a register tile for another group, or for the warp that stores it."""
    tile, stored = clock.model.passing.get(name), clock.model.slot_stores.get(name)
    held = tile.held if tile else stored.written if stored else 0.0
    if held and action.loop is not None:
        came, group.now = group.now, group.now + held
        event = Event(group.track, f"write {name}", came, group.now, action.number, 0.0, action.loop)
        clock.events.append(event)


def _producer_load(clock: Clock, group: Group, action: Action, name: str) -> None:
    """Tiles on their way: TMA is taken, then they arrive."""
    arrival = began = group.now
    owner, number = _fill(clock, action, name, at(action.statement))
    if isinstance(action.statement, ProducerLoad):
        for load in action.statement.loads:
            problem, scale = clock.model.problems.get(action.loop), clock.model.scale(action)
            if problem is not None:
                op = problem.operation(clock.model.nodes[load.ops[-1]])
                begin = shared_from(clock, action, op, group.now)
                group.now += op.issue * scale
                arrival = max(arrival, begin + max((r.cycles for r in op.reservations), default=0) * scale)
        arrival += clock.model.costs.load
    clock.barriers.full[owner, number] = max(arrival, clock.barriers.full.get((owner, number), 0.0))
    clock.transfers.append(Transfer(owner, number, group.track, "fill", began, group.now))
