"""The state of channels and orders, and what each synchronizing statement does to it.

Barriers are modelled as the hardware has them: a phase bit that flips when all arrivals are in, and waits for
a parity. What a slot really holds and who has still to read it is kept beside them, so that a wait that
passes when it should not is found out.

Of a pair of thread blocks (`Program.pairs`) the first one issues the MMAs of both: it waits for the slots of
both, and the completion of an MMA arrives in both blocks.
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
_NONE_NAMED = frozenset[str]()
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
    phases: tuple[tuple[int, int], ...] = ()
    """Of each channel that warpgroups fill alternately: completed phases of its full and empty barriers."""


@dataclass(frozen=True, slots=True, eq=False)
class Protocol:
    """The channels and orders of a program, by name; of one thread block, of one of those that share loads,
    or of one of a pair."""

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
    pairs: bool = False
    """The blocks are a pair."""
    joint: frozenset[str] = _NONE_NAMED
    """Dependence barriers that threads of both blocks of a pair arrive on (`Program.joint`)."""
    of_pair: frozenset[str] = _NONE_NAMED
    """Channels whose slots are full when those of both blocks are (`Program.of_pair`)."""
    alternate: Mapping[str, int] = field(default_factory=dict[str, int])
    """Channels that warpgroups fill alternately, with their places in `State.phases`."""
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
            program.pairs and blocks > 1,
            frozenset(one.id for one in program.dependences if program.joint(one)),
            frozenset(one.id for one in program.channels if program.of_pair(one)),
            {one.id: i for i, one in placed([one for one in program.channels if one.by_warpgroup])},
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
            phases=((0, 0),) * (len(self.alternate) * self.blocks),
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

    def leaves(self, action: Action) -> bool:
        """Whether a block of a pair leaves an action to the first: MMAs, their completion, and waits before
        them."""
        match action.statement if self.pairs and self.block else None:
            case ConsumerWait(channel=name):
                return name in self.of_pair
            case BarrierArrive(barrier=name):
                return self.dependences[name][1].by == "mma"
            case BarrierWait(issuer=issuer):
                return issuer
            case statement:
                return isinstance(statement, MmaIssue)

    def ready(self, state: State, group: int, action: Action) -> bool:
        """Whether an action of a group need not wait."""
        match action.statement:
            case ProducerStore(channel=name) | ConsumerWait(channel=name) if name in self.alternate:
                return self._ready_alternately(state, action, self.channels[name][1])
            case ProducerLoad(channel=name) | ProducerStore(channel=name):
                number, slot, slots, channel = self._slot(state, name, action)
                return slots[slot][2] % 2 != (number // channel.depth + 1) % 2
            case ConsumerWait(channel=name):
                number, slot, _, channel = self._slot(state, name, action)
                full = [state.slots[self._of_block(channel, one)][slot][0] for one in self._both(name)]
                return all(phases % 2 != number // channel.depth % 2 for phases in full)
            case OrderBarrierWait(order=name):
                return state.signals[self.orders[name][0]]
            case BarrierWait(barrier=name) as wait:
                barrier, number = self.dependences[name][1], action.awaited(wait)
                phases = -(-(self._completed(state, name) - number % barrier.depth) // barrier.depth)
                return phases % 2 != number // barrier.depth % 2
            case TensorMemorySync(half="wait"):
                return self._member(group) not in state.met
            case _:
                return True

    def _ready_alternately(self, state: State, action: Action, channel: Channel) -> bool:
        """The same of a channel that warpgroups fill alternately."""
        number = action.sequence(channel.id, at(action.statement).iteration)
        full, empty = state.phases[self.alternate[channel.id]]
        if isinstance(action.statement, ConsumerWait):
            return full % 2 != number % 2
        return empty % 2 != (number - (channel.fill(0) < channel.depth)) % 2

    def after(self, state: State, group: int, action: Action) -> State:
        """The state after an action that is ready. Raises HazardError."""
        made = self._after(state, group, action)
        match action.statement:
            case ProducerStore(channel=name) if name in self.alternate:
                return self._phase(made, name, 1, 0)
            case ConsumerRelease(channel=name) if name in self.alternate:
                _, channel = self.channels[name]
                following = (channel.fill(0) + channel.depth) % len(channel.sharers)
                return self._phase(made, channel.sharers[following], 0, 1)
            case _:
                return made

    def _phase(self, state: State, channel: str, full: int, empty: int) -> State:
        """With phases of a channel's own barriers completed."""
        place = self.alternate[channel]
        before = state.phases[place]
        own = (before[0] + full, before[1] + empty)
        return replace(state, phases=(*state.phases[:place], own, *state.phases[place + 1 :]))

    def _after(self, state: State, group: int, action: Action) -> State:
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
                    for block in self._multiplied():
                        state = self._released(state, group, slot.channel, number, ~group, block)
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
        return range(self.blocks) if self.blocks > 1 and channel.multicast else self._alone

    @property
    def _alone(self) -> range:
        return range(self.block, self.block + 1)

    def _of_block(self, channel: Channel, block: int) -> int:
        """The position of a channel in another block."""
        return self.channels[channel.id][0] + (block - self.block) * len(self.channels)

    def _multiplied(self) -> range:
        """The blocks whose slots and barriers the MMAs of this one have to do with."""
        return range(self.blocks) if self.pairs else self._alone

    def _both(self, channel: str) -> range:
        """The blocks whose slots of a channel a consumer waits for."""
        return self._multiplied() if channel in self.of_pair else self._alone

    def _counters(self, name: str, blocks: range) -> list[int]:
        """Where arrivals on a dependence barrier are counted in some blocks."""
        position = self.dependences[name][0]
        return [position + (block - self.block) * len(self.dependences) for block in blocks]

    def _completed(self, state: State, name: str) -> int:
        """Iterations of which all have arrived that a dependence barrier of this block waits for."""
        blocks = self._multiplied() if name in self.joint else self._alone
        return min(state.arrived[one] for one in self._counters(name, blocks))

    def _arrive(self, state: State, name: str, action: Action, iteration: Iteration) -> State:
        """Of this block's threads, or of MMAs of both."""
        barrier, number = self.dependences[name][1], action.sequence(name, iteration)
        if number - (least := self._completed(state, name)) >= barrier.depth:
            raise HazardError(f"iteration {number} arrives on {name}, but the other block has {least}")
        for position in self._counters(name, self._multiplied() if barrier.by == "mma" else self._alone):
            if number != (arrived := state.arrived[position]):
                raise HazardError(f"iteration {number} arrives on {name}, but {arrived} is next")
            counts = (*state.arrived[:position], arrived + 1, *state.arrived[position + 1 :])
            state = replace(state, arrived=counts)
        return state

    def _checked_wait(self, state: State, name: str, number: int) -> State:
        barrier, arrived = self.dependences[name][1], self._completed(state, name)
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
        position, slot, name = self._of_block(channel, block), number % channel.depth, channel.id
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
        number, _, _, channel = self._slot(state, name, action)
        for block in self._both(name):
            state = self._acquired(state, group, channel, number, block)
        return state

    def _acquired(self, state: State, group: int, channel: Channel, number: int, block: int) -> State:
        """A slot of a block."""
        position, slot, name = self._of_block(channel, block), number % channel.depth, channel.id
        held = state.holds[position][slot]
        if held != number:
            what = "nothing" if held < 0 else f"tile {held}"
            raise HazardError(
                f"group {group} acquires tile {number} of {name}, but the slot holds {what}: read before its"
                " write"
            )
        full, arrived, empty, readers, loaded = state.slots[position][slot]
        if group in readers or arrived & {group, ~group} or group not in channel.consumers:
            raise HazardError(
                f"group {group} acquires tile {number} of {name} twice, or is no consumer of it"
            )
        if not readers | self._own(arrived) <= self._own(self._arrivals(channel, group)):
            raise HazardError(f"group {group} acquires tile {number} of {name}, which is of another tile's")
        return self._changed(state, position, slot, (full, arrived, empty, readers | {group}, loaded), held)

    def _consumer_release(self, state: State, group: int, name: str, action: Action) -> State:
        number = action.sequence(name, at(action.statement).iteration)
        return self._released(state, group, name, number, group, self.block)

    def _released(self, state: State, group: int, name: str, number: int, arrival: int, block: int) -> State:
        """A slot of a block, by threads of a group, or by its MMAs, by sequence number; to all blocks that
        fill the slot."""
        channel = self.channels[name][1]
        number, position = channel.fill(number), self._of_block(channel, block)
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
        for one in [block] if self.pairs else self._targets(channel):
            state = self._arrived(state, channel, slot, one, arrival, expected)
        return state

    def _arrived(
        self, state: State, channel: Channel, slot: int, block: int, arrival: int, expected: frozenset[int]
    ) -> State:
        """An arrival of this block on the empty barrier of a slot of a block."""
        position = self._of_block(channel, block)
        full, arrived, empty, readers, loaded = state.slots[position][slot]
        # In the other block, the groups of this one are those beyond its own.
        arrived |= {arrival if self.pairs or block == self.block else arrival + self.members}
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
        return State(all_slots, holds, state.signals, state.arrived, state.met, state.phases)

    def _signal(self, state: State, name: str, value: bool) -> State:
        position = self.orders[name][0]
        signals = (*state.signals[:position], value, *state.signals[position + 1 :])
        return State(state.slots, state.holds, signals, state.arrived, state.met, state.phases)

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
        joint = not self.pairs and len(self._targets(channel)) > 1
        others = (one + self.members for one in releasing if joint)
        return frozenset((*releasing, *others, *(~one for one in channel.by_mma)))
