"""Plans of kernels with tensor memory: the tiles in it, and the barriers that order accesses to them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twill.diagnostics import TwillError
from twill.ir.channels import DRAINS, DependenceBarrier
from twill.ir.loop import Op, Token
from twill.ir.schedule import WARPGROUP
from twill.warp import accumulator_flags, alternating, pipelined_loops, tensor_dependences, tensor_memory
from twill.warp.alternating import Alternating
from twill.warp.dataflow import blocks
from twill.warp.kernel import Kernel
from twill.warp.plan import Plan, PlannedLoop, loop_drafts
from twill.warp.stored_before import GROUPS, by_all_groups
from twill.warp.tasks import Scheduled, Task
from twill.warp.tensor_dependences import Dependences


def with_tensor_memory(plan: Plan) -> Plan:
    """The plan with the tiles in tensor memory, and the barriers that order accesses to them."""
    code, found = plan.kernel.code, dict[int, Dependences]()
    inside = [(part.scheduled, part.tasks) for part in plan.loops]
    tiles, places = tensor_memory.tiles(code, inside)
    scales = tensor_memory.scale_tiles(code, tiles, inside[0][0].machine.limits.tensor)
    plan = replace(plan, kernel=replace(plan.kernel, tiles=tiles, scales=scales))
    for part, own, placed in zip(plan.loops, plan.deferred, places, strict=True):
        drafts = loop_drafts(plan, part, own)
        spans = {task: span for draft in drafts for task, span in pipelined_loops.spans(draft.group).items()}
        wide = frozenset(group.id for group in plan.granted if group.warps > WARPGROUP)
        order = tensor_dependences.LoopOrder(code, part.scheduled, part.tasks, spans, _handed(part), wide)
        first = sum(len(one.barriers) for one in found.values())
        made = tensor_dependences.dependences(order, placed, first)
        found[part.scheduled.loop.op.index] = _relayed(plan, part, made, first) if plan.pairs else made
    kernel = replace(plan.kernel, dependences=found)
    outside = tensor_memory.outside(code, [part.scheduled.loop for part in plan.loops])
    initial = accumulator_flags.initial_stores(code, inside)
    left = [op for op in outside if op.index not in initial]
    entered = tensor_memory.entered(code, [part.scheduled.loop for part in plan.loops], left)
    everybody = tuple(group.id for group in plan.granted)
    groups = everybody if plan.orders_stores else _synchronized(plan, outside)
    alternates = plan.alternate and not plan.orders_stores
    if alternates and not any(one.barriers for one in found.values()):
        kernel = _alternating(kernel, inside, alternating.alternating(code, inside, left, groups, entered))
    return replace(
        plan,
        kernel=kernel,
        synchronized=groups,
        entered=plan.entered | entered,
        initial_stores=initial,
        between=plan.between | frozenset(_reusing(plan, left)),
    )


def tensor_barriers(plan: Plan) -> tuple[DependenceBarrier, ...]:
    """All that order accesses to tensor memory."""
    own = tuple(one for found in plan.kernel.dependences.values() for one in found.barriers)
    return own + (plan.kernel.alternating.barriers if plan.kernel.alternating else ())


def barrier_bytes(plan: Plan) -> int:
    """What these, and the wait for all MMAs, take of shared memory."""
    return DRAINS + 8 * sum(one.depth for one in tensor_barriers(plan)) if plan.kernel.tiles else 0


def _relayed(plan: Plan, part: PlannedLoop, made: Dependences, first: int) -> Dependences:
    """With a barrier for each channel that MMAs of pairs and threads read: each block's own tiles fill its
    slot, and threads wait for that alone, but the MMAs read both blocks' slots. A group arrives once for each
    slot and has released none that is not read: as many phases as there are slots suffice."""
    relays, barriers = dict[tuple[int, str], str](), list(made.barriers)
    for channel in plan.kernel.channels:
        for group in channel.by_mma if channel.by_threads else ():
            read = (leaf.source for task in part.tasks if task.group == group for leaf in task.leaves)
            if channel.holds_one_of(read):
                name, reason = f"dependence{first + len(barriers)}", f"slots of {channel.id} in both blocks"
                barriers.append(DependenceBarrier(name, group, group, "threads", channel.depth, reason))
                relays[group, channel.id] = name
    return replace(made, barriers=tuple(barriers), relays=relays)


def _alternating(
    kernel: Kernel, inside: Sequence[tuple[Scheduled, tuple[Task, ...]]], found: Alternating | None
) -> Kernel:
    """With two buffers for each accumulator, where these fit."""
    limit = inside[0][0].machine.limits.tensor
    tiles = alternating.doubled(kernel.tiles)
    if found is None or sum(tile.columns * tile.buffers for tile in tiles.values()) > limit:
        return kernel
    try:
        scales = tensor_memory.scale_tiles(kernel.code, tiles, limit)
    except TwillError:  # the scale factors do not fit beside them
        return kernel
    return replace(kernel, tiles=tiles, scales=scales, alternating=found)


def _handed(part: PlannedLoop) -> tuple[tuple[str, str, int], ...]:
    """The tiles that go from group to group through channels."""
    return tuple(
        (task.id, reader.id, leaf.distance)
        for task in part.tasks
        for value in task.writes
        for reader in part.tasks
        for leaf in reader.leaves
        if leaf.source.id == value.id and reader.group != task.group and leaf.distance is not None
    )


def _synchronized(plan: Plan, outside: Sequence[Op]) -> tuple[int, ...]:
    """The groups that use tensor memory."""
    code = plan.kernel.code
    inside = {
        task.group
        for part in plan.loops
        for task in part.tasks
        if any(tensor_memory.accesses(code, code.ops[index]) for index in task.ops)
    }
    return tuple(sorted(inside.union(*(_executing(plan, op) for op in outside))))


def _executing(plan: Plan, op: Op) -> frozenset[int]:
    """The groups that execute an operation on tensor memory around the loops."""
    if op.index in plan.non_loop.owner:
        return frozenset({plan.non_loop.owner[op.index]})
    made = {value.id for value in op.results if not isinstance(value.type, Token)}
    return frozenset(group for group, values in plan.non_loop.needs.items() if made & set(values))


def _reusing(plan: Plan, around: Sequence[Op]) -> Iterator[int]:
    """Before which stores around the loops the groups synchronize: another group may still access the buffer,
    before it in straight code, or in the last iteration of a loop around it. Stores with no loop between them
    need one synchronization."""
    code, last = plan.kernel.code, None
    homes, loops = blocks(code.function), {part.scheduled.loop.op.index for part in plan.loops}
    for op in around:
        if not any(one.writes for one in tensor_memory.accesses(code, op)) or not _reused(plan, around, op):
            continue
        run = (id(homes[op.index]), sum(index < op.index for index in loops))
        if run != last:
            if not by_all_groups(code, op, frozenset(loops)):
                raise code.refuse("a store to tensor memory that another group reads before", op, GROUPS)
            yield op.index
        last = run


def _reused(plan: Plan, around: Sequence[Op], op: Op) -> bool:
    code = plan.kernel.code
    own, buffers = _executing(plan, op), {one.buffer for one in tensor_memory.accesses(code, op)}
    function = code.function.body
    repeated = function is not None and blocks(code.function)[op.index] is not function.blocks[0]
    return any(
        _executing(plan, other) - own
        and (repeated or other.index < op.index)
        and any(one.buffer in buffers for one in tensor_memory.accesses(code, other))
        for other in around
    )
