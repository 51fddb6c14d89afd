"""What the groups of a kernel share, before any of their statements.

Takes a `Design`, which says what each group does; gives a `Plan`: channels, shared memory, code outside of
loops, launch. Raises TwillError for what does not fit or can not be lowered.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from twill.diagnostics import TwillError
from twill.ir.channels import CLAIMS
from twill.ir.distribution import root
from twill.ir.loop import GRID, UNEQUAL, Linear, Module, Op, Tensor
from twill.ir.machine import Machine
from twill.ir.program import Launch, Program
from twill.ir.schedule import Group as Granted
from twill.ops.table import role
from twill.warp import multicast, pairs, thread_block, tiles_in_flight
from twill.warp.channels import ChannelPlan, distinct, merged, of_loop
from twill.warp.dataflow import STORES, Code, into_shared, loaded
from twill.warp.deferred_reductions import DeferredReductions, deferred_reductions
from twill.warp.independent import Independent
from twill.warp.kernel import Group, Kernel, Settings
from twill.warp.non_loop_code import NonLoopCode, plan_non_loop_code
from twill.warp.ordering import HandOff
from twill.warp.pipelined_loops import LoopDraft
from twill.warp.residency import (
    ahead,
    all_tiles,
    between_iterations,
    candidates,
    enough_slots,
    equal_slots,
    even_launches,
    filled_at_once,
    fit_apart,
    hides_arrival,
    never_waits,
    shared_bytes,
    sharing,
    tiles_and_vectors,
    waits_for_each,
)
from twill.warp.shared_memory import Demand, SharedMemoryPlan, layout
from twill.warp.shared_slots import Which, with_shared_slots
from twill.warp.stored_before import around_loops, between, ordering, stored_by_several
from twill.warp.target import Target
from twill.warp.tasks import Scheduled, Task
from twill.warp.tiles_in_flight import TilesInFlight

ONE_SLOT = 1.1
"""How many times as long blocks of two slots may take, as predicted, beside twice as many of one slot, which
wait for each tile that they read: a grid may have fewer blocks than an SM holds, or end with fewer. (On an
H200 an int8 product of 16 rows in 512 thread blocks of one slot took 1.8 times as long as in Triton's of two;
15 of 16 kernels of one slot were slower than Triton's.)"""

_Inside: TypeAlias = Sequence[tuple[Scheduled, tuple[Task, ...]]]
"""The loops with their tasks."""


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
    blocks: int | None = None
    """Thread blocks of a launch, where that is known: no more of them share an SM than it gets."""
    room: int = 1
    """Thread blocks for which the schedules leave room on an SM: these are taken to have registers enough,
    which ptxas may deny."""
    withheld: int = 0
    """Bytes of shared memory that the schedules do without, for what else lies there."""
    pairs: bool = False
    """MMAs are those of pairs of thread blocks (`twill.warp.pairs`)."""
    cluster: int = 1
    """Thread blocks that share loads (`twill.warp.multicast`), 1 or 2."""
    alternate: bool = True
    """Accumulators of persistent kernels in tensor memory alternate (`twill.warp.alternating`)."""
    dynamic: bool | None = None
    """Running thread blocks of a persistent kernel take over tiles (cluster launch control, or a counter);
    None: where tiles are of unequal length."""
    tiles: int | None = None
    """Iterations of a loop over tiles in flight; None: as many as are predicted to be fastest."""
    multistage: bool | None = None
    """The only group that computes loads too (`twill.warp.multistage`); None: where that is predicted to be
    clearly faster (`twill.generation.multistage`)."""
    independent: bool | None = None
    """Warpgroups of the group that computes store tiles by themselves (`twill.warp.independent`); None: where
    that is predicted to be faster (`twill.generation.independent`)."""
    by_tma: bool = True
    """A launch may have more thread blocks on an SM where TMA can load all tiles (`Program.by_tma`)."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedLoop:
    """A scheduled loop with the work of its groups, and the hand-offs of the tensor core by their ordering
    barriers."""

    scheduled: Scheduled
    tasks: tuple[Task, ...]
    hand_offs: tuple[tuple[str, HandOff], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the groups of a kernel share, before any of their statements."""

    module: Module
    kernel: Kernel
    loops: tuple[PlannedLoop, ...]
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
    cluster: int = 1
    """Thread blocks that share loads."""
    even: tuple[int, ...] = ()
    """As `Program.even`."""
    claiming: int | None = None
    """The loop over tiles whose tiles are claimed, by its operation."""
    alternate: bool = True
    """Accumulators may have two buffers, for every second tile."""
    synchronized: tuple[int, ...] = ()
    """Groups that use tensor memory, or all where several store to the same memory: they synchronize after
    each loop."""
    entered: frozenset[int] = frozenset()
    """Loops before which these synchronize."""
    orders_stores: bool = False
    """All groups synchronize where that orders what they store."""
    between: frozenset[int] = frozenset()
    """Stores before which they do: another group has stored to the same memory."""
    initial_stores: Mapping[int, int] = field(default_factory=dict[int, int])
    """Stores to tensor memory that matter only where a loop has no iteration, with that loop."""
    tiles: TilesInFlight | None = None
    """None where one tile is in flight."""
    reasons: tuple[str, ...] = ()
    """Why so many tiles are in flight; nothing where there is no loop over tiles."""
    independent: Independent | None = None
    """None where the warpgroups of a group stage tiles together."""


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What a plan is made from."""

    code: Code
    target: Target
    options: Options
    names: Mapping[int, str]
    """Variables, by value id."""
    parts: tuple[PlannedLoop, ...]
    granted: tuple[Granted, ...]
    epilogue: int
    """The group that stores what no group holds."""
    tiles: TilesInFlight | None = None
    ahead: int | None = None
    """The loop over tiles in which the next tile is loaded while one is computed."""
    issuers: Mapping[int, int] = field(default_factory=dict[int, int])
    """By group: the group that issues its MMAs."""
    reserved: int = 0
    """Bytes of shared memory for the barriers of tensor memory."""
    share_slots: Which | None = None
    """Channels of one kind that share slots; None: each has slots of its own."""
    independent: Independent | None = None
    """Warpgroups that store tiles by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A program between two passes."""

    plan: Plan
    loops: tuple[tuple[LoopDraft, ...], ...]
    """For each loop: that loop in each group."""
    program: Program | None = None
    """Once the loops are finished."""


def _channels(design: Design, inside: _Inside, non_loop: NonLoopCode) -> tuple[ChannelPlan, ...]:
    """The channels of the loops and of the code outside of them, as the target uses them."""
    code, target, multistage = design.code, design.target, bool(design.options.multistage)
    channels = distinct((*non_loop.channels, *merged(of_loop(code, *pair, multistage) for pair in inside)))
    if target.completion == "commit group":
        channels = tuple(replace(channel, by_mma=(), by_threads=None) for channel in channels)
    for scheduled, tasks in inside if design.share_slots else ():
        channels = with_shared_slots(code, scheduled, tasks, channels, design.share_slots or "stored")
    if design.options.pairs:
        if target.accumulators != "tensor memory":
            what = f"{target.name} has no MMAs of pairs of thread blocks"
            raise code.refuse(what, design.parts[0].scheduled.loop.op)
        channels = pairs.halved(code, channels, inside)
    if design.options.cluster > 1:
        channels = multicast.shared(code, _without_dynamic(design, channels))
    return channels


def _without_dynamic(design: Design, channels: tuple[ChannelPlan, ...]) -> tuple[ChannelPlan, ...]:
    """The channels of a kernel that can have clusters. Raises TwillError for one that can not."""
    code, loop = design.code, design.parts[0].scheduled.loop.op
    if design.target.accumulators == "tensor memory":
        raise code.refuse(
            f"{design.target.name} shares loads by MMAs of pairs", loop, help="give --pairs, not --cluster"
        )
    if design.options.dynamic:
        raise code.refuse(
            "thread blocks that claim tiles one by one can not share loads", loop, help="leave --dynamic away"
        )
    return channels


def _even(design: Design, channels: tuple[ChannelPlan, ...]) -> tuple[int, ...]:
    """What has to be even for what the thread blocks share."""
    if design.options.pairs:
        return pairs.assumptions(design.code)
    return multicast.assumptions(design.code, channels) if design.options.cluster > 1 else ()


def _in_flight(design: Design, channels: tuple[ChannelPlan, ...]) -> tuple[ChannelPlan, ...]:
    """The channels with slots for the tile that is loaded ahead, and for each copy of a group."""
    if design.ahead is not None:
        channels = tiles_in_flight.loaded_ahead(design.code, channels, design.ahead) or channels
    if design.tiles is not None:
        channels = tiles_in_flight.channels(design.code, channels, design.tiles)
    return channels


def _stores(design: Design, channels: tuple[ChannelPlan, ...]) -> tuple[Mapping[int, int], Mapping[int, str]]:
    """The group of each store in a loop, and the channel of one that leaves from its slots."""
    code, every = design.code, [task for part in design.parts for task in part.tasks]
    stores = [task for task in every if code.ops[task.ops[-1]].name in STORES]
    handed = {task.ops[-1]: channel for task in stores for channel in _slots_read(task, channels)}
    return {task.ops[-1]: task.group for task in stores}, handed


def _shared_memory(
    design: Design,
    channels: tuple[ChannelPlan, ...],
    non_loop: NonLoopCode,
    stored: Mapping[int, int],
    handed: Mapping[int, str],
    *,
    synchronized: bool,
) -> tuple[SharedMemoryPlan, int, Launch | None]:
    """The shared memory of a thread block, how many blocks an SM holds, and the launch in which TMA lets it
    hold more, if there is one; `synchronized`: all groups wait for each other. Raises TwillError where not
    even one fits."""
    code, target, options, tiles = design.code, design.target, design.options, design.tiles
    one = design.parts[0].scheduled
    through = {
        group.id: _through_scratch(code, target, design.parts, non_loop, group.id) for group in design.granted
    }
    scratch = {group: max(map(target.tiles.scratch, ops), default=0) for group, ops in through.items()}
    limit, apart = _limit(one) + options.withheld, design.reserved + (CLAIMS if _claims(options, code) else 0)
    copied = tiles.copies.items() if tiles is not None else ()
    copies = {group: tuple(one.id for one in own) for group, own in copied}

    def laid_out(blocks: int) -> SharedMemoryPlan:
        most = options.most if blocks <= 2 else enough_slots(one.machine, options.most)
        if options.multistage:
            most = min(most, equal_slots(channels, one.machine, blocks))
        limits = (shared_bytes(one.machine, blocks, limit) - apart, options.depths, most)
        needed = (code, target.tiles, channels, non_loop, stored, handed, scratch, through)
        dead = tiles is None and design.ahead is None
        found = layout(Demand(*needed, *limits, copies, design.issuers, dead_slots=dead))
        return replace(found, memory=replace(found.memory, limit=found.memory.limit + apart))

    return (laid_out(1), 1, None) if tiles is not None else _resident(design, laid_out, synchronized)


def planned(design: Design) -> Plan:
    """Channels, shared memory and the code outside of loops, for groups with their tasks."""
    code, options, parts = design.code, design.options, design.parts
    inside = [(part.scheduled, part.tasks) for part in parts]
    non_loop = _outside(design, inside)
    channels, stored, handed = _passed_on(design, inside, non_loop)
    order = _store_order(design, non_loop)
    memory, blocks, by_tma = _shared_memory(
        design, channels, non_loop, stored, handed, synchronized=order.needed
    )
    granted = sharing(design.granted, parts[0].scheduled, blocks)
    return Plan(
        code.module,
        _kernel(design, memory),
        parts,
        granted,
        non_loop,
        memory,
        deferred_reductions(code, inside),
        _launch(design, granted, blocks),
        by_tma,
        tiles=design.tiles,
        independent=design.independent,
        pairs=options.pairs,
        cluster=options.cluster,
        even=_even(design, channels),
        claiming=_claiming(design),
        alternate=options.alternate,
        synchronized=tuple(group.id for group in granted) if order.several else (),
        entered=frozenset(part.scheduled.loop.op.index for part in parts) if order.several else frozenset(),
        orders_stores=order.needed,
        between=order.between,
    )


def _outside(design: Design, inside: _Inside) -> NonLoopCode:
    groups, fillers = [group.id for group in design.granted], _fillers(design)
    loads = loader(design.parts, design.granted)
    return plan_non_loop_code(design.code, inside, groups, loads, design.epilogue, fillers)


def _passed_on(
    design: Design, inside: _Inside, non_loop: NonLoopCode
) -> tuple[tuple[ChannelPlan, ...], Mapping[int, int], Mapping[int, str]]:
    """The channels of the kernel; the group of each store in a loop, and the channel of one that leaves from
    its slots."""
    channels = _channels(design, inside, non_loop)
    stored, handed = _stores(design, channels)
    channels, own = _in_flight(design, channels), design.independent
    if own is None:
        return channels, stored, handed
    by_warps = {op: names[0] for op, names in own.stores.items()}
    return (*channels, *own.channels), stored, {**handed, **by_warps}


def _kernel(design: Design, memory: SharedMemoryPlan) -> Kernel:
    return Kernel(
        design.code,
        design.target,
        memory.plans,
        design.names,
        memory.stores,
        design.options.settings,
        memory.overlaid,
        multistage=bool(design.options.multistage),
    )


def _launch(design: Design, granted: Sequence[Granted], blocks: int) -> Launch:
    """Of the groups and of the warps that are added to them."""
    tiles, own = design.tiles, design.independent
    added = (*(tiles.added if tiles else ()), *((own.storing,) if own else ()))
    launch = thread_block.launch((*granted, *added), design.parts[0].scheduled, blocks)
    return replace(launch, even=bool(design.options.multistage))


@dataclass(frozen=True, slots=True)
class _StoreOrder:
    """What keeps stores of several groups in the order of the TTGIR."""

    several: bool
    """All groups synchronize before and behind the loops."""
    between: frozenset[int]
    """Before these stores outside of loops, by index, they do too."""
    needed: bool


def _store_order(design: Design, non_loop: NonLoopCode) -> _StoreOrder:
    code, parts = design.code, design.parts
    storing = {task.ops[-1]: task.group for part in parts for task in part.tasks}
    scheduled = [part.scheduled.loop for part in parts]
    several = stored_by_several(code, storing, non_loop.owner) or around_loops(code, scheduled)
    ordered = between(code, non_loop.owner, (loop.op.index for loop in scheduled))
    return _StoreOrder(several, ordered, several or bool(ordered or ordering(code, scheduled)))


def _fillers(design: Design) -> Mapping[int, int]:
    """The group that stages tiles before the loops, by group that reads these and holds no tiles: one that
    issues MMAs alone."""
    narrow = (group.id for group in design.granted if thread_block.only_moves(group))
    wide = any(group.id == design.epilogue and not thread_block.only_moves(group) for group in design.granted)
    return dict.fromkeys(narrow, design.epilogue) if wide else {}


def _claims(options: Options, code: Code) -> bool:
    """Whether thread blocks claim the tiles of a kernel made persistent."""
    unequal = any(UNEQUAL in attributes for attributes in code.function.arg_attributes)
    return unequal if options.dynamic is None else options.dynamic


def _claiming(design: Design) -> int | None:
    """The loop over tiles of a kernel made persistent. Raises TwillError where there is none."""
    code = design.code
    if not _claims(design.options, code):
        return None
    loop = design.parts[0].scheduled.loop.op
    if not any(GRID in attributes for attributes in code.function.arg_attributes):
        raise code.refuse("only a kernel made persistent can claim its tiles", loop, help="give --persistent")
    assert code.function.body
    return next(op.index for op in code.function.body.blocks[0].ops if role(op) == "for")


def _resident(
    design: Design, laid_out: Callable[[int], SharedMemoryPlan], synchronized: bool
) -> tuple[SharedMemoryPlan, int, Launch | None]:
    """Shared memory of each of the thread blocks that an SM is to hold, how many, and the launch in which TMA
    lets it hold more, if there is one: no group is `within` another one that it waits for. Raises TwillError
    where not even one fits."""
    alone, loops = laid_out(1), [(part.scheduled, part.tasks) for part in design.parts]
    if design.target.accumulators != "registers":
        return alone, 1, None

    def shared_by(blocks: int) -> SharedMemoryPlan | None:
        try:
            memory = laid_out(blocks)
        except TwillError:  # what one block needs does not fit so often
            return None
        hidden = apart or hides_arrival(memory.plans, alone.plans, scheduled, blocks)
        again = [one for one in memory.plans if not (apart and filled_at_once(one))]
        return memory if hidden and fit_apart(again, machine, blocks) else None

    machine, apart = loops[0][0].machine, bool(design.options.multistage)
    scheduled = [one for one, _ in loops]
    given = (design.code, design.granted, loops, most_blocks(design.options, machine))
    possible = candidates(*given, design.options.room)
    found = ((memory, blocks) for blocks in possible if (memory := shared_by(blocks)))
    if apart:
        paces = [(between_iterations(memory.plans, scheduled, n), memory, n) for memory, n in found]
        memory, blocks = paced(paces) if paces else (alone, 1)
    else:
        memory, blocks = next(found, (alone, 1))
    by_tma, single = None, design.options.cluster == 1
    if not design.options.by_tma:
        return memory, blocks, None
    loading = (design.code, design.granted, alone.plans, machine)
    enough = enough_slots(machine, design.options.most)
    copies, slots = all_tiles(*loading), blocks * ahead(memory.plans, enough)
    mixed = not copies and tiles_and_vectors(*loading)
    for within in (True, False) if copies else (False,) if mixed else ():
        for launch in even_launches(*given, within=within, tight=mixed):
            most = by_tma.blocks if by_tma else blocks
            more = shared_by(launch.blocks) if launch.blocks > most else None
            alone_first = single and not synchronized and more and never_waits(design.granted, more.plans)
            if more is None or (within and not alone_first):
                continue
            under_way = launch.blocks * ahead(more.plans, enough)
            if copies or under_way >= slots:  # no less loads on an SM than are enough for its blocks
                memory, by_tma = more, launch
                break
    return memory, blocks, by_tma


def paced(paces: Sequence[tuple[float, SharedMemoryPlan, int]]) -> tuple[SharedMemoryPlan, int]:
    """Of the numbers of blocks that load for themselves, most first, each with the cycles that are predicted
    of it, the fastest; where these have one slot each, half as many with two, which load as much at a time,
    unless they are predicted to be clearly slower."""
    fastest, memory, blocks = min(paces, key=lambda one: one[0])
    if waits_for_each(memory.plans):
        for cycles, other, fewer in paces:
            alike = cycles <= ONE_SLOT * fastest and 2 * fewer + 1 >= blocks
            if alike and not waits_for_each(other.plans):
                return other, fewer
    return memory, blocks


def most_blocks(options: Options, machine: Machine) -> int:
    """Thread blocks of an SM, at most."""
    if options.blocks is None or machine.multiprocessors is None:
        return options.most_blocks
    return min(options.most_blocks, -(-options.blocks // machine.multiprocessors))


def _slots_read(store: Task, channels: Iterable[ChannelPlan]) -> Iterable[str]:
    """The channels between groups from which a store reads its tile."""
    for channel in channels:
        read = any(channel.holds(leaf.source) is not None for leaf in store.leaves)
        if read and channel.filled_by == "threads" and store.group in channel.consumers:
            yield channel.id


def _through_scratch(
    code: Code, target: Target, parts: Sequence[PlannedLoop], non_loop: NonLoopCode, group: int
) -> tuple[Op, ...]:
    """The operations of a group that need a scratch buffer for what its threads exchange. A layout that is
    only changed on the way to global or into shared memory needs none."""
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
    read = {op.index for op in ops if role(op) == "layout" and read_converted(code, op)}
    free = leaving | read
    return tuple(op for op in ops if op.index not in free and target.tiles.scratch(op))


def read_converted(code: Code, op: Op) -> bool:
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


def loader(parts: Sequence[PlannedLoop], granted: Sequence[Granted]) -> int:
    """The group that loads; the first one where no loop loads."""
    streaming = (task.group for part in parts for task in part.tasks if task.node.kind == "load")
    return next(streaming, granted[0].id)


def _limit(one: Scheduled) -> int:
    """Bytes of shared memory that a thread block may have; the problem's limit is without the tiles that stay
    during the loop."""
    resident = sum(
        invariant.tile.bytes for invariant in one.graph.invariants if invariant.tile.place == "shared"
    )
    return one.problem.limits.shared + resident


def loop_drafts(plan: Plan, part: PlannedLoop, deferred: DeferredReductions) -> tuple[LoopDraft, ...]:
    """A loop in each of the groups, before the passes."""
    return tuple(
        LoopDraft(Group(plan.kernel, part.scheduled, part.tasks, group.id, part.hand_offs, deferred.tasks))
        for group in plan.granted
    )
