"""How groups wait for each other: slots, accesses to tensor memory, pairs of thread blocks."""

from collections.abc import Sequence

from twill.ir.channels import Channel, DependenceBarrier
from twill.ir.effects import effects
from twill.ir.operands import At, Iteration, Slot
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import (
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    Move,
    ProducerLoad,
    ProducerStore,
    SchedulingFence,
    Statement,
    StoreTile,
    walk,
)
from twill.ops.table import role
from twill.targets.cuda.emitter import (
    DRAIN,
    FIRST,
    ISSUER,
    READY,
    TENSOR_MEMORY_SYNC,
    Emitter,
    indented,
    issues,
    pair_waits,
)
from twill.targets.cuda.names import channel as channel_name
from twill.targets.cuda.names import count, threads_copied
from twill.targets.cuda.registers.elements import iteration, sequence
from twill.warp.dataflow import read
from twill.warp.stored_before import ATOMIC, stored_too

_PLAIN = (
    *(Compute, ConsumerWait, ConsumerRelease, MmaIssue, MmaWait, Move),
    *(ProducerLoad, ProducerStore, SchedulingFence),
)
"""What a thread executes in every iteration, or nothing but loads of which are left out in some."""


def barrier_arrive(emitter: Emitter, barrier: str, at: At) -> list[str]:
    """On a dependence barrier: of the group's threads, or of its MMAs when they are complete."""
    if _dependence(emitter, barrier).by == "mma":
        return _mmas_complete(emitter, barrier, at)
    arrive = "arrive_at_first" if pair_waits(emitter.program, barrier) else "arrive"
    return [f"{barrier}.{arrive}({sequence(barrier, at.iteration)});"]


def consumer_wait(emitter: Emitter, channel: str, at: At) -> list[str]:
    """Copies write through the generic proxy, as threads do; the tensor core reads through the
    asynchronous one. Of a local channel, all threads have written behind a group barrier."""
    one = emitter.program.channel(channel)
    if one.local:
        return [emitter.scope().group_barrier()]
    fenced = _fenced(emitter, emitter.group, channel) and not emitter.fenced_later
    wait = f"{channel_name(channel)}.consumer_wait({emitter.positions.of(channel, at.iteration)});"
    lines = [wait, "fence_async_shared();"] if fenced else [wait]
    if emitter.of_pair(channel):
        only = f"{FIRST} && thread.warp == 0" if emitter.group.warps > 1 else FIRST
        return [f"if ({only}) {wait}"]
    if emitter.group.warps > 1 and one.only_mma(emitter.group.id):
        return ["if (thread.warp == 0) {", *indented(lines), "}"] if fenced else [f"{ISSUER} {wait}"]
    return lines


def fenced_later(emitter: Emitter, statements: Sequence[Statement]) -> bool:
    """Of a wait for a slot and what follows it: whether the group stores a tile for MMAs, and fences, before
    an MMA reads the slot. A fence waits for all accesses of a thread to shared memory."""
    if not isinstance(first := statements[0], ConsumerWait):
        return False
    fenced = False
    for one in statements[1:]:
        if isinstance(one, ProducerStore) and one.at.iteration == first.at.iteration:
            fenced |= fences(emitter.program.channel(one.channel))
        elif isinstance(one, MmaIssue) and first.channel in _channels_read(one):
            return fenced
        elif not isinstance(one, _PLAIN):
            return False
    return False


def _channels_read(one: MmaIssue) -> frozenset[str]:
    return frozenset(read.channel for read in effects(one).reads if isinstance(read, Slot))


def fences(channel: Channel) -> bool:
    """Whether threads that store tiles to its slots fence: MMAs and TMA read what has an encoding, through
    the asynchronous proxy; threads read the rest."""
    return any(one.encoding is not None for one in channel.tensors)


def _fenced(emitter: Emitter, group: WarpProgram, channel: str) -> bool:
    """Whether an asynchronous MMA of a group reads tiles where threads copy them to: the group has a fence
    between the copies and the MMA."""
    return bool(_copied(emitter, channel) & _read_by_mmas(group, channel))


def _copied(emitter: Emitter, channel: str) -> frozenset[int]:
    """The tiles of a channel's slots that threads copy, as tensor maps do not describe them or not all of
    them."""
    by_threads = emitter.program.channel(channel).filled_by == "cp_async"
    fills = (
        one
        for group in emitter.program.groups
        for one in walk(group.body)
        if isinstance(one, ProducerLoad) and one.channel == channel
    )
    loads = ((load.tensor, emitter.tiled.get(load.ops[-1])) for one in fills for load in one.loads)
    return frozenset(tensor for tensor, own in loads if (bool(own.inside) if own else by_threads))


def _read_by_mmas(group: WarpProgram, channel: str) -> frozenset[int]:
    """The tiles of a channel's slots that asynchronous MMAs of a group read where they lie."""
    issued = (one for one in walk(group.body) if isinstance(one, MmaIssue))
    read = (location for one in issued for location in effects(one).reads)
    return frozenset(one.tensor for one in read if isinstance(one, Slot) and one.channel == channel)


def fenced_by_producer(emitter: Emitter, channel: str) -> bool:
    """Whether the group that fills a channel has a fence between the copies of threads to a slot and those of
    TMA that follow: threads copy some tiles, and no group that reads them has a fence behind their copies."""
    owner = emitter.program.channel(channel).slot_owner
    return any(_unfenced(emitter, one) for one in emitter.program.channels if one.slot_owner == owner)


def _unfenced(emitter: Emitter, one: Channel) -> bool:
    readers = (group for group in emitter.program.groups if group.id in one.consumers)
    copied = one.filled_by == "tma" and _copied(emitter, one.id)
    return bool(copied) and not any(_fenced(emitter, group, one.id) for group in readers)


def copied_before(emitter: Emitter) -> list[str]:
    """Of channels that this group fills: how many slots threads have copied to that TMA has not used since,
    at most. A fence waits for copies in flight, so there is none where there is no need."""
    filled = (one for one in emitter.program.channels if one.producer == emitter.group.id)
    own = (one.id for one in filled if one.slot_owner == one.id)
    return [f"uint32_t {threads_copied(one)} = 0;" for one in own if fenced_by_producer(emitter, one)]


def consumer_release(emitter: Emitter, channel: str, at: At) -> list[str]:
    """Nothing for a channel that stays in one group."""
    if emitter.program.channel(channel).local:
        return []
    text = f"{channel_name(channel)}.consumer_release({emitter.positions.of(channel, at.iteration)});"
    conditions = emitter.exists(at.iteration)
    return [f"if ({' && '.join(conditions)}) {text}" if conditions else text]


def _dependence(emitter: Emitter, barrier: str) -> DependenceBarrier:
    return next(one for one in emitter.program.dependences if one.id == barrier)


def _mmas_complete(emitter: Emitter, barrier: str, at: At) -> list[str]:
    """All MMAs of this group arrive when they are complete."""
    number, both = sequence(barrier, at.iteration), "_pair" if emitter.program.pairs else ""
    only = [*([FIRST] if both else []), *(["thread.warp == 0"] if emitter.group.warps > 1 else [])]
    condition = " && ".join([*only, "elect_one()"])
    return [f"if ({condition}) {barrier}.completed{both}({number});", "__syncwarp();"]


def barrier_wait(emitter: Emitter, it: BarrierWait) -> list[str]:
    """For an iteration that there is."""
    only = ["thread.warp == 0"] if it.issuer and emitter.group.warps > 1 else []
    only += [FIRST] if it.issuer and emitter.program.pairs else []
    number, conditions = _awaited(emitter, it)
    conditions += only
    if emitter.predicated and it.awaited.offset < it.at.iteration.offset:
        conditions = [f"i >= {it.awaited.offset}"] * (it.awaited.offset > 0) + only
        number = f"{count(it.barrier)} + min({iteration(it.awaited)}, n - 1)"
    wait = "wait_of_pair" if pair_waits(emitter.program, it.barrier) else "wait"
    text = f"{it.barrier}.{wait}({number});"
    return [f"if ({' && '.join(conditions)}) {text}" if conditions else text]


def _awaited(emitter: Emitter, it: BarrierWait) -> tuple[str, list[str]]:
    """The number of an awaited iteration, and the condition that there is one. Numbers from -depth to -1 need
    none: their phases are those before the first, which a fresh barrier has completed, or of the iterations
    before this loop. Two phases more keep slot and parity, and leave no negative number."""
    conditions, depth = emitter.exists(it.awaited), _dependence(emitter, it.barrier).depth
    near = it.awaited.base == "newest" and it.awaited.offset <= emitter.least + depth
    if not conditions or emitter.predicated or not near:
        return sequence(it.barrier, it.awaited), conditions
    return sequence(it.barrier, Iteration("newest", it.awaited.offset - 2 * depth)), []


def tensor_memory_sync(emitter: Emitter) -> list[str]:
    """The MMAs of this group are complete, then the groups synchronize. Where that orders stores, what the
    group has written is complete, and what follows sees it, by TMA too."""
    lines = list[str]()
    written, seen = _stores_ordered(emitter)
    if not emitter.program.tensor_memory:
        threads = sum(32 * group.warps for group in emitter.program.groups)
        return [*written, f"named_barrier_sync({TENSOR_MEMORY_SYNC}, {threads});", *seen]
    if issues(emitter.group):
        commit = f"if (elect_one()) tcgen05_commit({DRAIN}{emitter.group.id});"
        if emitter.program.pairs:
            commit = f"if ({FIRST} && elect_one()) tcgen05_commit_pair({DRAIN}{emitter.group.id}, 3);"
        waited = ["__syncwarp();", f"mbarrier_wait({DRAIN}{emitter.group.id}, drained % 2);"]
        lines = [commit, *waited, "++drained;", "tcgen05_fence_after();"]
        if emitter.group.warps > 1:
            lines = ["if (thread.warp == 0) {", *indented(lines), "}"]
    threads = sum(
        32 * group.warps for group in emitter.program.groups if group.id in emitter.program.synchronized
    )
    sync = f"named_barrier_sync({TENSOR_MEMORY_SYNC}, {threads});"
    whole = [*lines, *written, "tcgen05_fence_before();", sync, "tcgen05_fence_after();", *seen]
    return [*whole, *_pair_sync(emitter)]


def _stores_ordered(emitter: Emitter) -> tuple[list[str], list[str]]:
    """What orders stores by the group before a synchronization of the groups before those behind it. Between
    threads of a thread block the synchronization itself does (PTX ISA, bar): a fence of the GPU, which
    empties the L1 cache too, is for other thread blocks, and for TMA."""
    if not emitter.program.orders_stores or not (_by_tma(emitter.program) or _tells_others(emitter.program)):
        return [], []
    stores = any(isinstance(one, StoreTile) for one in walk(emitter.group.body))
    wait = ["if (thread.leader) tma_wait<0>();"] if stores else []
    return [*wait, "__threadfence();"], ["fence_async();"]


def _by_tma(program: Program) -> bool:
    """Whether TMA stores, or loads what the kernel stores."""
    statements = [one for group in program.groups for one in walk(group.body)]
    by_tma = {channel.id for channel in program.channels if channel.filled_by == "tma"}
    fills = (one for one in statements if isinstance(one, ProducerLoad) and one.channel in by_tma)
    loads = [load.ops[-1] for fill in fills for load in fill.loads]
    code = read(program.module, program.function)
    return any(isinstance(one, StoreTile) for one in statements) or stored_too(code, loads)


def _tells_others(program: Program) -> bool:
    """Whether the kernel may tell other thread blocks of its stores: by an atomic operation that does not
    order them itself (`global_stores.atomics`)."""
    atomics = (op for op in program.function.walk() if role(op) in ATOMIC)
    return program.clustered or any(op.attributes.get("sem") == "relaxed" for op in atomics)


def _pair_sync(emitter: Emitter) -> list[str]:
    """The MMAs of a pair that follow come after what the groups of the second block have done."""
    if not emitter.program.pairs or not issues(emitter.group):
        return []
    arrive = [
        "tcgen05_fence_before();",
        f"if (elect_one()) mbarrier_arrive_at(of_first({READY}{emitter.group.id}));",
    ]
    wait = [
        f"mbarrier_wait_cluster({READY}{emitter.group.id}, (drained - 1) % 2);",
        "tcgen05_fence_after();",
    ]
    lines = [f"if ({FIRST}) {{", *indented(wait), "} else {", *indented([*arrive, "__syncwarp();"]), "}"]
    return ["if (thread.warp == 0) {", *indented(lines), "}"] if emitter.group.warps > 1 else lines
