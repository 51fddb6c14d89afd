"""Every order in which the groups of a program may run.

Takes a program and trip counts; raises `HazardError` for a deadlock, a slot overwritten before it is
consumed, a read before its write, a wrong phase, a signal lost. Thread blocks of a cluster that load tiles
for each other, or whose MMAs are those of a pair, run together. What a group does between two
synchronizations with others affects no other group (`local` checks it), so only the interleavings of
synchronizations matter; states are hashed and each is visited once. Larger counts are run by adversaries:
each order of preference among the groups, and random choices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import factorial
from random import Random

from twill.ir.effects import OrderSignal, Resource, SlotPhase, StagingBuffer, SyncPoint, effects
from twill.ir.program import Program
from twill.ir.statements import BarrierPhase, For, Pipelined, While
from twill.simulate.actions import Action, toward_loops, unfold
from twill.simulate.local import check
from twill.simulate.protocol import HazardError, Protocol, State
from twill.simulate.warpgroups import by_warpgroup

PREFERENCES, FEWEST = 120, 12
"""Orders of preference among groups that are run at most: all of five groups; and however long they take."""
STEPS = 60_000
"""Synchronizations of all orders of preference together, unless they are the FEWEST."""
LIMIT = 200_000
"""Of states, at most."""
IN_ALL, EACH = 60_000, 10_000
"""Of states of several counts together, and of one count once those are explored."""


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


def synchronizations(
    program: Program, counts: Counts, *, second: bool = False
) -> tuple[tuple[int, tuple[Action, ...]], ...]:
    """For each group, the actions that synchronize it with others, after its own rules have been checked.
    Raises HazardError."""
    program = by_warpgroup(program)
    protocol, taken = Protocol.of(program), toward_loops([one.body for one in program.groups], second=second)
    found = list[tuple[int, tuple[Action, ...]]]()
    for group in program.groups:
        actions = tuple(unfold(group.body, counts, taken))
        check(program, group.id, actions)
        found.append((group.id, tuple(action for action in actions if protocol.concerns(action))))
    return tuple(found)


def explore(program: Program, counts: Counts, limit: int = LIMIT, *, second: bool = False) -> Explored:
    """All interleavings, up to `limit` states; of the second part of branches with loops in both parts where
    that is asked for. Raises HazardError."""
    groups = _of_all_blocks(program, counts, second=second)
    begin = (groups[0].protocol.initial(), (0,) * len(groups))
    seen, todo = {begin}, [begin]
    while todo:
        state, done = todo.pop()
        for position in _ready(groups, state, done):
            after = groups[position].after(state, done[position])
            item = (after, (*done[:position], done[position] + 1, *done[position + 1 :]))
            before = len(seen)
            seen.add(item)  # once: most of the time goes into hashes
            if len(seen) == before:
                continue
            if before >= limit:
                return Explored(before, complete=False)
            todo.append(item)
    return Explored(len(seen), complete=True)


def explore_counts(program: Program, counts: Sequence[int], limit: int | None = None) -> tuple[Explored, ...]:
    """All interleavings of each of several trip counts, smaller ones first: IN_ALL states together, then EACH
    of a count; or `limit` of each. Raises HazardError."""
    left, found = IN_ALL, list[Explored]()
    for trips in counts:
        found.append(explore(program, same(trips), max(left, EACH) if limit is None else limit))
        left -= found[-1].states
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Running:
    """A group of one thread block, with what it executes."""

    protocol: Protocol
    """Of its block."""
    group: int
    actions: tuple[Action, ...]

    def ready(self, state: State, at: int) -> bool:
        return self.protocol.ready(state, self.group, self.actions[at])

    def after(self, state: State, at: int) -> State:
        return self.protocol.after(state, self.group, self.actions[at])

    def shown(self, at: int) -> str:
        block = f" of block {self.protocol.block}" if self.protocol.blocks > 1 else ""
        return f"group {self.group}{block} at {describe(self.actions[at])}"


def _of_all_blocks(program: Program, counts: Counts, *, second: bool = False) -> tuple[_Running, ...]:
    """The groups of each block of a cluster, or of the one block."""
    program = by_warpgroup(program)
    groups = synchronizations(program, counts, second=second)
    blocks = 1 + program.clustered
    protocols = [Protocol.of(program, block, blocks) for block in range(blocks)]
    return tuple(
        _Running(own, group, tuple(one for one in actions if not own.leaves(one)))
        for own in protocols
        for group, actions in groups
    )


def _ready(groups: Sequence[_Running], state: State, done: Sequence[int]) -> list[int]:
    """The groups that can go on. Raises HazardError where none can and some should."""
    unfinished = [i for i, one in enumerate(groups) if done[i] < len(one.actions)]
    ready = [i for i in unfinished if groups[i].ready(state, done[i])]
    if unfinished and not ready:
        waits = "; ".join(groups[i].shown(done[i]) for i in unfinished)
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
    """Each preference among the groups, of many groups some, then `rounds` random runs; how many runs there
    were. Raises HazardError."""
    groups = _of_all_blocks(program, counts)
    random = Random(seed)
    every = range(len(groups))
    steps = sum(len(one.actions) for one in groups)
    most = min(PREFERENCES, max(FEWEST, STEPS // max(1, steps)))
    few = factorial(len(groups)) <= most
    orders = permutations(every) if few else (tuple(random.sample(every, len(every))) for _ in range(most))
    choices: list[Callable[[list[int]], int]] = [
        lambda ready, order=order: min(ready, key=order.index) for order in orders
    ]
    choices += [random.choice] * rounds
    for choose in choices:
        state, done = groups[0].protocol.initial(), [0] * len(groups)
        while ready := _ready(groups, state, done):
            position = choose(ready)
            state = groups[position].after(state, done[position])
            done[position] += 1
    return len(choices)
