"""The intervals before and after the steady state.

Takes the steps of one interval; gives those of the prologue (of iterations that have begun) and of the
epilogue (of iterations that have not ended).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from twill.ir.operands import Iteration, OperandLocation, Read, Register, Slot, TensorMemory
from twill.ir.statements import (
    BarrierWait,
    Compute,
    LocalLoad,
    MbarrierArrival,
    MmaIssue,
    ProducerLoad,
    ProducerStore,
    StoreTile,
    TileLoad,
)
from twill.warp.steps import Step


def prologue(sequence: Sequence[Step], stages: int) -> tuple[Step, ...]:
    """Intervals 0 to stages - 2: the steps of iterations that have begun."""
    made = (
        _rebased(step, "first", t)
        for t in range(stages - 1)
        for step in sequence
        if step.always or step.stage <= t
    )
    return tuple(step for step in made if not _pointless(step))


def epilogue(sequence: Sequence[Step], stages: int) -> tuple[Step, ...]:
    """The intervals after the last iteration has begun: the steps of iterations that have not ended. Releases
    may come later than all."""
    last = max([stages - 1, *(step.stage for step in sequence)])
    made = (
        _rebased(step, "last", t)
        for t in range(last)
        for step in sequence
        if (t < stages - 1 if step.always else step.stage > t)
    )
    return tuple(step for step in made if not _pointless(step))


def _pointless(step: Step) -> bool:
    """A wait for the arrival of an iteration before the first."""
    return isinstance(step.statement, BarrierWait) and step.statement.awaited.offset < 0


def _rebased(step: Step, base: str, t: int) -> Step:
    """The step as it is in interval `t` of the prologue or epilogue."""

    def iteration(it: Iteration) -> Iteration:
        if it.base != "newest":
            return it
        return Iteration("first", t - it.offset) if base == "first" else Iteration("last", it.offset - 1 - t)

    def location(p: OperandLocation, back: int | None) -> OperandLocation:
        match p:
            case Slot(channel, tensor, it):
                return Slot(channel, tensor, iteration(it))
            case TensorMemory(tile, it):
                return TensorMemory(tile, iteration(it))
            case Register(variable, age) if base == "last" and back is not None:
                return Register(variable, min(age, back - 1 - t))
            case _:
                return p

    statement = step.statement
    at = replace(statement.at, iteration=iteration(statement.at.iteration))  # pyright: ignore
    if isinstance(statement, Compute | MmaIssue | ProducerStore | StoreTile | ProducerLoad):
        reads = tuple(
            Read(r.value, location(r.location, b))
            for r, (_, b) in zip(statement.reads, step.sources, strict=True)
        )
        if isinstance(statement, ProducerLoad):
            return replace(step, statement=replace(_reading(statement, reads), at=at))
        made = replace(statement, at=at, reads=reads)
        if isinstance(made, MmaIssue):
            made = _rebased_issue(made, iteration)
        if isinstance(made, Compute):
            stores = (replace(tile, iteration=iteration(tile.iteration)) for tile in made.stores)
            made = replace(made, stores=tuple(stores))
        return replace(step, statement=made)
    if isinstance(statement, LocalLoad):
        source = replace(statement.source, iteration=iteration(statement.source.iteration))
        statement = replace(statement, source=source)
    if isinstance(statement, BarrierWait):
        awaited = iteration(statement.awaited)
        awaited = replace(awaited, offset=max(awaited.offset, 0)) if base == "last" else awaited
        statement = replace(statement, awaited=awaited)
    return replace(step, statement=replace(statement, at=at))  # pyright: ignore


def _rebased_issue(issue: MmaIssue, iteration: Callable[[Iteration], Iteration]) -> MmaIssue:
    """An MMA with what it writes, and arrives on, in another part of a loop."""
    if isinstance(issue.accumulator, TensorMemory):
        issue = replace(
            issue, accumulator=replace(issue.accumulator, iteration=iteration(issue.accumulator.iteration))
        )
    if isinstance(issue.completion, MbarrierArrival):
        slots = (replace(one, iteration=iteration(one.iteration)) for one in issue.completion.slots)
        phases = (replace(one, iteration=iteration(one.iteration)) for one in issue.completion.barriers)
        issue = replace(issue, completion=MbarrierArrival(tuple(slots), tuple(phases)))
    return issue


def _reading(statement: ProducerLoad, reads: tuple[Read, ...]) -> ProducerLoad:
    """The loads with other reads, in the same order."""
    loads, rest = list[TileLoad](), iter(reads)
    for load in statement.loads:
        loads.append(replace(load, reads=tuple(next(rest) for _ in load.reads)))
    return replace(statement, loads=tuple(loads))
