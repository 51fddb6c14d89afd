"""Stores of a loop handed to a warp of their own.

A group that computes and stores waits in every iteration until TMA has read its staging buffer. Where a warp
of the loading group's warpgroup is free, the group fills a slot of a channel instead, and a group of one warp
starts the store (or reduction) from the slot, waits until TMA has read it, and releases it. Takes the tasks
of a loop; gives them with such stores in the new group.
"""

from collections.abc import Sequence
from dataclasses import replace

from twill.ir.loop import MemDesc, NvmmaShared, Op, Tensor, TensorDesc, Value
from twill.ir.schedule import WARPGROUP
from twill.ir.schedule import Group as Granted
from twill.ops.pointers import beginning
from twill.ops.row import Role
from twill.ops.table import names, role
from twill.warp.dataflow import STORES, Code
from twill.warp.tasks import Leaf, Task
from twill.warp.thread_block import only_moves

ACCESSES = frozenset[Role](
    ("tma_load", "tma_store", "tma_reduce", "pointer_load", "pointer_store", "atomic", "atomic_exchange")
)
"""Operations on global memory."""
SLOTS = 2
"""Slots of a loaded channel that a store warp may not cost: with less, loads no longer overlap MMAs."""


def store_group(granted: Sequence[Granted], registers: int) -> Granted | None:
    """The group of one warp, beside the groups that load; None where no warp of their warpgroup is free."""
    narrow = sum(group.warps for group in granted if only_moves(group))
    if not narrow or narrow % WARPGROUP == 0:
        return None
    return Granted(1 + max(group.id for group in granted), 1, registers)


def handed_over(code: Code, tasks: tuple[Task, ...], group: int) -> tuple[Task, ...]:
    """The tasks of a loop, those stores in `group` that can be there: of a tile that another task of the same
    group has just computed and that no third group reads, at coordinates that follow from scalars."""
    return tuple(_moved(code, task, tasks, group) or task for task in tasks)


def _moved(code: Code, task: Task, tasks: tuple[Task, ...], group: int) -> Task | None:
    store = code.ops[task.ops[-1]]
    if store.name not in STORES or not swizzled(store) or not in_any_order(code, store):
        return None
    (tile,) = (value for value in store.operands if isinstance(value.type, Tensor))
    kept = tuple(index for index in task.ops if not _converts(code.ops[index], tile))
    leaf = next((one for one in task.leaves if one.value.id == _source(code, task, tile).id), None)
    if leaf is None or leaf.distance != 0 or not _of_one_group(tasks, task, leaf):
        return None
    others = tuple(one for one in task.leaves if one is not leaf)
    scalars = all(not _is_tile(value) for index in kept[:-1] for value in code.ops[index].results)
    if not scalars or any(one.distance is not None or _is_tile(one.value) for one in others):
        return None
    return replace(task, group=group, ops=kept, leaves=(Leaf(tile, leaf.source, 0), *others))


def in_any_order(code: Code, store: Op) -> bool:
    """Whether nothing else that the kernel does to the memory of a store depends on when it happens: no other
    operation has the same pointer, except for reductions of the same kind."""
    own = pointer(code, store)
    others = (op for op in code.ops.values() if role(op) in ACCESSES and op is not store)
    return own is not None and all(
        (other := pointer(code, op)) is not None and (other.id != own.id or alike(op, store)) for op in others
    )


def alike(one: Op, other: Op) -> bool:
    """Reductions of one kind, whose order does not matter."""
    return (
        one.name == other.name in names("tma_reduce") and one.attributes["kind"] == other.attributes["kind"]
    )


def pointer(code: Code, op: Op) -> Value | None:
    """The argument of the function through which an operation accesses memory; None where that is not
    known."""
    value = beginning(op, code.maker)
    return value if any(value is argument for argument in code.function.args) else None


def swizzled(store: Op) -> bool:
    """Whether the descriptor of a store has a layout that threads can write as well as TMA reads it."""
    kind = store.operands[0].type
    encoding = kind.encoding if isinstance(kind, TensorDesc) else None
    return isinstance(encoding, NvmmaShared) and encoding.swizzle_bytes >= 32 and not encoding.transposed


def _converts(op: Op, tile: Value) -> bool:
    """The layout change before a store: no matter for a tile on its way to shared memory."""
    return role(op) == "layout" and op.result.id == tile.id


def _source(code: Code, task: Task, tile: Value) -> Value:
    maker = code.maker(tile)
    converted = maker is not None and maker.index in task.ops and _converts(maker, tile)
    return maker.operands[0] if converted and maker is not None else tile


def _of_one_group(tasks: tuple[Task, ...], store: Task, leaf: Leaf) -> bool:
    """Whether the group that stores a tile has computed it, and alone reads it."""
    users = [one for one in tasks if any(other.source.id == leaf.source.id for other in one.leaves)]
    writer = next((one for one in tasks if any(value.id == leaf.source.id for value in one.writes)), None)
    return writer is not None and {one.group for one in (writer, *users)} == {store.group}


def _is_tile(value: Value) -> bool:
    return isinstance(value.type, Tensor | MemDesc) and bool(value.type.shape)
