"""Numbers that loads of later iterations need from the loop: the group that loads computes them ahead.

A group that computes and loads (`warp.multistage`) fills a slot for an iteration that is as far ahead as the
channel has slots. Where a load reads from may follow from numbers that the loop loads or carries from
iteration to iteration (the blocks of keys that a sparse mask names): these are computed beside the loads of
the channel, once for each, in variables of their own, by the operations of the loop. What else needs them
finds them in its own iteration, as in any loop.

Takes the tasks of a loop; gives for a load what has to be computed before it, what it leaves to the next one,
and why a load can not be ahead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twill.ir.loop import Op, Tensor, Value
from twill.ops.table import role
from twill.warp.dataflow import EFFECTS, Code, loaded, pure
from twill.warp.disjoint import may_write
from twill.warp.events import cut
from twill.warp.tasks import Leaf, Task


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """What is computed beside a load, of its iteration."""

    ops: tuple[int, ...]
    leaves: tuple[Leaf, ...]
    """Read from outside of the loop, or left by the load before (`Leaf.distance` 1)."""
    values: tuple[Value, ...]
    """What of it is kept: for the load itself, or for the next one."""


def before(code: Code, tasks: Sequence[Task], loads: Iterable[Task]) -> Ahead:
    """What loads read that other operations of their own iteration compute."""
    wanted = {leaf.source.id: leaf.source for load in loads for leaf in load.leaves if leaf.distance == 0}
    return _computed(code, tasks, tuple(wanted.values()))


def behind(code: Code, tasks: Sequence[Task], leaves: Iterable[Leaf]) -> Ahead:
    """What the next loads of the same channel read of what this iteration leaves; `leaves` are those of the
    loads and of what is computed before them."""
    carried = {leaf.source.id: leaf for leaf in leaves if leaf.distance == 1}
    while True:
        found = _computed(code, tasks, tuple(leaf.source for leaf in carried.values()))
        more = {leaf.source.id: leaf for leaf in found.leaves if leaf.distance == 1}
        if more.keys() <= carried.keys():
            return found
        carried |= more


def refused(code: Code, tasks: Sequence[Task], load: Task) -> str:
    """Why a load can not be ahead of its iteration; nothing where it can."""
    if any(loaded(code, leaf.value) for leaf in load.leaves):
        return "a tile that is loaded in the loop says from where"
    known = makers(tasks)
    first = before(code, tasks, (load,))
    after = behind(code, tasks, (*load.leaves, *first.leaves))
    read = (*load.leaves, *first.leaves, *after.leaves)
    if any(leaf.distance is not None and leaf.source.id not in known for leaf in read):
        return "a tile that is loaded in the loop says from where"
    ops = [code.ops[index] for index in (*first.ops, *after.ops)]
    if not all(map(_repeated, ops)):
        return "a tile that is computed in the loop says from where"
    numbers = [op for op in ops if role(op) == "pointer_load"]
    stores = [op for op in code.ops.values() if op.name in EFFECTS] if numbers else []
    if any(may_write(code, store, op) for store in stores for op in numbers):
        return "the kernel may write the numbers that say from where"
    return ""


def makers(tasks: Sequence[Task]) -> Mapping[int, Task]:
    """The task that computes a value, by its id."""
    return {value.id: task for task in tasks for value in task.writes}


def _repeated(op: Op) -> bool:
    """Whether it may be executed for loads too: scalars alone."""
    scalar = not any(isinstance(value.type, Tensor) for value in (*op.operands, *op.results))
    return scalar and not op.regions and (role(op) == "pointer_load" or pure(op))


def _computed(code: Code, tasks: Sequence[Task], values: Sequence[Value]) -> Ahead:
    known, work, done = makers(tasks), list(values), set[int]()
    ops, leaves = set[int](), dict[int, Leaf]()
    while work:
        value = work.pop()
        if value.id in done or value.id not in known:
            continue
        done.add(value.id)
        part = cut(code, known[value.id], [value])
        ops |= set(part.ops)
        work += (leaf.source for leaf in part.leaves if leaf.distance == 0)
        leaves |= {leaf.value.id: leaf for leaf in part.leaves if leaf.distance != 0}
    kept = sorted(values, key=lambda value: value.id)
    return Ahead(tuple(sorted(ops)), tuple(leaves[key] for key in sorted(leaves)), tuple(kept))


def needless(code: Code, tasks: Sequence[Task], loads: Sequence[Task], kept: frozenset[int]) -> list[Task]:
    """Of the tasks, those that nothing needs in their own iteration but what is computed ahead; `kept` are
    the values that the loop results in, by id."""
    known = makers(tasks)
    others = [task for task in tasks if task not in loads]
    work = [task for task in others if not of_numbers(code, task) or any(v.id in kept for v in task.writes)]
    needed = {task.id for task in work}
    while work:
        for leaf in work.pop().leaves:
            maker = known.get(leaf.source.id)
            if leaf.distance is not None and maker is not None and maker.id not in needed:
                needed.add(maker.id)
                work.append(maker)
    return [task for task in others if task.id not in needed]


def of_numbers(code: Code, task: Task) -> bool:
    """Nothing but scalars in registers comes of it."""
    return bool(task.writes) and all(_repeated(code.ops[index]) for index in task.ops)
