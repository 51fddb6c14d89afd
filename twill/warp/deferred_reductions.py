"""Deferred reductions: each thread reduces its own elements while a loop runs; the threads combine their
results after it.

Takes the loops, in order, with their tasks; gives which reductions are deferred and, after each loop, the
variables to finalize. A reduction is deferred only if it starts at zero, or where the loop before deferred
it, and if one group computes all of it; any other one is finalized in every iteration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.ir.loop import Carried, Value
from twill.ops.table import role
from twill.warp.dataflow import Code, zero
from twill.warp.tasks import Scheduled, Task


@dataclass(frozen=True, slots=True)
class DeferredReductions:
    """The deferred reductions of one loop."""

    tasks: frozenset[str]
    """The reductions."""
    finalized: Mapping[int, int]
    """By the id of a result of the loop that is finalized after it: the reduction's operation."""


def deferred_reductions(
    code: Code, loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]
) -> tuple[DeferredReductions, ...]:
    """For each loop."""
    found = list[DeferredReductions]()
    for one, tasks in loops:
        found.append(_begun(code, one, tasks, [value for other in found for value in other.finalized]))
    inits = {
        carry.init.id
        for (one, _), own in zip(loops, found, strict=True)
        for carry in one.loop.carried
        if carry.result.id in own.finalized
    }
    return tuple(
        DeferredReductions(
            own.tasks, {value: op for value, op in own.finalized.items() if value not in inits}
        )
        for own in found
    )


def _begun(code: Code, one: Scheduled, tasks: tuple[Task, ...], before: Sequence[int]) -> DeferredReductions:
    chosen, finalized = set[str](), dict[int, int]()
    for task in tasks:
        if not task.node.partial:
            continue
        (total,) = (other for other in tasks if any(leaf.source in task.writes for leaf in other.leaves))
        for carry in one.loop.carried:
            if (
                carry.yielded in total.writes
                and (zero(code, carry.init) or _handed_on(code, carry.init, before))
                and _in_one_group(task, carry, tasks)
            ):
                chosen.add(task.id)
                finalized[carry.result.id] = next(
                    index for index in reversed(task.ops) if role(code.ops[index]) == "reduce"
                )
    return DeferredReductions(frozenset(chosen), finalized)


def _in_one_group(reduction: Task, carry: Carried, tasks: tuple[Task, ...]) -> bool:
    """Whether the threads that reduce also add to the carried result: what passes through a slot has one
    element for all threads of a row."""
    carried, groups = {carry.arg.id, carry.yielded.id}, {reduction.group}
    for task in tasks:
        read = {leaf.source.id for leaf in task.leaves}
        if read & carried or read & {value.id for value in reduction.writes}:
            groups.add(task.group)
            carried |= {value.id for value in task.writes}
    return len(groups) == 1


def _handed_on(code: Code, init: Value, before: Sequence[int]) -> bool:
    """The result of an earlier loop that nothing else reads."""
    return init.id in before and len(code.users.get(init.id, ())) == 1
