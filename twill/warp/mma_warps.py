"""MMAs of groups that compute, issued by warps of their own.

One thread issues an MMA into tensor memory, and waits before for slots and for earlier accesses. In a group
that computes, this holds up one of its warps (55 cycles a wait). Where warps of the loading group's warpgroup
are free, each such group gets one that issues its MMAs (FlashAttention-4 has a warp for all MMAs). The
schedule keeps its times, and completion arrives on mbarriers anyway. Takes the tasks of the loops; gives them
with these MMAs in new groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twill.ir.schedule import WARPGROUP
from twill.ir.schedule import Group as Granted
from twill.warp.dataflow import Code
from twill.warp.events import is_mma
from twill.warp.tasks import Task
from twill.warp.thread_block import only_moves


def issuing(
    code: Code, tasks: Sequence[Task], granted: Sequence[Granted], registers: int
) -> Mapping[int, Granted]:
    """The new group for each wide one whose MMAs can be issued elsewhere, by its id. An MMA that reads what
    its group stages before the loop stays there."""
    narrow = sum(group.warps for group in granted if only_moves(group))
    free = -narrow % WARPGROUP if narrow else 0
    issued = {group.id: [t for t in tasks if t.group == group.id and is_mma(code, t)] for group in granted}
    wide = [
        group.id
        for group in granted
        if not only_moves(group)
        and issued[group.id]
        and not any(leaf.source.id in code.resident for task in issued[group.id] for leaf in task.leaves)
    ]
    first = 1 + max(group.id for group in granted)
    return {group: Granted(first + i, 1, registers) for i, group in enumerate(wide[:free])}


def moved(code: Code, tasks: Sequence[Task], issuers: Mapping[int, Granted]) -> tuple[Task, ...]:
    """The tasks of a loop with MMAs in the groups that issue them."""
    return tuple(
        replace(task, group=issuers[task.group].id) if task.group in issuers and is_mma(code, task) else task
        for task in tasks
    )
