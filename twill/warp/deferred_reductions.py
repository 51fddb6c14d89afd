"""Sums that each thread keeps of its own elements while a loop runs, and where the threads join them.

Takes the loops, in order, with their tasks; gives which reductions leave their result spread over threads and, behind each loop, the
variables to join. A sum begins spread only at zero, or where the loop before it left it so; any other one is joined in every iteration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.ir.loop import Value
from twill.warp.dataflow import Code, zero
from twill.warp.tasks import Scheduled, Task


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread sums of one loop."""

    tasks: frozenset[str]
    """The reductions."""
    joined: Mapping[int, int]
    """By the id of a result of the loop that is joined behind it: the reduction's operation."""


def spread(code: Code, loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]) -> tuple[Spread, ...]:
    """For each loop."""
    found = list[Spread]()
    for one, tasks in loops:
        found.append(_begun(code, one, tasks, [value for other in found for value in other.joined]))
    inits = {
        carry.init.id for (one, _), own in zip(loops, found, strict=True) for carry in one.loop.carried if carry.result.id in own.joined
    }
    return tuple(Spread(own.tasks, {value: op for value, op in own.joined.items() if value not in inits}) for own in found)


def _begun(code: Code, one: Scheduled, tasks: tuple[Task, ...], before: Sequence[int]) -> Spread:
    chosen, joined = set[str](), dict[int, int]()
    for task in tasks:
        if not task.node.partial:
            continue
        (total,) = (other for other in tasks if any(leaf.source in task.writes for leaf in other.leaves))
        for carry in one.loop.carried:
            if carry.yielded in total.writes and (zero(code, carry.init) or _handed_on(code, carry.init, before)):
                chosen.add(task.id)
                joined[carry.result.id] = next(index for index in reversed(task.ops) if code.ops[index].name == "tt.reduce")
    return Spread(frozenset(chosen), joined)


def _handed_on(code: Code, init: Value, before: Sequence[int]) -> bool:
    """The result of an earlier loop that nothing else reads."""
    return init.id in before and len(code.users.get(init.id, ())) == 1
