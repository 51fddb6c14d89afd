"""Loads by the group that computes: multistage pipelining without warp specialization.

Takes the groups and tasks of a kernel in which one group computes; gives them with the loads in that group,
and the statements of its loops with them. All slots of a channel are filled before the first iteration, and
each again as soon as the group has released it, with the tile that is so many iterations on as the channel
has slots. Nothing else of an iteration overlaps another one, but for its last MMA: thread blocks that share
an SM hide what one waits for, and the loop is short. A thread block has fewer warps and registers and starts
sooner, so that an SM holds more of them; but the loads take issue slots and registers of the group, which
also waits for all of its warps before it fills a slot.

What is read from a slot and changed for an MMA of warps (a conversion of weights) is released behind that
MMA: between two barriers ptxas converts one part after the other, each in the registers of the one before.
Released at once, the whole tile would be in registers.

On an H200, speeds beside Triton's (in brackets with iterations that overlap): Mamba's
_chunk_scan_bwd_dcb_kernel in tiles of 64 x 32, six thread blocks, 1.19 (0.93), 0.80 with two and a group that
loads; fla's chunk_gla_bwd_kernel_dv, four, 0.85 (0.76); vLLM's awq_gemm_kernel 0.84 (0.81); gemlite's split-K
product 0.84 (0.79).
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import ceil

from twill.ir.distribution import distribution
from twill.ir.loop import Op, Scalar, Tensor, Value
from twill.ir.operands import At, Iteration, Read, Register, Write
from twill.ir.schedule import Group as Granted
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    ProducerLoad,
    Statement,
    Statements,
    TileLoad,
)
from twill.ops.table import role
from twill.warp.block_memory import read_converted
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import EFFECTS, Code
from twill.warp.events import fills_for_itself, loads
from twill.warp.kernel import Group
from twill.warp.pipelined_loops import LoopDraft, LoopStatements, on_its_own
from twill.warp.plan import PlannedLoop
from twill.warp.prologue import epilogue, prologue
from twill.warp.run_ahead import Ahead, before, behind, makers, needless, refused
from twill.warp.steps import Parts, Step
from twill.warp.target import Target
from twill.warp.tasks import Leaf, Scheduled, Task
from twill.warp.thread_block import OnlyGroup, only_moves

INSTRUCTION = 16
"""Columns of A that an MMA instruction of a warp reads, of 2 bytes."""
IN_FLIGHT = 2
"""Instructions whose operands a thread holds at a time (estimate)."""
LEAST_SLOTS = 2
"""Slots of a channel of which one may stay taken while the next tile is read."""


def merged(
    code: Code, target: Target, parts: Sequence[PlannedLoop], granted: Sequence[Granted]
) -> tuple[tuple[PlannedLoop, ...], tuple[Granted, ...]]:
    """The loops with their loads in the group that computes, and that group alone. Raises TwillError for a
    kernel whose loads can not be there."""
    where = parts[0].scheduled.loop.op
    parts = [replace(part, tasks=_needed(code, part)) for part in parts]
    working = {task.group for part in parts for task in part.tasks if _computes(code, task)}
    computing = [group for group in granted if not only_moves(group) and group.id in working]
    if len(computing) != 1 or target.completion != "commit group":
        what = f"{len(computing)} groups compute" if len(computing) != 1 else f"{target.name} has none"
        raise code.refuse(f"one group that computes and loads: {what}", where)
    (group,) = computing
    others = {
        task.group
        for part in parts
        for task in part.tasks
        if not _loads(code, task) and task.group != group.id
    }
    for part in parts:
        for task in part.tasks:
            if task.group != group.id and (why := _stays(code, part, task)):
                what = f"the group that computes can not load too: {why}"
                raise code.refuse(what, code.ops[task.ops[-1]])
    moved = (
        replace(part, tasks=tuple(replace(task, group=group.id) for task in part.tasks)) for part in parts
    )
    needed = max(
        _registers(part.scheduled, {group.id, *others}, _parts_of_tiles(code, target, part.tasks))
        for part in parts
    )
    warps = min(group.warps, code.module.num_warps)
    return tuple(moved), (OnlyGroup(group.id, warps, min(needed, group.registers)),)


def _registers(one: Scheduled, groups: Set[int], parts: Mapping[str, float]) -> int:
    """Of a thread, where iterations do not overlap: what is carried to another one counts all the time, and
    of what some tasks compute so large a part."""
    limits, held, changes = one.problem.limits, 0, list[tuple[int, int]]()
    for value in one.problem.values:
        made = one.group(value.src) in groups
        readers = [one.start(use.op) for use in value.uses]
        begin = one.start(value.src) if made else min(readers, default=0)
        if value.resident or any(use.distance for use in value.uses):
            held += value.registers
        else:
            end = max((one.start(use.op) + use.hold for use in value.uses), default=begin)
            registers = ceil(value.registers * parts.get(value.src, 1.0))
            changes += [(begin, registers), (max(begin, end), -registers)]
    most = now = held
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return -(-(limits.register_base + most) // limits.register_step) * limits.register_step


def _parts_of_tiles(code: Code, target: Target, tasks: Sequence[Task]) -> Mapping[str, float]:
    """Which part of what a task computes a thread holds at a time, by the task's id, where it is computed for
    MMAs of warps alone, each of one instruction's rows: the columns or rows of a few instructions. (Of 32
    rows a warp, with A converted by each of eight warps, vLLM's fused MoE in fp8: 0.65 of Triton's speed on
    an H200 in the two thread blocks that fit so, 0.94 in one with a group that converts.)"""
    depths = {
        task.id: min(map(_depth, ops))
        for task in tasks
        if (ops := [op for index in task.ops if role(op := code.ops[index]) == "dot"])
        and all(map(_of_one_row_of_instructions, ops))
    }
    return {
        task: min(1.0, IN_FLIGHT * INSTRUCTION / min(depths[mma] for mma in mmas))
        for task, mmas in _for_mmas(code, target, tasks).items()
        if all(mma in depths for mma in mmas)
    }


def _of_one_row_of_instructions(mma: Op) -> bool:
    """Whether a thread has at most the two rows of one instruction (PTX ISA, mma.m16n8k16)."""
    kind = mma.result.type
    found = distribution(kind.encoding, kind.shape) if isinstance(kind, Tensor) else None
    return found is not None and found.serial_along(0) <= 2


def _depth(mma: Op) -> int:
    kind = mma.operands[0].type
    return kind.shape[-1] if isinstance(kind, Tensor) else INSTRUCTION


def _for_mmas(code: Code, target: Target, tasks: Sequence[Task]) -> Mapping[str, frozenset[str]]:
    """The MMAs of warps for which a task computes, by ids: by itself or through other tasks, without an
    exchange between threads, and for nothing else. None of them is in another iteration."""
    known, found = makers(tasks), dict[str, frozenset[str]]()
    readers = dict[str, list[tuple[Task, Leaf]]]()
    for task in tasks:
        for leaf in task.leaves:
            if (maker := known.get(leaf.source.id)) is not None:
                readers.setdefault(maker.id, []).append((task, leaf))

    def reached(task: Task) -> frozenset[str]:
        ops = [code.ops[index] for index in task.ops]
        if any(role(op) == "dot" for op in ops):
            return frozenset({task.id})
        if task.id not in found:
            apart = any(op.name in EFFECTS or op.regions or _exchanges(code, target, op) for op in ops)
            read = readers.get(task.id, [])
            if apart or any(leaf.distance != 0 for _, leaf in read):
                found[task.id] = frozenset()
            else:
                each = [reached(reader) for reader, _ in read]
                found[task.id] = frozenset[str]().union(*each) if all(each) else frozenset()
        return found[task.id]

    return {task.id: mmas for task in tasks if (mmas := reached(task)) and task.id not in mmas}


def _exchanges(code: Code, target: Target, op: Op) -> bool:
    """Whether threads exchange elements, between barriers."""
    return bool(target.tiles.scratch(op)) and not (role(op) == "layout" and read_converted(code, op))


def _stays(code: Code, part: PlannedLoop, task: Task) -> str:
    """Why a task of another group can not be one of the group that computes: loads some iterations ahead, the
    others in their own iteration; nothing where it can."""
    through = any(index in code.through_registers for index in task.ops)
    inside = {op.index for op in part.scheduled.loop.op.inner()}
    if through and any(_divides(code, code.ops[index]) for index in task.ops if index not in inside):
        return "a tile passes through registers, and each element takes a division of 64 bits"
    if _loads(code, task):
        return refused(code, part.tasks, task)
    if any(code.ops[index].name in EFFECTS for index in task.ops):
        return "another group writes memory"
    return ""


def _divides(code: Code, op: Op) -> bool:
    """Whether threads divide numbers of 64 bits for each element, by what is no constant. (Fused LoRA of
    mixtures of experts on an H200, 32 remainders for each thread, the same for all iterations: 1.11 ms with
    them in every iteration, 0.53 by a group that loads and keeps what follows from them.)"""
    if role(op) not in ("remainder", "divide"):
        return False
    kind, maker = op.result.type, code.maker(op.operands[1])
    wide = isinstance(kind, Tensor) and kind.dtype == Scalar("i64")
    return wide and (maker is None or role(maker) != "constant")


def _computes(code: Code, task: Task) -> bool:
    """Whether it takes a group of its own: MMAs, tiles of floating point numbers, what writes memory. Any
    group can load, and compute numbers, vectors and masks."""
    made = (code.ops[index] for index in task.ops if not _loads(code, task))
    return any(op.name in EFFECTS or any(map(_tile, op.results)) for op in made)


def _tile(value: Value) -> bool:
    kind = value.type
    if not isinstance(kind, Tensor) or len(kind.shape) < 2 or not isinstance(kind.dtype, Scalar):
        return False
    return not kind.dtype.name.startswith("i")


def _loads(code: Code, task: Task) -> bool:
    """Whether it loads a tile to shared memory."""
    return any(code.loads(code.ops[index]) for index in task.ops)


def _needed(code: Code, part: PlannedLoop) -> tuple[Task, ...]:
    """The tasks without those that load numbers which each copy loads again for itself (pages, rows), and
    nothing else: a group that only loads reads them ahead, but the group that computes would wait for them;
    and without those that compute numbers for loads alone, which are computed ahead."""

    def again(task: Task) -> bool:
        ops = [code.ops[index] for index in task.ops]
        loads = [op for op in ops if role(op) == "pointer_load"]
        kept = bool(task.writes) or any(op.name in EFFECTS for op in ops)
        return bool(loads) and not kept and all(op.index in code.reloaded for op in loads)

    tasks = tuple(task for task in part.tasks if not again(task))
    carried = part.scheduled.loop.carried
    kept = frozenset(one.yielded.id for one in carried if code.users.get(one.result.id))
    gone = needless(code, tasks, [task for task in tasks if _loads(code, task)], kept)
    return tuple(replace(task, ahead=True) if task in gone else task for task in tasks)


def with_loads(draft: LoopDraft) -> LoopDraft:
    """The loop with the loads of its group: the first of each slot, and one behind every release."""
    group = draft.group
    own = {one.id: one for one in group.kernel.channels if fills_for_itself(group, one)}
    own = {name: one for name, one in own.items() if any(True for _ in loads(group, one))}
    if not own or draft.parts is None:
        return draft
    first = tuple(one for channel in own.values() for one in _load(group, channel, At(Iteration("newest"))))
    sequence = on_its_own(group)
    parts = _behind_each_other(sequence, own)
    made = group.kernel.target.legalization.waits(group.code, parts) if parts else ((), (), ())
    if parts is None or _serialized(made[1]):
        straight = group.kernel.target.legalization.straight
        parts = replace(draft.parts, stages=1)
        made = ((), straight(group.code, _released_behind_mmas(group, sequence)), ())

    def filling(part: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(step for one in part for step in (one, *_refilled(group, own.get(_released(one)), one)))

    # Releases in the epilogue are those of the last iteration, behind which there is nothing to load.
    before, whole, after = made
    whole = _released_last(group.code, whole, own)
    statements = LoopStatements(filling(before), filling(whole), after, (), filled=first)
    return replace(draft, parts=parts, statements=statements)


def _behind_each_other(sequence: tuple[Step, ...], own: Mapping[str, ChannelPlan]) -> Parts | None:
    """The loop in which the first MMA of an iteration is issued behind the last one of the iteration before,
    whose slots are released then; None where anything else is due between the two. (Attention with heads of
    64 on an H200: 8% of the time of a thread block were waits for that last MMA.)"""
    mmas = [i for i, step in enumerate(sequence) if isinstance(step.statement, MmaIssue)]
    head, tail = (sequence[: mmas[0]], sequence[mmas[-1] + 1 :]) if mmas else (sequence, ())
    waiting = all(isinstance(step.statement, ConsumerWait) for step in head)
    slots = [own[name].depth for step in tail if (name := _released(step.statement)) in own]
    if not waiting or not slots or len(slots) < len(tail) or min(slots) < LEAST_SLOTS:
        return None
    late, cut = tuple(map(_later, tail)), mmas[0] + 1
    rotated = (*sequence[:cut], *late, *sequence[cut : mmas[-1] + 1])
    return Parts(prologue(rotated, 2), rotated, epilogue(rotated, 2), 2)


def _released_behind_mmas(group: Group, sequence: tuple[Step, ...]) -> tuple[Step, ...]:
    """An iteration in which slots whose tiles are changed for MMAs of warps are released behind these."""
    fed = _for_mmas(group.code, group.kernel.target, group.own)
    executed = {
        step.statement.node: i for i, step in enumerate(sequence) if isinstance(step.statement, Compute)
    }
    reading = dict[str, list[str]]()
    for task in group.own:
        for leaf in task.leaves:
            if task.id in fed and leaf.distance == 0 and (location := group.channel(leaf)) is not None:
                reading.setdefault(location[0].id, []).append(task.id)
    behind = dict[int, list[Step]]()
    for i, step in enumerate(sequence):
        mmas = {mma for task in reading.get(_released(step.statement), ()) for mma in fed[task]}
        last = max([i, *(executed[mma] for mma in mmas)])
        behind.setdefault(last, []).append(step)
    return tuple(step for i in sorted(behind) for step in sorted(behind[i], key=_is_release))


def _is_release(step: Step) -> bool:
    return isinstance(step.statement, ConsumerRelease)


def _released_last(code: Code, whole: Statements, own: Mapping[str, ChannelPlan]) -> Statements:
    """An iteration of MMAs of warps, or of none, with its releases, and so its loads, behind what it computes
    from its last MMA on: a release ends a basic block, in which the compiler contracts products with the sums
    that read them. (A product of fp8 with scales, tiles of 32 x 32, on an H200: 0.378 ms for 0.398.)"""
    first = next((i for i, one in enumerate(whole) if _released(one) in own), len(whole))
    others = tuple(one for one in whole[first:] if _released(one) not in own)
    computed = all(isinstance(one, Compute) and not _has_mma(code, one) for one in others)
    if not computed or any(isinstance(one, MmaIssue) for one in whole):
        return whole
    return (*whole[:first], *others, *(one for one in whole[first:] if _released(one) in own))


def _has_mma(code: Code, one: Compute) -> bool:
    return any(role(code.ops[index]) == "dot" for index in one.ops)


def _serialized(steady: Sequence[Statement]) -> bool:
    """Whether ptxas may serialize MMAs: results of one are used while one of another stays in flight
    (C7514)."""
    issues = sum(isinstance(one, MmaIssue) for one in steady)
    return issues > 1 and any(isinstance(one, MmaWait) and one.pending for one in steady)


def _later(step: Step) -> Step:
    """A release of a slot, in the iteration behind that of its reader."""
    at = step.statement.at if isinstance(step.statement, ConsumerRelease) else At()
    at = replace(at, stage=1, iteration=replace(at.iteration, offset=at.iteration.offset + 1))
    return replace(step, stage=1, statement=replace(step.statement, at=at))  # pyright: ignore


def _released(statement: Statement) -> str:
    return statement.channel if isinstance(statement, ConsumerRelease) else ""


def _refilled(group: Group, channel: ChannelPlan | None, release: Statement) -> Iterator[Statement]:
    """The load to a slot that has been released, of an iteration that there may be."""
    if channel is not None and isinstance(release, ConsumerRelease):
        following = release.at.iteration.later(channel.depth)
        yield from _load(group, channel, replace(release.at, iteration=following))


def _load(group: Group, channel: ChannelPlan, at: At) -> Iterator[ProducerLoad | Compute]:
    """The load of all tiles of a slot, with the numbers that it needs from its iteration and those that it
    leaves to the next one. What it reads else is the same in every iteration."""
    filling = tuple(loads(group, channel))
    first = before(group.code, group.tasks, (task for _, task, _ in filling))
    leaves = (*(leaf for _, task, _ in filling for leaf in task.leaves), *first.leaves)
    after = behind(group.code, group.tasks, leaves)

    def register(value: Value, distance: int | None) -> Register:
        """What is left to the next load keeps its variable until then, though this one reads a newer one."""
        own = {None: "", 0: f"_now_for_{channel.id}", 1: f"_for_{channel.id}"}
        return Register(f"{group.names[value.id]}{own[distance]}")

    def read(leaf: Leaf) -> Read:
        return Read(leaf.value.id, register(leaf.source, leaf.distance))

    def computed(one: Ahead, distance: int) -> Iterator[Compute]:
        reads = tuple(map(read, one.leaves))
        writes = tuple(Write(value.id, register(value, distance)) for value in one.values)
        if one.ops:
            node = makers(group.tasks)[one.values[-1].id].id
            yield Compute(node, one.ops, reads, writes, at, slots=channel.depth)

    yield from computed(first, 0)
    vectors, along = group.code.copies, group.code.through_registers
    tiles = tuple(
        TileLoad(tensor, task.ops, tuple(map(read, task.leaves)), vectors.get(index, 0), along.get(index))
        for tensor, task, index in filling
    )
    size = sum(tensor.loaded for tensor in channel.tensors)
    yield ProducerLoad(channel.id, tiles, size, at, slots=channel.depth)
    yield from computed(after, 1)
