"""The thread block: its warps, its registers, and the variables of each group.

Takes the groups of a schedule and the bodies of their programs; gives first warps, `Launch`, registers and
`Variable`s.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.ir.channels import Channel
from twill.ir.effects import effects, registers
from twill.ir.loop import Scalar, Tensor, Type
from twill.ir.machine import Copies
from twill.ir.operands import Register
from twill.ir.problem import Limits
from twill.ir.program import Launch, Program, Variable, WarpProgram
from twill.ir.schedule import Group as Granted
from twill.ir.statements import (
    Compute,
    InitializeCarried,
    LocalLoad,
    MmaIssue,
    Pipelined,
    ProducerLoad,
    Statement,
    walk,
)
from twill.ops.table import role
from twill.warp.dataflow import Code
from twill.warp.slot_tensors import tile_bytes
from twill.warp.tasks import Scheduled

ONE_WARP = 2048
"""Bytes of a slot that one warp copies by itself: four copies of 16 bytes a thread (estimate)."""
ACCESSES = 16
"""Accesses to tiles that pass through registers which a thread of one warp makes in an iteration: it waits
for them few by few, as it has few registers. (A product of bf16 by fp4 with 32 accesses to scales of one byte
on an H200: 0.771 ms with one warp, 0.519 with four.)"""


@dataclass(frozen=True, slots=True)
class OnlyGroup(Granted):
    """The only group of a kernel, which loads and computes (`warp.multistage`), with any number of warps."""


def only_moves(group: Granted) -> bool:
    """A group of less than a warpgroup loads and stores, and holds no tiles, where there is another one."""
    return group.warps < 4 and not isinstance(group, OnlyGroup)


def widths(granted: Sequence[Granted], channels: Sequence[Channel], code: Code) -> Mapping[int, int]:
    """Warps of each group, by id. The only narrow one has all of its warpgroup where it copies tiles, not
    vectors alone, or some of many accesses."""
    narrow = [group.id for group in granted if only_moves(group)]
    copied = [channel for channel in channels if channel.filled_by == "cp_async"]
    copying = {
        channel.producer for channel in copied if sum(tensor.bytes for tensor in channel.tensors) > ONE_WARP
    }
    if passing(code, 32) > ACCESSES:
        copying |= {channel.producer for channel in copied}
    wider = narrow[0] if len(narrow) == 1 and narrow[0] in copying else None
    return {group.id: 4 if group.id == wider else group.warps for group in granted}


def first_warp(group: int, widths: Mapping[int, int]) -> int:
    """Groups of whole warpgroups first, then the narrow ones side by side."""
    order = [
        *(other for other in widths if widths[other] >= 4),
        *(other for other in widths if widths[other] < 4),
    ]
    return sum(widths[other] for other in order[: order.index(group)])


def variables(code: Code, body: tuple[Statement, ...]) -> tuple[Variable, ...]:
    """The variables that a body assigns, with as many ages as it uses."""
    types, ages = dict[str, Type](), dict[str, int]()
    made = (
        value
        for op in code.ops.values()
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args))
    )
    values = {value.id: value for value in (*code.function.args, *made)}
    for statement in walk(body):
        touched = effects(statement)
        for register in registers((*touched.reads, *touched.writes)):
            ages[register.variable] = max(ages.get(register.variable, 1), register.age + 1)
        match statement:
            case Compute(writes=writes):
                types |= {write.register.variable: values[write.value].type for write in writes}
            case MmaIssue(ops=ops, accumulator=Register() as accumulator):
                types[accumulator.variable] = code.ops[ops[-1]].result.type
            case (
                InitializeCarried(value=value, register=register) | LocalLoad(value=value, register=register)
            ):
                types[register.variable] = values[value].type
            case _:
                pass
    return tuple(Variable(name, types[name], ages[name]) for name in sorted(types))


def granted(loops: Sequence[Scheduled]) -> tuple[Granted, ...]:
    """The groups of all loops, with the most registers that any of them needs."""
    found = dict[int, Granted]()
    for group in (group for one in loops for group in one.solution.groups):
        old = found.get(group.id, group)
        found[group.id] = replace(
            old, warps=max(old.warps, group.warps), registers=max(old.registers, group.registers)
        )
    return tuple(found[key] for key in sorted(found))


def fits(groups: Sequence[Granted], one: Scheduled, loading: int = 0) -> bool:
    """Whether a thread block has the registers that groups of several loops need together, and `loading` for
    each thread of a warpgroup that loads."""
    wide = [group for group in groups if not only_moves(group)]
    more = 128 * max(0, loading - one.machine.limits.narrow_registers)
    return sum(32 * group.warps * group.registers for group in wide) + more <= _left(groups, one)


def most_alike(groups: Sequence[Granted], one: Scheduled) -> int:
    """The registers of a thread with which these groups fit, if all that compute have the same number; no
    more than a thread can have."""
    threads = sum(32 * group.warps for group in groups if not only_moves(group))
    limits = one.machine.limits
    most = _left(groups, one) // threads if threads else limits.registers_per_thread
    return min(most, limits.registers_per_thread) // limits.register_step * limits.register_step


def in_a_block(groups: Sequence[Granted], one: Scheduled) -> int:
    """The registers of a thread block that has up to so many warpgroups, whatever their number: all of its
    threads have the same number when it starts."""
    limits, most = one.machine.limits, launch(groups, one).threads
    step = limits.register_step
    each = ((threads, limits.registers_total // threads) for threads in range(128, most + 1, 128))
    return min(own // step * step * threads for threads, own in each)


def _left(groups: Sequence[Granted], one: Scheduled) -> int:
    """Registers of a thread block that groups which compute can have."""
    narrow = -(-sum(only_moves(group) for group in groups) // 4)
    block = launch(groups, one)
    return block.entry_registers * block.threads - 128 * narrow * one.machine.limits.narrow_registers


def launch(granted: Sequence[Granted], one: Scheduled, blocks: int = 1) -> Launch:
    """The thread block: all groups, in warpgroups; `blocks` of them are on an SM at the same time."""
    wide = sum(group.warps for group in granted if not only_moves(group))
    narrow = -(-sum(only_moves(group) for group in granted) // 4)
    threads = 32 * (wide + 4 * narrow)
    entry = registers_at_entry(one.machine.limits, threads * blocks)
    return Launch(threads, entry, blocks, addresses=one.machine.copies.base)


def registers_at_entry(limits: Limits, threads: int) -> int:
    """Of each of the threads that an SM has at the same time."""
    step = limits.register_step
    most = limits.registers_per_thread // step * step
    return min(most, limits.registers_total // threads // step * step)


def _copying(copies: Copies, code: Code, program: WarpProgram, offsets: int) -> int:
    """Registers that a thread of a warpgroup which copies tiles makes use of in the loop that takes most,
    `offsets` of them for those of tiles that pass through them."""
    several = [_vector_loads(part) for part in (*_pipelined(program), program.body)]
    several[-1] = {
        last: ops for last, ops in several[-1].items() if not any(last in one for one in several[:-1])
    }
    if program.warps < 4:
        return copies.tile * max(0, max(map(len, several)) - 1)
    if not any(several):
        return 0
    needed = max(_all_offsets(copies, code, loads.values(), 32 * program.warps, offsets) for loads in several)
    return needed + len(program.variables)


def _pipelined(program: WarpProgram) -> list[tuple[Statement, ...]]:
    return [(one,) for one in walk(program.body) if isinstance(one, Pipelined)]


def _vector_loads(body: tuple[Statement, ...]) -> dict[int, tuple[int, ...]]:
    """The operations of each load that threads copy, by the last one."""
    loads = (load for one in walk(body) if isinstance(one, ProducerLoad) for load in one.loads)
    return {load.ops[-1]: load.ops for load in loads if load.vector}


def copying(copies: Copies, code: Code, loops: Iterable[Iterable[Sequence[int]]]) -> int:
    """The registers that a thread of a warpgroup needs which executes these tasks of loops, given by their
    operations, one loop after the other, with no statements yet."""
    each = ([tuple(ops) for ops in tasks if code.copies.get(ops[-1])] for tasks in loops)
    return max((_all_offsets(copies, code, loads, 128, 0) for loads in each), default=0)


def _all_offsets(
    copies: Copies, code: Code, loads: Collection[tuple[int, ...]], threads: int, offsets: int
) -> int:
    """An offset for each copy of an iteration, of loads given by their operations; what is in flight of tiles
    that pass through registers, and their offsets."""
    if not loads:
        return 0
    copied = [ops for ops in loads if ops[-1] not in code.through_registers]
    through = passing(code, threads, [ops[-1] for ops in loads])
    own = min(copies.in_flight, through) + offsets if through else 0
    return copies.base + sum(_offsets(code, ops, threads) for ops in copied) + own


def passing(code: Code, threads: int = 128, loads: Collection[int] | None = None) -> int:
    """Accesses of a thread to the tiles that pass through registers in an iteration: of these loads, or of
    all."""
    found = code.through_registers.keys() & set(code.through_registers if loads is None else loads)
    tiles = ((index, code.ops[index].result.type) for index in found)
    return sum(
        -(-tile_bytes(tile.shape, tile.dtype) // (code.copies[index] * threads))
        for index, tile in tiles
        if isinstance(tile, Tensor)
    )


def _offsets(code: Code, ops: Sequence[int], threads: int) -> int:
    """Registers for the offsets of a thread's copies, of 32 bits or 64, and for where they go; none are kept
    for a number."""
    tile, vector = code.ops[ops[-1]].result.type, code.copies[ops[-1]]
    if not isinstance(tile, Tensor):
        return 0
    size = tile_bytes(tile.shape, tile.dtype) // code.repeated.get(ops[-1], 1)
    copies = -(-size // (vector * threads))
    added = [code.ops[index].operands[1] for index in ops if role(code.ops[index]) == "address"]
    wide = any(
        isinstance(one.type, Tensor)
        and one.type.dtype == Scalar("i64")
        and (maker := code.maker(one)) is not None
        and role(maker) != "splat"
        for one in added
    )
    return copies * (2 if wide else 1) + 1


def most_registers(granted: Sequence[Granted], one: Scheduled, loading: int = 0) -> Mapping[int, int]:
    """What a thread of each group gets at most, by group, where each of a warpgroup that loads needs
    `loading`."""
    limits = one.machine.limits
    wide = [group for group in granted if not only_moves(group)]
    more = 128 * max(0, loading - limits.narrow_registers) if len(wide) < len(granted) else 0
    left = _left(granted, one) - more - sum(32 * group.warps * group.registers for group in wide)
    step = limits.register_step
    more = max(0, left // (sum(32 * group.warps for group in wide) * step) * step) if wide else 0
    most = limits.registers_per_thread // step * step
    return {group.id: min(most, group.registers + more) for group in granted}


def with_registers(
    code: Code, programs: Sequence[WarpProgram], launch: Launch, one: Scheduled
) -> tuple[WarpProgram, ...]:
    """All registers that the thread block has are given to the groups that compute, in equal steps, after
    what a group that copies tiles holds addresses in."""
    limits, copies = one.problem.limits, one.machine.copies
    if launch.even:
        return tuple(replace(program, registers=launch.entry_registers) for program in programs)
    wide = [program for program in programs if not program.only_moves]
    narrow = -(-sum(program.only_moves for program in programs) // 4)
    left = launch.entry_registers * launch.threads - 128 * narrow * limits.narrow_registers
    left -= sum(32 * program.warps * program.registers for program in wide)
    step, threads = limits.register_step, sum(32 * program.warps for program in wide)
    most = limits.registers_per_thread // step * step
    needed, wanted = (
        max(0, -(-(one - limits.narrow_registers) // step) * step)
        for one in (
            max(
                (_copying(copies, code, program, each) for program in programs if program.only_moves),
                default=0,
            )
            for each in (0, copies.offsets)
        )
    )
    possible, spared = (max(0, one) // (128 * step) * step for one in (left, left - copies.spare * threads))
    extra = min(max(min(needed, possible), min(wanted, spared)), most - limits.narrow_registers)
    more = max(0, (left - 128 * extra) // (threads * step) * step) if threads else 0
    return tuple(
        replace(p, registers=min(most, p.registers + more))
        if p in wide
        else replace(p, registers=limits.narrow_registers + extra)
        for p in programs
    )


def for_copies(launch: Launch, programs: Sequence[WarpProgram], limits: Limits) -> Launch:
    """The thread block that says which registers groups that load have for copies alone."""
    loading = max((program.registers for program in programs if program.only_moves), default=0)
    if launch.even or not loading:
        return launch
    step, own = limits.register_step, loading - limits.narrow_registers
    return replace(launch, for_copies=own, most=limits.registers_per_thread // step * step, step=step)


def without_copies(program: Program) -> Program:
    """The program whose groups that load copy nothing: what they had for copies those have that compute, in
    equal steps."""
    launch = program.launch
    moving = [group for group in program.groups if group.only_moves]
    computing = [group for group in program.groups if not group.only_moves]
    threads = sum(32 * group.warps for group in computing)
    if launch.even or not launch.for_copies or not threads:
        return program
    freed = 128 * -(-len(moving) // 4) * launch.for_copies
    more = freed // (threads * launch.step) * launch.step
    if not more:
        return program
    groups = tuple(
        replace(one, registers=one.registers - launch.for_copies)
        if one.only_moves
        else replace(one, registers=max(one.registers, min(launch.most, one.registers + more)))
        for one in program.groups
    )
    return replace(program, groups=groups)


def regranted(program: Program, limits: Limits, scheduled: Mapping[int, int], more: int) -> Program | None:
    """The program whose groups that load have `more` registers more for each thread (fewer where that is
    negative), or what is left then. Groups that compute lose or gain so many: those with the most beyond what
    is `scheduled`, by group, lose first, and gain last. None where no group does both, or none has other
    registers than before, or one too few."""
    launch, step = program.launch, limits.register_step
    computing = [group for group in program.groups if not group.only_moves]
    moving = [group for group in program.groups if group.only_moves]
    if launch.even or not computing or not moving:
        return None
    most, threads = limits.registers_per_thread // step * step, 128 * -(-len(moving) // 4)
    own = {group.id: group.registers for group in computing}

    def left() -> int:
        taken = sum(32 * group.warps * own[group.id] for group in computing)
        return (launch.entry_registers * launch.threads - taken) // threads // step * step

    def beyond(group: WarpProgram) -> int:
        return own[group.id] - scheduled.get(group.id, group.registers)

    wanted = min(most, moving[0].registers + more)
    while left() < wanted and min(own.values()) > limits.narrow_registers:
        own[max(computing, key=beyond).id] -= step
    while more < 0 and (low := min(computing, key=beyond)) and own[low.id] < most:
        own[low.id] += step
        if left() < wanted:
            own[low.id] -= step
            break
    loading = min(most, left())
    groups = tuple(replace(one, registers=own.get(one.id, loading)) for one in program.groups)
    enough = min(loading, *own.values()) >= limits.narrow_registers
    launch = replace(launch, for_copies=min(launch.for_copies, loading - limits.narrow_registers))
    return replace(program, groups=groups, launch=launch) if enough and groups != program.groups else None
