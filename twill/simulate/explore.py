"""Every order in which the groups of a program may run.

Takes a program and trip counts; raises `HazardError` for a deadlock, a slot overwritten before it is
consumed, a read before its write, a wrong phase, a signal lost. What a group does between two
synchronizations with others affects no other group (`local` checks it), so only the interleavings of
synchronizations matter; states are hashed and each is visited once. Larger counts are run by adversaries:
each order of preference among the groups, and random choices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from random import Random

from twill.ir.effects import OrderSignal, Resource, SlotPhase, StagingBuffer, SyncPoint, effects
from twill.ir.program import Program
from twill.ir.statements import BarrierPhase, For, Pipelined, While
from twill.simulate.actions import Action, unfold
from twill.simulate.local import check
from twill.simulate.protocol import HazardError, Protocol, State


@dataclass(frozen=True, slots=True)
class Explored:
    """How much was explored."""

    states: int
    complete: bool
    """Every interleaving was; otherwise those of the adversaries."""


Counts = Callable[[Pipelined | For | While], int]


def same(trips: int, outer: int = 2) -> Counts:
    """Every pipelined loop runs `trips` times, every loop around it `outer` times."""
    return lambda loop: trips if isinstance(loop, Pipelined) else outer


def synchronizations(program: Program, counts: Counts) -> tuple[tuple[int, tuple[Action, ...]], ...]:
    """For each group, the actions that synchronize it with others, after its own rules have been checked.
    Raises HazardError."""
    protocol = Protocol.of(program)
    found = list[tuple[int, tuple[Action, ...]]]()
    for group in program.groups:
        actions = tuple(unfold(group.body, counts))
        check(program, group.id, actions)
        found.append((group.id, tuple(action for action in actions if protocol.concerns(action))))
    return tuple(found)


def explore(program: Program, counts: Counts, limit: int = 200_000) -> Explored:
    """All interleavings, up to `limit` states. Raises HazardError."""
    protocol, groups = Protocol.of(program), synchronizations(program, counts)
    begin = (protocol.initial(), (0,) * len(groups))
    seen, todo = {begin}, [begin]
    while todo:
        state, done = todo.pop()
        for position in _ready(protocol, groups, state, done):
            group, actions = groups[position]
            after = protocol.after(state, group, actions[done[position]])
            item = (after, (*done[:position], done[position] + 1, *done[position + 1 :]))
            if item not in seen:
                if len(seen) >= limit:
                    return Explored(len(seen), complete=False)
                seen.add(item)
                todo.append(item)
    return Explored(len(seen), complete=True)


def _ready(
    protocol: Protocol, groups: Sequence[tuple[int, Sequence[Action]]], state: State, done: Sequence[int]
) -> list[int]:
    """The groups that can go on. Raises HazardError where none can and some should."""
    unfinished = [i for i, (_, actions) in enumerate(groups) if done[i] < len(actions)]
    ready = [i for i in unfinished if protocol.ready(state, groups[i][0], groups[i][1][done[i]])]
    if unfinished and not ready:
        waits = "; ".join(f"group {groups[i][0]} at {describe(groups[i][1][done[i]])}" for i in unfinished)
        raise HazardError(f"deadlock: {waits}")
    return ready


def describe(action: Action) -> str:
    """A synchronization in words."""
    found = effects(action.statement)
    name = next((_name(one) for one in (*found.acquires, *found.releases)), "")
    return f"{type(action.statement).__name__} {name}, iteration {action.number}"


def _name(resource: Resource) -> str:
    match resource:
        case SlotPhase(channel):
            return channel
        case OrderSignal(order):
            return order
        case StagingBuffer(buffer):
            return buffer
        case BarrierPhase(barrier):
            return barrier
        case SyncPoint():
            return "tensor memory"


def adversaries(program: Program, counts: Counts, rounds: int = 20, seed: int = 0) -> int:
    """Each preference among the groups, then `rounds` random runs; how many runs there were. Raises
    HazardError."""
    protocol, groups = Protocol.of(program), synchronizations(program, counts)
    random = Random(seed)
    choices: list[Callable[[list[int]], int]] = [
        lambda ready, order=order: min(ready, key=order.index) for order in permutations(range(len(groups)))
    ]
    choices += [random.choice] * rounds
    for choose in choices:
        state, done = protocol.initial(), [0] * len(groups)
        while ready := _ready(protocol, groups, state, done):
            position = choose(ready)
            group, actions = groups[position]
            state = protocol.after(state, group, actions[done[position]])
            done[position] += 1
    return len(choices)
