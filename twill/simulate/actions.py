"""A group's program, unfolded: its statements one by one as they are executed, with their iterations and
slots worked out.

Takes a group's statements and the trip counts of its loops; gives `Action`s. The other parts of the simulator
work on these alone.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from twill.ir.effects import at, drained_after
from twill.ir.operands import Iteration
from twill.ir.statements import (
    Advance,
    Alternate,
    BarrierWait,
    Compute,
    For,
    If,
    Move,
    Pipelined,
    ProducerLoad,
    Statement,
    TensorMemorySync,
    While,
)
from twill.ir.statements import walk as every

Outer = tuple[tuple[int, int], ...]
"""The loops around a statement, by operation, and which iteration of each it is in."""
Trips = Callable[[Pipelined | For | While, Outer], int | None]
"""How often a loop runs; called when it is reached. None for a `While` whose condition decides."""
Taken = Callable[[If | While], bool]
"""Whether the condition of an `If` or `While` holds; called when it is reached."""


@dataclass(frozen=True, slots=True)
class Action:
    """One execution of a statement."""

    statement: Statement
    counters: tuple[tuple[str, int], ...] = ()
    """What the group's counters of channels stood at; absent ones at 0."""
    loop: int | None = None
    """The pipelined loop around it, by operation."""
    newest: int = 0
    """i of the steady state."""
    total: int = 0
    """N of the loop."""
    outer: Outer = ()
    """Iterations of the loops outside of it, by operation."""

    def iteration(self, iteration: Iteration) -> int:
        """Number of the iteration that is meant; 0 outside of pipelined loops."""
        return iteration.number(self.newest, self.total)

    @property
    def number(self) -> int:
        """Number of the iteration that the statement works for."""
        return self.iteration(at(self.statement).iteration)

    def awaited(self, wait: BarrierWait) -> int:
        """Sequence number of the iteration that a wait on a dependence barrier is for."""
        last = max(self.total - 1, 0)
        return self._count(wait.barrier) + min(self.iteration(wait.awaited), last)

    def sequence(self, channel: str, iteration: Iteration) -> int:
        """Sequence number of a slot."""
        return self._count(channel) + self.iteration(iteration)

    def _count(self, name: str) -> int:
        return next((count for counter, count in self.counters if counter == name), 0)


@dataclass(slots=True)
class _Walk:
    trips: Trips
    taken: Taken
    counters: dict[str, int]
    counts: dict[int, int]
    """Trip count of the latest run of each pipelined loop."""


def toward_loops(bodies: Iterable[tuple[Statement, ...]], *, second: bool = False) -> Taken:
    """What groups with these bodies do where no values decide, all of them the same: of a branch the part
    with a pipelined loop of any of them, the first one if both have one or neither, or the second one if both
    have one and that is asked for; the end of a `While`."""
    first, other = _with_loops(bodies)

    def taken(branch: If | While) -> bool:
        if isinstance(branch, While):
            return False
        return branch.op not in other or (branch.op in first and not second)

    return taken


def two_ways(bodies: Iterable[tuple[Statement, ...]]) -> bool:
    """Whether a branch has pipelined loops in both of its parts."""
    first, other = _with_loops(bodies)
    return bool(first & other)


def _with_loops(bodies: Iterable[tuple[Statement, ...]]) -> tuple[set[int], set[int]]:
    """The branches, by operation, whose first part has a pipelined loop, and those whose second part has."""
    branches = [one for body in bodies for one in every(body) if isinstance(one, If)]

    def some(part: tuple[Statement, ...]) -> bool:
        return any(isinstance(inner, Pipelined) for inner in every(part))

    return {one.op for one in branches if some(one.then)}, {one.op for one in branches if some(one.otherwise)}


def unfold(
    statements: tuple[Statement, ...],
    trips: Callable[[Pipelined | For | While], int | None],
    taken: Taken | None = None,
) -> Iterator[Action]:
    """The actions of a group, in order, whose loops run equally often each time. `taken` says which part of a
    branch is executed (by its own loops, unless given)."""
    return unfold_by_values(statements, lambda loop, _: trips(loop), taken)


def unfold_by_values(
    statements: tuple[Statement, ...], trips: Trips, taken: Taken | None = None
) -> Iterator[Action]:
    """The same where loops run as often as `trips` says, which is asked as late as possible, when values
    computed before are known."""
    decided = taken or toward_loops([statements])
    begin = Action(statements[0]) if statements else None
    yield from _list(_Walk(trips, decided, {}, {}), statements, begin)


def _list(walk: _Walk, statements: tuple[Statement, ...], context: Action | None) -> Iterator[Action]:
    for statement in statements:
        assert context is not None
        here = Action(
            statement,
            tuple(sorted(walk.counters.items())),
            context.loop,
            context.newest,
            context.total,
            context.outer,
        )
        match statement:
            case Pipelined():
                yield from _pipelined(walk, statement, here)
            case For(op=op, body=body):
                for k in range(walk.trips(statement, here.outer) or 0):
                    yield from _list(walk, body, Action(statement, outer=(*context.outer, (op, k))))
            case While():
                yield from _while(walk, statement, here)
            case If(then=then, otherwise=otherwise):
                yield from _list(walk, then if walk.taken(statement) else otherwise, here)
            case Alternate(loop=loop, tiles=tiles, index=index, own=own, other=other):
                mine = dict(context.outer)[loop] % tiles == index
                yield from _list(walk, own if mine else other, here)
            case Advance(channel=channel, loop=loop):
                walk.counters[channel] = walk.counters.get(channel, 0) + (
                    1 if loop is None else walk.counts[loop]
                )
            case TensorMemorySync():
                yield replace(here, statement=replace(statement, half="arrive"))
                yield replace(here, statement=replace(statement, half="wait"))
            case ProducerLoad(slots=slots) if here.loop is not None:
                if slots <= here.number < here.total:
                    yield here
            case Compute(slots=slots) if slots and here.loop is not None:
                if slots <= here.number < here.total:
                    yield here
            case _:
                yield here


def _while(walk: _Walk, loop: While, here: Action) -> Iterator[Action]:
    times = walk.trips(loop, here.outer)
    for k in count():
        yield from _list(walk, loop.before, here)
        if (k >= times) if times is not None else not walk.taken(loop):
            return
        yield from _list(walk, loop.body, here)


def _pipelined(walk: _Walk, loop: Pipelined, here: Action) -> Iterator[Action]:
    total = walk.counts[loop.op] = walk.trips(loop, here.outer) or 0

    def inside(newest: int) -> Action:
        return Action(loop, here.counters, loop.op, newest, total, here.outer)

    for i in range(min(total, max((one.slots for one in loop.filled), default=0))):
        yield from (replace(inside(i), statement=one) for one in loop.filled if i < one.slots)
    if total == 0:
        yield from _list(walk, loop.zeroed, inside(0))
    if total < loop.stages - 1:
        yield from (
            _predicated(walk, loop, total, inside)
            if loop.predicated
            else _one_by_one(walk, loop, total, inside)
        )
        return
    yield from _list(walk, loop.prologue, inside(0))
    for i in range(loop.stages - 1, total):
        yield from _list(walk, loop.steady, inside(i))
    yield from _list(walk, loop.epilogue, inside(total))


def _one_by_one(
    walk: _Walk, loop: Pipelined, total: int, inside: Callable[[int], Action]
) -> Iterator[Action]:
    for i in range(total):
        yield from _list(walk, loop.short, inside(i))


def _predicated(
    walk: _Walk, loop: Pipelined, total: int, inside: Callable[[int], Action]
) -> Iterator[Action]:
    for i in range(total + drained_after(loop)):
        for action in _list(walk, loop.short, inside(i)):
            if isinstance(action.statement, Move) or 0 <= action.number < total:
                yield action
