"""The forms that a kernel may have: as it is written, with sub-tiles, persistent.

`candidates` takes `Inputs` and returns the forms that are predicted to be worth it, the fastest first. Each
is scheduled and lowered to warp programs (`one_form`); nothing is checked or built. A form that the user has
decided on is the only one of its kind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import inf
from operator import gt
from typing import TYPE_CHECKING

from twill.diagnostics import DefectError, TwillError
from twill.generation.attempt import as_attempt, computing, in_shares, least_of_sm, time_of_sm, walks
from twill.generation.choices.persistence import SHORT
from twill.generation.choices.shared_sm import PASSES, divided_in_vain
from twill.generation.choices.subtiles import COUNT, GAIN, MORE_WARPS, SPILLS, better, divided, note
from twill.generation.choices.subtiles import searched as of_both_forms
from twill.generation.coded import for_code
from twill.generation.generated import Generated, GenerateOptions, ProgressCallback, noted, pace_of_sm, warned
from twill.generation.known.given import given, matching, replacing
from twill.generation.loop_nest import FEWEST, NoScheduleError
from twill.generation.one_form import lowered
from twill.generation.refusals import refusals
from twill.generation.searches import Session, Solve, answered_before, remembered, search_options, solved
from twill.inputs import Case, Inputs, cases
from twill.ir.schedule import WARPGROUP, Result
from twill.ir.search import Options, Progress
from twill.warp.plan import most_blocks

if TYPE_CHECKING:
    from twill.pipeline import Begun

DIVIDED, PERSISTENT = "divided into sub-tiles", "made persistent"
JOINED = "one group that computes"
GIVEN = "scheduled as given"
LOADS_TOO = "the group that computes loads too"
TIGHT = "in as few registers"
JOINING = 1.2
"""How many times as long a thread block of several groups that compute has to take as one of a single group
of `MORE_WARPS` (estimate; what one group in place of several was predicted to gain, and gained when
measured, see `choices.shared_sm.PASSES`)."""
TIGHTER = 1.2
"""How many times as long twice the warps have to take as the warps that a kernel has, with tiles in as few
registers (estimate)."""


def candidates(
    inputs: Inputs,
    options: GenerateOptions,
    on_progress: ProgressCallback,
    searched: Sequence[Result] = (),
    solve: Solve = solved,
    slowest: float = inf,
) -> tuple[Generated, ...]:
    """The forms of a kernel, that predicted to be fastest first.

    Where `inputs.subtile` is None, rows are divided into sub-tiles where the loops then take fewer cycles.
    With `inputs.persistent` None the kernel is made persistent where that is predicted to be faster, and
    neither schedules nor the number of tiles in flight are given. Problems of `searched` are not solved
    again; what takes more than `slowest` machine cycles of an SM for an iteration of each loop, by its lower
    bounds, is not solved at all. Raises TwillError where the kernel has no form: a loop without a schedule,
    an operation that cannot be lowered. A form that is generated wrong is left out, with a warning in the
    others.
    """
    known = [*options.answers, *searched]
    session = Session(options, on_progress, solve, given(options.schedules), known, slowest)
    if session.kept:
        inputs = matching(inputs, session.kept)
    written = _as_written(replace(inputs, persistent=bool(inputs.persistent)), session)
    forms = (*_persistent_if_faster(inputs, session, written[0]), *written)
    forms = (*_as_given(inputs, session, forms[0]), *forms)
    forms = tuple(replace(one, searched=tuple(session.searched)) for one in forms)
    if options.answers:
        forms = tuple(replacing(one, options.answers, options.refused) for one in forms)
    if wrong := dict.fromkeys(session.left_out):
        forms = tuple(warned(one, *wrong) for one in forms)
    return forms


def _as_written(inputs: Inputs, session: Session) -> tuple[Generated, ...]:
    """The kernel with whole tiles, and before it that with sub-tiles where its loops are faster so."""
    decided = inputs.subtile is not None or inputs.pins is not None
    open_form = not decided and not session.options.whole_tiles
    if open_form and (alone := _sub_tiles_alone(inputs, session)):
        return alone
    try:
        whole = lowered(replace(inputs, subtile=inputs.subtile or 1), session)
    except TwillError as refused:
        found = () if decided else _with_sub_tiles(inputs, session, inf)
        found = found or _in_few_registers(inputs, session, _with_more_warps(inputs, session, refused))
        found = found or _loading_too(inputs, session, refused) or _spilling(inputs, session, refused)
        if not found:
            raise
        return found
    forms = (*_in_few_registers(inputs, session, _joined(inputs, session, whole)), whole)
    if not divided(inputs, whole.cases, list(whole.results.values())):
        return forms
    return (*_with_sub_tiles(inputs, session, pace_of_sm(forms[0])), *forms)


def _as_given(inputs: Inputs, session: Session, found: Generated) -> tuple[Generated, ...]:
    """The kernel with the schedules that are given, where what was found for loops that share groups is
    slower in the same form, and it is predicted to be faster with them: a search beside other loops has a
    part of the time that `twill schedule` takes for them together. (SGLang's prefix attention with sinks and
    a window on an H200: intervals of 3727 and 3717 given, 3229 and 5685 found; 1.22 and 0.90 of Triton's
    speed.)"""
    answers = {one.problem.name: one for one in session.options.answers}
    before = pace_of_sm(found)
    if inputs.registers is not None or inputs.groups is not None or not _slower(found, answers, before):
        return ()
    form = matching(inputs, answers)
    made = _alternative(form, replace(session, kept=answers)) if _alike(form, found.inputs) else None
    if made is None or not better(after := pace_of_sm(made), before):
        return ()
    said = f"with the given schedules: {after:.0f} cycles predicted, {before:.0f} otherwise"
    return (noted(replace(made, form=GIVEN), said),)


def _slower(found: Generated, answers: Mapping[str, Result], pace: float) -> bool:
    """Whether a loop has a longer interval than in its answer, and all of them take more cycles (`pace`) than
    by theirs."""
    own = [found.results[case.name] for case in found.cases]
    others = [answers.get(one.problem.name, one) for one in own]
    longer = any(map(gt, map(_interval, own), map(_interval, others)))
    return longer and better(_scheduled(found.cases, others), pace)


def _alike(one: Inputs, other: Inputs) -> bool:
    """Whether tiles are divided and held alike."""
    return (one.subtile, one.warps, one.spills) == (other.subtile, other.warps, other.spills)


def _interval(one: Result) -> float:
    """Machine cycles of an iteration."""
    return one.solution.interval * one.problem.resolution.cycles_per_unit if one.solution else inf


def _sub_tiles_alone(inputs: Inputs, session: Session) -> tuple[Generated, ...]:
    """The kernel with sub-tiles where whole tiles are proven to take too long beside them; else nothing. What
    is searched for that is not searched again. Nor where their groups wait for each other, so that they take
    longer than the schedules that the proof is of. Loops that are known to be short have no such proof: their
    iterations hardly overlap, and intervals say little. (Sparse VideoGen's _euclid_assign_kernel on an H200,
    two iterations: intervals of 3890 with sub-tiles and 4776 without, which compute a row of norms once
    rather than for each sub-tile; 0.457 and 0.415 ms.)"""

    def solve(case: Case, search: Options, known: "Begun | None") -> Result:
        def fresh() -> Result:
            return session.solve(case.problem, search, session.on_progress, known)

        return answered_before(case.problem, session, search.max_in_flight) or remembered(fresh, session)

    stated = for_code(inputs, session.options.lowering)
    try:
        whole = cases(replace(stated, subtile=1))
        if all(map(_short, whole)):
            return ()
        search = search_options(session.options.time_limit, session)
        found = (
            None if any(refusals(whole)) else of_both_forms(stated, whole, search, solve, session.on_progress)
        )
    except TwillError:
        return ()
    if found is None or not found.alone:
        return ()
    slowest = PASSES * _scheduled(whole, found.results)
    made = _alternative(
        replace(inputs, subtile=COUNT), replace(session, slowest=min(session.slowest, slowest))
    )
    if made is None or pace_of_sm(made) > slowest:
        return ()
    return (noted(replace(made, form=DIVIDED), found.note),)


def _scheduled(found: Sequence[Case], results: Sequence[Result]) -> float:
    """Machine cycles of an iteration of each loop by its schedule, in their `shares`."""
    return in_shares(found, list(map(_interval, results)))


def _short(case: Case) -> bool:
    return case.most_trips is not None and case.most_trips < SHORT


def _with_sub_tiles(inputs: Inputs, session: Session, before: float) -> tuple[Generated, ...]:
    """The kernel with sub-tiles; nothing where its loops are not faster than whole tiles, which take `before`
    cycles. They are not searched where no schedule can be."""
    inputs = replace(inputs, subtile=COUNT)
    if not better(_least_of_sm(inputs, session), before):
        return ()
    made = _alternative(inputs, replace(session, slowest=min(session.slowest, GAIN * before)))
    if made is None or not better(cycles := pace_of_sm(made), before):
        return ()
    said = note(cycles, before)
    session.on_progress(made.program.function.name, Progress(0.0, "sub-tiles", 0, "note", said))
    return (noted(replace(made, form=DIVIDED), said),)


def _joined(inputs: Inputs, session: Session, whole: Generated) -> tuple[Generated, ...]:
    """The kernel with one group of twice the warps that computes, where several groups divide the work of the
    only thread block on an SM in vain: as many warps as theirs hold as many tiles, and pass none to each
    other. Nothing where it is not predicted to be clearly faster."""
    first = as_attempt(whole)
    residency, groups = first.loops[0].machine.residency, computing(first)
    given = session.kept or inputs.persistent or inputs.pins is not None or (inputs.subtile or 1) > 1
    warps = sum(group.warps for group in whole.program.groups if not group.only_moves)
    given = given or inputs.warps is not None or inputs.groups is not None
    if given or residency is None or groups < 2 or warps < MORE_WARPS or whole.program.resident_blocks > 1:
        return ()
    if walks(first) or not divided_in_vain(first, residency):
        return ()
    least = 1 + any(group.only_moves for group in whole.program.groups)
    wide = replace(inputs, subtile=inputs.subtile or 1, warps=MORE_WARPS, groups=least)
    made = _alternative(wide, replace(session, slowest=min(session.slowest, pace_of_sm(whole) / JOINING)))
    if made is None or (before := time_of_sm(whole)) < JOINING * (after := time_of_sm(made)):
        return ()
    said = f"one group of {MORE_WARPS} warps computes: {after:.0f} cycles predicted, {before:.0f} of {groups}"
    return (noted(replace(made, form=JOINED, several=whole), said),)


def _least_of_sm(inputs: Inputs, session: Session) -> float:
    """Machine cycles of an SM for an iteration of each loop at least; 0 where they can not be stated."""
    try:
        return least_of_sm(cases(for_code(inputs, session.options.lowering)))
    except TwillError:
        return 0.0


def _in_few_registers(inputs: Inputs, session: Session, wide: tuple[Generated, ...]) -> tuple[Generated, ...]:
    """The kernel with twice the warps, and before it the one with the warps that it has, where that is
    predicted to be faster: schedules count registers before ptxas does, which shares those of operations that
    run one after the other, and may spill nothing. (fla's conjugate gradients for 64 rows and columns on an
    H200: ptxas has room for tiles that a schedule counts 270 registers for.)"""
    if not wide or inputs.registers is not None or inputs.spills > 1:
        return wide
    before = pace_of_sm(wide[0])
    tight = replace(inputs, subtile=inputs.subtile or 1, spills=SPILLS[0])
    made = _alternative(tight, replace(session, slowest=min(session.slowest, before / TIGHTER)))
    if made is None or TIGHTER * (after := pace_of_sm(made)) > before:
        return wide
    said = f"tiles that a schedule counts more registers for than a thread has: {after:.0f} cycles predicted"
    return (noted(replace(made, form=TIGHT), f"{said}, {before:.0f} of {MORE_WARPS} warps"), *wide)


def _with_more_warps(inputs: Inputs, session: Session, refused: TwillError) -> tuple[Generated, ...]:
    """The kernel with whole tiles and twice the warps, where its loops have no schedule otherwise: each
    thread holds half as much."""
    if not isinstance(refused, NoScheduleError) or session.kept or inputs.warps is not None:
        return ()
    made = _alternative(replace(inputs, subtile=inputs.subtile or 1, warps=MORE_WARPS), session)
    return () if made is None else (noted(made, f"{MORE_WARPS} warps: otherwise {refused.message}"),)


def _spilling(inputs: Inputs, session: Session, refused: TwillError) -> tuple[Generated, ...]:
    """The kernel with whole tiles that take more registers than a thread has, where its loops have no
    schedule otherwise: of the numbers of `SPILLS` the smallest with which they have, with twice the warps if
    that can be lowered. Raises TwillError where a schedule is not all that the kernel lacks."""
    if not isinstance(refused, NoScheduleError) or session.kept or inputs.spills > 1:
        return ()
    whole = replace(inputs, subtile=inputs.subtile or 1)
    warps = (inputs.warps,) if inputs.warps is not None else (MORE_WARPS, None)
    beyond: TwillError | None = None
    for times, held in product(SPILLS, warps):
        try:
            made = lowered(replace(whole, spills=times, warps=held), session)
        except NoScheduleError:
            continue
        except TwillError as other:
            beyond = beyond or other
            continue
        why = f"tiles take up to {times} times the registers of a thread, which spills and is slow"
        return (warned(made, f"{why}: otherwise {refused.message}"),)
    if beyond is not None:
        raise beyond
    return ()


def _loading_too(inputs: Inputs, session: Session, refused: TwillError) -> tuple[Generated, ...]:
    """The kernel whose only group computes and loads, where there is none with a group that loads: no other
    group needs to know what an atomic operation returns, say, and the slots of its loops lie where those of
    loops before them did (`warp.footprint`), which those of several groups can not. (Mamba's
    _chunk_scan_fwd_kernel in tiles of 128 x 256: 229376 bytes instead of 346272.)"""
    lowering = session.options.lowering
    if isinstance(refused, DefectError) or lowering.multistage is not None:
        return ()
    groups = inputs.groups if session.kept else inputs.groups or FEWEST
    whole = replace(inputs, subtile=inputs.subtile or 1, groups=groups)
    loading = replace(session.options, lowering=replace(lowering, multistage=True))
    made = _alternative(whole, replace(session, options=loading))
    return () if made is None else (noted(made, f"{LOADS_TOO}: otherwise {refused.message}"),)


def _persistent_if_faster(inputs: Inputs, session: Session, written: Generated) -> tuple[Generated, ...]:
    """The persistent kernel, where that is open and predicted to be faster than as it is `written`, and than
    with a group that loads, where a thread block of that form has an SM for itself: tiles in flight hide what
    it waits for, as several thread blocks that load for themselves do. (On an H200, vLLM's fused MoE in fp8
    in tiles of 64 x 128 x 128: three such thread blocks 0.452 ms, two tiles in flight 0.354; Triton's
    attention tutorial in tiles of 64 x 128: two such thread blocks in place of one whose groups divide a tile
    1.148 ms, two tiles in flight 1.002.) Not where a kernel has the warps that it is written for, less than a
    warpgroup: others compute copies beside them. (fla's gated delta rule of two warps: 0.99 of Triton's
    speed, and 0.75 with two tiles in flight.)"""
    from twill.generation.choices.persistence import as_busy, faster, hidden_better, open_to_it

    decided = inputs.persistent is not None or session.options.lowering.tiles is not None
    whole = all(group.warps >= WARPGROUP for group in written.program.groups if not group.only_moves)
    apart = written.loading_apart if whole else None
    one = apart if apart and apart.program.resident_blocks == 1 else written
    plain = one.program, one.loops
    alone = most_blocks(session.options.lowering, written.loops[0].machine, written.program.function) == 1
    if decided or alone or session.kept or not open_to_it(*plain) or hidden_better(*plain):
        return ()
    other = _alternative(replace(written.inputs, persistent=True), session)
    other = other and _alternating(other, session)
    walking = other and (other.program, other.loops)
    if not other or not walking or (one is apart and not as_busy((written.program, written.loops), walking)):
        return ()
    if one is apart and one.cases != written.cases and other.program.tiles_in_flight == 1:
        return ()  # it hides nothing, in place of several thread blocks with other schedules
    why = faster(plain, walking)
    return (noted(replace(other, form=PERSISTENT), why),) if why else ()


def _alternating(walking: Generated, session: Session) -> Generated:
    """The persistent kernel, or one with several tiles in flight in place of one whose work several groups
    divide, where those are predicted to be clearly faster."""
    from twill.generation.choices.persistence import alternating_faster

    several = walking.program, walking.loops
    if (
        not walking.program.several_compute
        or walking.inputs.groups is not None
        or not alternating_faster(several)
    ):
        return walking
    other = _alternative(replace(walking.inputs, groups=FEWEST), session)
    return other if other and alternating_faster(several, (other.program, other.loops)) else walking


def _alternative(inputs: Inputs, session: Session) -> Generated | None:
    """Another form; None where it has no schedule or cannot be lowered."""
    try:
        return lowered(inputs, session)
    except TwillError:
        return None
