"""Stores by TMA of a timed run (`timed`): when tiles are staged, and when TMA has read them.

TMA reads a slot in a loop with the cycles of shared memory that MMAs leave: on an H200 26 bytes per cycle
alone, 17 beside a wgmma that reads 64 bytes per cycle, 9 beside one that reads 96, 1 beside one that reads
128, and no wgmma is slower for it (benchmarks/calibrate/results/h200-contention.json). Of stores behind the
loops, conversions before them, and what loads take of TMA meanwhile, are left out.
"""

from functools import partial
from math import inf

from twill.ir.loop import Tensor
from twill.ir.machine import Machine
from twill.ir.operands import Slot
from twill.ir.program import Program
from twill.ir.statements import StoreTile, walk
from twill.simulate.actions import Action
from twill.simulate.clock import Clock, Group
from twill.simulate.passing import LoopStore
from twill.simulate.times import Event, Storing
from twill.simulate.working import STEP, shared_from
from twill.warp.slot_tensors import tile_bytes

TMA = "stores"
"""The part of TMA that reads what is stored: one tile after the other, whichever group stores it."""


def storing(program: Program, machine: Machine) -> Storing | None:
    """What the machine file says of the stores of a program, the slowest of them; None where it lacks
    that."""
    own = machine.shared.unit if machine.shared else ""
    every = (one for group in program.groups for one in walk(group.body))
    names = {program.op(one.ops[-1]).name for one in every if isinstance(one, StoreTile)}
    found = list[Storing]()
    for cost in filter(None, map(machine.cost, sorted(names))):
        rates = [rate for unit, rate in cost.rate.items() if unit != own and isinstance(rate, int | float)]
        if cost.issue_rate and rates:
            found.append(Storing(cost.issue_rate, min(rates), cost.latency))
    return min(found, key=lambda one: one.read, default=None)


def together(clock: Clock, group: Group, store: StoreTile) -> bool:
    """Whether all warpgroups of a group have come to a tile that they stage together."""
    if not store.staged or clock.model.stores is None:
        return True
    came = clock.came.setdefault((group.id, group.done), {})
    came.setdefault(group.member, group.now)
    return len(came) == group.members


def stage(clock: Clock, group: Group, store: StoreTile, tile: Tensor) -> None:
    """Each part: behind the reading of the one before, written between two barriers of the group, read. Every
    warpgroup of the group finds the same."""
    costs = clock.model.stores
    if costs is None:
        return
    part, barrier = tile_bytes(tile.shape, tile.dtype) / store.parts, clock.model.costs.order
    came = now = max(clock.came[group.id, group.done].values())
    for i in range(store.parts):
        if i or store.waits:
            now = max(now, group.reading) + barrier
        now += part / costs.written + barrier
        group.reading = now + part / costs.read + costs.latency
    clock.events.append(Event(group.track, "store", came, now, 0))
    group.now = now


def write(clock: Clock, group: Group, channel: str) -> None:
    """The rows of a warpgroup, written to a slot from which another warp stores them."""
    costs, one = clock.model.stores, clock.model.protocol.channels[channel][1]
    if costs is not None and one.by_warpgroup:
        came, group.now = group.now, group.now + one.stride / costs.written
        clock.events.append(Event(group.track, f"write {channel}", came, group.now, 0))


def slot_of(store: StoreTile) -> Slot | None:
    """The slot that a tile is stored from; None where the group stages it."""
    slots = (one.location for one in store.reads if isinstance(one.location, Slot))
    return None if store.staged else next(slots, None)


def read(clock: Clock, group: Group, action: Action, node: str, stored: LoopStore) -> bool:
    """A step of TMA's reading of a slot in a loop, one tile after the other; whether it was the last."""
    if group.reading < inf:
        free = max(group.now, clock.units.free.get(TMA, 0.0))
        op = clock.model.problems[action.loop].operation(node)
        group.now = group.began = shared_from(clock, action, op, free)
        group.reading = inf
    group.now, group.left = _step(clock, stored, group.now, group.left)
    if group.left > 1e-9:
        return False
    group.left, clock.units.free[TMA] = 1.0, group.now
    clock.ended[action.loop, node, action.number, group.member] = group.now
    group.reading = group.now + stored.latency
    event = Event(group.track, node, group.began, group.now, action.number, 0.0, action.loop)
    clock.events.append(event)
    return True


def stage_in_loop(clock: Clock, group: Group, action: Action, store: StoreTile) -> None:
    """A tile of a loop that its group stages: each part is written once TMA has read the one before. Each
    warpgroup by itself."""
    stored, node = clock.model.loop_stores[store.ops[-1]], clock.model.nodes[store.ops[-1]]
    op, came = clock.model.problems[action.loop].operation(node), group.now
    group.now = shared_from(clock, action, op, came)
    for _ in range(store.parts):
        group.now = max(group.now, group.staged() if group.staged else 0.0)
        group.now += stored.written / store.parts
        group.staged = partial(_read_at, clock, stored, group.now, 1.0 / store.parts)
    clock.ended[action.loop, node, action.number, group.member] = group.now
    clock.events.append(Event(group.track, node, came, group.now, action.number, 0.0, action.loop))


def _read_at(clock: Clock, stored: LoopStore, begin: float, left: float) -> float:
    """When TMA has read such a part of a tile that it begins to read then."""
    now = begin
    while left > 1e-9:
        now, left = _step(clock, stored, now, left)
    return now + stored.latency


def _step(clock: Clock, stored: LoopStore, now: float, left: float) -> tuple[float, float]:
    """Until when TMA reads the next piece of a tile, and what part of the tile is left then. It reads nothing
    while an MMA takes all of shared memory."""
    mma = clock.units.working(now)
    if mma and mma.shared == 1.0:
        return mma.end, left
    cycles = max(stored.read, stored.shared / (1.0 - mma.shared if mma else 1.0))
    part = min(left, STEP / cycles) if cycles else left
    return now + part * cycles, left - part


def from_slot(clock: Clock, group: Group, store: StoreTile) -> None:
    """By another warp, which TMA does not hold until it waits for the reading."""
    costs = clock.model.stores
    slot = slot_of(store)
    if costs is None or slot is None:
        return
    size = clock.model.protocol.channels[slot.channel][1].stride
    begin = max(group.now, clock.units.free.get(TMA, 0.0))
    end = clock.units.free[TMA] = begin + size / costs.read
    group.reading = end + costs.latency
    clock.events.append(Event(group.track, "store", begin, end, 0))
