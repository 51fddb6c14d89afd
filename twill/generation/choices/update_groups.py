"""Groups of their own for what updates accumulators in tensor memory, as hand-written attention kernels have.

Any group can update an accumulator in tensor memory. A schedule overlaps the operations of a group, but its
warps execute them one behind the other: where that takes about as long as the interval, the program takes
longer than its schedule. `with_update_group` states the problem in which another group updates.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from twill.ir.problem import Operation, Problem
from twill.warp.tasks import Scheduled

CROWDED = 0.9
"""Of the interval that the operations of a group hold its warps, from which on another group shall update
(estimate: each wait adds to it)."""


def with_update_group(problem: Problem, one: Scheduled) -> Problem | None:
    """The problem of a scheduled loop with all updates of groups that have too much to do in one group, apart
    from the longest operations of these; None where no group has."""
    groups = {group: ops for group, ops in _members(one).items() if _crowded(one, ops)}
    updates = {node.id for node in one.graph.nodes if node.kind == "tensor_update"}
    moved = [op.id for ops in groups.values() for op in ops if op.id in updates]
    kept = [_longest(ops, updates) for ops in groups.values() if any(op.id in updates for op in ops)]
    if not moved or None in kept:
        return None
    longest = [op.id for op in kept if op]
    apart = [(op, moved[0]) for op in longest]
    apart += [(a, b) for i, a in enumerate(longest) for b in longest[i + 1 :]]
    together = (tuple(moved),) if len(moved) > 1 else ()
    return replace(problem, together=(*problem.together, *together), apart=(*problem.apart, *apart))


def _members(one: Scheduled) -> Mapping[int, list[Operation]]:
    found = defaultdict[int, list[Operation]](list)
    for op, group in zip(one.problem.operations, one.solution.group, strict=True):
        found[group].append(op)
    return dict(sorted(found.items()))


def _crowded(one: Scheduled, ops: list[Operation]) -> bool:
    return sum(op.issue for op in ops) > CROWDED * one.solution.interval


def _longest(ops: list[Operation], updates: set[str]) -> Operation | None:
    return max((op for op in ops if op.id not in updates), key=lambda op: op.issue, default=None)
