"""How many thread blocks share an SM, and how many groups compute in each.

`with_more_blocks` takes an attempt and gives it, or one whose schedules leave room on an SM for more thread
blocks: with one group that computes in each, or another block where the SM is predicted to be idle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from twill.diagnostics import TwillError
from twill.generation.attempt import (
    Attempt,
    Solving,
    busiest,
    computing,
    faster,
    leaves_idle,
    mmas_of_warps_alone,
    short_loops,
    walks,
)
from twill.generation.choices.part_of_sm import limited
from twill.generation.choices.stated import Stated
from twill.inputs import Case
from twill.ir.machine import Residency
from twill.ir.problem import Problem
from twill.modulo.simplest import issuable
from twill.warp import thread_block
from twill.warp.copies import with_copies
from twill.warp.dataflow import read
from twill.warp.tasks import Scheduled, tasks

PASSES = 1.1
"""How many times as long as its busiest unit a kernel takes whose groups pass tiles to each other, at least,
where one group is tried in their place though the SM is hardly idle: the simulation knows little of what
keeps such groups waiting. (On an H200, predicted and measured gains of one group in each thread block:
gemlite's product with weights of 5 bits by 16 rows 1.24 and 2.7, aiter's batched product that quantizes its
rows 1.20 and 1.24, vLLM's product of 4-bit weights with zeros 1.32 and 1.39.)"""


def with_more_blocks(first: Attempt, attempt: Solving, most: int, stated: Stated | None) -> Attempt:
    """The attempt, or one whose schedules leave room on an SM for more thread blocks: with one group that
    computes in each, where groups that pass tiles to each other are late for that and it is predicted to be
    no slower; where one that waits is predicted to leave the SM idle, for another block, or for one for each
    group that computes, which keep as many warps computing and wait for no tile of each other. Where an SM
    has the most blocks already, as many of one group are tried where groups gain nothing by dividing work."""
    residency, full = first.loops[0].machine.residency, most <= first.program.resident_blocks
    if residency is None or walks(first) or (full and not passes_for_nothing(first)):
        return first
    now = first.of_sm()
    alone = min(most, computing(first) * first.program.resident_blocks)
    apart = _Apart(first, residency, stated, attempt, alone)
    best = _without_passing(apart, now)
    if best[0] is first and not full and (trips := short_loops(first)):
        best = _without_division(apart, trips)
    if best[0] is first and not full and leaves_idle(first, residency) and not _paced_by_l2(first, residency):
        best = (first, now / residency.idle)
        if another := _for_blocks(first, residency, first.program.resident_blocks + 1, stated):
            best = faster(best, another, attempt, Attempt.of_sm)
    if best[0] is first and not full and divided_in_vain(first, residency):
        best = _alone_in_fewer(apart, now)
    other, cycles = best
    if other is first:
        return first
    what = f"{other.program.resident_blocks} thread blocks on an SM"
    note = f"{what}: an iteration every {cycles:.0f} cycles predicted, {now:.0f} otherwise"
    several = first if computing(other) < computing(first) else None
    program = replace(other.program, notes=(*other.program.notes, note))
    return replace(other, program=program, several=several)


def _paced_by_l2(one: Attempt, residency: Residency) -> bool:
    """Whether an SM waits for what L2 gives it, as long as for the rest or longer, in more thread blocks than
    one. More of them, with fewer registers and loads ahead, do not get more. (On an H200,
    Triton-distributed's split decoding, 32 KB an iteration: 0.070 ms in two thread blocks, 0.077 in three,
    predicted at 457 and 348 cycles for 740 from L2.)"""
    from twill.simulate.predict import from_l2, shared

    given = shared(one.loops, list(map(from_l2, one.loops)))
    return one.program.resident_blocks > 1 and one.of_sm() <= residency.idle * given


def divided_in_vain(one: Attempt, residency: Residency) -> bool:
    """Whether groups that divide the work of a thread block may gain less than it costs them: the SM waits,
    more than a little where they pass no tiles to each other."""
    from twill.simulate.passing import passing

    late = one.of_sm() > PASSES * busiest(one) and bool(passing(one.program, one.loops))
    return late or leaves_idle(one, residency)


@dataclass(frozen=True, slots=True, eq=False)
class _Apart:
    """What thread blocks are made from in each of which one group computes, instead of several."""

    first: Attempt
    residency: Residency
    stated: Stated | None
    attempt: Solving
    most: int
    """Of them on an SM."""

    def cases(self, blocks: int, part: float | None = None) -> tuple[Case, ...] | None:
        """The loops with the limits of so many of them on an SM; None where no more than one group
        computes. `part`: of the registers of schedules, what threads have."""
        return _each_alone(self.first, self.residency, blocks, self.stated, part or self.residency.used)


def _alone_in_fewer(apart: _Apart, now: float) -> tuple[Attempt, float]:
    """The attempt, or one in whose thread blocks one group computes and an SM is done sooner: of `most`
    blocks, or of half as many where these have no schedule, and so on. Schedules count the registers of which
    kernels use a part, or where there are none the most that ptxas may still do with. (On an H200, in place
    of one block of two to four groups: vLLM's attention over int4 pages 1.60 times as fast, its products of
    4-bit weights with zeros 1.39, fla's intra-chunk products with low-rank decays 1.52; aiter's product of
    bf16 and fp4 in two blocks for one 1.60, with 168 registers of 248.)"""
    first, blocks, residency = apart.first, apart.most, apart.residency
    while blocks >= max(1, first.program.resident_blocks):
        for part in (residency.used, residency.fewest) if blocks > 1 else (residency.used,):
            if alone := apart.cases(blocks, part):
                found = faster((first, now), alone, apart.attempt, Attempt.of_sm, blocks)
                if found[0] is not first:
                    return found
        blocks //= 2
    return first, now


def _without_passing(apart: _Apart, now: float) -> tuple[Attempt, float]:
    """The attempt, or one in whose thread blocks one group computes, where groups fit the interval but for
    the register tiles that they pass to each other, or pass tiles though each of them waits for its own MMAs:
    `most` blocks, or fewer where these have no schedule, none slower than the attempt."""
    first = apart.first
    least, wanted = first.program.resident_blocks, _late_by_passing(first) or passes_for_nothing(first)
    for blocks in range(apart.most, least - 1, -1) if wanted else ():
        if alone := apart.cases(blocks):
            try:
                other = apart.attempt(alone, blocks)
            except TwillError:
                continue
            return (other, other.of_sm()) if other.of_sm() <= now else (first, now)
    return first, now


def _late_by_passing(first: Attempt) -> bool:
    """A group has no more to issue than fits the interval, and more with the tiles that pass."""
    from twill.simulate.passing import passed, passing

    def fits(one: Scheduled, besides: Mapping[int, float]) -> bool:
        return issuable(one.problem, one.solution.interval, one.solution.group, besides)

    tiles = passing(first.program, first.loops).values()
    return any(fits(one, {}) and not fits(one, passed(one, tiles)) for one in first.loops)


def passes_for_nothing(first: Attempt) -> bool:
    """Groups pass register tiles to each other beside MMAs of warps alone. Those of a warpgroup run while the
    next group computes; a warp waits for its own, and what hides that, another thread block of one group
    hides as well, without channels, copies and waits. (On an H200, an fp8 product of 16 rows in two thread
    blocks of two groups: 0.834 ms; 0.263 in Triton's nine blocks of one.)"""
    from twill.simulate.passing import passing

    return mmas_of_warps_alone(first) and bool(passing(first.program, first.loops))


def _without_division(apart: _Apart, trips: Mapping[int, int]) -> tuple[Attempt, float]:
    """The attempt, or one in whose thread blocks one group computes, where an SM is predicted to be done with
    a block sooner so: groups that divide the work of a few iterations hardly overlap, and each is waited for
    at the begin and the end of a block."""
    first = apart.first
    least, now = first.program.resident_blocks, first.of_trips(trips)
    for blocks in range(apart.most, least - 1, -1):
        if alone := apart.cases(blocks):
            try:
                other = apart.attempt(alone, blocks)
                sooner = other.of_trips(short_loops(other)) < now
            except TwillError:
                continue
            return (other, other.of_sm()) if sooner else (first, first.of_sm())
    return first, first.of_sm()


def _for_blocks(
    first: Attempt, residency: Residency, blocks: int, stated: Stated | None
) -> tuple[Case, ...] | None:
    """The loops with the limits of so many thread blocks on an SM, and no more groups than they have, stated
    again where these hold less than the loads that run ahead; None where a schedule is not looked for with so
    few registers."""
    machine, granted = first.loops[0].machine, thread_block.granted(first.loops)
    wide = [group for group in granted if not thread_block.only_moves(group)]
    if not wide:
        return None
    limits, threads = machine.limits, 32 * sum(group.warps for group in wide)
    moving = 128 * max((one.registers for one in first.program.groups if one.only_moves), default=0)
    own = (limits.registers_total // blocks - moving) // threads
    registers = int(residency.used * own) // limits.register_step * limits.register_step
    if registers < residency.fewest * max(group.registers for group in wide):
        return None
    found = _limited(first, blocks, len(granted), registers)
    if stated is None or all(_ahead(case.problem) <= case.problem.limits.shared for case in found):
        return found
    return _stated_again(found, stated.in_part(blocks))


def _stated_again(found: Sequence[Case], stated: Sequence[Case]) -> tuple[Case, ...]:
    """The loops as `stated`, within the limits that they have; as they are where they are of another form."""
    if [_operations(case) for case in stated] != [_operations(case) for case in found]:
        return tuple(found)
    return tuple(
        replace(other, problem=replace(other.problem, limits=case.problem.limits), aligned=case.aligned)
        for case, other in zip(found, stated, strict=True)
    )


def _ahead(problem: Problem) -> int:
    """Bytes of shared memory for what a loop has there, with the tiles that its loads run ahead."""
    return sum((1 + value.slots) * value.shared for value in problem.values)


def _each_alone(
    first: Attempt, residency: Residency, blocks: int, stated: Stated | None, part: float
) -> tuple[Case, ...] | None:
    """The loops with the limits of so many thread blocks on an SM, in each of which one group computes and
    one loads: with registers of which kernels use a `part`; None where no more than one computes."""
    machine, granted = first.loops[0].machine, thread_block.granted(first.loops)
    wide = [group for group in granted if not thread_block.only_moves(group)]
    if len(wide) < 2:
        return None
    limits = machine.limits
    code = with_copies(read(first.program.module, first.program.function), first.loops)
    loads = [[task.ops for task in tasks(code, one)] for one in first.loops]
    loading = max(limits.narrow_registers, thread_block.copying(machine.copies, code, loads))
    step, threads = limits.register_step, 32 * max(group.warps for group in wide)
    own = (limits.registers_total // blocks - 128 * -(-loading // step) * step) // threads
    registers = int(own / part) // step * step
    cases = for_one_group(first, stated)
    return _limited(first, blocks, len(granted) - len(wide) + 1, registers, cases)


def for_one_group(first: Attempt, stated: Stated | None) -> tuple[Case, ...]:
    """The loops of an attempt, those of other operations as they are stated for one group that computes."""
    pairs = zip(first.cases, stated.one_group if stated else first.cases, strict=True)
    return tuple(other if _operations(case) != _operations(other) else case for case, other in pairs)


def _operations(case: Case) -> list[str]:
    return [op.id for op in case.problem.operations]


def _limited(
    first: Attempt, blocks: int, groups: int, registers: int, cases: Sequence[Case] | None = None
) -> tuple[Case, ...]:
    """The loops with the limits of one of so many thread blocks on an SM."""
    machine = first.loops[0].machine
    return tuple(limited(case, machine, blocks, groups, registers) for case in cases or first.cases)
