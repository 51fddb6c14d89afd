"""The last passes: every group's code outside of loops with its finished loops makes a program."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from twill.ir.channels import CLAIMS, DependenceBarrier, OrderBarrier, SharedMemory, TensorTile
from twill.ir.loop import Loop, Op
from twill.ir.program import AXES, Descriptor, Program, WarpProgram
from twill.ir.schedule import Group as Granted
from twill.ir.statements import Pipelined
from twill.ops.axis_info import AxisAnalysis
from twill.ops.pointer_loads import why_not
from twill.ops.table import lookup, role
from twill.warp import independent, pipelined_loops, thread_block, tiles_in_flight
from twill.warp.block_order import block_order
from twill.warp.copies import element_by_element
from twill.warp.dataflow import Code, cone
from twill.warp.dead_code import without_dead_code
from twill.warp.group_bodies import Body, statements
from twill.warp.ordering import ahead
from twill.warp.plan import Draft, Plan, PlannedLoop
from twill.warp.shared_memory import SharedMemoryPlan
from twill.warp.store_waits import with_store_waits
from twill.warp.stored_before import ordering
from twill.warp.tasks import Scheduled
from twill.warp.tensor_memory_plan import barrier_bytes, tensor_barriers


def assembled(draft: Draft) -> Draft:
    """The program: every group's code outside of loops with its finished loops."""
    plan, lowered = draft.plan, [tuple(map(pipelined_loops.pipelined, groups)) for groups in draft.loops]
    finalizers = {value: op for own in plan.deferred for value, op in own.finalized.items()}
    programs = list[WarpProgram]()
    for i, group in enumerate(plan.granted):
        loops = {
            part.scheduled.loop.op.index: (part.scheduled.loop, made[i])
            for part, made in zip(plan.loops, lowered, strict=True)
        }
        programs.append(_warp_program(plan, group, _body(plan, group.id, loops, finalizers)))
    code, memory = plan.kernel.code, plan.memory
    barriers = tensor_barriers(plan)
    made = Program(
        module=plan.module,
        function=code.function,
        groups=tuple(programs),
        channels=memory.channels,
        orders=_orders(draft),
        buffers=memory.buffers,
        descriptors=_descriptors(code),
        shared=_with_barriers(plan),
        launch=plan.launch,
        by_tma=plan.by_tma,
        tensor_memory=_tensor_tiles(plan),
        pairs=plan.pairs,
        cluster=plan.cluster,
        claiming=plan.claiming,
        order=AXES if plan.pairs or plan.cluster > 1 else block_order(code),
        even=plan.even,
        parts=_parts(code, [one.scheduled for one in plan.loops]),
        dependences=barriers,
        orders_stores=plan.orders_stores,
        synchronized=plan.synchronized or tuple(g.id for g in plan.granted if plan.orders_stores),
        notes=(
            *_notes(plan.loops, memory),
            *_loads_through_registers(code, plan.loops),
            *_turned_by_threads(code),
            *_tensor_notes(plan, barriers),
            *plan.reasons,
        ),
        warnings=tuple(_slow_loads(code, plan.loops)),
    )
    return replace(draft, program=made)


def _parts(code: Code, loops: Sequence[Scheduled]) -> Mapping[int, int]:
    """How much of which operations a polynomial computes, as the schedules say."""
    parts = {
        index: one.problem.operation(node.id).polynomial
        for one in loops
        for node in one.graph.nodes
        for index in node.ops
        if (row := lookup(code.ops[index].name)) is not None and row.polynomial is not None
    }
    return {index: count for index, count in sorted(parts.items()) if count}


def _with_barriers(plan: Plan) -> SharedMemory:
    """Shared memory with the barriers of tensor memory, and what claims of tiles need."""
    memory = plan.memory.memory
    claims = 0 if plan.claiming is None else CLAIMS
    return replace(memory, bytes=memory.bytes + barrier_bytes(plan) + claims)


def _tensor_tiles(plan: Plan) -> tuple[TensorTile, ...]:
    """Everything in tensor memory."""
    return (*plan.kernel.tiles.values(), *(tile for made in plan.kernel.scales.values() for tile in made))


def _tensor_notes(plan: Plan, barriers: Sequence[DependenceBarrier]) -> Iterable[str]:
    tiles = sorted(_tensor_tiles(plan), key=lambda tile: (tile.column, tile.id))
    for tile in tiles:
        last = _end(tile) - 1
        several = f", {tile.buffers} buffers" if tile.buffers > 1 else ""
        others = [one.id for one in tiles if one is not tile and _overlap(one, tile)]
        shared = f", shared with {' and '.join(others)}" if others else ""
        yield f"tensor memory {tile.id}: columns {tile.column} to {last}{several}{shared}"
    for one in barriers:
        yield f"{one.id}: {one.reason}, {one.depth} mbarriers, group {one.signaller} to {one.waiter}"


def _end(tile: TensorTile) -> int:
    return tile.column + tile.columns * tile.buffers


def _overlap(one: TensorTile, other: TensorTile) -> bool:
    """Whether two tiles lie in the same columns, at different times."""
    return one.column < _end(other) and other.column < _end(one)


def _body(
    plan: Plan, group: int, loops: Mapping[int, tuple[Loop, Pipelined]], finalizers: Mapping[int, int]
) -> Body:
    return Body(
        plan.kernel,
        group,
        plan.non_loop,
        loops,
        plan.memory.overlaid,
        finalizers,
        plan.synchronized,
        plan.entered,
        plan.initial_stores,
        ordering(plan.kernel.code, [loop for loop, _ in loops.values()]),
        plan.between,
    )


def _warp_program(plan: Plan, group: Granted, body: Body) -> WarpProgram:
    made = with_store_waits(without_dead_code(plan.kernel.code, statements(body)))
    widths = thread_block.widths(plan.granted, plan.memory.channels, plan.kernel.code)
    return WarpProgram(
        id=group.id,
        warps=widths[group.id],
        first_warp=thread_block.first_warp(group.id, widths),
        registers=group.registers,
        variables=thread_block.variables(plan.kernel.code, made),
        body=made,
        only_moves=thread_block.only_moves(group),
    )


def alternated(draft: Draft) -> Draft:
    """Copies of the groups that compute, on alternate tiles, where several are in flight."""
    assert draft.program is not None
    plan = draft.plan
    if plan.tiles is None:
        return draft
    return replace(draft, program=tiles_in_flight.alternated(plan.kernel.code, draft.program, plan.tiles))


def independent_warpgroups(draft: Draft) -> Draft:
    """Each warpgroup of a group by itself where tiles are stored, and the warp that stores for them. Raises
    TwillError where that warp would need what only the group knows."""
    assert draft.program is not None
    plan = draft.plan
    if plan.independent is None:
        return draft
    try:
        made = independent.handed_over(plan.kernel.code, draft.program, plan.independent)
    except independent.NotIndependentError as why:
        raise plan.kernel.code.refuse(str(why), plan.loops[0].scheduled.loop.op) from None
    return replace(draft, program=made)


def with_registers(draft: Draft) -> Draft:
    """All registers of the thread block granted."""
    assert draft.program is not None
    plan = draft.plan
    granted = thread_block.with_registers(
        plan.kernel.code, draft.program.groups, plan.launch, plan.loops[0].scheduled
    )
    launch = thread_block.for_copies(plan.launch, granted, plan.loops[0].scheduled.problem.limits)
    return replace(draft, program=replace(draft.program, groups=granted, launch=launch))


def _orders(draft: Draft) -> tuple[OrderBarrier, ...]:
    found = list[OrderBarrier]()
    for part, own in zip(draft.plan.loops, draft.loops, strict=True):
        shifts = {one.group.id: one.group.shift for one in own}
        for order, h in part.hand_offs:
            found.append(
                OrderBarrier(
                    order, len(found) + 1, h.signaller, h.waiter, ahead(part.scheduled, h, shifts) == 1
                )
            )
    return tuple(found)


def _descriptors(code: Code) -> tuple[Descriptor, ...]:
    made = [op for op in code.ops.values() if role(op) == "descriptor"]
    return tuple(Descriptor(cone(code, [op], lambda value: False)[0]) for op in made)


def _slow_loads(code: Code, parts: Sequence[PlannedLoop]) -> Iterable[str]:
    for op, why in element_by_element(code, [part.scheduled for part in parts]):
        yield f"{_named(op)} is loaded element by element, {_cycles(parts, op)}: {why}"


def _loads_through_registers(code: Code, parts: Sequence[PlannedLoop]) -> Iterable[str]:
    for index in sorted(code.through_registers):
        op = code.ops[index]
        accesses = f"in accesses of {code.copies[index]} bytes, {_cycles(parts, op)}"
        yield f"{_named(op)} passes through registers {accesses}: {why_not(AxisAnalysis(code.function), op)}"


def _turned_by_threads(code: Code) -> Iterable[str]:
    """Loads whose tiles `extract.rewrite.loads.turned_loads` copies."""
    for op in code.ops.values():
        if role(op) != "select" or op.operands[1] is not op.operands[2]:
            continue
        maker = code.ops.get(op.operands[1].producer or 0)
        buffered = any(role(user) == "alloc" for user in code.users.get(op.result.id, ()))
        if buffered and maker is not None and role(maker) == "tma_load":
            yield f"{_named(maker)} is turned by threads: its MMA reads operands contiguous along K alone"


def _named(op: Op) -> str:
    return f"{op.result.name.lstrip('%')} (line {op.location.line})"


def _cycles(parts: Sequence[PlannedLoop], op: Op) -> str:
    """How long a load holds the threads that execute it, of an iteration as predicted."""
    found = (
        (one.problem.operation(node.id).issue, one.solution.interval, one.problem.resolution.cycles_per_unit)
        for one in (part.scheduled for part in parts)
        for node in one.graph.nodes
        if op.index in node.ops
    )
    held, interval, unit = next(found, (0, 0, 1))
    return f"{held * unit:.0f} of {interval * unit:.0f} cycles of an iteration"


def _notes(parts: Sequence[PlannedLoop], memory: SharedMemoryPlan) -> Iterable[str]:
    for channel in memory.channels:
        ends = f"group {channel.producer} to {channel.consumers}"
        whose = "" if channel.slot_owner == channel.id else f", those of {channel.slot_owner}"
        yield f"channel {channel.id}: {channel.depth} slots of {channel.stride} bytes, {ends}{whose}"
        if shared := [tensor.name for tensor in channel.tensors if tensor.multicast is not None]:
            yield (
                f"channel {channel.id}: {' and '.join(shared)} in halves, each loaded by one thread block of"
                " a cluster of two for both"
            )
        if halves := [tensor.name for tensor in channel.tensors if tensor.halved is not None]:
            yield (
                f"channel {channel.id}: half of {' and '.join(halves)} in each thread block of a pair, whose"
                " first block issues the MMAs of both"
            )
    for buffer in memory.buffers:
        where = f"in the slots of {buffer.overlays}: {buffer.reason}" if buffer.overlays else "of its own"
        yield f"buffer {buffer.id}: {buffer.bytes} bytes, {where}"
    for part in parts:
        for order, hand_off in part.hand_offs:
            yield (
                f"{order}: {hand_off.before} of group {hand_off.waiter} after {hand_off.after} of group"
                f" {hand_off.signaller}"
            )
