"""Schedules that the loops of a kernel can have beside each other, in one thread block.

`going_together` takes the results of loops alone and returns those that go together, with notes on what that
costs. No program is lowered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby

from twill.diagnostics import TwillError
from twill.engine.clock import Clock, Mark, own_clock
from twill.engine.clusters import clusters
from twill.engine.probe import Feasible
from twill.generation.choices import subtiles
from twill.generation.loop_nest import LEAST, NoScheduleError, Solver, on_shared_groups, sharing
from twill.inputs import Case
from twill.ir.problem import Problem
from twill.ir.schedule import Result, Solution
from twill.ir.search import Options as Search
from twill.pipeline import adopted, begun, restricted, up_to
from twill.verify import check
from twill.warp.alignment import CarriedSplitError

AGAIN = 0.25
"""Part of the time limit of each loop that its searches beside others have at least, together."""

Together = tuple[tuple[Result, ...], tuple[str, ...]]
"""Results of loops, and notes."""


def going_together(
    cases: Sequence[Case],
    results: Sequence[Result],
    search: Search,
    solve: subtiles.Solve,
    told: subtiles.Told = lambda loop, event: None,
    began: Mark | None = None,
    before: Sequence[Result] = (),
) -> Together:
    """Schedules of loops that one thread block can have for those of each kernel, and notes on what that
    costs.

    `results` are those of the loops alone. One stays where it goes with those before it; otherwise the loop
    is solved on their groups, as `loop_nest.program` does it: what the result alone excludes stays excluded.
    There is no search for what another one has answered. These searches have, together, what those of the
    loops alone, from `began` on, have left of the time limit of each loop, `AGAIN` of it at least, and
    `LEAST` of it each; they begin with the best of what was found `before` that keeps their rules. All
    results of a kernel stay where one is no schedule, and, with a note, where none were found that go
    together.
    """
    found = list[Together]()
    for _, some in groupby(zip(cases, results, strict=True), lambda one: _kernel(one[0])):
        own = {case.name: (case, result) for case, result in some}
        found.append(_of_one_kernel(_Searches(own, search, solve, told, began, before)))
    return tuple(chain(*(one for one, _ in found))), tuple(chain(*(notes for _, notes in found)))


@dataclass(slots=True)
class _Searches:
    """Searches for the loops of one kernel beside each other."""

    own: dict[str, tuple[Case, Result]]
    """The loops with what they have alone, by name."""
    search: Search
    solve: subtiles.Solve
    told: subtiles.Told
    before: Mark | None = None
    """When the searches for the loops alone began."""
    others: Sequence[Result] = ()
    """Results of other searches for loops."""
    clock: Clock = field(default_factory=own_clock)
    found: list[Result] = field(init=False)
    """All results, added to by each search."""
    began: Mark = field(init=False)
    seconds: float = field(init=False)
    """Counted seconds for all searches, each of which has a least one."""
    limited: list[tuple[Result, float]] = field(default_factory=list[tuple[Result, float]])
    """Results of searches with their time limits."""

    def __post_init__(self) -> None:
        self.found = [result for _, result in self.own.values()]
        self.began = self.clock.mark()
        limit = self.search.time_limit * len(self.own)
        spent = self.clock.since(self.before) if self.before else 0.0
        self.seconds = max(AGAIN * limit, limit - spent)

    def known(self, problem: Problem) -> Result | None:
        """A result that needs no search."""
        case, alone = self.own[problem.name]
        of_loop = problem == case.problem and _within(problem, alone.problem)
        return alone if of_loop or problem == alone.problem else None

    def solved(self, problem: Problem) -> Result:
        """A result that is known, or is searched for in the time that is left."""
        case, alone = self.own[problem.name]
        options = replace(case.searched(self.search), time_limit=self._limit())
        answer = self._answered(problem, options, alone)
        if answer is None:
            report = partial(self.told, case.name)
            wider = _within(problem, alone.problem)
            known = restricted(problem, options, report, alone) if wider else begun(problem, options, report)
            known = replace(known, made=self._best(problem, known.made))
            answer = self.solve(replace(case, problem=problem), options, known)
            self.limited.append((answer, options.time_limit))
        self.found.append(answer)
        return answer

    def _best(self, problem: Problem, made: Solution | None) -> Solution | None:
        """The best schedule that keeps the rules of a problem: what is made for it, or what was found."""
        best = made
        alike = (one for one in (*self.found, *self.others) if one.problem.operations == problem.operations)
        for found in (one.solution for one in alike if one.solution):
            if (best is None or found.interval < best.interval) and not check(problem, found):
                best = found
        return best

    def faster(self, problem: Problem, result: Result) -> bool:
        """Whether the problem has a schedule of a smaller interval, for what a short search finds."""
        assert result.solution is not None
        short = replace(self.search, time_limit=LEAST * self.search.time_limit)
        options = self.own[problem.name][0].searched(short)
        least = up_to(problem, result.solution.interval - 1, options, lambda event: None, best=False)
        return isinstance(least, Feasible)

    def _limit(self) -> float:
        limit = self.search.time_limit
        left = self.seconds - self.clock.since(self.began)
        return max(LEAST * limit, min(limit, left))

    def _answered(self, problem: Problem, options: Search, alone: Result) -> Result | None:
        proven = [one for one in self.found if one.status in ("optimal", "infeasible")]
        enough = (one for one, limit in self.limited if limit >= options.time_limit)
        same = next((one for one in (*proven, *enough) if one.problem == problem), None)
        of_loop = [one for one in self.found if one.problem.name == problem.name]
        wider = _within(problem, alone.problem)
        adopting = adopted(problem, options, alone, of_loop) if wider else None
        return self.known(problem) or same or adopting


def _of_one_kernel(searches: _Searches) -> Together:
    cases = [case for case, _ in searches.own.values()]
    results = tuple(result for _, result in searches.own.values())
    if any(case.module is None for case in cases) or not all(one.solution for one in results):
        return results, ()
    solver = Solver(searches.solved, searches.known, searches.faster)
    try:
        made = sharing(cases, partial(on_shared_groups, solver=solver))
    except (NoScheduleError, CarriedSplitError) as refused:
        return results, (f"no schedules were found that go together: {refused.message}",)
    except TwillError as refused:  # code outside of the loops that no kernel is generated for
        return results, (f"whether these schedules go together is not known: {refused.message}",)
    chosen = (next(one for one in searches.found if one.solution is loop.solution) for loop, _ in made)
    return tuple(chosen), tuple(note for _, notes in made for note in notes)


def _within(problem: Problem, wider: Problem) -> bool:
    """Whether what is together in the wider problem of the same loop is so in this one."""
    cluster = clusters(problem).of
    return all(len({cluster[problem.index(op)] for op in same}) == 1 for same in wider.together)


def _kernel(case: Case) -> str:
    return case.name.partition("/")[0]
