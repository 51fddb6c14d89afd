"""Searches for the loops of one kernel, in all its forms: none is made twice.

A `Session` has what is the same for all forms. `answered` gives the result of a search, or that of an earlier
one of a problem that is alike, within the time that the searches have together.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from twill.engine.clock import own_clock
from twill.engine.parallel import at_once
from twill.generation.generated import GenerateOptions, ProgressCallback
from twill.generation.known.alike import carried, shape
from twill.generation.known.given import divided_waits
from twill.generation.loop_nest import LEAST
from twill.inputs import Case
from twill.ir.problem import Problem
from twill.ir.schedule import Result, Solution
from twill.ir.search import IN_FLIGHT, JOBS, Options, Progress

if TYPE_CHECKING:
    from twill.pipeline import Begun

FORMS = {True: 2, False: 1}
"""Time limits that the searches for a loop have together, in all forms of the kernel, with and without
proofs."""


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
class Session:
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


def answered(problem: Problem, loops: int, session: Session, search: Options) -> Result:
    """The result of a search; that of a problem which is alike is taken again, as is that with more shared
    memory where it fits. A search goes on from the schedule of one with less."""
    if found := answered_before(problem, session, search.max_in_flight):
        return found
    limit = search.time_limit
    left = FORMS[session.options.proofs] * limit * loops - sum(session.seconds)
    search = replace(search, time_limit=max(LEAST * limit, min(limit, left)))
    with_more = _with_more_memory(problem, session, search.max_in_flight)
    if with_more is not None and _holds(with_more):
        return remembered(lambda: with_more, session)
    less = _with_less_memory(problem, session, search.max_in_flight)
    known = _begun(problem, search, session, with_more, less) if with_more or less else None
    return remembered(partial(session.solve, problem, search, session.on_progress, known), session)


def answered_before(problem: Problem, session: Session, in_flight: int | None) -> Result | None:
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


def _with_more_memory(problem: Problem, session: Session, in_flight: int | None) -> Result | None:
    """The result of a search for the problem with more shared memory, if any, as one for the problem: every
    schedule of this one is one of that, so what was excluded stays so."""
    shared = problem.limits.shared
    found = _with_other_memory(problem, session, lambda other: other > shared)
    return next((one for one in found if _considered(one, in_flight)), None)


def _with_less_memory(problem: Problem, session: Session, in_flight: int | None) -> Solution | None:
    """The best schedule that searches for the problem with less shared memory have found, if any, which is
    one of the problem: of a loop of many operations it takes seconds to find any."""
    shared = problem.limits.shared
    found = _with_other_memory(problem, session, lambda other: other < shared)
    fitting = (one.solution for one in found if _considered(one, in_flight) and _holds(one))
    return min(filter(None, fitting), key=lambda one: one.interval, default=None)


def _with_other_memory(problem: Problem, session: Session, wanted: Callable[[int], bool]) -> Iterator[Result]:
    """The results of searches for the problem with other bytes of shared memory, as ones for the problem."""
    own, limits = shape(problem), problem.limits
    for one in session.searched:
        other = one.problem.limits
        alike = wanted(other.shared) and replace(other, shared=limits.shared) == limits
        if alike and shape(replace(one.problem, limits=limits)) == own:
            yield carried(one, problem)


def _holds(found: Result) -> bool:
    """Whether a result is right, and an answer."""
    from twill.verify import check_result

    return found.status != "unknown" and not check_result(found, in_flight=found.max_in_flight)


def _begun(
    problem: Problem, search: Options, session: Session, wider: Result | None, made: Solution | None
) -> "Begun":
    """What is known of a problem without a solver: with what a search has excluded that had more memory, and
    with a schedule, where none is constructed that is as good."""
    from twill.pipeline import begun

    def report(event: Progress) -> None:
        session.on_progress(problem.name, event)

    known = begun(replace(problem, implementations=()), search, report)
    both = filter(None, (known.made, made))
    return replace(known, wider=wider, made=min(both, key=lambda one: one.interval, default=None))


def search_options(seconds: float, session: Session) -> Options:
    options = session.options
    return Options(
        time_limit=seconds,
        max_in_flight=options.max_in_flight,
        explain=False,
        jobs=at_once(JOBS),
        proofs=options.proofs,
    )


def remembered(search: Callable[[], Result], session: Session) -> Result:
    """The result of a search, which is kept, with the time that it took."""
    clock = own_clock()
    began = clock.mark()
    found = search()
    session.searched.append(found)
    session.seconds.append(clock.since(began))
    return found
