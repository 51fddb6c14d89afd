"""The shared memory of a thread block, and how many thread blocks an SM holds with it.

Takes a `Design` with its channels and the code outside of loops; gives the memory of each block, their
number, and the launch in which TMA lets an SM hold more. `residency` has the rules.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.diagnostics import TwillError
from twill.ir.channels import CLAIMS
from twill.ir.distribution import root
from twill.ir.loop import Linear, Op, Tensor
from twill.ir.machine import Machine
from twill.ir.program import Launch
from twill.ops.table import role
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import STORES, Code, into_shared, loaded, placed
from twill.warp.non_loop_code import NonLoopCode
from twill.warp.plan import Design, PlannedLoop, claims_tiles, most_blocks
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
    tiles_and_vectors,
    waits_for_each,
    without_others,
)
from twill.warp.shared_memory import Demand, SharedMemoryPlan, layout
from twill.warp.target import Target
from twill.warp.tasks import Scheduled, Task
from twill.warp.thread_block import Granted

ONE_SLOT = 1.1
"""How many times as long blocks of more slots may take, as predicted, beside more blocks of one slot, which
wait for each tile that they read: a grid may have fewer blocks than an SM holds, or end with fewer. (On an
H200 an int8 product of 16 rows in 512 thread blocks of one slot took 1.8 times as long as in Triton's of two;
15 of 16 kernels of one slot were slower than Triton's.)"""


FEW = 3
"""Blocks that begin and end beside each other, at least, where fewer of more slots take the place of many of
one slot. (On an H200, Inductor's product of 16 rows by 64 columns, one slot of 20 KB in each of 8 blocks, 3
slots in 3 and 4 in 2: 41.2, 21.6 and 19.8 us as a grid of 64 blocks, 101, 95 and 93 of 1056. SGLang's
_sgemm_lora_a_kernel with 1, 3 and 4 slots at 0.66, 1.07 and 1.11 of Triton's speed.)"""

MOST_OF = 0.875
"""The part of the blocks that an SM holds at most which are worth another slot (estimate): a grid may have
fewer, which hide less for each other. (On an H200, fla's fused_chunk_fwd_kernel of one warp in 256 thread
blocks: 0.139 ms with three slots, of which an SM holds 17, 0.167 with two, of which it holds 18.)"""


def block_memory(
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
    limit, apart = (
        min(_limit(one) + options.withheld + options.aligned, one.machine.limits.shared),
        design.reserved + (CLAIMS if claims_tiles(options, code) else 0) + options.free,
    )
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


def _resident(
    design: Design, laid_out: Callable[[int], SharedMemoryPlan], synchronized: bool
) -> tuple[SharedMemoryPlan, int, Launch | None]:
    """Shared memory of each of the thread blocks that an SM is to hold, how many, and the launch in which TMA
    lets it hold more, if there is one: no group is `within` another one that it waits for. Raises TwillError
    where not even one fits."""
    alone = laid_out(1)
    if design.target.accumulators != "registers":
        return alone, 1, None
    sm = _Shared(design, laid_out, alone)
    memory, blocks = _of_blocks(sm)
    if not design.options.by_tma:
        return memory, blocks, None
    memory, by_tma = _by_tma(sm, memory, blocks, synchronized)
    return memory, blocks, by_tma


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """An SM that thread blocks share."""

    design: Design
    laid_out: Callable[[int], SharedMemoryPlan]
    """The memory of each of so many blocks; raises TwillError where what one needs does not fit so often."""
    alone: SharedMemoryPlan
    """That of one block."""

    @property
    def machine(self) -> Machine:
        return self.design.parts[0].scheduled.machine

    @property
    def loops(self) -> list[Scheduled]:
        return [part.scheduled for part in self.design.parts]

    @property
    def given(self) -> tuple[Code, Sequence[Granted], list[tuple[Scheduled, tuple[Task, ...]]], int]:
        """What says how many blocks are possible."""
        design, loops = self.design, [(part.scheduled, part.tasks) for part in self.design.parts]
        most = most_blocks(design.options, self.machine, design.code.function)
        return design.code, design.granted, loops, most

    def by(self, blocks: int) -> SharedMemoryPlan | None:
        """The memory of each of so many blocks; None where they do not fit, or hide too little."""
        try:
            memory = self.laid_out(blocks)
        except TwillError:
            return None
        apart = bool(self.design.options.multistage)
        hidden = apart or hides_arrival(memory.plans, self.alone.plans, self.loops, blocks)
        again = [one for one in memory.plans if not (apart and filled_at_once(one))]
        return memory if hidden and fit_apart(again, self.machine, blocks) else None


def _of_blocks(sm: _Shared) -> tuple[SharedMemoryPlan, int]:
    """The memory of each of the most blocks that an SM can hold, or of those that are predicted to be
    fastest where blocks load for themselves, and their number."""
    possible = candidates(*sm.given, sm.design.options.room)
    found = ((memory, blocks) for blocks in possible if (memory := sm.by(blocks)))
    if not sm.design.options.multistage:
        return next(found, (sm.alone, 1))
    paces = [
        Paced(
            memory,
            blocks,
            between_iterations(memory.plans, sm.loops, blocks),
            without_others(memory.plans, sm.loops),
        )
        for memory, blocks in found
    ]
    return paced(paces) if paces else (sm.alone, 1)


def _by_tma(
    sm: _Shared, memory: SharedMemoryPlan, blocks: int, synchronized: bool
) -> tuple[SharedMemoryPlan, Launch | None]:
    """The memory of each block and the launch in which TMA lets an SM hold more; the memory that these
    `blocks` have and None where there is none."""
    design, by_tma = sm.design, None
    loading, single = (design.code, design.granted, sm.alone.plans, sm.machine), design.options.cluster == 1
    enough = enough_slots(sm.machine, design.options.most)
    copies, slots = all_tiles(*loading), blocks * ahead(memory.plans, enough)
    mixed = not copies and tiles_and_vectors(*loading)
    for within in (True, False) if copies else (False,) if mixed else ():
        for launch in even_launches(*sm.given, within=within, tight=mixed):
            most = by_tma.blocks if by_tma else blocks
            more = sm.by(launch.blocks) if launch.blocks > most else None
            alone_first = single and not synchronized and more and never_waits(design.granted, more.plans)
            if more is None or (within and not alone_first):
                continue
            under_way = launch.blocks * ahead(more.plans, enough)
            if copies or under_way >= slots:  # no less loads on an SM than are enough for its blocks
                memory, by_tma = more, launch
                break
    return memory, by_tma


@dataclass(frozen=True, slots=True, eq=False)
class Paced:
    """The shared memory of blocks that load for themselves, with predicted cycles of an iteration."""

    memory: SharedMemoryPlan
    blocks: int
    """On an SM."""
    together: float
    """Of an SM for one of these."""
    alone: float
    """Of one without others."""

    @property
    def waits(self) -> bool:
        """Whether a block can not load a tile before it has read the one before."""
        return waits_for_each(self.memory.plans)


def paced(paces: Sequence[Paced]) -> tuple[SharedMemoryPlan, int]:
    """Of the numbers of blocks that load for themselves, most first, the fastest as predicted, or hardly
    fewer which are as fast and wait less by themselves; where these have one slot each, fewer with more,
    those that wait least by themselves, unless they are predicted to be clearly slower."""
    fastest = min(paces, key=lambda one: one.together)
    hardly_fewer = (
        one for one in paces if one.together <= fastest.together and one.blocks >= MOST_OF * fastest.blocks
    )
    best = min(hardly_fewer, key=lambda one: one.alone)
    if best.waits:
        few = min(FEW, best.blocks // 2)
        enough = (
            one
            for one in paces
            if one.together <= ONE_SLOT * best.together and one.blocks >= few and not one.waits
        )
        best = min(enough, key=lambda one: one.alone, default=best)
    return best.memory, best.blocks


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
    changed = [op for op in ops if role(op) == "layout"]
    free = leaving | {op.index for op in changed if read_converted(code, op) or placed(code, op.operands[0])}
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


def _limit(one: Scheduled) -> int:
    """Bytes of shared memory that a thread block may have; the problem's limit is without the tiles that stay
    during the loop."""
    resident = sum(
        invariant.tile.bytes for invariant in one.graph.invariants if invariant.tile.place == "shared"
    )
    return one.problem.limits.shared + resident
