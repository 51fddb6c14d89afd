"""The state of channels and orders, and what each synchronizing statement does to it.

Barriers are modelled as the hardware has them: a phase bit that flips when all arrivals are in, and waits for
a parity. What a slot really holds and who has still to read it is kept beside them, so that a wait that
passes when it should not is found out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from twill.diagnostics import TwillError
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


class HazardError(TwillError):
    """A warp program does what it must not; the message says what, where and in which iteration. That is a
    defect of the generator."""

    def __init__(self, message: str) -> None:
        super().__init__(message, help="this is a defect in Twill: please report it with the TTGIR")


SlotStates = tuple[tuple[int, frozenset[int], int, frozenset[int]], ...]
"""For each slot: completed phases of its full barrier; who arrived on its empty barrier (`_arrivals`);
completed phases of the empty barrier; groups that read what it holds."""

_FRESH = (0, frozenset[int](), 0, frozenset[int]())


@dataclass(frozen=True, slots=True)
class State:
    """Where all channels and orders stand; hashable."""

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
    """The channels and orders of a program, by name."""

    channels: Mapping[str, tuple[int, Channel]]
    orders: Mapping[str, tuple[int, OrderBarrier]]
    dependences: Mapping[str, tuple[int, DependenceBarrier]]
    synchronized: frozenset[int]

    @staticmethod
    def of(program: Program) -> "Protocol":
        channels = {channel.id: (i, channel) for i, channel in enumerate(program.channels)}
        orders = {order.id: (i, order) for i, order in enumerate(program.orders)}
        dependences = {one.id: (i, one) for i, one in enumerate(program.dependences)}
        return Protocol(channels, orders, dependences, frozenset(program.synchronized))

    def initial(self) -> State:
        channels = [channel for _, channel in self.channels.values()]
        slots = tuple((_FRESH,) * channel.depth for channel in channels)
        holds = tuple((-1,) * channel.depth for channel in channels)
        signals = tuple(order.signalled for _, order in self.orders.values())
        return State(slots, holds, signals, (0,) * len(self.dependences))

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
                return group not in state.met
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
                met = state.met | {group}
                return replace(state, met=frozenset[int]() if met == self.synchronized else met)
            case _:
                return state

    def _arrive(self, state: State, name: str, action: Action, iteration: Iteration) -> State:
        position, _ = self.dependences[name]
        number, arrived = action.sequence(name, iteration), state.arrived[position]
        if number != arrived:
            raise HazardError(f"iteration {number} arrives on {name}, but {arrived} is next")
        return replace(
            state, arrived=(*state.arrived[:position], arrived + 1, *state.arrived[position + 1 :])
        )

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
        number = action.sequence(name, at(action.statement).iteration)
        return number, number % channel.depth, state.slots[position], channel

    def _producer_load(self, state: State, group: int, name: str, action: Action) -> State:
        number, slot, slots, channel = self._slot(state, name, action)
        position = self.channels[name][0]
        held = state.holds[position][slot]
        full, arrived, empty, readers = slots[slot]
        reading = min((*readers, *(max(one, ~one) for one in arrived)), default=channel.consumers[0])
        late = _arrivals(channel, reading) - arrived if held >= 0 and empty * channel.depth <= held else ()
        unread = _groups(late)
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
        return self._changed(state, position, slot, (full + 1, arrived, empty, readers), number)

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
        full, arrived, empty, readers = slots[slot]
        if group in readers or arrived & {group, ~group} or group not in channel.consumers:
            raise HazardError(
                f"group {group} acquires tile {number} of {name} twice, or is no consumer of it"
            )
        if not readers | _groups(arrived) <= _groups(_arrivals(channel, group)):
            raise HazardError(f"group {group} acquires tile {number} of {name}, which is of another tile's")
        return self._changed(state, position, slot, (full, arrived, empty, readers | {group}), held)

    def _consumer_release(self, state: State, group: int, name: str, action: Action) -> State:
        return self._released(
            state, group, name, action.sequence(name, at(action.statement).iteration), group
        )

    def _released(self, state: State, group: int, name: str, number: int, arrival: int) -> State:
        """By threads of a group, or by its MMAs."""
        position, channel = self.channels[name]
        slot = number % channel.depth
        full, arrived, empty, readers = state.slots[position][slot]
        if group not in readers or state.holds[position][slot] != number:
            raise HazardError(f"group {group} releases tile {number} of {name} without having acquired it")
        expected = _arrivals(channel, group)
        if arrival in arrived or arrival not in expected:
            raise HazardError(f"group {group} releases tile {number} of {name} twice")
        arrived = arrived | {arrival}
        if expected & {group, ~group} <= arrived:
            readers = readers - {group}
        if arrived == expected:
            arrived, empty = frozenset[int](), empty + 1
        return self._changed(state, position, slot, (full, arrived, empty, readers), number)

    def _changed(
        self,
        state: State,
        position: int,
        slot: int,
        changed: tuple[int, frozenset[int], int, frozenset[int]],
        held: int,
    ) -> State:
        slots, holds = list(state.slots), list(state.holds)
        slots[position] = (*slots[position][:slot], changed, *slots[position][slot + 1 :])
        holds[position] = (*holds[position][:slot], held, *holds[position][slot + 1 :])
        return replace(state, slots=tuple(slots), holds=tuple(holds))

    def _signal(self, state: State, name: str, value: bool) -> State:
        position = self.orders[name][0]
        return replace(state, signals=(*state.signals[:position], value, *state.signals[position + 1 :]))


def _groups(arrivals: Iterable[int]) -> frozenset[int]:
    """Whose arrivals some are, by threads or MMAs."""
    return frozenset(max(one, ~one) for one in arrivals)


def _arrivals(channel: Channel, group: int) -> frozenset[int]:
    """Who arrives on the empty barrier of a slot that a group reads: g for the threads of group g, ~g for its
    MMAs."""
    releasing = channel.sharing(group) if channel.alternating else channel.releasing
    return frozenset((*releasing, *(~one for one in channel.by_mma)))
