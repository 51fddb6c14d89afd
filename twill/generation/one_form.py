"""One form of a kernel: its loops scheduled, lowered to warp programs and timed on the CPU, with the
implementations of operations, the early MMAs, the loads and the stores that are predicted to be fastest.

`lowered` takes the inputs of the form and the session of the kernel. What is generated wrong is left out, and
the session keeps why.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from twill.diagnostics import DefectError
from twill.generation.attempt import Attempt
from twill.generation.attempts import fastest
from twill.generation.choices.early_mmas import early_mmas
from twill.generation.choices.independent import independent
from twill.generation.choices.multistage import multistage
from twill.generation.choices.stated import Stated
from twill.generation.coded import for_code
from twill.generation.generated import Generated, source
from twill.generation.known.given import fitting, refuse_foreign
from twill.generation.searches import Session, answered, answered_before, search_options
from twill.inputs import Case, Inputs, cases
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.warp.plan import Draft
from twill.warp.plan import Options as Lowering

SCHEDULED = "another schedule"
LOADING, STORING = "the form whose computing group loads", "the form whose warpgroups store by themselves"
"""What is left out where it is wrong, in words."""


def lowered(inputs: Inputs, session: Session) -> Generated:
    """One form, with the implementations of operations that are predicted to be fastest."""
    lowering, coded, loaded = (
        session.options.lowering,
        for_code(inputs, session.options.lowering),
        list[Attempt](),
    )
    stated = Stated(coded, cases(coded))
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
    beaten = before if one is not before else None
    if lowering.independent is None and lowering.tiles is None:  # one given: that of all warpgroups
        one = _unless_wrong(session, STORING, one, lambda it: independent(it, storing))
    inputs = replace(inputs, order=coded.order, pairs=coded.pairs)
    slower = (other for other in loaded if other.cases == one.cases and other.loops is not one.loops)
    return replace(
        _generated(inputs, one, source(one.program, one.loops)),
        loading=next((_generated(inputs, other, "") for other in slower), None),
        loading_apart=beaten and _generated(inputs, beaten, ""),
        several=first.several and _generated(inputs, first.several, ""),
    )


def _first(stated: Stated, session: Session) -> Attempt:
    """With the given schedules, or with those that are predicted to be fastest."""
    lowering = session.options.lowering

    def attempt(tried: Sequence[Case], room: int) -> Attempt:
        return _attempt(tried, session, replace(lowering, room=room))

    if session.kept:
        return attempt(tuple(map(session.as_kept, stated.loops)), 1)
    return fastest(stated.loops, attempt, session.slowest, lowering.most_blocks, stated)


def _unless_wrong(
    session: Session, form: str, one: Attempt, changed: Callable[[Attempt], Attempt]
) -> Attempt:
    """The attempt `changed`; as it is where that form is wrong, which the session keeps."""
    with suppress(DefectError), _leaving_out(session, form):
        return changed(one)
    return one


def _generated(inputs: Inputs, one: Attempt, cuda: str) -> Generated:
    return Generated(
        inputs, one.program, one.loops, one.results, cuda, one.dumps, one.cases, intervals=one.intervals
    )


def _attempt(
    found: Sequence[Case], session: Session, lowering: Lowering, given: Mapping[str, Result] | None = None
) -> Attempt:
    """The loops scheduled, or with the given schedules, lowered and simulated. Raises TwillError where a loop
    has no schedule or an operation cannot be lowered, and DefectError, which the session keeps, where the
    program is wrong."""
    from twill.generation.loop_nest import program
    from twill.targets.cuda.loads.tiled_form import launched_by_tma
    from twill.warp.validate import validate

    results = dict[str, Result]()
    general = search_options(session.options.time_limit, session)
    options = {case.name: case.searched(general) for case in found}

    def other(problem: Problem) -> Result | None:
        one = given.get(problem.name) if given else None
        return one if one and one.problem == problem else None

    def solve(problem: Problem) -> Result:
        kept, search = session.kept.get(problem.name), options[problem.name]
        results[problem.name] = (
            fitting(kept, problem)
            if kept
            else other(problem) or answered(problem, len(found), session, search)
        )
        return results[problem.name]

    def known(problem: Problem) -> Result | None:
        most = options[problem.name].max_in_flight
        before = session.kept or other(problem) or answered_before(problem, session, most)
        return solve(problem) if before else None

    dumps = dict[str, str]()

    def observe(name: str, draft: Draft) -> None:
        from twill.warp.dump import dumped

        if session.options.dump:
            dumps[f"{len(dumps):02}-{name}.txt"] = dumped(draft)

    form = LOADING if lowering.multistage else STORING if lowering.independent else SCHEDULED
    with _leaving_out(session, form):
        made, loops = program(found, solve, lowering, observe, known, given=bool(session.kept))
        if made.by_tma and not launched_by_tma(made):  # its slots are those of blocks that there will not be
            plain = replace(lowering, by_tma=False)
            made, loops = program(found, solve, plain, observe, known, given=bool(session.kept))
        validate(made, loops[0].machine.limits)
        one = Attempt(tuple(found), made, loops, results, dumps)
        one.cycles()
    return one


@contextmanager
def _leaving_out(session: Session, form: str) -> Generator[None]:
    """Keeps why a form is wrong."""
    try:
        yield
    except DefectError as wrong:
        session.left_out.append(f"{form} is left out: {wrong.message}; please report this")
        raise
