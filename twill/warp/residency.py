"""How many thread blocks an SM holds at the same time.

While one block waits, fills its pipeline or stores its results, another one computes. A kernel gets as many
as have enough registers for what its schedules keep, threads, and shared memory for slots that hide the
arrival of a load. A persistent kernel, which walks over programs in a loop around the scheduled ones, is
launched with one block for each SM and gets one; one with another loop around them has as many as any.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from twill.ir.channels import SlotTensor
from twill.ir.loop import NvidiaMma, Op, Tensor, Type, Value
from twill.ir.machine import Machine, Residency
from twill.ir.problem import Limits, Time
from twill.ir.program import Launch
from twill.ir.schedule import WARPGROUP
from twill.ir.schedule import Group as Granted
from twill.ops.table import role
from twill.warp import thread_block
from twill.warp.channels import LOADED, ChannelPlan
from twill.warp.dataflow import Code, carries
from twill.warp.non_loop_code import closed, home
from twill.warp.slot_tensors import bits
from twill.warp.tasks import Scheduled, Task

PROGRAMS = frozenset({"tt.get_program_id", "tt.get_num_programs"})
"""Operations that give the index of a program, and how many there are."""


def candidates(
    code: Code,
    granted: Sequence[Granted],
    loops: Sequence[tuple[Scheduled, Sequence[Task]]],
    most: int,
    room: int = 1,
) -> Iterator[int]:
    """Numbers of blocks whose registers and threads an SM has, the largest first; 1 at last. Of `room` blocks
    the schedules know that there are so many: no more is wanted than what they use, and one MMA at entry. As
    many registers as the only block would have are enough for more."""
    one = loops[0][0]
    residency, limits = one.machine.residency, one.machine.limits
    if residency is not None and not persistent(code, [scheduled for scheduled, _ in loops], nested=False):
        mmas = _mmas(code)
        single = mmas.single + residency.beside_mma if mmas.single else 0
        alone = thread_block.launch(granted, one, 1).entry_registers
        for blocks in range(min(most, residency.blocks), 1, -1):
            launch, known = thread_block.launch(granted, one, blocks), blocks <= room
            least = mmas.together + residency.beside_mmas if mmas.single and not known else 0
            needed = _registers(code, granted, loops, least)
            enough = needed <= launch.entry_registers * launch.threads
            entry = single if known else max(mmas.together, single)
            entered = launch.entry_registers >= max(limits.narrow_registers, entry)
            fits = (enough and entered) or launch.entry_registers == alone
            if launch.threads * blocks <= residency.threads and fits:
                yield blocks
    yield 1


def even_launches(
    code: Code,
    granted: Sequence[Granted],
    loops: Sequence[tuple[Scheduled, Sequence[Task]]],
    most: int,
    within: bool = False,
    tight: bool = False,
) -> Iterator[Launch]:
    """Launches in which each group that loads is one warp, of its own or `within` a group that computes, and
    all threads have the same registers, with the most thread blocks first. The four partitions of an SM hold
    whole warps. `tight`: with as few of the registers that the schedule counts as a schedule is ever looked
    for with; where ptxas spills, fewer blocks are tried."""
    machine = loops[0][0].machine
    residency, limits = machine.residency, machine.limits
    if residency is None or persistent(code, [scheduled for scheduled, _ in loops]):
        return
    step, mmas = limits.register_step, _mmas(code)
    wide = [group for group in granted if not thread_block.only_moves(group)]
    warps = sum(group.warps for group in wide) + (0 if within else len(granted) - len(wide))
    beside = [mmas.together + residency.beside_mma] * bool(mmas.single)
    part = residency.fewest if tight else residency.used
    least = beside + [-(-int(part * group.registers) // step) * step for group in wide]
    for blocks in range(min(most, residency.blocks), 1, -1):
        registers = registers_in_warps(limits, blocks * warps)
        if registers >= max(least) and 32 * warps * blocks <= residency.threads:
            addresses = machine.copies.base
            yield Launch(32 * warps, registers, blocks, even=True, within=within, addresses=addresses)


def registers_in_warps(limits: Limits, warps: int) -> int:
    """Of each thread of so many warps on an SM, whose four partitions hold whole warps."""
    step = limits.register_step
    share = limits.registers_total // (4 * 32 * -(-warps // 4)) // step * step
    return min(limits.registers_per_thread // step * step, share)


@dataclass(frozen=True, slots=True)
class _Mmas:
    """Registers of a thread that MMAs of a warpgroup take."""

    together: int = 0
    """All of a loop, or outside of loops."""
    single: int = 0
    """One instruction."""


def _mmas(code: Code) -> _Mmas:
    homes, together, single = home(code), dict[int | None, int](), 0
    for op in (one for one in code.ops.values() if role(one) == "wgmma"):
        tiles = [tile.type for tile in (*op.operands[:1], op.result)]
        loop = homes[op.index]
        together[loop] = together.get(loop, 0) + sum(_kept(tile, op, False) for tile in tiles)
        single = max(single, sum(_kept(tile, op, True) for tile in tiles))
    return _Mmas(max(together.values(), default=0), single)


def _kept(tile: Type, mma: Op, instruction: bool) -> int:
    """Registers of a thread for a tile of an MMA, or of one of its instructions: 64 rows."""
    if not isinstance(tile, Tensor):
        return 0
    accumulator = mma.result.type
    encoding = accumulator.encoding if isinstance(accumulator, Tensor) else None
    warps = prod(encoding.warps_per_cta) if isinstance(encoding, NvidiaMma) else WARPGROUP
    words = prod(tile.shape) * bits(tile.dtype) // 32 // (32 * warps)
    return words // max(1, tile.shape[0] // (16 * warps)) if instruction else words


def persistent(code: Code, loops: Sequence[Scheduled], *, nested: bool = True) -> bool:
    """Whether a loop that walks over programs is around a scheduled one; `nested`: any loop. Such a walk
    begins, ends or goes on by the index or the number of programs, and an iteration hands nothing that it
    computes to the next one: it is another tile. Such a kernel is launched with one thread block for each SM,
    however many an SM has room for: its grid has one axis. (One with a program for each query too walks over
    the keys alone.)"""
    if not nested and continues(code, loops):
        return False
    scheduled = {one.loop.op.index for one in loops}
    around = (
        op
        for op in code.ops.values()
        if role(op) in ("for", "while") and any(inner.index in scheduled for inner in op.inner())
    )
    axes = {str(op.attributes["axis"]) for op in code.ops.values() if op.name == "tt.get_program_id"}
    of_all = len(axes) < 2
    walks = (of_all if role(op) == "while" else of_programs(code, op.operands[:3]) for op in around)
    return any(nested or one for one in walks)


def of_programs(code: Code, values: Iterable[Value], *, loaded: bool = True) -> bool:
    """Whether numbers follow from the index of a program, or from how many there are; `loaded`: also where
    they are loaded from an address that does."""
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if value.id in seen:
            continue
        seen.add(value.id)
        maker = code.maker(value)
        if maker is not None and maker.name in PROGRAMS:
            return True
        if maker is not None and role(maker) == "pointer_load" and not loaded:
            continue
        waiting += maker.operands if maker is not None else code.carried.get(value.id, ())
    return False


def continues(code: Code, loops: Sequence[Scheduled]) -> bool:
    """Whether the only loop around the scheduled ones hands what they compute to its next iteration: all of
    its iterations are one tile."""
    homes = home(code)
    around = {homes[one.loop.op.index] for one in loops}
    found = around.pop() if len(around) == 1 else None
    if found is None or homes[found] is not None or role(code.ops[found]) != "for":
        return False
    results = {value.id for one in loops for value in one.loop.op.results}
    return any(closed(code, [one.yielded], results) & results for one in carries(code.ops[found]))


def _registers(
    code: Code,
    granted: Sequence[Granted],
    loops: Sequence[tuple[Scheduled, Sequence[Task]]],
    least: int,
) -> int:
    """Registers of a block whose groups have what they need, those that compute `least` at least."""
    limits, residency = loops[0][0].machine.limits, loops[0][0].machine.residency
    assert residency is not None
    step = limits.register_step
    wide = [group for group in granted if not thread_block.only_moves(group)]
    narrow = -(-(len(granted) - len(wide)) // 4)
    loads = [[task.ops for task in tasks] for _, tasks in loops]
    moving = max(limits.narrow_registers, thread_block.copying(loops[0][0].machine.copies, code, loads))
    least = -(-least // step) * step
    computing = sum(32 * group.warps * max(_used(group, step, residency), least) for group in wide)
    return 128 * narrow * -(-moving // step) * step + computing


def _used(group: Granted, step: int, residency: Residency) -> int:
    return -(-int(residency.used * group.registers) // step) * step


def sharing(granted: Sequence[Granted], one: Scheduled, blocks: int) -> tuple[Granted, ...]:
    """The groups of one of several blocks: with what they need, as long as nothing is left over."""
    residency, step = one.machine.residency, one.machine.limits.register_step
    return tuple(
        group
        if residency is None or blocks == 1 or thread_block.only_moves(group)
        else replace(group, registers=_used(group, step, residency))
        for group in granted
    )


def shared_bytes(machine: Machine, blocks: int, limit: int) -> int:
    """Shared memory of one of several blocks; `limit` is that of one block alone."""
    if machine.residency is None or blocks == 1:
        return limit
    return min(limit, machine.residency.shared // blocks - machine.residency.reserved)


def enough_slots(machine: Machine, wanted: int) -> int:
    """Of so many slots of a loaded channel, those that are enough beside other thread blocks."""
    return wanted if machine.residency is None else min(wanted, machine.residency.slots)


def all_tiles(code: Code, granted: Sequence[Granted], plans: Sequence[ChannelPlan], machine: Machine) -> bool:
    """Whether the groups that load copy tiles, and nothing else, which TMA might load: none whose place is
    loaded, and no loop that is known to be so long that its slots matter more than another block."""
    held = _copied(code, granted, plans, machine)
    return bool(held) and all(map(_is_tile, held))


def tiles_and_vectors(
    code: Code, granted: Sequence[Granted], plans: Sequence[ChannelPlan], machine: Machine
) -> bool:
    """The same of tiles beside which one warp copies the rest, vectors and small tiles."""
    held = _copied(code, granted, plans, machine)
    beside = [one for one in held if not _is_tile(one) or one.bytes <= thread_block.ONE_WARP]
    return len(beside) < len(held) and sum(one.bytes for one in beside) <= thread_block.ONE_WARP


def _copied(
    code: Code, granted: Sequence[Granted], plans: Sequence[ChannelPlan], machine: Machine
) -> Sequence[SlotTensor]:
    """What threads copy of what the groups that load fill; nothing where TMA may not load it instead, or
    slots matter more than another block."""
    if (residency := machine.residency) is None or code.reloaded:
        return ()
    moving = {group.id for group in granted if thread_block.only_moves(group)}
    filled = [plan for plan in plans if plan.producer in moving]
    copied = [plan for plan in filled if plan.filled_by == "cp_async"]
    long = any(plan.fills is not None and plan.fills >= residency.long_loop for plan in copied)
    if long or not all(plan.filled_by in LOADED for plan in filled):
        return ()
    return [one for plan in copied for one in plan.tensors]


def _is_tile(held: SlotTensor) -> bool:
    return held.encoding is not None and len(held.shape) == 2


def never_waits(granted: Sequence[Granted], plans: Sequence[ChannelPlan]) -> bool:
    """Whether the only group that loads has a slot for every tile of a thread block, so that it waits for no
    group that computes."""
    moving = [group.id for group in granted if thread_block.only_moves(group)]
    filled = [plan for plan in plans if plan.producer in moving]
    return len(moving) == 1 and all(
        plan.filled_by in LOADED and (plan.once or (plan.fills is not None and plan.fills <= plan.depth))
        for plan in filled
    )


def fit_apart(plans: Sequence[ChannelPlan], machine: Machine, blocks: int) -> bool:
    """Whether an SM has shared memory for the loads of more than two blocks if no two channels lie at the
    same address: loads run no further ahead than that."""
    return machine.residency is None or blocks <= 2 or blocks * ahead(plans) <= machine.residency.shared


def equal_slots(plans: Sequence[ChannelPlan], machine: Machine, blocks: int) -> int:
    """As many slots for each loaded channel as an SM has shared memory for, two at least."""
    one = ahead(plans, 1)
    return max(2, machine.residency.shared // (blocks * one)) if machine.residency and one else 2


def ahead(plans: Sequence[ChannelPlan], enough: int | None = None) -> int:
    """Bytes of the slots of a thread block that are loaded ahead: of each channel as many as are `enough`, or
    all."""
    loaded = [
        plan for plan in plans if plan.filled_by in LOADED and not plan.once and plan.slot_owner == plan.id
    ]
    most = [plan.depth if enough is None else enough * max(1, len(plan.sharers)) for plan in loaded]
    return sum(min(plan.depth, count) * plan.stride for plan, count in zip(loaded, most, strict=True))


def hides_arrival(
    plans: Sequence[ChannelPlan], alone: Sequence[ChannelPlan], loops: Sequence[Scheduled], blocks: int
) -> bool:
    """Whether the slots of every channel last as long as a load takes to arrive, are as many as
    `enough_slots`, or are as many as in a block that is alone. Blocks that share the units of an SM take as
    many times as long for an iteration as there are blocks."""
    machine, interval = loops[0].machine, min(one.solution.interval for one in loops)
    wanted = enough_slots(machine, 1 + -(-machine.loads.arrival // max(1, blocks * interval)))
    most = {plan.id: plan.depth for plan in alone}
    return all(
        plan.depth >= min(wanted * max(1, len(plan.sharers)), most[plan.id])
        for plan in plans
        if plan.filled_by in LOADED and not plan.once
    )


def between_iterations(plans: Sequence[ChannelPlan], loops: Sequence[Scheduled], blocks: int) -> float:
    """Cycles of an SM for an iteration of each loop, together, where a block waits for each load but those
    that its slots are filled with ahead, and does nothing meanwhile (`warp.multistage`): other blocks do,
    until the units of the schedule are always busy."""
    alone = _alone(plans, loops)
    return sum(max(one.solution.interval, time / blocks) for one, time in zip(loops, alone, strict=True))


def without_others(plans: Sequence[ChannelPlan], loops: Sequence[Scheduled]) -> float:
    """Cycles of such a block for an iteration of each loop, together, where no other one is beside it."""
    return sum(_alone(plans, loops))


def _alone(plans: Sequence[ChannelPlan], loops: Sequence[Scheduled]) -> list[float]:
    filled = [plan for plan in plans if plan.filled_by in LOADED and not plan.once]
    return [max((_paced(plan, one) for plan in filled), default=float(_length(one))) for one in loops]


def waits_for_each(plans: Sequence[ChannelPlan]) -> bool:
    """Whether a block can not load a tile before it has read the one before: a channel has one slot, which is
    filled again."""
    filled = (plan for plan in plans if plan.filled_by in LOADED and not plan.once)
    return any(plan.depth < 2 * max(1, len(plan.sharers)) and not filled_at_once(plan) for plan in filled)


def _paced(plan: ChannelPlan, one: Scheduled) -> float:
    """Cycles of an iteration of a block that waits for one channel. A slot is filled again as soon as it is
    read, and read again as many iterations later as there are slots: an iteration and an arrival take as long
    as these."""
    arrival, length = one.machine.loads.arrival, _length(one)
    if filled_at_once(plan):
        return length + arrival / (plan.fills or 1)
    return max(length, (length + arrival) / plan.depth)


def filled_at_once(plan: ChannelPlan) -> bool:
    """Whether a block has a slot for every tile that it loads."""
    return plan.fills is not None and plan.fills <= plan.depth


def _length(one: Scheduled) -> Time:
    """Of an iteration without its loads."""
    computing = [op for op in one.problem.operations if not op.variable]
    starts = [one.start(op.id) for op in computing]
    return max((one.start(op.id) + op.duration for op in computing), default=0) - min(starts, default=0)
