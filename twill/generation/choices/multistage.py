"""Whether the group that computes loads too, where the user leaves that open.

Takes the attempt that is best with a group that loads, and a function that lowers its loops without one
(`warp.multistage`); gives the one that an SM is predicted to be done with sooner. Loads that other warps
issue cost a thread block warps, registers and waits; loads that the group itself issues, some of its time.

A kernel that is written for one or two warps has them in this form alone: beside a group that loads, and
where MMAs are those of a warpgroup, a group that computes is one, and what each warp does for itself
(control, addresses, vectors) is done two or four times. (On an H200 beside a group of four warps: fla's
chunk_gla_fwd_A_kernel_intra_sub_inter, one warp, 0.186 to 0.131 ms; chunk_gla_bwd_kernel_intra, two, 3.38 to
1.50 ms; Triton's first tutorial in tiles of 64 x 32, two, 2.82 to 2.72 ms.)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean

from twill import whatif
from twill.diagnostics import TwillError
from twill.generation.attempt import (
    Attempt,
    as_attempt,
    computing,
    leaves_idle,
    mmas_of_warps_alone,
    short_loops,
    walks,
)
from twill.generation.choices.part_of_sm import limited
from twill.generation.choices.persistence import SHORT, gathered, late_copies
from twill.generation.choices.shared_sm import divided_in_vain, for_one_group, passes_for_nothing
from twill.generation.choices.stated import Stated
from twill.generation.generated import Generated
from twill.generation.loop_nest import FEWEST, NoScheduleError
from twill.inputs import Case
from twill.ir.loop import Loop, Tensor
from twill.ir.problem import Problem
from twill.ir.program import WarpProgram
from twill.ir.statements import Pipelined, through_registers, walk
from twill.modulo.bounds import bounds
from twill.ops.rules import is_float
from twill.ops.table import names, writes_global
from twill.simulate.passing import passing
from twill.simulate.predict import block_time, busy, from_l2, shared, time_of_sm
from twill.targets import target
from twill.warp.channels import constant_trips
from twill.warp.copies import with_copies
from twill.warp.dataflow import Code, read
from twill.warp.non_loop_code import closed
from twill.warp.residency import of_programs, registers_in_warps
from twill.warp.skipped import flagged, skipped
from twill.warp.stored_tiles import stored_tiles
from twill.warp.tasks import Scheduled

CLEARLY = 1.04
"""How many times as long a kernel with a group that loads has to take. (On an H200, predicted and measured:
vLLM's maxsim 1.38 and 1.28, Mamba's _chunk_scan_bwd_dcb_kernel in tiles of 64 x 32 1.25 and 1.45, fla's
chunk_gla_fwd_A_kernel_intra_sub_inter 1.05 and 1.30; Mamba's _bmm_chunk_bwd_kernel 1.00 and 1.11, vLLM's AWQ
product with 16 rows 1.00 and 1.06, Mamba's _chunk_state_bwd_dx_kernel 1.00 and 0.97.)"""

RESERVE = 1.02
"""How many times as long an iteration takes in the form with a group that loads, at least, were no unit ever
busy, where both forms are predicted to keep one busy. (On an H200, kernels with MMAs of warps, this ratio and
the gain without that group: aiter's split-K product of 16 rows 1.03 and 1.43, Triton's twelfth tutorial with
16 rows 1.09 and 1.04, fla's sparse attention's top-k 1.47 and 1.07; two that it makes no difference to, of
1.00, are as fast as Triton's with that group.)"""

LATE_BY_PASSING = 1.25
"""How many times as long as predicted thread blocks take whose groups pass tiles to each other and that have
an SM for themselves: the simulation knows little of what keeps such groups waiting. (On an H200, of one group
that loads too, in two thread blocks, in place of two or three that pass scores: predicted 0.88 times as fast
and measured 1.23 in Inductor's flex attention with blocks of 64, 0.85 and 1.05 in SGLang's MLA decoding, 0.97
and 1.04 in Triton's attention tutorial with tiles of 64 x 128, 1.27 and 1.24 in flex attention backward.)"""

FILLED = 1.4
"""How many times as many thread blocks have to work on an SM at a time, over whole grids (`filled`), where
both forms are predicted to take about as long (estimate, between what was measured on an H200 with such
predictions: four blocks for three, 1.49 times as many: Mamba's _bmm_chunk_bwd_kernel 1.07 times as fast, its
_chunk_scan_bwd_dstates_kernel 1.12, fla's recompute_w_u_fwd_kernel of eight warps 1.08, its
chunk_bwd_kernel_dv 1.00, vLLM's AWQ product 1.07; four for two: fla's chunk_fwd_kernel_o in tiles of 256
1.07, LMDeploy's fp8 product of experts 1.02, Liger's _moe_bwd_dW1_kernel 1.33, Triton's attention
tutorial, causal, in tiles of 64 x 32 1.14. Three for two,
1.34 times as many: fla's chunk_fwd_o 0.96, its chunk_bwd_kernel_dqkwg 1.04, DeepSeek's fp8 product 0.96.)"""
FEW_BLOCKS = 3
"""Thread blocks on an SM at most that leave it idle while they begin and end (estimate; vLLM's _lora_shrink
in nine blocks for five 0.83 times as fast)."""
ABOUT = 1.06
"""How many times as long the form whose blocks fill an SM may take by its prediction then (predicted of those
above: 0.99 to 1.05)."""
GRIDS = tuple(2**power for power in range(9, 15))
"""Thread blocks of grids, where these are not known: sizes of problems and of tiles are mostly powers of two,
of which the SMs of a GPU are no multiple (estimate)."""

RARELY = 0.5
"""Part of the iterations that take a branch which a number in memory decides, for each of them: a kernel has
such a branch around all MMAs of a loop because many do not (estimate: block masks of sparse attention)."""

TIGHT = 2
"""How many times the registers of a thread the tiles of few warps may take in a schedule, where they have
none otherwise: schedules count registers before ptxas does, which often takes fewer. (fla's
chunk_gdn2_fwd_kernel_inter_solve_fused on an H200, written for one warp: 0.127 ms with 392 bytes of stack,
0.169 with four warps and none.)"""
GAINED = 1.2
"""How many times as long the form of warpgroups has to take beside one that may spill (estimate)."""

WRITTEN, ALONE = "the kernel is written for", "hold no copies of its accumulators"
"""Why a thread block has less than a warpgroup."""

ALL_MMAS = frozenset(names("dot", "wgmma", "tensor_memory_mma"))
"""Operations, of warps too."""

Lowering = Callable[[Sequence[Case]], Attempt]
"""Lowers loops so that the group that computes loads too. Raises TwillError."""


def multistage(
    first: Attempt,
    attempt: Lowering,
    stated: Stated | None = None,
) -> Attempt:
    """The attempt, or the one whose group that computes loads too, with a note that has both predictions; of
    loops with the warps that they are written for always the latter, where it can be lowered; of those of
    warps that hold no copies, where it is predicted to be faster."""
    machine = first.loops[0].machine
    if machine.residency is None or target(machine.arch).completion != "commit group" or walks(first):
        return first
    best = _written_or_wide(first, attempt, stated)
    return (stated and _faster_alone(best, stated.without_copies(), attempt)) or best


def _written_or_wide(first: Attempt, attempt: Lowering, stated: Stated | None) -> Attempt:
    """With the warps that a kernel is written for, where these are less than a warpgroup and it can be
    lowered, else with warpgroups."""
    written = stated.as_written() if stated else ()
    other = _narrow(written, attempt, WRITTEN) if written else None
    if other and not _waits_longer(other, first):
        return other
    best = _of_warpgroups(first, attempt, stated)
    tight = _narrow(_tight(written), attempt, WRITTEN) if written and not other else None
    if tight is None or _waits_longer(tight, first) or GAINED * tight.of_sm() > best.of_sm():
        return best
    return tight


def _faster_alone(best: Attempt, alone: Iterator[tuple[Case, ...]], attempt: Lowering) -> Attempt | None:
    """The kernel with the fewest warps with which it can be lowered, where it is predicted to be clearly
    faster: its MMAs are computed once, and an SM has more of its thread blocks."""
    few = next(filter(None, (_narrow(loops, attempt, ALONE) for loops in alone)), None)
    if few is None or _waits_longer(few, best):
        return None
    trips = short_loops(best) or _once(best)
    copies = best.program.launch.threads / few.program.launch.threads
    return few if CLEARLY * _time_alone(few, trips, copies) < _time(best, trips) else None


def _time_alone(few: Attempt, trips: Mapping[int, int], copies: float) -> float:
    """`_time` of a kernel whose loops have the costs of so many times the warps, which keep units busy."""
    least = sum(trips.get(loop.loop.op.index, 1) * busy(loop) for loop in few.loops) / copies
    whole = block_time(few.program, few.loops, trips) if trips else few.cycles()
    return max(least, whole / few.program.resident_blocks)


def _tight(written: Sequence[Case]) -> tuple[Case, ...]:
    """The loops as if a thread had more registers."""
    return tuple(replace(case, problem=whatif.spilling(case.problem, TIGHT)) for case in written)


def _of_warpgroups(first: Attempt, attempt: Lowering, stated: Stated | None) -> Attempt:
    """The attempt, or the one whose group that computes loads too."""
    other = _loading(first, attempt, stated)
    if other is None:
        return first
    other = _in_parts(first, other, attempt)
    best, first = first, _behind_copies(first)
    trips = short_loops(first)
    if not trips and (once := _once(first)) and other.of_sm() <= CLEARLY * first.of_sm():
        trips = once
    late, before, after = _late_by_passing(first), _time(first, trips), _time(other, trips)
    clearly, queued = late * before >= CLEARLY * after, _waits_less(first, other, trips)
    reserve = clearly or queued or _more_in_reserve(first, other, trips)
    if not reserve and not fills_more(first, other, trips):
        return best
    what = (
        f"a thread block of {' and '.join(map(str, trips.values()))} iterations" if trips else "an iteration"
    )
    cycles = f"every {after:.0f} cycles predicted, {before:.0f} otherwise"
    cycles += f" by groups that pass tiles, which take {late} times as long" if late > 1 else ""
    if not trips and _rare(other):
        cycles += f"; {RARELY:.0%} of the iterations are taken to need their MMAs"
    if not clearly and queued:
        before, after = _in_queue(first, trips), _in_queue(other, trips)
        cycles += f"; {after:.0f} and {before:.0f} with thread blocks that wait for the busiest unit"
    elif not reserve:
        cycles += f"; {other.program.resident_blocks} thread blocks for {first.program.resident_blocks}"
    elif not clearly:
        cycles += f"; {_of_blocks(other):.0f} and {_of_blocks(first):.0f} without units that are always busy"
    note = f"the group that computes loads too: {what} {cycles}"
    return replace(other, program=replace(other.program, notes=(*other.program.notes, note)))


def _behind_copies(first: Attempt) -> Attempt:
    """The attempt, no faster than the threads of the group that loads gather tiles that lie where an
    iteration loads: what the group that computes copies, in more thread blocks, has more threads. (On an
    H200, vLLM's grouped gradients of weights: 642 cycles simulated, 800 of copies; 832 measured as a grid,
    706 in two thread blocks that load for themselves.)"""
    if not any(gathered(first.program, first.loops)):
        return first
    late = late_copies(first.program, first.loops)
    return replace(first, least=late) if late else first


def _once(first: Attempt) -> dict[int, int]:
    """The iterations of each loop, by its operation, where one is known to run once (`SHORT` of those of
    which nothing is known); else none. Between such a loop and the next one a thread block waits for what
    fills both, which an iteration of each does not show and other thread blocks hide."""
    code = read(first.program.module, first.program.function)
    known = {one.loop.op.index: constant_trips(code, one.loop) for one in first.loops}
    if len(known) == 1 or 1 not in known.values():
        return {}
    return {loop: count or SHORT for loop, count in known.items()}


def _loading(first: Attempt, attempt: Lowering, stated: Stated | None) -> Attempt | None:
    """The kernel whose group that computes loads too: with the schedules that there are, or, where several
    groups compute, with those of one, if they divide their work in vain, pass tiles beside MMAs of warps
    alone or in thread blocks that wait for each other, keep a unit always busy anyway, or threads copy what
    pages or rows are numbers of (a group that copies has four warps that TMA would not need), or where flags
    in memory say which iterations need their MMAs (with more warps where their tiles take more registers than
    a thread has). None where it can not be lowered so."""
    machine = first.loops[0].machine
    try:
        return attempt(first.cases)
    except TwillError:
        if computing(first) < FEWEST or not machine.residency:
            return None
    vain = divided_in_vain(first, machine.residency) or passes_for_nothing(first) or _waits_in_queue(first)
    rare = any(flagged(first.program, loop.loop.op.index) for loop in first.loops)
    hidden = _busy_in_parts(first)
    if not (vain or rare or hidden or _looks_up(first) or _late_by_passing(first) > 1):
        return None
    one_group = for_one_group(first, stated)
    alone = (replace(case, problem=whatif.limited(case.problem, groups=FEWEST)) for case in one_group)
    try:
        return attempt(tuple(alone))
    except NoScheduleError:
        return _lowered(stated.wide(), attempt) if rare and stated else None
    except TwillError:
        return None


def _in_parts(first: Attempt, other: Attempt, attempt: Lowering) -> Attempt:
    """The kernel whose group that computes loads too, or one with schedules of so few registers that two
    thread blocks may have room on an SM, where one of either form leaves it idle and has MMAs of warps alone:
    each warp waits for its own, which another thread block hides. (DeepSeek's fp8 product in tiles of
    32 x 128 and eight warps on an H200: 0.305 ms in one thread block, 0.208 in three.)"""
    machine, blocks = first.loops[0].machine, 2
    residency, single = machine.residency, max(one.program.resident_blocks for one in (first, other)) == 1
    if residency is None or not single or computing(other) > 1 or not mmas_of_warps_alone(other):
        return other
    if not leaves_idle(first, residency) or not leaves_idle(other, residency):
        return other
    threads = other.program.launch.threads
    own = registers_in_warps(machine.limits, blocks * threads // 32)
    parts = [limited(case, machine, blocks, FEWEST, own) for case in other.cases]
    made = _lowered(_tight(parts), attempt)
    return made if made and CLEARLY * made.of_sm() < other.of_sm() else other


def _late_by_passing(first: Attempt) -> float:
    """How many times as long as predicted a thread block takes (`LATE_BY_PASSING`)."""
    alone = first.program.resident_blocks == 1 and not recurrent(first)
    return LATE_BY_PASSING if alone and passing(first.program, first.loops) else 1.0


def _lowered(cases: tuple[Case, ...], attempt: Lowering) -> Attempt | None:
    try:
        return attempt(cases) if cases else None
    except TwillError:
        return None


def _busy_in_parts(first: Attempt) -> bool:
    """Whether a unit is predicted to be always busy in thread blocks that share an SM, and whose groups
    divide MMAs of warps alone: the iterations that dividing makes shorter wait for that unit, and more blocks
    of one group keep it as busy. (fla's chunk_fwd_kernel_h in tiles of 16 x 64 on an H200: six thread blocks
    of one group 1.16 times as fast as three of two.)"""
    blocks = first.program.resident_blocks
    return blocks > 1 and mmas_of_warps_alone(first) and first.of_sm() > _of_blocks(first)


def _looks_up(first: Attempt) -> bool:
    code = with_copies(read(first.program.module, first.program.function), first.loops)
    return bool(code.reloaded)


def _more_in_reserve(first: Attempt, other: Attempt, trips: Mapping[int, int]) -> bool:
    """Whether both forms keep a unit busy by their predictions, and thread blocks that load for themselves
    would clearly do so even if all took longer: MMAs of warps, which each warp waits for, and loads through
    registers, which it waits for too. (MMAs of a warpgroup, and copies of other warps, run beside what a
    group computes, so that it waits less. A product of strided matrices on an H200, all of whose tiles pass
    through registers in 2 bytes: 0.277 ms with five thread blocks of one group, 0.339 with three of two;
    vLLM's fused LoRA 0.075 and 0.107.)"""
    if trips or recurrent(first) or not (mmas_of_warps_alone(first) or _busy_by_loads(first)):
        return False
    return other.of_sm() <= first.of_sm() and RESERVE * _of_blocks(other) <= _of_blocks(first)


def _waits_less(first: Attempt, other: Attempt, trips: Mapping[int, int]) -> bool:
    """Whether an SM is predicted to be clearly sooner done with thread blocks that load for themselves though
    the same unit sets the pace of both forms: more of them, or shorter ones, keep it busy more of the time.
    What L2 gives an SM is such a unit, too: where it sets the pace, thread blocks hardly make a difference.
    (On an H200, predicted, predicted by the busiest unit alone, predicted without L2, and measured: GPTQ's
    product of TGI, four thread blocks for two, 1.07, 1.00, 1.07, 1.06; fla's chunk_gla_fwd_kernel_o of
    float32, nine for four, predicted with seven, 1.05, 1.02, 1.09, 1.25; fla's chunk_fwd_o, three for two,
    1.03, 1.00, 1.06, 0.96; its chunk_fwd_h, four for three, 1.01, 1.00, 1.01, 0.90. Predicted and measured
    otherwise: its prepare_wy_repr_bwd_kernel 1.05 and 1.00, chunk_bwd_kernel_dqkwg 1.00 and 1.04. Not seen:
    what stands behind a loop. AITER's fp8 product that stores to two arrays has the loop of DeepSeek's, both
    are predicted 0.94, and measured 1.12 and 0.96.) Not for a thread block that has an SM for itself: what it
    waits for, tiles in flight may hide (`twill.generation.choices.persistence`). vLLM's fused MoE in two for
    one, 1.11 predicted, takes 1.5 times as long as made persistent."""
    if _rare(other) or (not trips and recurrent(first)) or first.program.resident_blocks == 1:
        return False
    return _in_queue(first, trips) >= CLEARLY * _in_queue(other, trips)


def fills_more(first: Attempt, other: Attempt, trips: Mapping[int, int]) -> bool:
    """Whether both forms are predicted to take about as long, and clearly more thread blocks that load for
    themselves work on an SM at a time: they begin and end at different times, so that fewer wait for their
    first tiles, or for their last stores, and fewer SMs are idle at the end of a grid. Not where a loop
    carries a state that it stores (a grid has few of these blocks), nor for a block that has an SM for
    itself (see `_waits_less`)."""
    few = 1 < first.program.resident_blocks <= FEW_BLOCKS
    sms = first.loops[0].machine.multiprocessors
    if not few or sms is None or _rare(other) or _of_few_blocks(first, trips):
        return False
    tiles = stored_tiles(first.program.function)
    grids = (tiles,) if tiles else GRIDS
    before, after = (filled(one.program.resident_blocks, sms, grids) for one in (first, other))
    return after >= FILLED * before and ABOUT * _in_queue(first, trips) >= _in_queue(other, trips)


def fill_more(apart: Generated, together: Generated) -> bool:
    """The same of kernels."""
    first = as_attempt(apart)
    return fills_more(first, as_attempt(together), short_loops(first))


def filled(blocks: int, multiprocessors: int, grids: Sequence[int] = GRIDS) -> float:
    """Thread blocks that work on an SM at a time where it holds so many, the mean over grids of so many: the
    last blocks of a grid leave SMs idle. (132 SMs hold 512 blocks at once in fours, and in threes 396.)"""
    return geometric_mean([_filled(grid, blocks, multiprocessors) for grid in grids])


def _filled(grid: int, blocks: int, multiprocessors: int) -> float:
    rounds = -(-grid // (blocks * multiprocessors))
    return grid / rounds / multiprocessors


def _of_few_blocks(first: Attempt, trips: Mapping[int, int]) -> bool:
    """Whether a loop walks along what other kernels divide among thread blocks: iterations need each other's
    results (`recurrent`), or what they store follows from a tile that they carry (a state)."""
    code = read(first.program.module, first.program.function)
    return not trips and (recurrent(first) or any(_stores_state(code, one.loop) for one in first.loops))


def _stores_state(code: Code, loop: Loop) -> bool:
    carried = {
        value.id
        for region in loop.op.regions
        for block in region.blocks
        for value in block.args
        if isinstance(value.type, Tensor) and len(value.type.shape) > 1 and is_float(value)
    }
    stored = (op.operands[1:2] for op in loop.op.inner() if writes_global(op))
    return any(carried & closed(code, values, ()) for values in stored)


def _in_queue(one: Attempt, trips: Mapping[int, int]) -> float:
    """Predicted machine cycles of an SM for a thread block, or for an iteration of each loop, where blocks
    wait for the busiest unit or for L2."""
    return time_of_sm(
        one.program, one.loops, trips, one.intervals, needs=lambda it: max(busy(it), from_l2(it))
    )


def _waits_in_queue(first: Attempt) -> bool:
    """Whether thread blocks that share an SM, and whose groups pass tiles to each other, are predicted to
    leave it waiting: by themselves they take at least as long as its busiest unit needs, so that each waits
    for the other at times. More blocks of one group take less by themselves, and pass nothing. (On an H200,
    torchao's product of 4-bit weights, in five thread blocks of one group for two of two that compute:
    predicted 1.17, measured 1.36; without a queue 1.07, too little for `divided_in_vain`.)"""
    blocks, needed = first.program.resident_blocks, shared(first.loops, list(map(busy, first.loops)))
    return blocks > 1 and _of_blocks(first) >= needed and bool(passing(first.program, first.loops))


def _busy_by_loads(one: Attempt) -> bool:
    """Whether loads through registers take part in keeping a unit always busy."""
    passing = any(through_registers(group.body) for group in one.program.groups)
    return passing and one.of_sm() > _of_blocks(one)


def _waits_longer(other: Attempt, first: Attempt) -> bool:
    """Whether an iteration that waits for the one before, rather than for units, takes clearly longer than in
    the other form: what more thread blocks on an SM hide is nothing where a grid has few."""
    return recurrent(first) and other.cycles() > CLEARLY * first.cycles()


def recurrent(one: Attempt) -> bool:
    """Whether iterations of a loop that is not known to be short wait for each other longer than for any
    unit, through MMAs of which one needs the result of another. Such a loop walks along what other kernels
    divide among thread blocks (a sequence, whose state it carries), so that a grid has few of these. (On an
    H200, fla's chunk_delta_rule_fwd_h with unequal sequences: five thread blocks of 64 threads on an SM,
    predicted 1.06 times as fast as two of 256, which take 0.62 of the time for an iteration, are 0.68 times
    as fast.) Not a loop that begins or ends where the index of its program says: thread blocks divide what it
    walks along among each other, so that there are more of them the longer that is. (On an H200, fla's
    parallel_path_fwd_kernel: two thread blocks that load for themselves, predicted 1.13 times as fast as one
    with a group that loads, 0.362 and 0.451 ms, are 1.25 times as fast.)"""
    code = read(one.program.module, one.program.function)
    return not short_loops(one) and any(
        _through_mmas(loop.problem) and not of_programs(code, loop.loop.op.operands[:3], loaded=False)
        for loop in one.loops
    )


def _through_mmas(problem: Problem) -> bool:
    """(The accumulator of attention is rescaled for one MMA: many blocks have such loops.)"""
    limits = bounds(problem)
    passed = (problem.operation(op).name for op in limits.recurrence.ops)
    several = sum(name in ALL_MMAS for name in passed) > 1
    return several and limits.recurrence.value > limits.resource.value


def _of_blocks(one: Attempt) -> float:
    """Predicted machine cycles of an SM for an iteration of each loop, were no unit ever busy."""
    return one.cycles() / one.program.resident_blocks


def _narrow(written: Sequence[Case], attempt: Lowering, why: str) -> Attempt | None:
    """The kernel with less than a warpgroup; None where it can not be lowered so."""
    try:
        other = attempt(written)
    except TwillError:
        return None
    threads = other.program.launch.threads
    note = f"the group that computes loads too, with the {threads} threads that {why}"
    return replace(other, program=replace(other.program, notes=(*other.program.notes, note)))


def _time(one: Attempt, trips: Mapping[int, int]) -> float:
    """Predicted machine cycles of an SM for a thread block whose loops have so many iterations, until a unit
    is always busy; for an iteration of each loop where these are not known, or not few, of a thread block
    that has an SM for itself where iterations wait for each other."""
    if not trips:
        return one.cycles() if recurrent(one) else _of_taken(one)
    least = sum(trips[loop.loop.op.index] * busy(loop) for loop in one.loops)
    return max(least, block_time(one.program, one.loops, trips) / one.program.resident_blocks)


def _of_taken(one: Attempt) -> float:
    """`Attempt.of_sm` where iterations that leave a branch out take no time; a form that executes them whole
    takes as long for each."""
    if not (rare := _rare(one)):
        return one.of_sm()
    return shared(one.loops, [_each(one, loop, loop.loop.op.index in rare) for loop in one.loops])


def _rare(one: Attempt) -> frozenset[int]:
    """The loops all of whose MMAs are in a branch that a number in memory decides, by operation."""
    found = {it.op: skipped(one.program, it) for group in one.program.groups for it in _loops(group)}
    return frozenset(op for op, branch in found.items() if branch and branch.from_memory)


def _each(one: Attempt, loop: Scheduled, rare: bool) -> float:
    whole = max(busy(loop), one.intervals[loop.loop.path] / one.program.resident_blocks)
    return RARELY * whole if rare else whole


def _loops(group: WarpProgram) -> Iterator[Pipelined]:
    return (it for it in walk(group.body) if isinstance(it, Pipelined))
