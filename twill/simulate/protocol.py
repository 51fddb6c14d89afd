"""The state of channels and orders, and what each synchronizing statement does to it.

Barriers are modelled as the hardware has them: a phase bit that flips when all arrivals are in, and waits for
a parity. What a slot really holds and who has still to read it is kept beside them, so that a wait that
passes when it should not is found out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from twill.diagnostics import DefectError
from twill.ir.channels import Channel, DependenceBarrier, OrderBarrier
from twill.ir.effects import at, effects
from twill.ir.operands import Iteration
from twill.ir.program import Program
from twill.ir.statements import (
    BarrierArrive,
    BarrierWait,
    ConsumerRelease,
    ConsumerWait,
    MbarrierArrival,
    MmaIssue,
    OrderBarrierArrive,
    OrderBarrierWait,
    ProducerLoad,
    ProducerStore,
    TensorMemorySync,
)
from twill.simulate.actions import Action

T = TypeVar("T")


class HazardError(DefectError):
    """A warp program does what it must not; the message says what, where and in which iteration."""


SlotState = tuple[int, frozenset[int], int, frozenset[int], frozenset[int]]
"""Completed phases of its full barrier; who arrived on its empty barrier (`Protocol.arrivals`); completed
phases of the empty barrier; groups that read what it holds; blocks of the cluster that have loaded a part of
what it will hold."""
SlotStates = tuple[SlotState, ...]

_NONE = frozenset[int]()
_FRESH: SlotState = (0, _NONE, 0, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class State:
    """Where all channels and orders stand, those of the first block of a cluster first; hashable."""

    slots: tuple[SlotStates, ...]
    holds: tuple[tuple[int, ...], ...]
    """Sequence number that each slot of each channel holds; -1 before it is first filled."""
    signals: tuple[bool, ...]
    """Which ordering barriers have a signal that is not consumed yet."""
    arrived: tuple[int, ...] = ()
    """How many iterations have arrived on each dependence barrier."""
    met: frozenset[int] = frozenset()
    """Groups that have arrived at a `TensorMemorySync` and wait for the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Protocol:
    """The channels and orders of a program, by name; of one thread block, or of one of those that share
    loads."""

    channels: Mapping[str, tuple[int, Channel]]
    orders: Mapping[str, tuple[int, OrderBarrier]]
    dependences: Mapping[str, tuple[int, DependenceBarrier]]
    synchronized: frozenset[int]
    block: int = 0
    """Rank in its cluster."""
    blocks: int = 1
    """Of the cluster."""
    members: int = 0
    """What is added to the id of a group for the same one of the next block."""
    arrivals: dict[tuple[str, int], frozenset[int]] = field(
        default_factory=dict[tuple[str, int], frozenset[int]]
    )
    """What `_arrivals` has found."""

    @staticmethod
    def of(program: Program, block: int = 0, blocks: int = 1) -> "Protocol":
        """Of one of the blocks of a cluster; of a block by itself where these are left out."""

        def placed(one: Sequence[T]) -> Iterable[tuple[int, T]]:
            return enumerate(one, block * len(one))

        members = 1 + max(group.id for group in program.groups)
        places = {channel.id: i for i, channel in placed(program.channels)}
        return Protocol(
            {channel.id: (places[channel.slot_owner], channel) for channel in program.channels},
            {order.id: (i, order) for i, order in placed(program.orders)},
            {one.id: (i, one) for i, one in placed(program.dependences)},
            frozenset(group + block * members for group in program.synchronized),
            block,
            blocks,
            members,
        )

    def initial(self) -> State:
        channels = [channel for _, channel in self.channels.values()]
        slots = tuple((_FRESH,) * channel.depth for channel in channels)
        holds = tuple((-1,) * channel.depth for channel in channels)
        signals = tuple(order.signalled for _, order in self.orders.values())
        return State(
            slots * self.blocks,
            holds * self.blocks,
            signals * self.blocks,
            (0,) * (len(self.dependences) * self.blocks),
        )

    def concerns(self, action: Action) -> bool:
        """Whether an action waits for, or changes, what groups share."""
        match action.statement:
            case ConsumerRelease():
                return action.number >= 0
            case BarrierWait(awaited=awaited):
                return action.iteration(awaited) >= 0
            case statement:
                return effects(statement).shared

    def ready(self, state: State, group: int, action: Action) -> bool:
        """Whether an action of a group need not wait."""
        match action.statement:
            case ProducerLoad(channel=name) | ProducerStore(channel=name):
                number, slot, slots, channel = self._slot(state, name, action)
                return slots[slot][2] % 2 != (number // channel.depth + 1) % 2
            case ConsumerWait(channel=name):
                number, slot, slots, channel = self._slot(state, name, action)
                return slots[slot][0] % 2 != number // channel.depth % 2
            case OrderBarrierWait(order=name):
                return state.signals[self.orders[name][0]]
            case BarrierWait(barrier=name) as wait:
                position, barrier = self.dependences[name]
                number = action.awaited(wait)
                slot = number % barrier.depth
                completed = -(-(state.arrived[position] - slot) // barrier.depth)
                return completed % 2 != number // barrier.depth % 2
            case TensorMemorySync(half="wait"):
                return self._member(group) not in state.met
            case _:
                return True

    def after(self, state: State, group: int, action: Action) -> State:
        """The state after an action that is ready. Raises HazardError."""
        match action.statement:
            case ProducerLoad(channel=name) | ProducerStore(channel=name):
                return self._producer_load(state, group, name, action)
            case ConsumerWait(channel=name):
                return self._consumer_wait(state, group, name, action)
            case ConsumerRelease(channel=name):
                return self._consumer_release(state, group, name, action)
            case OrderBarrierWait(order=name):
                return self._signal(state, name, False)
            case OrderBarrierArrive(order=name):
                if state.signals[self.orders[name][0]]:
                    raise HazardError(f"group {group} signals {name} twice before it is consumed")
                return self._signal(state, name, True)
            case MmaIssue(completion=MbarrierArrival(slots, phases)):
                for slot in slots:
                    number = action.sequence(slot.channel, slot.iteration)
                    state = self._released(state, group, slot.channel, number, ~group)
                for phase in phases:
                    state = self._arrive(state, phase.barrier, action, phase.iteration)
                return state
            case BarrierArrive(barrier=name, at=when):
                return self._arrive(state, name, action, when.iteration)
            case BarrierWait(barrier=name) as wait:
                return self._checked_wait(state, name, action.awaited(wait))
            case TensorMemorySync(half="arrive"):
                met = state.met | {self._member(group)}
                return replace(state, met=met - self.synchronized if met >= self.synchronized else met)
            case _:
                return state

    def _member(self, group: int) -> int:
        """A group among those of all blocks."""
        return group + self.block * self.members

    def _targets(self, channel: Channel) -> range:
        """The blocks whose slots of a channel a load fills, and to which a consumer releases them."""
        shared = self.blocks > 1 and channel.multicast
        return range(self.blocks) if shared else range(self.block, self.block + 1)

    def _of_block(self, position: int, block: int) -> int:
        """The position of the same channel in another block."""
        return position + (block - self.block) * len(self.channels)

    def _arrive(self, state: State, name: str, action: Action, iteration: Iteration) -> State:
        position, _ = self.dependences[name]
        number, arrived = action.sequence(name, iteration), state.arrived[position]
        if number != arrived:
            raise HazardError(f"iteration {number} arrives on {name}, but {arrived} is next")
        changed = (*state.arrived[:position], arrived + 1, *state.arrived[position + 1 :])
        return State(state.slots, state.holds, state.signals, changed, state.met)

    def _checked_wait(self, state: State, name: str, number: int) -> State:
        position, barrier = self.dependences[name]
        arrived = state.arrived[position]
        if not number < arrived <= number + barrier.depth:
            raise HazardError(
                f"the wait for iteration {number} of {name} is over when {arrived} iterations have arrived"
            )
        return state

    def _slot(self, state: State, name: str, action: Action) -> tuple[int, int, SlotStates, Channel]:
        position, channel = self.channels[name]
        number = channel.fill(action.sequence(name, at(action.statement).iteration))
        return number, number % channel.depth, state.slots[position], channel

    def _producer_load(self, state: State, group: int, name: str, action: Action) -> State:
        number, _, _, channel = self._slot(state, name, action)
        for block in self._targets(channel):
            state = self._filled(state, group, channel, number, block)
        return state

    def _filled(self, state: State, group: int, channel: Channel, number: int, block: int) -> State:
        """A slot of a block, by a group of this block; full once all blocks that fill it have loaded."""
        position, slot, name = (
            self._of_block(self.channels[channel.id][0], block),
            number % channel.depth,
            channel.id,
        )
        held = state.holds[position][slot]
        full, arrived, empty, readers, loaded = state.slots[position][slot]
        reading = min((*readers, *self._own(arrived)), default=channel.consumers[0])
        unfinished = held >= 0 and empty * channel.depth <= held
        unread = self._own(self._arrivals(channel, reading) - arrived) if unfinished else _NONE
        if unread or readers:
            who = ", ".join(map(str, sorted({*unread, *readers})))
            raise HazardError(
                f"group {group} overwrites tile {held} of {name} with tile {number} before group {who} has"
                " consumed it"
            )
        if held >= 0 and number != held + channel.depth:
            raise HazardError(
                f"group {group} fills {name} with tile {number} where tile {held + channel.depth} belongs"
            )
        if self.block in loaded:
            raise HazardError(f"group {group} fills {name} with tile {number} twice")
        if len(loaded) + 1 < len(self._targets(channel)):
            waiting = (full, arrived, empty, readers, loaded | {self.block})
            return self._changed(state, position, slot, waiting, held)
        return self._changed(state, position, slot, (full + 1, arrived, empty, readers, _NONE), number)

    def _consumer_wait(self, state: State, group: int, name: str, action: Action) -> State:
        number, slot, slots, channel = self._slot(state, name, action)
        position = self.channels[name][0]
        held = state.holds[position][slot]
        if held != number:
            what = "nothing" if held < 0 else f"tile {held}"
            raise HazardError(
                f"group {group} acquires tile {number} of {name}, but the slot holds {what}: read before its"
                " write"
            )
        full, arrived, empty, readers, loaded = slots[slot]
        if group in readers or arrived & {group, ~group} or group not in channel.consumers:
            raise HazardError(
                f"group {group} acquires tile {number} of {name} twice, or is no consumer of it"
            )
        if not readers | self._own(arrived) <= self._own(self._arrivals(channel, group)):
            raise HazardError(f"group {group} acquires tile {number} of {name}, which is of another tile's")
        return self._changed(state, position, slot, (full, arrived, empty, readers | {group}, loaded), held)

    def _consumer_release(self, state: State, group: int, name: str, action: Action) -> State:
        return self._released(
            state, group, name, action.sequence(name, at(action.statement).iteration), group
        )

    def _released(self, state: State, group: int, name: str, number: int, arrival: int) -> State:
        """By threads of a group, or by its MMAs, by sequence number; to all blocks that fill the
        slot."""
        position, channel = self.channels[name]
        number = channel.fill(number)
        slot = number % channel.depth
        full, arrived, empty, readers, loaded = state.slots[position][slot]
        if group not in readers or state.holds[position][slot] != number:
            raise HazardError(f"group {group} releases tile {number} of {name} without having acquired it")
        expected = self._arrivals(channel, group)
        if arrival in arrived or arrival not in expected:
            raise HazardError(f"group {group} releases tile {number} of {name} twice")
        if expected & {group, ~group} <= arrived | {arrival}:
            readers = readers - {group}
        own = (full, arrived, empty, readers, loaded)
        state = self._changed(state, position, slot, own, number)
        for block in self._targets(channel):
            state = self._arrived(state, channel, slot, block, arrival, expected)
        return state

    def _arrived(
        self, state: State, channel: Channel, slot: int, block: int, arrival: int, expected: frozenset[int]
    ) -> State:
        """An arrival of this block on the empty barrier of a slot of a block."""
        position = self._of_block(self.channels[channel.id][0], block)
        full, arrived, empty, readers, loaded = state.slots[position][slot]
        # In the other block, the groups of this one are those beyond its own.
        arrived |= {arrival if block == self.block else arrival + self.members}
        if arrived == expected:
            arrived, empty = _NONE, empty + 1
        held = state.holds[position][slot]
        return self._changed(state, position, slot, (full, arrived, empty, readers, loaded), held)

    def _changed(
        self,
        state: State,
        position: int,
        slot: int,
        changed: SlotState,
        held: int,
    ) -> State:
        slots, holds = state.slots[position], state.holds
        own = (*slots[:slot], changed, *slots[slot + 1 :])
        if holds[position][slot] != held:
            new = (*holds[position][:slot], held, *holds[position][slot + 1 :])
            holds = (*holds[:position], new, *holds[position + 1 :])
        all_slots = (*state.slots[:position], own, *state.slots[position + 1 :])
        return State(all_slots, holds, state.signals, state.arrived, state.met)

    def _signal(self, state: State, name: str, value: bool) -> State:
        position = self.orders[name][0]
        signals = (*state.signals[:position], value, *state.signals[position + 1 :])
        return State(state.slots, state.holds, signals, state.arrived, state.met)

    def _own(self, arrivals: Iterable[int]) -> frozenset[int]:
        """The groups of a block whose arrivals some are, by threads or MMAs."""
        return frozenset(group for one in arrivals if (group := max(one, ~one)) < self.members)

    def _arrivals(self, channel: Channel, group: int) -> frozenset[int]:
        """Who arrives on the empty barrier of a slot that a group reads: g for the threads of group g, ~g for
        its MMAs; of the groups of the other block of a cluster, beyond those of its own, the threads."""
        found = self.arrivals.get((channel.id, group))
        if found is None:
            found = self.arrivals[channel.id, group] = self._all_arrivals(channel, group)
        return found

    def _all_arrivals(self, channel: Channel, group: int) -> frozenset[int]:
        releasing = channel.sharing(group) if channel.alternating else channel.releasing
        others = (one + self.members for one in releasing if len(self._targets(channel)) > 1)
        return frozenset((*releasing, *others, *(~one for one in channel.by_mma)))
