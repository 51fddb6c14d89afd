"""The designs of a kernel, and the plan that is chosen among them.

A design says what each group does: as the schedules have it, with warps that issue MMAs or store tiles, with
the next tile loaded ahead, with several tiles in flight. A plan that does not fit gives way to the next.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from twill.diagnostics import TwillError
from twill.ir.loop import GRID, Module, Op
from twill.ir.schedule import Group as Granted
from twill.warp import mma_warps, multistage, thread_block, tiles_in_flight
from twill.warp.alignment import aligned, ties
from twill.warp.channels import LOADED, ChannelPlan
from twill.warp.copies import for_one_group, with_copies
from twill.warp.dataflow import STORES, Code, carries, read, variables
from twill.warp.events import is_mma
from twill.warp.independent import Facts, NotIndependentError, independent
from twill.warp.ordering import hand_offs
from twill.warp.plan import Design, Options, Plan, PlannedLoop, loader
from twill.warp.planning import planned
from twill.warp.resident import with_resident
from twill.warp.slot_counts import SharedMemoryError
from twill.warp.slot_tensors import ALIGNMENT
from twill.warp.store_warp import SLOTS, handed_over, store_group
from twill.warp.target import Target
from twill.warp.tasks import Scheduled, tasks
from twill.warp.tensor_memory_plan import barrier_bytes, with_tensor_memory
from twill.warp.tiles_in_flight import TilesInFlight

EPILOGUE = 64
"""Registers of a thread of a group that only works outside of loops, at least; it gets what is left."""


def chosen(module: Module, loops: Sequence[Scheduled], target: Target, options: Options) -> Plan:
    """The plan of the function that the loops are in. Raises TwillError where there is none."""
    code = with_copies(read(module, loops[0].loop.function), loops)
    names = variables(code, [one.loop for one in loops])
    loops = aligned(code, loops, ties(code, [(one.loop, one.graph) for one in loops], names))
    granted = thread_block.granted(loops)
    code = with_resident(code, loops, granted)
    code = for_one_group(code, loops) if options.multistage else code
    parts = _loops(code, loops, target)
    if options.multistage:
        parts, granted = multistage.merged(code, target, parts, granted)
    granted, epilogue = _with_epilogue(module, target, granted, loader(parts, granted))
    plain = Design(code, target, options, names, parts, granted, epilogue)
    try:
        return _with_own_slots(plain)
    except SharedMemoryError:
        if options.tiles is not None or options.multistage:
            raise
        return _with_shared_slots(plain)


def _with_shared_slots(plain: Design) -> Plan:
    """The plan in which channels of one kind fill the same slots, where memory does not suffice otherwise.
    Raises SharedMemoryError where it does not suffice then."""
    design = replace(plain, share_slots="all")
    plan = planned(design)
    return _with_barriers(design, plan) if plain.target.accumulators == "tensor memory" else plan


def _with_own_slots(plain: Design) -> Plan:
    """The plan in which channels have slots of their own. Raises TwillError where there is none."""
    if plain.options.multistage:
        return planned(plain)
    if plain.options.independent:
        return _with_independent_warpgroups(plain)
    several, reasons = _several_tiles(plain)
    if several is not None:
        return replace(several, reasons=reasons)
    if plain.target.accumulators == "tensor memory":
        alone = planned(plain)
        found = _with_mma_warps(plain, alone) or _with_barriers(plain, alone)
    else:
        found = _loading_ahead(plain) or _with_store_warp(plain) or planned(plain)
    return replace(found, reasons=reasons)


def _with_independent_warpgroups(plain: Design) -> Plan:
    """The plan in which warpgroups store tiles by themselves, one tile in flight. Raises TwillError where
    there is none."""
    if (plain.options.tiles or 1) > 1:
        raise _not_independent(plain, "several tiles are in flight, each in other groups")
    design = replace(plain, options=replace(plain.options, depths={}))  # of channels that there are not yet
    ahead = _loading_ahead(design)
    try:
        own = independent(_facts(design, ahead or planned(design)))
    except NotIndependentError as why:
        raise _not_independent(plain, str(why)) from None
    loop = _tile_loop(plain)
    plan = planned(replace(plain, ahead=loop.index if ahead and loop else None, independent=own))
    if not _kept(plan, plain.options):
        raise _not_independent(plain, f"it would leave the loads less than {SLOTS} slots")
    return replace(plan, reasons=("tiles in flight: 1, whose warpgroups are independent of each other",))


def _not_independent(design: Design, why: str) -> TwillError:
    where = design.parts[0].scheduled.loop.op
    what = f"the warpgroups of a group can not store tiles by themselves: {why}"
    return design.code.refuse(what, where, "leave --independent-warpgroups out")


def _facts(design: Design, alone: Plan) -> Facts:
    """What decides whether warpgroups can store tiles by themselves."""
    scratch = {group.id for group in alone.granted if f"scratch{group.id}" in _buffers(alone)}
    ordered = any(part.hand_offs for part in alone.loops)
    one = design.parts[0].scheduled
    return Facts(
        code=design.code,
        granted=alone.granted,
        owner=alone.non_loop.owner,
        channels=alone.memory.plans,
        scratch=frozenset(scratch),
        loop=_tile_loop(design),
        scheduled=frozenset(op.index for part in design.parts for op in part.scheduled.loop.op.inner()),
        synchronizes=bool(ordered or alone.synchronized or alone.orders_stores or alone.between),
        tiles=design.target.tiles,
        names=design.names,
        registers=one.problem.limits.narrow_registers,
    )


def _buffers(plan: Plan) -> set[str]:
    return {buffer.id for buffer in plan.memory.buffers}


def _tile_loop(design: Design) -> Op | None:
    return tiles_in_flight.tile_loop(design.code, [part.scheduled for part in design.parts])


def _with_mma_warps(plain: Design, alone: Plan) -> Plan | None:
    """The plan in which warps of their own issue the MMAs of groups that compute; None where no warp is free,
    or channels would have fewer slots than in the plan without."""
    limits = plain.parts[0].scheduled.problem.limits
    tasks = [task for part in plain.parts for task in part.tasks]
    issuers = mma_warps.issuing(plain.code, tasks, plain.granted, limits.narrow_registers)
    widths = thread_block.widths(plain.granted, alone.memory.channels, plain.code)
    if not issuers or any(widths[one.id] != one.warps for one in plain.granted):
        return None
    parts = tuple(replace(p, tasks=mma_warps.moved(plain.code, p.tasks, issuers)) for p in plain.parts)
    granted = (*plain.granted, *issuers.values())
    ids = {group: issuer.id for group, issuer in issuers.items()}
    design = replace(plain, parts=parts, granted=granted, issuers=ids)
    try:
        plan = _with_barriers(design, planned(design))
    except SharedMemoryError:
        return None
    depths = {channel.id: channel.depth for channel in plan.memory.plans}
    fewer = any(channel.depth > depths.get(channel.id, 0) for channel in alone.memory.plans)
    return None if fewer else plan


def _with_barriers(design: Design, plan: Plan) -> Plan:
    """The plan of a design with tensor memory; with fewer slots where its barriers would not fit otherwise.
    Raises SharedMemoryError where they do not fit with the fewest."""
    found = with_tensor_memory(plan)
    memory, reserved = found.memory.memory, barrier_bytes(found)
    if memory.bytes + reserved <= memory.limit - ALIGNMENT:
        return found
    return with_tensor_memory(planned(replace(design, reserved=reserved)))


def _loading_ahead(plain: Design) -> Plan | None:
    """The plan in which loads once a tile have two slots, so that the next tile is there when one ends; None
    where nothing is loaded once a tile, thread blocks that share an SM overlap anyway, or the loads in the
    loops would not keep two slots each. (Causal attention on an H200, 128 heads: 1.44 to 1.39 million SM
    cycles at length 4096, 5.35 to 5.26 at 8192, with two slots in place of three for keys and values.)"""
    loop = _tile_loop(plain)
    stores = any(plain.code.ops[task.ops[-1]].name in STORES for part in plain.parts for task in part.tasks)
    if loop is None or stores or plain.target.completion != "commit group":
        return None
    alone = planned(plain)
    if alone.launch.blocks > 1 or not tiles_in_flight.loaded_ahead(
        plain.code, alone.memory.plans, loop.index
    ):
        return None
    try:
        plan = planned(replace(plain, ahead=loop.index))
    except SharedMemoryError:
        return None
    return plan if _kept(plan, plain.options) else None


def _kept(plan: Plan, options: Options) -> bool:
    """Whether the loads in loops have slots enough to overlap MMAs, but for those whose number is given."""
    return all(
        channel.depth >= SLOTS
        for channel in plan.memory.plans
        if channel.filled_by in LOADED and not channel.once and channel.id not in options.depths
    )


def _several_tiles(plain: Design) -> tuple[Plan | None, tuple[str, ...]]:
    """The plan with several tiles in flight, if there is one, and the reason in words. Raises TwillError
    where the number of tiles is given and can not be had."""
    code, given = plain.code, plain.options.tiles
    scheduled = [part.scheduled for part in plain.parts]
    loop = tiles_in_flight.tile_loop(code, scheduled)
    if given == 1 or (loop is None and given is None):
        return None, ()
    found = None if loop is None else tiles_in_flight.serial(code, scheduled, loop, given=given is not None)
    why = "there is no loop over tiles around all loops (--persistent makes one)" if loop is None else found
    if why is None and plain.target.completion != "commit group":
        why = "accumulators in tensor memory"
    if loop is None or why is not None:
        return None, _one_tile(plain, why or "")
    if given is None and any(GRID in one for one in code.function.arg_attributes):
        blocks = planned(plain).launch.blocks
        if blocks > 1:
            return None, (f"tiles in flight: 1 in each of the {blocks} thread blocks of an SM",)
    made, why = _most_tiles(plain, loop, scheduled)
    if made is None:
        return None, _one_tile(plain, why)
    assert made.tiles is not None
    return made, (made.tiles.note,)


def _one_tile(plain: Design, why: str) -> tuple[str, ...]:
    """The note. Raises TwillError where several tiles are asked for."""
    if plain.options.tiles is not None:
        where = plain.parts[0].scheduled.loop.op
        raise plain.code.refuse(
            f"{plain.options.tiles} tiles can not be in flight: {why}", where, "leave --tiles-in-flight out"
        )
    return (f"tiles in flight: 1, {why}",)


def _most_tiles(plain: Design, loop: Op, scheduled: Sequence[Scheduled]) -> tuple[Plan | None, str]:
    """The plan with the fewest tiles in flight that are predicted to be fastest, and why no other is; None
    where that is one tile."""
    code, given, found, why = plain.code, plain.options.tiles, None, "no more are predicted to be faster"
    few = scheduled[0].machine.copies.few_in_flight
    if given is None and thread_block.passing(code) > few:
        return None, "the threads that load need the registers"
    best = alone = tiles_in_flight.cycles(code, scheduled, 1)
    for number in (given,) if given is not None else range(2, tiles_in_flight.MOST + 1):
        predicted = tiles_in_flight.cycles(code, scheduled, number)
        if given is None and predicted >= best:
            break
        note = (
            f"tiles in flight: {number}, a tile of {tiles_in_flight.TRIPS} iterations every {predicted:.0f}"
            f" cycles predicted, {alone:.0f} with one"
        )
        copies = tiles_in_flight.copies(plain.granted, loader(plain.parts, plain.granted), number)
        if not copies:
            return None, "the group that computes loads too"
        carried = frozenset(plain.names[one.arg.id] for one in carries(loop))
        made, reason = _with_tiles(replace(plain, tiles=TilesInFlight(loop.index, copies, carried, note)))
        if made is None:
            why = f"{number} {reason}"
            break
        best, found = predicted, made
    return found, why


def _with_tiles(design: Design) -> tuple[Plan | None, str]:
    """The plan of a design with several tiles in flight; None and the reason where there is none."""
    assert design.tiles is not None
    one, granted = design.parts[0].scheduled, (*design.granted, *design.tiles.added)
    threads, most = thread_block.launch(granted, one).threads, 32 * one.problem.limits.warps
    if threads > most:
        return None, f"would need {threads} threads of {most}"
    tasks = [[task.ops for task in part.tasks] for part in design.parts]
    through = design.code.through_registers
    loading = thread_block.copying(one.machine.copies, design.code, tasks) if through else 0
    if not thread_block.fits(granted, one, loading):
        wanted = sum(32 * group.warps * group.registers for group in granted) + 128 * loading
        return None, f"would need {wanted} registers of {one.machine.limits.registers_total}"
    try:
        plan = planned(design)
    except SharedMemoryError:
        return None, "would need more shared memory than there is"
    refused = tiles_in_flight.refused(plan.memory.plans, design.tiles)
    if refused or not tiles_in_flight.level(plan.memory.plans):
        return None, f"can not be in flight: {refused or 'their channels have different numbers of slots'}"
    if plan.orders_stores:
        return None, "can not be in flight: all groups synchronize between stores of a tile"
    if not _kept(plan, design.options):
        return None, f"would leave the loads less than {SLOTS} slots"
    return plan, ""


def _with_store_warp(plain: Design) -> Plan | None:
    """The plan in which a warp of its own stores what loops store; None where no warp is free, nothing can be
    handed to it, or the loads would not keep two slots each. Of accumulators in registers alone: groups that
    read tensor memory synchronize otherwise."""
    one, code = plain.parts[0].scheduled, plain.code
    group = store_group(plain.granted, one.problem.limits.narrow_registers)
    if group is None or plain.target.accumulators != "registers":
        return None
    parts = tuple(replace(part, tasks=handed_over(code, part.tasks, group.id)) for part in plain.parts)
    if all(task.group != group.id for part in parts for task in part.tasks):
        return None
    design = replace(plain, parts=parts, granted=(*plain.granted, group))
    return _storing(design, plain) or _storing(replace(design, share_slots="stored"), plain)


def _storing(design: Design, plain: Design) -> Plan | None:
    """The plan of a design with a warp that stores; None where it does not fit."""
    try:
        plan = planned(design)
    except TwillError:  # shared memory: everything else is as in the plan without
        return None
    widths = thread_block.widths(plain.granted, plan.memory.channels, plain.code)
    kept = _arrive_in_time(plan) if design.share_slots else _kept(plan, plain.options)
    return plan if kept and all(widths[one.id] == one.warps for one in plain.granted) else None


def _arrive_in_time(plan: Plan) -> bool:
    """Whether channels share slots, and a load into every slot of the loops takes no longer to arrive
    than the slot is free in the schedule: from the end of its last read to the first of the next tile."""
    return any(channel.sharers for channel in plan.memory.plans) and all(
        _free(part, channel) >= part.scheduled.machine.loads.arrival
        for channel in plan.memory.plans
        if channel.filled_by in LOADED and not channel.once
        for part in plan.loops
    )


def _free(part: PlannedLoop, channel: ChannelPlan) -> float:
    """Cycles that a slot is free for, in a loop; without end where the loop does not read it."""
    problem, solution = part.scheduled.problem, part.scheduled.solution
    reads = [
        (task.start + (leaf.distance or 0) * solution.interval, problem.operation(task.id))
        for task in part.tasks
        for leaf in task.leaves
        if channel.holds(leaf.source) is not None
    ]
    if not reads:
        return inf
    last = max(start + max(one.latency, one.issue) for start, one in reads)
    again = min(start for start, _ in reads) + channel.depth * solution.interval
    return (again - last) * problem.resolution.cycles_per_unit


def _with_epilogue(
    module: Module, target: Target, granted: tuple[Granted, ...], loader: int
) -> tuple[tuple[Granted, ...], int]:
    """The groups, and the one that stores what no group holds: the first that does not load. Where results
    lie in tensor memory it must hold tiles: it is as wide as the layouts say, and a group of its own if there
    is none."""
    computing = [group for group in granted if group.id != loader] or list(granted)
    if target.accumulators == "registers":
        return granted, computing[0].id
    wide = [group for group in computing if group.warps == module.num_warps]
    if wide:
        return granted, wide[0].id
    own = Granted(1 + max(group.id for group in granted), module.num_warps, EPILOGUE)
    return (*granted, own), own.id


def _loops(code: Code, loops: Sequence[Scheduled], target: Target) -> tuple[PlannedLoop, ...]:
    """With the hand-offs of the tensor core where its MMAs are waited for in the order of their issue."""
    found = list[PlannedLoop]()
    for one in loops:
        made = tasks(code, one)
        mmas = tuple(task for task in made if is_mma(code, task))
        passed = hand_offs(one, mmas) if target.completion == "commit group" else ()
        begin = sum(len(other.hand_offs) for other in found)
        found.append(
            PlannedLoop(
                one, made, tuple((f"hand_off{begin + i}", hand_off) for i, hand_off in enumerate(passed))
            )
        )
    return tuple(found)
