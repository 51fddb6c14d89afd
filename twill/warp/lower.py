"""From loops with their joint schedules to a program for every group of warps.

Takes a module and its scheduled loops (of one function); gives a `Program` (`ir.program` says what it means).
Everything follows from the schedules: the order of statements from the start times, channels from the groups,
waits from the dependences. `plan` decides what all groups share; then the `PASSES`, in order, make the
program, each a function from `Draft` to `Draft`. Raises TwillError, with the operation and its line, for what
can not be lowered.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill.diagnostics import TwillError
from twill.ir.channels import CLAIMS, DRAINS, DependenceBarrier, OrderBarrier, SharedMemory, TensorTile
from twill.ir.distribution import root
from twill.ir.loop import GRID, Linear, Loop, Module, Op, Tensor, Token
from twill.ir.program import Descriptor, Launch, Program, WarpProgram
from twill.ir.schedule import Group as Granted
from twill.ir.statements import Pipelined
from twill.ops.table import role
from twill.warp import (
    alternating,
    mma_warps,
    pairs,
    pipelined_loops,
    tensor_memory,
    thread_block,
    tiles_in_flight,
)
from twill.warp.alignment import aligned, ties
from twill.warp.alternating import Alternating
from twill.warp.channels import LOADED, ChannelPlan, SharedMemoryError, distinct, merged, of_loop
from twill.warp.copies import element_by_element, with_copies
from twill.warp.dataflow import STORES, Code, carries, cone, into_shared, loaded, ordering, read, variables
from twill.warp.dead_code import without_dead_code
from twill.warp.deferred_reductions import DeferredReductions, deferred_reductions
from twill.warp.group_bodies import Body, statements
from twill.warp.non_loop_code import NonLoopCode, plan_non_loop_code
from twill.warp.ordering import HandOff, ahead, hand_offs
from twill.warp.pipelined_loops import LoopDraft
from twill.warp.residency import (
    all_tiles,
    candidates,
    enough_slots,
    even_launches,
    hides_arrival,
    shared_bytes,
    sharing,
    stays_in_cache,
)
from twill.warp.resident import with_resident
from twill.warp.shared_memory import Demand, SharedMemoryPlan, layout
from twill.warp.steady_state import Group, Kernel, Settings, is_mma
from twill.warp.store_waits import with_store_waits
from twill.warp.store_warp import SLOTS, handed_over, store_group
from twill.warp.target import Target
from twill.warp.tasks import Scheduled, Task, tasks
from twill.warp.tiles_in_flight import TilesInFlight

COPYING = 56
"""Registers of a thread that copies tiles by cp.async, if there are so many: addresses of the copies under
way (estimate)."""


EPILOGUE = 64
"""Registers of a thread of a group that only works outside of loops, at least; it gets what is left."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be chosen."""

    depths: Mapping[str, int] = field(default_factory=dict[str, int])
    """Slots of channels, by name; the others get as many as shared memory allows."""
    most: int = 8
    """Slots of a channel at most."""
    settings: Settings = field(default_factory=Settings)
    most_blocks: int = 32
    """Thread blocks that an SM holds at the same time, at most."""
    withheld: int = 0
    """Bytes of shared memory that the schedules do without, for what else lies there."""
    pairs: bool = False
    """MMAs are those of pairs of thread blocks (`twill.warp.pairs`)."""
    alternate: bool = True
    """Accumulators of persistent kernels in tensor memory alternate (`twill.warp.alternating`)."""
    dynamic: bool = False
    """Running thread blocks of a persistent kernel take over tiles (cluster launch control)."""
    tiles: int | None = None
    """Iterations of a loop over tiles in flight; None: as many as are predicted to be fastest."""


@dataclass(frozen=True, slots=True, eq=False)
class _Loop:
    scheduled: Scheduled
    tasks: tuple[Task, ...]
    hand_offs: tuple[tuple[str, HandOff], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the groups of a kernel share, before any of their statements."""

    module: Module
    kernel: Kernel
    loops: tuple[_Loop, ...]
    granted: tuple[Granted, ...]
    """The groups, with the registers that the schedules give them."""
    non_loop: NonLoopCode
    memory: SharedMemoryPlan
    deferred: tuple[DeferredReductions, ...]
    """For each loop."""
    launch: Launch
    by_tma: Launch | None = None
    """As `Program.by_tma`."""
    pairs: bool = False
    """MMAs are those of pairs of thread blocks."""
    claiming: int | None = None
    """The loop over tiles whose tiles are claimed, by its operation."""
    alternate: bool = True
    """Accumulators may have two buffers, for every second tile."""
    synchronized: tuple[int, ...] = ()
    """Groups that use tensor memory."""
    entered: frozenset[int] = frozenset()
    """Loops before which these synchronize."""
    initial_stores: Mapping[int, int] = field(default_factory=dict[int, int])
    """Stores to tensor memory that matter only where a loop has no iteration, with that loop."""
    tiles: TilesInFlight | None = None
    """None where one tile is in flight."""
    reasons: tuple[str, ...] = ()
    """Why so many tiles are in flight; nothing where there is no loop over tiles."""


@dataclass(frozen=True, slots=True, eq=False)
class _Design:
    """What a plan is made from."""

    code: Code
    target: Target
    options: Options
    names: Mapping[int, str]
    """Variables, by value id."""
    parts: tuple[_Loop, ...]
    granted: tuple[Granted, ...]
    epilogue: int
    """The group that stores what no group holds."""
    tiles: TilesInFlight | None = None
    ahead: int | None = None
    """The loop over tiles in which the next tile is loaded while one is computed."""
    issuers: Mapping[int, int] = field(default_factory=dict[int, int])
    """By group: the group that issues its MMAs."""


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A program between two passes."""

    plan: Plan
    loops: tuple[tuple[LoopDraft, ...], ...]
    """For each loop: that loop in each group."""
    program: Program | None = None
    """Once the loops are finished."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of lowering."""

    name: str
    run: Callable[[Draft], Draft]


def lower(
    module: Module,
    loops: Sequence[Scheduled],
    target: Target,
    options: Options | None = None,
    observe: Callable[[str, Draft], None] = lambda name, draft: None,
) -> Program:
    """The program of the function that the loops are in; `observe` is called after each pass with its
    name."""
    plan = _plan(module, loops, target, options or Options())
    draft = Draft(
        plan, tuple(_groups(plan, part, own) for part, own in zip(plan.loops, plan.deferred, strict=True))
    )
    for one in PASSES:
        draft = one.run(draft)
        observe(one.name, draft)
    assert draft.program is not None
    return draft.program


# --- what the groups share --------------------------------------------------------------------------------


def _plan(module: Module, loops: Sequence[Scheduled], target: Target, options: Options) -> Plan:
    code = with_copies(read(module, loops[0].loop.function), loops)
    names = variables(code, [one.loop for one in loops])
    loops = aligned(code, loops, ties(code, [(one.loop, one.graph) for one in loops], names))
    granted = thread_block.granted(loops)
    code = with_resident(code, loops, granted)
    parts = _loops(code, loops, target)
    granted, epilogue = _with_epilogue(module, target, granted, _loader(parts))
    plain = _Design(code, target, options, names, parts, granted, epilogue)
    several, reasons = _several_tiles(plain)
    if several is not None:
        return replace(several, reasons=reasons)
    if target.accumulators == "tensor memory":
        alone = _planned(plain)
        found = _with_mma_warps(plain, alone) or _with_tensor_memory(alone)
    else:
        found = _loading_ahead(plain) or _with_store_warp(plain) or _planned(plain)
    return replace(found, reasons=reasons)


def _with_mma_warps(plain: _Design, alone: Plan) -> Plan | None:
    """The plan in which warps of their own issue the MMAs of groups that compute; None where no warp is free,
    or channels would have fewer slots than in the plan without."""
    limits = plain.parts[0].scheduled.problem.limits
    tasks = [task for part in plain.parts for task in part.tasks]
    issuers = mma_warps.issuing(plain.code, tasks, plain.granted, limits.narrow_registers)
    widths = thread_block.widths(plain.granted, alone.memory.channels)
    if not issuers or any(widths[one.id] != one.warps for one in plain.granted):
        return None
    parts = tuple(replace(p, tasks=mma_warps.moved(plain.code, p.tasks, issuers)) for p in plain.parts)
    granted = (*plain.granted, *issuers.values())
    ids = {group: issuer.id for group, issuer in issuers.items()}
    try:
        plan = _planned(replace(plain, parts=parts, granted=granted, issuers=ids))
    except SharedMemoryError:
        return None
    depths = {channel.id: channel.depth for channel in plan.memory.plans}
    fewer = any(channel.depth > depths.get(channel.id, 0) for channel in alone.memory.plans)
    return None if fewer else _with_tensor_memory(plan)


def _loading_ahead(plain: _Design) -> Plan | None:
    """The plan in which loads once a tile have two slots, so that the next tile is there when one ends; None
    where nothing is loaded once a tile, thread blocks that share an SM overlap anyway, or the loads in the
    loops would not keep two slots each. (Causal attention on an H200, 128 heads: 1.44 to 1.39 million SM
    cycles at length 4096, 5.35 to 5.26 at 8192, with two slots in place of three for keys and values.)"""
    loop = tiles_in_flight.tile_loop(plain.code, [part.scheduled for part in plain.parts])
    stores = any(plain.code.ops[task.ops[-1]].name in STORES for part in plain.parts for task in part.tasks)
    if loop is None or stores or plain.target.completion != "commit group":
        return None
    alone = _planned(plain)
    if alone.launch.blocks > 1 or not tiles_in_flight.loaded_ahead(
        plain.code, alone.memory.plans, loop.index
    ):
        return None
    try:
        plan = _planned(replace(plain, ahead=loop.index))
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


def _several_tiles(plain: _Design) -> tuple[Plan | None, tuple[str, ...]]:
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
        blocks = _planned(plain).launch.blocks
        if blocks > 1:
            return None, (f"tiles in flight: 1 in each of the {blocks} thread blocks of an SM",)
    made, why = _most_tiles(plain, loop, scheduled)
    if made is None:
        return None, _one_tile(plain, why)
    assert made.tiles is not None
    return made, (made.tiles.note,)


def _one_tile(plain: _Design, why: str) -> tuple[str, ...]:
    """The note. Raises TwillError where several tiles are asked for."""
    if plain.options.tiles is not None:
        where = plain.parts[0].scheduled.loop.op
        raise plain.code.refuse(
            f"{plain.options.tiles} tiles can not be in flight: {why}", where, "leave --tiles-in-flight out"
        )
    return (f"tiles in flight: 1, {why}",)


def _most_tiles(plain: _Design, loop: Op, scheduled: Sequence[Scheduled]) -> tuple[Plan | None, str]:
    """The plan with the fewest tiles in flight that are predicted to be fastest, and why no other is; None
    where that is one tile."""
    code, given, found, why = plain.code, plain.options.tiles, None, "no more are predicted to be faster"
    best = alone = tiles_in_flight.cycles(code, scheduled, 1)
    for number in (given,) if given is not None else range(2, tiles_in_flight.MOST + 1):
        predicted = tiles_in_flight.cycles(code, scheduled, number)
        if given is None and predicted >= best:
            break
        note = (
            f"tiles in flight: {number}, a tile of {tiles_in_flight.TRIPS} iterations every {predicted:.0f}"
            f" cycles predicted, {alone:.0f} with one"
        )
        copies = tiles_in_flight.copies(plain.granted, _loader(plain.parts), number)
        carried = frozenset(plain.names[one.arg.id] for one in carries(loop))
        made, reason = _with_tiles(replace(plain, tiles=TilesInFlight(loop.index, copies, carried, note)))
        if made is None:
            why = f"{number} {reason}"
            break
        best, found = predicted, made
    return found, why


def _with_tiles(design: _Design) -> tuple[Plan | None, str]:
    """The plan of a design with several tiles in flight; None and the reason where there is none."""
    assert design.tiles is not None
    one, granted = design.parts[0].scheduled, (*design.granted, *design.tiles.added)
    if not thread_block.fits(granted, one):
        wanted = sum(32 * group.warps * group.registers for group in granted)
        return None, f"would need {wanted} registers of {one.machine.limits.registers_total}"
    try:
        plan = _planned(design)
    except SharedMemoryError:
        return None, "would need more shared memory than there is"
    refused = tiles_in_flight.refused(plan.memory.plans, design.tiles)
    if refused or not tiles_in_flight.level(plan.memory.plans):
        return None, f"can not be in flight: {refused or 'their channels have different numbers of slots'}"
    if not _kept(plan, design.options):
        return None, f"would leave the loads less than {SLOTS} slots"
    return plan, ""


def _with_store_warp(plain: _Design) -> Plan | None:
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
    try:
        plan = _planned(replace(plain, parts=parts, granted=(*plain.granted, group)))
    except TwillError:  # shared memory: everything else is as in the plan without
        return None
    widths = thread_block.widths(plain.granted, plan.memory.channels)
    kept = _kept(plan, plain.options)
    return plan if kept and all(widths[one.id] == one.warps for one in plain.granted) else None


def _channels(
    design: _Design, inside: Sequence[tuple[Scheduled, tuple[Task, ...]]], non_loop: NonLoopCode
) -> tuple[ChannelPlan, ...]:
    """The channels of the loops and of the code outside of them, as the target uses them."""
    code, target = design.code, design.target
    channels = distinct((*non_loop.channels, *merged(of_loop(code, *pair) for pair in inside)))
    if target.completion == "commit group":
        channels = tuple(replace(channel, by_mma=(), by_threads=None) for channel in channels)
    if design.options.pairs:
        if target.accumulators != "tensor memory":
            what = f"{target.name} has no MMAs of pairs of thread blocks"
            raise code.refuse(what, design.parts[0].scheduled.loop.op)
        channels = pairs.halved(code, channels, inside)
    return channels


def _in_flight(design: _Design, channels: tuple[ChannelPlan, ...]) -> tuple[ChannelPlan, ...]:
    """The channels with slots for the tile that is loaded ahead, and for each copy of a group."""
    if design.ahead is not None:
        channels = tiles_in_flight.loaded_ahead(design.code, channels, design.ahead) or channels
    if design.tiles is not None:
        channels = tiles_in_flight.channels(design.code, channels, design.tiles)
    return channels


def _planned(design: _Design) -> Plan:
    """Channels, shared memory and the code outside of loops, for groups with their tasks."""
    code, target, options, granted = design.code, design.target, design.options, design.granted
    parts, one = design.parts, design.parts[0].scheduled
    inside = [(part.scheduled, part.tasks) for part in parts]
    non_loop = plan_non_loop_code(
        code, inside, [group.id for group in granted], _loader(parts), design.epilogue
    )
    channels = _channels(design, inside, non_loop)
    stores = [task for part in parts for task in part.tasks if code.ops[task.ops[-1]].name in STORES]
    stored = {task.ops[-1]: task.group for task in stores}
    handed = {task.ops[-1]: channel for task in stores for channel in _slots_read(task, channels)}
    scratch = {group.id: _scratch(code, target, parts, non_loop, group.id) for group in granted}
    tiles, copies, limit = design.tiles, dict[int, tuple[int, ...]](), _limit(one) + options.withheld
    channels = _in_flight(design, channels)
    if tiles is not None:
        copies = {group: tuple(one.id for one in own) for group, own in tiles.copies.items()}

    def laid_out(blocks: int) -> SharedMemoryPlan:
        most = options.most if blocks <= 2 else enough_slots(one.machine, options.most)
        limits = (shared_bytes(one.machine, blocks, limit), options.depths, most)
        needed = (code, target.tiles, channels, non_loop, stored, handed, scratch)
        dead = tiles is None and design.ahead is None
        return layout(Demand(*needed, *limits, copies, design.issuers, dead_slots=dead))

    memory, blocks, by_tma = (laid_out(1), 1, None) if tiles is not None else _resident(design, laid_out)
    kernel = Kernel(
        code, target, memory.plans, design.names, memory.stores, options.settings, memory.overlaid
    )
    granted = sharing(granted, one, blocks)
    launch = thread_block.launch((*granted, *(tiles.added if tiles else ())), one, blocks)
    deferred = deferred_reductions(code, inside)
    return Plan(
        code.module,
        kernel,
        parts,
        granted,
        non_loop,
        memory,
        deferred,
        launch,
        by_tma,
        tiles=tiles,
        pairs=options.pairs,
        claiming=_claiming(design),
        alternate=options.alternate,
    )


def _claiming(design: _Design) -> int | None:
    """The loop over tiles of a kernel made persistent. Raises TwillError where there is none, or where the
    target has no cluster launch control."""
    if not design.options.dynamic:
        return None
    code = design.code
    loop = design.parts[0].scheduled.loop.op
    if design.target.accumulators != "tensor memory":
        raise code.refuse(f"{design.target.name} has no cluster launch control", loop)
    if not any(GRID in attributes for attributes in code.function.arg_attributes):
        raise code.refuse("only a kernel made persistent can claim its tiles", loop, help="give --persistent")
    assert code.function.body
    return next(op.index for op in code.function.body.blocks[0].ops if role(op) == "for")


def _resident(
    design: _Design, laid_out: Callable[[int], SharedMemoryPlan]
) -> tuple[SharedMemoryPlan, int, Launch | None]:
    """Shared memory of each of the thread blocks that an SM is to hold, how many, and the launch in which TMA
    lets it hold more, if there is one. Raises TwillError where not even one fits."""
    alone, loops = laid_out(1), [(part.scheduled, part.tasks) for part in design.parts]
    if design.target.accumulators != "registers":
        return alone, 1, None

    def shared_by(blocks: int) -> SharedMemoryPlan | None:
        try:
            memory = laid_out(blocks)
        except TwillError:  # what one block needs does not fit so often
            return None
        hidden = hides_arrival(memory.plans, alone.plans, [scheduled for scheduled, _ in loops])
        cached = stays_in_cache(memory.plans, machine, blocks)
        return memory if hidden and cached else None

    given, machine = (design.code, design.granted, loops, design.options.most_blocks), loops[0][0].machine
    found = ((memory, blocks) for blocks in candidates(*given) if (memory := shared_by(blocks)))
    memory, blocks = next(found, (alone, 1))
    copies = all_tiles(design.code, design.granted, alone.plans, machine)
    for launch in even_launches(*given) if copies else ():
        if launch.blocks > blocks and (more := shared_by(launch.blocks)):
            return more, blocks, launch
    return memory, blocks, None


def _slots_read(store: Task, channels: Iterable[ChannelPlan]) -> Iterable[str]:
    """The channels between groups from which a store reads its tile."""
    for channel in channels:
        read = any(channel.holds(leaf.source) is not None for leaf in store.leaves)
        if read and channel.filled_by == "threads" and store.group in channel.consumers:
            yield channel.id


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


def _with_tensor_memory(plan: Plan) -> Plan:
    """The plan with the tiles in tensor memory, and the barriers that order accesses to them."""
    code, found = plan.kernel.code, dict[int, tensor_memory.Dependences]()
    inside = [(part.scheduled, part.tasks) for part in plan.loops]
    tiles, places = tensor_memory.tiles(code, inside)
    scales = tensor_memory.scale_tiles(code, tiles, inside[0][0].machine.limits.tensor)
    plan = replace(plan, kernel=replace(plan.kernel, tiles=tiles, scales=scales))
    for part, own, placed in zip(plan.loops, plan.deferred, places, strict=True):
        drafts = _groups(plan, part, own)
        spans = {task: span for draft in drafts for task, span in pipelined_loops.spans(draft.group).items()}
        wide = frozenset(group.id for group in plan.granted if group.warps > tensor_memory.WARPGROUP)
        order = tensor_memory.LoopOrder(code, part.scheduled, part.tasks, spans, _handed(part), wide)
        first = sum(len(one.barriers) for one in found.values())
        found[part.scheduled.loop.op.index] = tensor_memory.dependences(order, placed, first)
    kernel = replace(plan.kernel, dependences=found)
    outside = tensor_memory.outside(code, [part.scheduled.loop for part in plan.loops])
    initial = tensor_memory.initial_stores(code, inside)
    left = [op for op in outside if op.index not in initial]
    entered = tensor_memory.entered(code, [part.scheduled.loop for part in plan.loops], left)
    if plan.alternate and not any(one.barriers for one in found.values()):
        groups = _synchronized(plan, outside)
        kernel = _alternating(kernel, inside, alternating.alternating(code, inside, left, groups, entered))
    return replace(
        plan,
        kernel=kernel,
        synchronized=_synchronized(plan, outside),
        entered=entered,
        initial_stores=initial,
    )


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


def _handed(part: _Loop) -> tuple[tuple[str, str, int], ...]:
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
    owners = {plan.non_loop.owner[op.index] for op in outside if op.index in plan.non_loop.owner}
    readers = {
        group
        for op in outside
        for group, values in plan.non_loop.needs.items()
        if any(value.id in values for value in op.results if not isinstance(value.type, Token))
        and op.index not in plan.non_loop.owner
    }
    return tuple(sorted(inside | owners | readers))


def _loops(code: Code, loops: Sequence[Scheduled], target: Target) -> tuple[_Loop, ...]:
    """With the hand-offs of the tensor core where its MMAs are waited for in the order of their issue."""
    found = list[_Loop]()
    for one in loops:
        made = tasks(code, one)
        mmas = tuple(task for task in made if is_mma(code, task))
        passed = hand_offs(one, mmas) if target.completion == "commit group" else ()
        begin = sum(len(other.hand_offs) for other in found)
        found.append(
            _Loop(one, made, tuple((f"hand_off{begin + i}", hand_off) for i, hand_off in enumerate(passed)))
        )
    return tuple(found)


def _scratch(code: Code, target: Target, parts: Sequence[_Loop], non_loop: NonLoopCode, group: int) -> int:
    """Bytes that a group needs for what its threads exchange: of the operation that needs most. A layout that
    is only changed on the way to global or into shared memory costs nothing."""
    inside = {op.index for part in parts for op in part.scheduled.loop.op.inner()}
    tasks = [task for part in parts for task in part.tasks if task.group == group]
    ops = [op for task in tasks for op in _exchanging(code, task)]
    ops += [
        op
        for op in code.ops.values()
        if op.index not in inside and any(value.id in non_loop.needs[group] for value in op.results)
    ]
    ops += [inner for op in ops if role(op) not in ("for", "while") for inner in op.inner()]
    leaving = {
        maker.index
        for op in code.ops.values()
        if op.name in STORES
        for value in op.operands
        if (maker := code.maker(value))
        and all(isinstance(one.type, Tensor) and target.tiles.leaves(one.type) for one in maker.operands)
    }
    read = {op.index for op in ops if role(op) == "layout" and _read_converted(code, op)}
    return max((target.tiles.scratch(op) for op in ops if op.index not in leaving | read), default=0)


def _read_converted(code: Code, op: Op) -> bool:
    """A tile that is read from its slot in the layout that it is changed to."""
    result = op.result.type
    exact = isinstance(result, Tensor) and isinstance(one := root(result.encoding), Linear) and one.exact
    return exact and loaded(code, op.operands[0]) is not None


def _exchanging(code: Code, task: Task) -> Iterator[Op]:
    """The operations of a task but those that only change a layout on the way into shared memory."""
    ops = [code.ops[index] for index in task.ops]
    slots = {value.id for value in ops[-1].results} if task.node.kind == "shared_store" else set[int]()
    free = into_shared(ops, slots)
    yield from (op for op in ops if op.index not in free)


def _loader(parts: Sequence[_Loop]) -> int:
    streaming = (task.group for part in parts for task in part.tasks if task.node.kind == "load")
    return next(streaming, 0)


def _limit(one: Scheduled) -> int:
    """Bytes of shared memory that a thread block may have; the problem's limit is without the tiles that stay
    during the loop."""
    resident = sum(
        invariant.tile.bytes for invariant in one.graph.invariants if invariant.tile.place == "shared"
    )
    return one.problem.limits.shared + resident


def _groups(plan: Plan, part: _Loop, deferred: DeferredReductions) -> tuple[LoopDraft, ...]:
    return tuple(
        LoopDraft(Group(plan.kernel, part.scheduled, part.tasks, group.id, part.hand_offs, deferred.tasks))
        for group in plan.granted
    )


# --- passes -----------------------------------------------------------------------------------------------


def _each_loop(run: Callable[[tuple[LoopDraft, ...]], tuple[LoopDraft, ...]]) -> Callable[[Draft], Draft]:
    """A pass over all groups of a loop together."""
    return lambda draft: replace(draft, loops=tuple(map(run, draft.loops)))


def _each_group(run: Callable[[LoopDraft], LoopDraft]) -> Callable[[Draft], Draft]:
    """A pass over each group of a loop by itself."""
    return _each_loop(lambda groups: tuple(map(run, groups)))


def _assembled(draft: Draft) -> Draft:
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
    barriers = tuple(one for found in plan.kernel.dependences.values() for one in found.barriers)
    barriers += plan.kernel.alternating.barriers if plan.kernel.alternating else ()
    made = Program(
        module=plan.module,
        function=code.function,
        groups=tuple(programs),
        channels=memory.channels,
        orders=_orders(draft),
        buffers=memory.buffers,
        descriptors=_descriptors(code),
        shared=_with_barriers(memory.memory, barriers, plan.claiming) if plan.kernel.tiles else memory.memory,
        launch=plan.launch,
        by_tma=plan.by_tma,
        tensor_memory=_tensor_tiles(plan),
        pairs=plan.pairs,
        claiming=plan.claiming,
        even=pairs.assumptions(code) if plan.pairs else (),
        dependences=barriers,
        synchronized=plan.synchronized or tuple(g.id for g in plan.granted if ordering(code)),
        notes=(*_notes(plan.loops, memory), *_tensor_notes(plan, barriers), *plan.reasons),
        warnings=tuple(_slow_loads(code, plan.loops)),
    )
    return replace(draft, program=made)


def _with_barriers(
    memory: SharedMemory, barriers: Sequence[DependenceBarrier], claiming: int | None
) -> SharedMemory:
    """Shared memory with the barriers of tensor memory, and what claims of tiles need."""
    more = DRAINS if claiming is None else DRAINS + CLAIMS
    return replace(memory, bytes=memory.bytes + 8 * sum(one.depth for one in barriers) + more)


def _tensor_tiles(plan: Plan) -> tuple[TensorTile, ...]:
    """Everything in tensor memory."""
    return (*plan.kernel.tiles.values(), *(tile for made in plan.kernel.scales.values() for tile in made))


def _tensor_notes(plan: Plan, barriers: Sequence[DependenceBarrier]) -> Iterable[str]:
    for tile in sorted(_tensor_tiles(plan), key=lambda tile: (tile.column, tile.id)):
        last = tile.column + tile.columns * tile.buffers - 1
        several = f", {tile.buffers} buffers" if tile.buffers > 1 else ""
        yield f"tensor memory {tile.id}: columns {tile.column} to {last}{several}"
    for one in barriers:
        yield f"{one.id}: {one.reason}, {one.depth} mbarriers, group {one.signaller} to {one.waiter}"


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
        ordering(plan.kernel.code),
    )


def _warp_program(plan: Plan, group: Granted, body: Body) -> WarpProgram:
    made = with_store_waits(without_dead_code(plan.kernel.code, statements(body)))
    widths = thread_block.widths(plan.granted, plan.memory.channels)
    return WarpProgram(
        id=group.id,
        warps=widths[group.id],
        first_warp=thread_block.first_warp(group.id, widths),
        registers=group.registers,
        variables=thread_block.variables(plan.kernel.code, made),
        body=made,
        only_moves=thread_block.only_moves(group),
    )


def _alternated(draft: Draft) -> Draft:
    """Copies of the groups that compute, on alternate tiles, where several are in flight."""
    assert draft.program is not None
    plan = draft.plan
    if plan.tiles is None:
        return draft
    return replace(draft, program=tiles_in_flight.alternated(plan.kernel.code, draft.program, plan.tiles))


def _with_registers(draft: Draft) -> Draft:
    """All registers of the thread block granted."""
    assert draft.program is not None
    plan = draft.plan
    granted = thread_block.with_registers(
        plan.kernel.code, draft.program.groups, plan.launch, plan.loops[0].scheduled
    )
    return replace(draft, program=replace(draft.program, groups=granted))


PASSES = (
    Pass("shift", _each_loop(pipelined_loops.shifted)),
    Pass("order", _each_group(pipelined_loops.in_schedule_order)),
    Pass("slice", _each_group(pipelined_loops.sliced)),
    Pass("release", _each_group(pipelined_loops.released)),
    Pass("stages", _each_loop(pipelined_loops.staged)),
    Pass("mma-waits", _each_group(pipelined_loops.awaited)),
    Pass("scheduling-fences", _each_group(pipelined_loops.fenced)),
    Pass("assemble", _assembled),
    Pass("tiles-in-flight", _alternated),
    Pass("registers", _with_registers),
)
"""Lowering, in order. The target takes part in `shift`, `release`, `mma-waits` and `scheduling-fences`."""


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


def _slow_loads(code: Code, parts: Sequence[_Loop]) -> Iterable[str]:
    for op, why in element_by_element(code, [part.scheduled for part in parts]):
        yield f"{op.result.name.lstrip('%')} (line {op.location.line}) is loaded element by element: {why}"


def _notes(parts: Sequence[_Loop], memory: SharedMemoryPlan) -> Iterable[str]:
    for channel in memory.channels:
        yield (
            f"channel {channel.id}: {channel.depth} slots of {channel.stride} bytes, group {channel.producer}"
            f" to {channel.consumers}"
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
