"""The time that groups spend on register tiles which they pass to each other, or to a warp that stores them.

The problem's delay across groups says when such a tile can be used; that its threads write it to shared
memory, and those of its readers load it from there, is no operation of a schedule. A program executes both: a
timed run holds each of the two groups for its half of the way. A tile that another warp stores
(`warp.store_warp`) is one operation of a schedule, and two statements of a program: threads write it to a
slot, and TMA reads it there.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from twill.ir.machine import Cost
from twill.ir.operands import Slot
from twill.ir.problem import Operation
from twill.ir.program import Program
from twill.ir.statements import SLICES, Compute, Pipelined, ProducerStore, Statement, StoreTile, walk
from twill.warp.dataflow import stored_tile
from twill.warp.slot_tensors import tile_bytes
from twill.warp.tasks import Scheduled


@dataclass(frozen=True, slots=True)
class Passing:
    """A register tile that threads of other groups load from a channel."""

    loop: int
    """The loop that computes it, by operation."""
    held: float
    """Cycles for which the threads that write it, or load it, do nothing else."""
    shared: int
    """Cycles of shared memory for all of its ways."""
    groups: tuple[int, ...]
    """Of the schedule: the one that writes it, then those that load it."""


@dataclass(frozen=True, slots=True)
class LoopStore:
    """A tile of a loop that TMA stores, from a slot or from a buffer of its own group; cycles."""

    written: float
    """For which the threads that write it do nothing else."""
    read: float
    """For which TMA reads it at least."""
    shared: float
    """Of shared memory that the reading takes; 0 where the machine file does not say."""
    latency: float
    """From the end of that until it is known to be read."""


def passing(program: Program, loops: Sequence[Scheduled]) -> Mapping[str, Passing]:
    """What passes in registers from group to group in the loops, by channel. The way of a layout change
    through shared memory, and of a tile that TMA stores, is part of what these operations cost."""
    channels = {channel.id: channel for channel in program.channels}
    found = dict[str, Passing]()
    for one in loops:
        computing = {node.id for node in one.graph.nodes if node.kind != "convert"}
        tiles = {v.node for v in one.graph.values if v.tile.place == "registers"} & computing
        inside = list(_inside(program, one))
        stored = {it.channel: it.node for it in inside if isinstance(it, ProducerStore) and it.node in tiles}
        for name, node in stored.items():
            reading = {one.group(it.node) for it in inside if name in _loads(it)} - {one.group(node)}
            if reading:
                size = sum(tensor.bytes for tensor in channels[name].tensors)
                found[name] = _passing(one, size, (one.group(node), *sorted(reading)))
    return found


def slot_stores(program: Program, stores: Mapping[int, LoopStore]) -> Mapping[str, LoopStore]:
    """Of what the loops store, the tiles that leave from slots, by channel."""
    found = dict[str, LoopStore]()
    for store in _stores(program):
        slots = (read.location for read in store.reads if isinstance(read.location, Slot))
        if not store.staged and store.ops[-1] in stores:
            found |= {slot.channel: stores[store.ops[-1]] for slot in slots}
    return found


def loop_stores(program: Program, loops: Sequence[Scheduled]) -> Mapping[int, LoopStore]:
    """What the loops store, by operation."""
    nodes = {index: (one, node.id) for one in loops for node in one.graph.nodes for index in node.ops}
    found = dict[int, LoopStore]()
    for op in (program.op(store.ops[-1]) for store in _stores(program)):
        tile = stored_tile(op)
        if op.index in nodes:
            one, node = nodes[op.index]
            size, cost = tile_bytes(tile.shape, tile.dtype), one.machine.cost(op.name)
            found[op.index] = _loop_store(one, one.problem.operation(node), size, cost)
    return found


def _stores(program: Program) -> Iterator[StoreTile]:
    return (it for group in program.groups for it in walk(group.body) if isinstance(it, StoreTile))


def _loop_store(one: Scheduled, op: Operation, size: int, cost: Cost | None) -> LoopStore:
    """What the machine file says; where it lacks `spare_rate`, the group is held as the schedule has it.
    Who writes a tile to a place as large waits for no part of it to be read."""
    scale, own = one.problem.resolution.cycles_per_unit, one.machine.shared.unit if one.machine.shared else ""
    if cost is None or not cost.issue_rate or not cost.spare_rate:
        return LoopStore(op.issue * scale, 0.0, 0.0, 0.0)
    rates = [rate for unit, rate in cost.rate.items() if unit != own and isinstance(rate, int | float)]
    return LoopStore(
        cost.issue + size / cost.issue_rate,
        size / min(rates) if rates else 0.0,
        size / cost.spare_rate,
        cost.latency,
    )


def passed(one: Scheduled, tiles: Iterable[Passing]) -> Mapping[int, float]:
    """For how long each group of a loop's schedule writes and loads such tiles in an iteration, in units of
    its problem."""
    found, unit = defaultdict[int, float](float), one.problem.resolution.cycles_per_unit
    for tile in tiles:
        for group in tile.groups if tile.loop == one.loop.op.index else ():
            found[group] += tile.held / unit
    return found


def loaded(statement: Statement, tiles: Mapping[str, Passing]) -> float:
    """Cycles for which a statement loads such tiles."""
    part = (statement.end - statement.begin) / SLICES if isinstance(statement, Compute) else 1.0
    return sum(tiles[name].held for name in _loads(statement) if name in tiles) * part


def _inside(program: Program, one: Scheduled) -> Iterator[Compute | ProducerStore]:
    """What computes operations of the loop."""
    nodes = {node.id for node in one.graph.nodes}
    for group in program.groups:
        for loop in walk(group.body):
            if isinstance(loop, Pipelined) and loop.op == one.loop.op.index:
                computing = (it for it in walk((loop,)) if isinstance(it, Compute | ProducerStore))
                yield from (it for it in computing if it.node in nodes)


def _loads(statement: Statement) -> set[str]:
    """Channels from which the threads that execute a statement load."""
    if not isinstance(statement, Compute | ProducerStore):
        return set()
    return {read.location.channel for read in statement.reads if isinstance(read.location, Slot)}


def _passing(one: Scheduled, size: int, groups: tuple[int, ...]) -> Passing:
    machine = one.machine
    way = ceil(size / machine.shared.bytes_per_cycle) if machine.shared else 0
    return Passing(one.loop.op.index, size / machine.handover.bytes_per_cycle / 2, way * len(groups), groups)
