"""The schedules of a kernel's loops whose program is predicted to be fastest.

Takes the loops and a function that schedules and lowers them; gives the best of what it returns for the loops
as they are, for every implementation that they have, with groups of their own for accumulator updates, with
another choice of the loads that run ahead, with waits inside of elementwise operations, with the costs of
hand-offs, of each loop the fastest of these, and for the part of an SM that leaves room for more thread
blocks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from operator import mul

from twill.diagnostics import TwillError
from twill.generation.choices.hand_offs import with_hand_offs
from twill.generation.choices.part_of_sm import limited
from twill.generation.choices.persistence import SHORT
from twill.generation.choices.stated import Stated
from twill.generation.choices.update_groups import with_update_group
from twill.generation.generated import Generated
from twill.inputs import Case, shares_of
from twill.ir.loop import shares
from twill.ir.machine import Residency
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.modulo.bounds import bounds, resource_bound
from twill.modulo.simplest import issuable
from twill.ops.table import role
from twill.warp import thread_block
from twill.warp.channels import constant_trips
from twill.warp.copies import with_copies
from twill.warp.dataflow import read
from twill.warp.plan import Options as Lowering
from twill.warp.residency import continues
from twill.warp.tasks import Scheduled, tasks
from twill.warp.tiles_in_flight import tile_loop

SLACK = 1.3
"""How many times as long a schedule may take, at its lower bound, as what is predicted of the best so far. A
run may take fewer cycles than its schedule, which has the tensor core busy beside every operation: 0.83 of
the bound with waits inside of the exponentials of attention (simulated)."""

MOST_BLOCKS = Lowering().most_blocks
"""Thread blocks on an SM, unless fewer are given."""

PASSES = 1.1
"""How many times as long as its busiest unit a kernel takes whose groups pass tiles to each other, at least,
where one group is tried in their place though the SM is hardly idle: the simulation knows little of what
keeps such groups waiting. (On an H200, predicted and measured gains of one group in each thread block:
gemlite's product with weights of 5 bits by 16 rows 1.24 and 2.7, aiter's batched product that quantizes its
rows 1.20 and 1.24, vLLM's product of 4-bit weights with zeros 1.32 and 1.39.)"""

UPDATES = "updates of accumulators in a group of their own"
AHEAD = "other loads run ahead"
DIVIDED = "waits inside of exponentials"
HANDED = "hand-offs between groups counted"
EACH = "each loop as it is fastest"


@dataclass(frozen=True, eq=False)
class Attempt:
    """Schedules of the loops, and the program that follows from them; predicted once, when first asked."""

    cases: tuple[Case, ...]
    program: Program
    loops: tuple[Scheduled, ...]
    results: Mapping[str, Result]
    dumps: Mapping[str, str]
    several: "Attempt | None" = None
    """The attempt with several groups that compute, in whose place this one has one group in each thread
    block; None where there is none."""

    @cached_property
    def intervals(self) -> Mapping[str, float]:
        """Predicted machine cycles of an iteration of each loop, by its path."""
        from twill.simulate.predict import intervals

        return intervals(self.program, self.loops)

    def cycles(self) -> float:
        """Predicted machine cycles of an iteration of each loop, together, in their `shares`."""
        return sum(self.of_loops())

    def scheduled(self) -> float:
        """The same of the schedules."""
        intervals = [one.solution.interval * one.problem.resolution.cycles_per_unit for one in self.loops]
        return sum(self._shared(intervals))

    def of_loops(self) -> tuple[float, ...]:
        """What each loop adds to `cycles`."""
        return self._shared([self.intervals[one.loop.path] for one in self.loops])

    def _shared(self, cycles: Sequence[float]) -> tuple[float, ...]:
        return tuple(map(mul, shares([one.loop for one in self.loops]), cycles))

    def of_sm(self) -> float:
        """The same of an SM that several thread blocks share."""
        from twill.simulate.predict import shared_sm

        return shared_sm(self.intervals, self.program.resident_blocks, self.loops)

    def of_trips(self, trips: Mapping[int, int]) -> float:
        """Predicted machine cycles of an SM for a thread block whose loops have so many iterations, by the
        operation of the loop."""
        from twill.simulate.predict import time_of_sm

        return time_of_sm(self.program, self.loops, trips, self.intervals)


Solving = Callable[[Sequence[Case], int], Attempt]
"""Schedules loops and lowers them for so many thread blocks on an SM (`warp.plan.Options.room`). Raises
TwillError."""


def fastest(
    found: Sequence[Case],
    attempt: Solving,
    slowest: float = inf,
    most_blocks: int = MOST_BLOCKS,
    stated: Stated | None = None,
) -> Attempt:
    """The schedules whose program is predicted to be fastest: of every implementation, with a group of its
    own for updates of accumulators where other groups have too much to do, with waits inside of elementwise
    operations, and where the program takes longer than its schedule with another choice of the loads that run
    ahead, and with the costs of hand-offs (with these where there is no schedule, too); the first of those
    that are equal. Others than the first are only scheduled where they may take no more than `slowest` cycles
    of an SM, and for no more than `most_blocks` on one, where these are few. Raises TwillError where none
    may."""
    if (least := least_of_sm(found)) > slowest:
        raise TwillError(f"an iteration takes {least:.0f} cycles at least, more than {slowest:.0f}")
    handed = _with_hand_offs(found)
    others = _restated(found, [case.others_ahead if case.overlaps else None for case in found])
    try:
        first = attempt(found, 1)
    except TwillError:
        if handed is None:
            raise
        return attempt(handed, 1)
    moved, divided = _with_update_groups(first), _with_divided_waits(first)
    names = list({one.name: None for case in found for one in case.problem.implementations})
    alone = first.cycles() if moved or divided or handed or others or names else 0.0
    handed, others = (handed, others) if alone > first.scheduled() else (None, None)
    limit = slowest * first.program.resident_blocks
    best, what, made = (first, alone), "", [first]

    def recorded(cases: Sequence[Case], room: int) -> Attempt:
        made.append(attempt(cases, room))
        return made[-1]

    for label, cases in ((UPDATES, moved), (AHEAD, others), (DIVIDED, divided), (HANDED, handed)):
        if cases and (other := _faster(best, cases, recorded, limit=limit)) is not best:
            best, what = other, label
    if (each := _best_of_each(made, limit)) and (other := _faster(best, each, attempt)) is not best:
        best, what = other, EACH
    for name in names[1:]:
        best = _faster(best, tuple(_implemented(case, name) for case in best[0].cases), attempt)
    if best[0] is not first:
        return _with_note(*best, alone, what)
    return first if moved or names else _with_more_blocks(first, attempt, most_blocks, stated)


def _faster(
    best: tuple[Attempt, float],
    cases: Sequence[Case],
    attempt: Solving,
    cycles: Callable[[Attempt], float] = lambda one: one.cycles(),
    room: int = 1,
    limit: float = inf,
) -> tuple[Attempt, float]:
    """The best attempt so far, or one with these cases that is predicted to take fewer cycles, with these.
    What can hardly be faster, or take no more than `limit`, is not scheduled."""
    if cycles is Attempt.of_sm:
        least = least_of_sm(cases)
    else:
        least = _together(cases, list(map(_least_of_block, cases))) / SLACK
    if least > min(best[1], limit):
        return best
    try:
        other = attempt(cases, room)
        return min(best, (other, cycles(other)), key=lambda one: one[1])
    except TwillError:
        return best


def _best_of_each(made: Sequence[Attempt], limit: float) -> tuple[Case, ...] | None:
    """The loops, each as in the attempt that is fastest in it, where no attempt is in all, and they take no
    more than `limit` cycles so."""
    if len(made) < 2 or len(made[0].loops) < 2:
        return None
    cycles = [one.of_loops() for one in made]
    if sum(map(min, zip(*cycles, strict=True))) > limit:
        return None
    chosen = [min(range(len(made)), key=lambda i: cycles[i][loop]) for loop in range(len(made[0].loops))]
    return tuple(made[i].cases[loop] for loop, i in enumerate(chosen)) if len(set(chosen)) > 1 else None


def least_of_sm(cases: Sequence[Case]) -> float:
    """Machine cycles for which an iteration of each loop occupies the busiest unit of an SM at least, however
    its operations are implemented: a lower bound on `Attempt.of_sm`."""
    return _together(cases, [min(map(_busy, _variants(case))) for case in cases])


def _together(cases: Sequence[Case], cycles: Sequence[float]) -> float:
    """The sum of cycles of an iteration of each loop, in their `shares`."""
    return sum(map(mul, shares_of(cases), cycles))


def _variants(case: Case) -> tuple[Problem, ...]:
    """The problems that may be scheduled for a loop."""
    implemented = [case.problem.implemented(one.name) for one in case.problem.implementations]
    return (case.problem, *implemented, *([case.divided] if case.divided else []))


def _busy(problem: Problem) -> float:
    return resource_bound(problem).value * problem.resolution.cycles_per_unit


def _least_of_block(case: Case) -> float:
    """Machine cycles below which a loop has no schedule."""
    return bounds(case.problem).value * case.problem.resolution.cycles_per_unit


def _with_more_blocks(first: Attempt, attempt: Solving, most: int, stated: Stated | None) -> Attempt:
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
            best = _faster(best, another, attempt, Attempt.of_sm)
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


def leaves_idle(one: Attempt, residency: Residency) -> bool:
    """Whether an SM is predicted to wait, rather than to have a unit that is always busy."""
    return one.of_sm() > residency.idle * _busiest(one)


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

    late = one.of_sm() > PASSES * _busiest(one) and bool(passing(one.program, one.loops))
    return late or leaves_idle(one, residency)


def _busiest(one: Attempt) -> float:
    """Machine cycles for which an iteration of each loop occupies the busiest unit of an SM."""
    from twill.simulate.predict import busy, shared

    return shared(one.loops, list(map(busy, one.loops)))


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
                found = _faster((first, now), alone, apart.attempt, Attempt.of_sm, blocks)
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


def short_loops(first: Attempt) -> dict[int, int]:
    """The iterations of each loop, by its operation, where all are known to be short (at most so many); else
    none."""
    return trips_if_short(first.program, first.loops)


def trips_if_short(program: Program, loops: Sequence[Scheduled]) -> dict[int, int]:
    """The same of the loops of a program, where only the most is known as many."""
    code = read(program.module, program.function)
    trips = {
        one.loop.op.index: constant_trips(code, one.loop) or one.loop.most_trips or SHORT for one in loops
    }
    return trips if max(trips.values()) < SHORT else {}


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


def time_of_sm(made: Generated) -> float:
    """Predicted machine cycles of an SM for a thread block of a kernel whose loops are known to be short,
    else for an iteration of each."""
    from twill.simulate import predict

    trips = trips_if_short(made.program, made.loops)
    return predict.time_of_sm(made.program, made.loops, trips, made.intervals)


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


def mmas_of_warps_alone(one: Attempt) -> bool:
    """Whether it has MMAs of warps, and none of warpgroups."""
    roles = {role(op) for op in one.program.function.walk()}
    return "dot" in roles and "wgmma" not in roles


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


def computing(first: Attempt) -> int:
    """Groups of a thread block that compute."""
    return sum(not thread_block.only_moves(group) for group in thread_block.granted(first.loops))


def walks(first: Attempt) -> bool:
    """Whether a thread block works on one tile after the other."""
    code = read(first.program.module, first.program.function)
    return tile_loop(code, first.loops) is not None and not continues(code, first.loops)


def _limited(
    first: Attempt, blocks: int, groups: int, registers: int, cases: Sequence[Case] | None = None
) -> tuple[Case, ...]:
    """The loops with the limits of one of so many thread blocks on an SM."""
    machine = first.loops[0].machine
    return tuple(limited(case, machine, blocks, groups, registers) for case in cases or first.cases)


def _implemented(case: Case, name: str) -> Case:
    has = name in [one.name for one in case.problem.implementations]
    return replace(case, problem=case.problem.implemented(name)) if has else case


def _with_update_groups(one: Attempt) -> tuple[Case, ...] | None:
    """The loops to schedule with groups of their own for updates; None where no loop needs any."""
    pairs = zip(one.cases, one.loops, strict=True)
    return _restated(one.cases, [with_update_group(case.problem, loop) for case, loop in pairs])


def _with_hand_offs(found: Sequence[Case]) -> tuple[Case, ...] | None:
    """The loops to schedule with the costs of hand-offs; None where no loop has any."""
    changed = [
        with_hand_offs(case.problem, case.graph, case.machine) if case.graph and case.machine else None
        for case in found
    ]
    return _restated(found, changed)


def _restated(found: Sequence[Case], changed: Sequence[Problem | None]) -> tuple[Case, ...] | None:
    """The loops with these problems, those of None as they are; None where all are."""
    if not any(changed):
        return None
    pairs = zip(found, changed, strict=True)
    return tuple(replace(case, problem=problem or case.problem) for case, problem in pairs)


def _with_divided_waits(one: Attempt) -> tuple[Case, ...] | None:
    """The loops to schedule with waits inside of elementwise operations, for accumulators of the iteration
    before; None where no loop has any."""
    divided = [case.divided if case.overlaps else None for case in one.cases]
    if not any(divided):
        return None
    pairs = zip(one.cases, divided, strict=True)
    return tuple(replace(case, problem=other or case.problem, divided=None) for case, other in pairs)


def _with_note(best: Attempt, cycles: float, first: float, what: str) -> Attempt:
    """The program with a note of why it has these schedules."""
    names = sorted({one.problem.implementation for one in best.loops} - {""})
    why = ", ".join([*names, *([what] if what else [])])
    note = f"{why}: an iteration every {cycles:.0f} cycles predicted, {first:.0f} otherwise"
    return replace(best, program=replace(best.program, notes=(*best.program.notes, note)))
