"""Whether accesses to tensor memory are ordered by what the groups wait for, whatever the timing.

Takes a program and trip counts; raises `HazardError` for two accesses to the same columns, one of them a
write, of which neither happens before the other. Each group is three agents: its threads, the warp that
issues its MMAs, and the tensor core working for it; a vector clock says what each agent knows to be complete
of every other. One run suffices: which waits there are does not depend on the interleaving. Shares no code
with the placement of barriers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from twill.ir.operands import ONCE, At, Read, Slot, TensorMemory
from twill.ir.program import Program
from twill.ir.schedule import WARPGROUP
from twill.ir.statements import (
    BarrierArrive,
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    LocalLoad,
    MbarrierArrival,
    MmaIssue,
    ProducerLoad,
    ProducerStore,
    StoreTile,
    StoreWait,
    TensorMemorySync,
)
from twill.simulate.actions import Action, toward_loops, unfold
from twill.simulate.explore import Counts
from twill.simulate.protocol import HazardError, Protocol
from twill.simulate.warpgroups import by_warpgroup

SLOTS = "the slots of "
"""What slots in which tiles are staged are called here."""

FENCED = ("dependence", "sync")
"""Barriers with tcgen05.fence before the arrival and after the wait."""

STORING = "store"
Agent = tuple[str, int]
"""("threads", "issuer", "mma" or STORING, group)."""
Clock = dict[Agent, int]


@dataclass(frozen=True, slots=True)
class _Access:
    """What an agent did to some columns."""

    agent: Agent
    time: int
    """Of the agent."""
    tile: str
    columns: tuple[int, int]
    writes: bool
    what: str


@dataclass(slots=True)
class _Run:
    program: Program
    time: Clock = field(default_factory=Clock)
    """What each agent has done."""
    known: dict[Agent, Clock] = field(default_factory=dict[Agent, Clock])
    """What each agent knows of the others, and threads of all other warps of their group."""
    fenced: dict[Agent, Clock] = field(default_factory=dict[Agent, Clock])
    """The same of what it knows through barriers with fences for tensor memory: not through channels."""
    arrived: dict[tuple[str, str, int], Clock] = field(default_factory=dict[tuple[str, str, int], Clock])
    """What is known behind a wait, by kind, name and number of its phase."""
    ordered: dict[tuple[str, str, int], Clock] = field(default_factory=dict[tuple[str, str, int], Clock])
    """The same with fences."""
    accesses: list[_Access] = field(default_factory=list[_Access])
    syncs: dict[int, int] = field(default_factory=dict[int, int])
    """How many `TensorMemorySync` each group has come to."""


def races(program: Program, counts: Counts) -> int:
    """How many accesses to tensor memory were compared. Raises HazardError."""
    program = by_warpgroup(program)
    run, protocol = _Run(program), Protocol.of(program)
    taken = toward_loops([group.body for group in program.groups])
    left = {group.id: list(unfold(group.body, counts, taken))[::-1] for group in program.groups}
    state = protocol.initial()
    while any(left.values()):
        group = next(
            (
                one
                for one, actions in left.items()
                if actions and (not protocol.concerns(actions[-1]) or protocol.ready(state, one, actions[-1]))
            ),
            None,
        )
        if group is None:
            raise HazardError("deadlock")
        action = left[group].pop()
        if protocol.concerns(action):
            state = protocol.after(state, group, action)
        _action(run, protocol, group, action)
    return len(run.accesses)


def _action(run: _Run, protocol: Protocol, group: int, action: Action) -> None:
    threads, issuer = ("threads", group), ("issuer", group)
    match action.statement:
        case BarrierWait(barrier=name, issuer=only) as wait if protocol.concerns(action):
            for agent in (issuer,) if only else (issuer, threads):
                _learn(run, "dependence", name, action.awaited(wait), agent)
        case BarrierArrive(barrier=name, at=at):
            by_mma = any(one.id == name and one.by == "mma" for one in run.program.dependences)
            agent = ("mma", group) if by_mma else threads
            _tell(run, "dependence", name, action.sequence(name, at.iteration), agent)
        case ConsumerWait(channel=name, at=at):
            for agent in (issuer,) if run.program.channel(name).only_mma(group) else (threads, issuer):
                _learn(run, "full", *_fill(run, name, action.sequence(name, at.iteration)), agent)
        case ConsumerRelease(channel=name, at=at):
            _tell(run, "empty", *_fill(run, name, action.sequence(name, at.iteration)), threads)
        case ProducerLoad(channel=name, at=at):
            _acquire(run, group, action, name, at)
            number = action.sequence(name, at.iteration)
            _slot(run, threads, name, f"the load to {name}", number, writes=True)
            _tell(run, "full", *_fill(run, name, number), threads)
        case StoreTile(buffer=buffer, staged=True):
            _staged(run, group, buffer)
        case StoreWait():
            _join(run.known.setdefault(threads, {}), {(STORING, group): run.time.get((STORING, group), 0)})
        case ProducerStore(channel=name, at=at, reads=reads):
            _acquire(run, group, action, name, at)
            _touched(run, action, threads, reads, (), name)
            number = action.sequence(name, at.iteration)
            _slot(run, threads, name, f"the store to {name}", number, writes=True)
            _tell(run, "full", *_fill(run, name, number), threads)
        case Compute(reads=reads, stores=stores, node=node):
            _touched(run, action, threads, reads, stores, node)
        case LocalLoad(value=value, source=source):
            _touched(run, action, threads, (Read(value, source),), (), "a read of a slot")
        case TensorMemorySync(half=half):
            _sync(run, group, half)
        case MmaIssue() as issue:
            _issue(run, group, action, issue)
        case _:
            pass


def _fill(run: _Run, name: str, number: int) -> tuple[str, int]:
    """Whose slots a channel fills, and the number of a fill of it among all fills of these."""
    channel = run.program.channel(name)
    return channel.slot_owner, channel.fill(number)


def _learn(run: _Run, kind: str, name: str, number: int, agent: Agent) -> None:
    _join(run.known.setdefault(agent, {}), run.arrived.get((kind, name, number), {}))
    _join(run.fenced.setdefault(agent, {}), run.ordered.get((kind, name, number), {}))


def _tell(run: _Run, kind: str, name: str, number: int, *agents: Agent) -> None:
    found = [(run.arrived, run.known), *([(run.ordered, run.fenced)] if kind in FENCED else [])]
    for phases, clocks in found:
        phase = phases.setdefault((kind, name, number), {})
        for agent in agents:
            _join(phase, clocks.get(agent, {}))
            _join(phase, {agent: run.time.get(agent, 0)})


def _join(clock: Clock, other: Mapping[Agent, int]) -> None:
    for agent, time in other.items():
        clock[agent] = max(time, clock.get(agent, 0))


def _acquire(run: _Run, group: int, action: Action, name: str, at: At) -> None:
    owner, number = _fill(run, name, action.sequence(name, at.iteration))
    for agent in (("threads", group), ("issuer", group)):
        _learn(run, "empty", owner, number - run.program.channel(name).depth, agent)


def _sync(run: _Run, group: int, half: str) -> None:
    """A group comes with its MMAs complete."""
    agents = (("threads", group), ("mma", group))
    if half == "arrive":
        run.syncs[group] = run.syncs.get(group, 0) + 1
        _tell(run, "sync", "", run.syncs[group], *agents)
    else:
        for agent in (("threads", group), ("issuer", group)):
            _learn(run, "sync", "", run.syncs[group], agent)


def _issue(run: _Run, group: int, action: Action, issue: MmaIssue) -> None:
    """The tensor core starts with what the issuing warp knows."""
    agent = ("mma", group)
    for clocks in (run.known, run.fenced):
        _join(clocks.setdefault(agent, {}), clocks.get(("issuer", group), {}))
    assert isinstance(issue.completion, MbarrierArrival)
    assert isinstance(issue.accumulator, TensorMemory)
    _touched(run, action, agent, issue.reads, (issue.accumulator,), issue.node)
    for read in issue.reads:
        if isinstance(read.location, Slot):
            number = action.sequence(read.location.channel, read.location.iteration)
            _slot(run, agent, read.location.channel, issue.node, number, writes=False)
    for slot in issue.completion.slots:
        number = action.sequence(slot.channel, slot.iteration)
        _tell(run, "empty", *_fill(run, slot.channel, number), agent)
    for phase in issue.completion.barriers:
        _tell(run, "dependence", phase.barrier, action.sequence(phase.barrier, phase.iteration), agent)


def _touched(
    run: _Run,
    action: Action,
    agent: Agent,
    reads: tuple[Read, ...],
    stores: tuple[TensorMemory, ...],
    what: str,
) -> None:
    """One point in time of an agent, with all of its accesses."""
    touched = {read.location for read in reads if isinstance(read.location, TensorMemory)} | set(stores)
    if not touched:
        return
    run.time[agent] = run.time.get(agent, 0) + 1
    for location in sorted(touched, key=str):
        tile = next(tile for tile in run.program.tensor_memory if tile.id == location.tile)
        number = action.iteration(location.iteration)
        number = action.sequence(tile.counter, ONCE) if tile.counter else number
        first = tile.column + number % tile.buffers * tile.columns
        columns = (first, first + tile.columns)
        access = _Access(agent, run.time[agent], tile.id, columns, location in stores, what)
        for other in run.accesses:
            if not other.tile.startswith(SLOTS):
                _check(run, other, access)
        run.accesses.append(access)


def _staged(run: _Run, group: int, name: str) -> None:
    """A tile on its way to global memory, in the slots of a channel: the group's threads write it with what
    they know, and it is read until they wait for the store."""
    buffer = next((buffer for buffer in run.program.buffers if buffer.id == name), None)
    if buffer is not None and buffer.overlays:
        agent = (STORING, group)
        _join(run.known.setdefault(agent, {}), run.known.get(("threads", group), {}))
        _join(run.known[agent], {("threads", group): run.time.get(("threads", group), 0)})
        _slot(run, agent, buffer.overlays, f"the store through {name}", None, writes=True)


def _slot(run: _Run, agent: Agent, channel: str, what: str, number: int | None, *, writes: bool) -> None:
    """An access to a slot of a channel, by its sequence number, or to all of them, where tiles are staged in
    them too."""
    one = run.program.channel(channel)
    overlaid = (run.program.channel(buffer.overlays) for buffer in run.program.buffers if buffer.overlays)
    if not any(other.slot_owner == one.slot_owner for other in overlaid):
        return
    slot = None if number is None else one.fill(number) % one.depth
    slots = (0, one.depth) if slot is None else (slot, slot + 1)
    run.time[agent] = run.time.get(agent, 0) + 1
    access = _Access(agent, run.time[agent], f"{SLOTS}{one.slot_owner}", slots, writes, what)
    for other in run.accesses:
        if other.tile == access.tile:
            _check(run, other, access)
    run.accesses.append(access)


def _check(run: _Run, before: _Access, access: _Access) -> None:
    overlap = before.columns[0] < access.columns[1] and access.columns[0] < before.columns[1]
    if not overlap or not (before.writes or access.writes) or _in_order(run, before, access):
        return
    clocks = run.known if access.tile.startswith(SLOTS) else run.fenced
    if clocks.get(access.agent, {}).get(before.agent, 0) < before.time:
        raise HazardError(
            f"{access.what} of group {access.agent[1]} uses {access.tile}, where"
            f" {before.what} of group {before.agent[1]} may not be complete"
        )


def _in_order(run: _Run, before: _Access, access: _Access) -> bool:
    """MMAs of one group; threads of one group, each with its own lanes, or with its own elements of one
    tile."""
    if before.agent != access.agent:
        return False
    width = next(group.warps for group in run.program.groups if group.id == access.agent[1])
    return access.agent[0] in ("mma", STORING) or width <= WARPGROUP or before.tile == access.tile
