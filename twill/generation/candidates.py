"""The forms that a kernel may have: as it is written, with sub-tiles, persistent.

`candidates` takes `Inputs` and returns the forms that are predicted to be worth it, the fastest first. Loops
are scheduled and lowered to warp programs (`loop_nest`); nothing is checked or built. A form that the user
has decided on is the only one of its kind.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import inf
from typing import TYPE_CHECKING

from twill.diagnostics import DefectError, TwillError
from twill.engine.clock import own_clock
from twill.generation.attempts import (
    PASSES,
    Attempt,
    computing,
    divided_in_vain,
    fastest,
    least_of_sm,
    time_of_sm,
    walks,
)
from twill.generation.choices.early_mmas import early_mmas
from twill.generation.choices.independent import independent
from twill.generation.choices.multistage import multistage
from twill.generation.choices.persistence import SHORT
from twill.generation.choices.stated import Stated
from twill.generation.choices.subtiles import COUNT, GAIN, MORE_WARPS, SPILLS, better, divided, note
from twill.generation.choices.subtiles import searched as of_both_forms
from twill.generation.generated import (
    Generated,
    GenerateOptions,
    ProgressCallback,
    noted,
    pace_of_sm,
    source,
    warned,
)
from twill.generation.known.alike import carried, shape
from twill.generation.known.given import divided_waits, fitting, given, matching, refuse_foreign
from twill.generation.loop_nest import FEWEST, LEAST, NoScheduleError
from twill.generation.refusals import refusals
from twill.inputs import Case, Inputs, cases
from twill.ir.problem import Problem
from twill.ir.schedule import WARPGROUP, Result, Solution
from twill.ir.search import IN_FLIGHT, Options, Progress
from twill.warp.plan import Draft, most_blocks
from twill.warp.plan import Options as Lowering

if TYPE_CHECKING:
    from twill.extract.frontend.persistent import Order
    from twill.pipeline import Begun

DIVIDED, PERSISTENT = "divided into sub-tiles", "made persistent"
SCHEDULED = "another schedule"
LOADING, STORING = "the form whose computing group loads", "the form whose warpgroups store by themselves"
"""What is left out where it is wrong, in words."""
FORMS = {True: 2, False: 1}
"""Time limits that the searches for a loop have together, in all forms of the kernel, with and without
proofs."""
ORDERS: Mapping[bool | None, "Order"] = {True: "claimed", False: "mirrored"}
"""Of the programs of a persistent kernel, where the user says whether thread blocks claim them."""
JOINED = "one group that computes"
LOADS_TOO = "the group that computes loads too"
TIGHT = "in as few registers"
JOINING = 1.2
"""How many times as long a thread block of several groups that compute has to take as one of a single group
of `MORE_WARPS` (estimate; what one group in place of several was predicted to gain, and gained when
measured, see `attempts.PASSES`)."""
TIGHTER = 1.2
"""How many times as long twice the warps have to take as the warps that a kernel has, with tiles in as few
registers (estimate)."""

Solve = Callable[[Problem, Options, ProgressCallback, "Begun | None"], Result]
"""A search, from what is known already."""


def solved(
    problem: Problem, search: Options, on_progress: ProgressCallback, known: "Begun | None" = None
) -> Result:
    """The result for the implementation that the problem has: which one is best follows from the programs."""
    from twill.pipeline import among_implementations, solve

    def report(event: Progress) -> None:
        on_progress(problem.name, event)

    if not problem.implementations:
        return solve(problem, search, report, known)
    return among_implementations(solve(replace(problem, implementations=()), search, report), problem)


@dataclass(frozen=True, slots=True)
class _Session:
    """What is the same for all forms of one kernel."""

    options: GenerateOptions
    on_progress: ProgressCallback
    solve: Solve
    kept: Mapping[str, Result]
    """The given schedules, by the names of the loops."""
    searched: list[Result]
    """What every search has found, added to by each."""
    slowest: float = inf
    """Machine cycles of an SM, for an iteration of each loop, that are of interest."""
    seconds: list[float] = field(default_factory=list[float])
    """How long each search took."""
    early: dict[Solution, Solution] = field(default_factory=dict[Solution, Solution])
    """Schedules with MMAs that start early, by those that were searched."""
    left_out: list[str] = field(default_factory=list[str])
    """Which forms are left out because they are generated wrong, and why, added to by each."""

    def as_kept(self, case: Case) -> Case:
        """The loop with waits inside of elementwise operations where its given schedule has them."""
        kept = self.kept.get(case.name)
        return replace(case, problem=case.divided) if kept and case.divided and divided_waits(kept) else case


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
    session = _Session(options, on_progress, solve, given(options.schedules), list(searched), slowest)
    if session.kept:
        inputs = matching(inputs, session.kept)
    written = _as_written(replace(inputs, persistent=bool(inputs.persistent)), session)
    forms = (*_persistent_if_faster(inputs, session, written[0]), *written)
    forms = tuple(replace(one, searched=tuple(session.searched)) for one in forms)
    if wrong := dict.fromkeys(session.left_out):
        forms = tuple(warned(one, *wrong) for one in forms)
    return forms


def _as_written(inputs: Inputs, session: _Session) -> tuple[Generated, ...]:
    """The kernel with whole tiles, and before it that with sub-tiles where its loops are faster so."""
    decided = inputs.subtile is not None or inputs.pins is not None
    if not decided and (alone := _sub_tiles_alone(inputs, session)):
        return alone
    try:
        whole = _lowered(replace(inputs, subtile=inputs.subtile or 1), session)
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


def _sub_tiles_alone(inputs: Inputs, session: _Session) -> tuple[Generated, ...]:
    """The kernel with sub-tiles where whole tiles are proven to take too long beside them; else nothing. What
    is searched for that is not searched again. Nor where their groups wait for each other, so that they take
    longer than the schedules that the proof is of. Loops that are known to be short have no such proof: their
    iterations hardly overlap, and intervals say little. (Sparse VideoGen's _euclid_assign_kernel on an H200,
    two iterations: intervals of 3890 with sub-tiles and 4776 without, which compute a row of norms once
    rather than for each sub-tile; 0.457 and 0.415 ms.)"""

    def solve(case: Case, search: Options, known: "Begun | None") -> Result:
        def fresh() -> Result:
            return session.solve(case.problem, search, session.on_progress, known)

        return _known(case.problem, session, search.max_in_flight) or _kept(fresh, session)

    stated = _for_code(inputs, session)
    try:
        whole = cases(replace(stated, subtile=1))
        if all(map(_short, whole)):
            return ()
        search = _options(session.options.time_limit, session)
        found = (
            None if any(refusals(whole)) else of_both_forms(stated, whole, search, solve, session.on_progress)
        )
    except TwillError:
        return ()
    if found is None or not found.alone:
        return ()
    made = _alternative(replace(inputs, subtile=COUNT), session)
    if made is None or pace_of_sm(made) > PASSES * found.cycles:
        return ()
    return (noted(replace(made, form=DIVIDED), found.note),)


def _short(case: Case) -> bool:
    return case.most_trips is not None and case.most_trips < SHORT


def _with_sub_tiles(inputs: Inputs, session: _Session, before: float) -> tuple[Generated, ...]:
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


def _joined(inputs: Inputs, session: _Session, whole: Generated) -> tuple[Generated, ...]:
    """The kernel with one group of twice the warps that computes, where several groups divide the work of the
    only thread block on an SM in vain: as many warps as theirs hold as many tiles, and pass none to each
    other. Nothing where it is not predicted to be clearly faster."""
    first = Attempt(whole.cases, whole.program, whole.loops, whole.results, whole.dumps)
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


def _least_of_sm(inputs: Inputs, session: _Session) -> float:
    """Machine cycles of an SM for an iteration of each loop at least; 0 where they can not be stated."""
    try:
        return least_of_sm(cases(_for_code(inputs, session)))
    except TwillError:
        return 0.0


def _in_few_registers(
    inputs: Inputs, session: _Session, wide: tuple[Generated, ...]
) -> tuple[Generated, ...]:
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


def _with_more_warps(inputs: Inputs, session: _Session, refused: TwillError) -> tuple[Generated, ...]:
    """The kernel with whole tiles and twice the warps, where its loops have no schedule otherwise: each
    thread holds half as much."""
    if not isinstance(refused, NoScheduleError) or session.kept or inputs.warps is not None:
        return ()
    made = _alternative(replace(inputs, subtile=inputs.subtile or 1, warps=MORE_WARPS), session)
    return () if made is None else (noted(made, f"{MORE_WARPS} warps: otherwise {refused.message}"),)


def _spilling(inputs: Inputs, session: _Session, refused: TwillError) -> tuple[Generated, ...]:
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
            made = _lowered(replace(whole, spills=times, warps=held), session)
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


def _loading_too(inputs: Inputs, session: _Session, refused: TwillError) -> tuple[Generated, ...]:
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


def _persistent_if_faster(inputs: Inputs, session: _Session, written: Generated) -> tuple[Generated, ...]:
    """The persistent kernel, where that is open and predicted to be faster than as it is `written`, and than
    with a group that loads, where a thread block of that form has an SM for itself: tiles in flight hide what
    it waits for, as several thread blocks that load for themselves do. (On an H200, vLLM's fused MoE in fp8
    in tiles of 64 x 128 x 128: three such thread blocks 0.452 ms, two tiles in flight 0.354.) Not where a
    kernel has the warps that it is written for, less than a warpgroup: others compute copies beside them.
    (fla's gated delta rule of two warps: 0.99 of Triton's speed, and 0.75 with two tiles in flight.)"""
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
    walking = other and (other.program, other.loops)
    if not other or not walking or (one is apart and not as_busy((written.program, written.loops), walking)):
        return ()
    why = faster(plain, walking)
    return (noted(replace(other, form=PERSISTENT), why),) if why else ()


def _alternative(inputs: Inputs, session: _Session) -> Generated | None:
    """Another form; None where it has no schedule or cannot be lowered."""
    try:
        return _lowered(inputs, session)
    except TwillError:
        return None


def _lowered(inputs: Inputs, session: _Session) -> Generated:
    """One form, with the implementations of operations that are predicted to be fastest."""
    lowering, for_code, loaded = session.options.lowering, _for_code(inputs, session), list[Attempt]()
    stated = Stated(for_code, cases(for_code))
    refuse_foreign(session.kept, [case.problem.name for case in stated.loops])
    if lowering.multistage:
        stated = replace(stated, loops=stated.as_written() or stated.loops)

    def rescheduled(results: Mapping[str, Result]) -> Attempt:
        return _attempt(first.cases, session, replace(lowering, room=first.program.resident_blocks), results)

    def loading(tried: Sequence[Case]) -> Attempt:
        loaded.append(_attempt(tried, session, replace(lowering, multistage=True)))
        return loaded[-1]

    def storing(tried: Sequence[Case]) -> Attempt:
        return _attempt(tried, session, replace(lowering, independent=True))

    one = first = _first(stated, session)
    if not session.kept:
        one = _unless_wrong(session, SCHEDULED, one, lambda it: early_mmas(it, rescheduled, session.early))
    before = one
    if lowering.multistage is None:
        others = None if session.kept else stated
        one = _unless_wrong(session, LOADING, one, lambda it: multistage(it, loading, others))
    beaten = before if one is not before and one.cases == before.cases else None
    if lowering.independent is None and lowering.tiles is None:  # one given: that of all warpgroups
        one = _unless_wrong(session, STORING, one, lambda it: independent(it, storing))
    inputs = replace(inputs, order=for_code.order, pairs=for_code.pairs)
    slower = (other for other in loaded if other.cases == one.cases and other.loops is not one.loops)
    return replace(
        _generated(inputs, one, source(one.program, one.loops)),
        loading=next((_generated(inputs, other, "") for other in slower), None),
        loading_apart=beaten and _generated(inputs, beaten, ""),
        several=first.several and _generated(inputs, first.several, ""),
    )


def _first(stated: Stated, session: _Session) -> Attempt:
    """With the given schedules, or with those that are predicted to be fastest."""
    lowering = session.options.lowering

    def attempt(tried: Sequence[Case], room: int) -> Attempt:
        return _attempt(tried, session, replace(lowering, room=room))

    if session.kept:
        return attempt(tuple(map(session.as_kept, stated.loops)), 1)
    return fastest(stated.loops, attempt, session.slowest, lowering.most_blocks, stated)


def _unless_wrong(
    session: _Session, form: str, one: Attempt, changed: Callable[[Attempt], Attempt]
) -> Attempt:
    """The attempt `changed`; as it is where that form is wrong, which the session keeps."""
    with suppress(DefectError), _leaving_out(session, form):
        return changed(one)
    return one


def _generated(inputs: Inputs, one: Attempt, cuda: str) -> Generated:
    return Generated(
        inputs, one.program, one.loops, one.results, cuda, one.dumps, one.cases, intervals=one.intervals
    )


def _for_code(inputs: Inputs, session: _Session) -> Inputs:
    """The inputs whose loops are scheduled for generated code."""
    from twill.targets import EXACT_LAYOUTS

    lowering = session.options.lowering
    together = lowering.pairs or lowering.cluster > 1
    order = "neighbours" if together else ORDERS.get(lowering.dynamic, inputs.order)
    return replace(
        inputs,
        order=order,
        pairs=lowering.pairs,
        own_descriptors=True,
        exact_layouts=EXACT_LAYOUTS,
    )


def _attempt(
    found: Sequence[Case], session: _Session, lowering: Lowering, given: Mapping[str, Result] | None = None
) -> Attempt:
    """The loops scheduled, or with the given schedules, lowered and simulated. Raises TwillError where a loop
    has no schedule or an operation cannot be lowered, and DefectError, which the session keeps, where the
    program is wrong."""
    from twill.generation.loop_nest import program
    from twill.targets.cuda.loads.tiled_form import launched_by_tma
    from twill.warp.validate import validate

    results = dict[str, Result]()
    general = _options(session.options.time_limit, session)
    options = {case.name: case.searched(general) for case in found}

    def other(problem: Problem) -> Result | None:
        one = given.get(problem.name) if given else None
        return one if one and one.problem == problem else None

    def solve(problem: Problem) -> Result:
        kept, search = session.kept.get(problem.name), options[problem.name]
        results[problem.name] = (
            fitting(kept, problem)
            if kept
            else other(problem) or _searched(problem, len(found), session, search)
        )
        return results[problem.name]

    def known(problem: Problem) -> Result | None:
        most = options[problem.name].max_in_flight
        before = session.kept or other(problem) or _known(problem, session, most)
        return solve(problem) if before else None

    dumps = dict[str, str]()

    def observe(name: str, draft: Draft) -> None:
        from twill.warp.dump import dumped

        if session.options.dump:
            dumps[f"{len(dumps):02}-{name}.txt"] = dumped(draft)

    form = LOADING if lowering.multistage else STORING if lowering.independent else SCHEDULED
    with _leaving_out(session, form):
        made, loops = program(found, solve, lowering, observe, known)
        if made.by_tma and not launched_by_tma(made):  # its slots are those of blocks that there will not be
            made, loops = program(found, solve, replace(lowering, by_tma=False), observe, known)
        validate(made, loops[0].machine.limits)
        one = Attempt(tuple(found), made, loops, results, dumps)
        one.cycles()
    return one


@contextmanager
def _leaving_out(session: _Session, form: str) -> Generator[None]:
    """Keeps why a form is wrong."""
    try:
        yield
    except DefectError as wrong:
        session.left_out.append(f"{form} is left out: {wrong.message}; please report this")
        raise


def _searched(problem: Problem, loops: int, session: _Session, search: Options) -> Result:
    """The result of a search; that of a problem which is alike is taken again, as is that with more shared
    memory where it fits."""
    if found := _known(problem, session, search.max_in_flight):
        return found
    limit = search.time_limit
    left = FORMS[session.options.proofs] * limit * loops - sum(session.seconds)
    search = replace(search, time_limit=max(LEAST * limit, min(limit, left)))
    with_more = _with_more_memory(problem, session, search.max_in_flight)
    if with_more is not None and _holds(with_more):
        return _kept(lambda: with_more, session)
    known = with_more and _restricted(problem, search, session, with_more)
    return _kept(partial(session.solve, problem, search, session.on_progress, known), session)


def _with_more_memory(problem: Problem, session: _Session, in_flight: int | None) -> Result | None:
    """The result of a search for the problem with more shared memory, if any, as one for the problem: every
    schedule of this one is one of that, so what was excluded stays so."""
    wanted, limits = shape(problem), problem.limits
    for one in session.searched:
        other = one.problem.limits
        only_more = other.shared > limits.shared and replace(other, shared=limits.shared) == limits
        if only_more and _considered(one, in_flight) and shape(replace(one.problem, limits=limits)) == wanted:
            return carried(one, problem)
    return None


def _holds(found: Result) -> bool:
    """Whether a result is right, and an answer."""
    from twill.verify import check_result

    return found.status != "unknown" and not check_result(found, in_flight=found.max_in_flight)


def _restricted(problem: Problem, search: Options, session: _Session, wider: Result) -> "Begun":
    """What is known of a problem, with what a search has excluded that had more memory."""
    from twill.pipeline import restricted

    def report(event: Progress) -> None:
        session.on_progress(problem.name, event)

    return restricted(replace(problem, implementations=()), search, report, wider)


def _known(problem: Problem, session: _Session, in_flight: int | None) -> Result | None:
    """The result of a search for a problem that is alike, with as many iterations in flight; None where there
    was none."""
    wanted, count = shape(problem), len(problem.operations)
    found = (one for one in session.searched if len(one.problem.operations) == count)
    return next(
        (
            carried(one, problem)
            for one in found
            if _considered(one, in_flight) and shape(one.problem) == wanted
        ),
        None,
    )


def _considered(found: Result, in_flight: int | None) -> bool:
    """Whether a search considered so many iterations in flight; None: those that it considers by itself."""
    return found.max_in_flight >= IN_FLIGHT if in_flight is None else found.max_in_flight == in_flight


def _options(seconds: float, session: _Session) -> Options:
    options = session.options
    return Options(
        time_limit=seconds, max_in_flight=options.max_in_flight, explain=False, proofs=options.proofs
    )


def _kept(search: Callable[[], Result], session: _Session) -> Result:
    """The result of a search, which is kept, with the time that it took."""
    clock = own_clock()
    began = clock.mark()
    found = search()
    session.searched.append(found)
    session.seconds.append(clock.since(began))
    return found
