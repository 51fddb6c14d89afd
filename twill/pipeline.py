"""The pipeline as functions: a problem in, a checked result out.

`solve` checks every answer before anybody sees it: every result of an engine passes `twill.verify` first.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

from twill.diagnostics import TwillError
from twill.engine.clock import Mark, own_clock
from twill.engine.decode import channels
from twill.engine.probe import Outcome, Refuted
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Considered, Result, Solution
from twill.ir.search import Options, Progress, Report, Use
from twill.modulo.simplest import proven
from twill.modulo.start import MOST, Start, bound_name, start

LARGE = 48
"""Operations above which a rough answer is constructed before the solvers start."""

STATED = 2000
"""Operations above which no solver is started: stating the rules takes longer than any limit."""

SYMMETRIC = 300
"""Operations up to which sub-tiles are looked for."""

CHECKED = 25_000
"""Operations of schedules that are checked in a second of an idle core, about: a rough answer is given up
after so much work, not time, so that it does not depend on how busy the machine is."""

PATIENCE = 0.1
"""Part of the time limit that a rough answer may take."""

NEAR = 8
"""A schedule for a small loop is constructed up to this part above the lower bound ..."""

FEW = 10_000
"""... by placing so many operations at most, which takes less than a second."""

LAST_RESORT = 0.4
"""The same where nothing else has given an answer."""

LEAST = 2.0
"""Seconds for a rough answer at least, however short the time limit: that takes a tenth of one on an idle
core, and without it there may be no answer."""


LONGEST = 20.0
"""Seconds of its own thread that a rough answer may take where nothing else has given one: other work on the
machine does not count."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What is known of a loop without a solver."""

    start: Start
    made: Solution | None = None
    """A schedule."""
    spent: float = 0.0
    """Seconds of the time limit that are gone."""
    wider: Result | None = None
    """The result of a problem of which every schedule of this one is a schedule: what it excludes stays
    excluded."""
    use: Use = field(default_factory=Use)
    """Which schedules are of use."""

    @property
    def at_bound(self) -> bool:
        return self.made is not None and self.made.interval == self.start.low


def solve(
    problem: Problem,
    options: Options | None = None,
    report: Report = lambda event: None,
    known: Begun | None = None,
) -> Result:
    """The schedule of smallest interval, verified. `known`: what is known of it already.

    Raises `TwillError` if an answer breaks a rule or claims more than its evidence shows (a defect of Twill,
    never of the input).
    """
    from twill.verify import check_result

    options = options or Options()
    result = (
        _chosen(problem, options, report, own_clock().mark(known.spent if known else 0.0))
        if problem.implementations
        else _found(problem, options, report, known)
    )
    broken = check_result(result, joint=not options.modulo_only, in_flight=result.max_in_flight)
    if broken:
        raise TwillError(
            "the engine's answer breaks a rule: " + "; ".join(map(str, broken[:5])), help="please report this"
        )
    return result


def _chosen(problem: Problem, options: Options, report: Report, began: Mark) -> Result:
    """The best implementation: each is searched whose bound is below the best answer so far, those with the
    lowest bounds first, and within the same time limit altogether, which counts from `began` on."""
    joint = not options.modulo_only
    members = [problem.implemented(one.name) for one in problem.implementations]
    begins = {one.implementation: start(one, joint=joint) for one in members}
    best, known = None, dict[str, Considered]()
    for count, one in enumerate(sorted(members, key=lambda one: begins[one.implementation].low)):
        name, begin = one.implementation, begins[one.implementation]
        if best is not None and best.solution is not None and begin.low >= best.solution.interval:
            known[name] = Considered(name, begin.low, begin.refuted[-1].by)
            continue
        left = own_clock().left(options.seconds, began) / (1 if count else 2)
        report(Progress(began.ago, "choice", begin.low, "note", name))
        found = _found(one, replace(options, reserved=options.time_limit - max(MOMENT, left)), report)
        known[name] = Considered(name, found.proved, _shown(found))
        best = found if best is None or _better(found, best) else best
    assert best is not None
    considered = tuple(known[one.implementation] for one in members if one.implementation in known)
    return _concluded(
        best, tuple(one for one in considered if one.implementation != best.problem.implementation)
    )


def among_implementations(found: Result, problem: Problem, *, joint: bool = True) -> Result:
    """The answer to one implementation as an answer to the choice that `problem` has: of the others their
    bounds are stated, without a search."""
    others = (one.name for one in problem.implementations if one.name != problem.implementation)
    begins = {name: start(problem.implemented(name), joint=joint) for name in others}
    considered = tuple(
        Considered(name, one.bounds.value, bound_name(one.bounds)) for name, one in begins.items()
    )
    return _concluded(replace(found, problem=problem), considered)


MOMENT = 1.0
"""Seconds that the search of an implementation has at least."""


def _better(one: Result, other: Result) -> bool:
    if one.solution is None:
        return other.status == "infeasible" and one.status == "unknown"
    return other.solution is None or one.solution.interval < other.solution.interval


def _shown(result: Result) -> str:
    """What shows that no interval below the proved one works."""
    return max(result.refuted, key=lambda one: one.interval).by if result.refuted else "ResMII none"


def _concluded(best: Result, considered: tuple[Considered, ...]) -> Result:
    """The best answer with what is known of the other implementations: it is optimal where none of them can
    be better."""
    proved = min((best.proved, *(one.proved for one in considered)))
    if best.status != "optimal" or best.solution is None or proved >= best.solution.interval:
        return replace(best, considered=considered)
    return replace(best, considered=considered, status="feasible", proved=proved)


def begun(problem: Problem, options: Options, report: Report, spent: float = 0.0) -> Begun:
    """The lower bounds, and the schedule at them that is constructed and keeps every rule, if any; of a
    choice of implementations nothing is constructed. `spent`: seconds of the time limit that are gone."""
    began = own_clock().mark(spent)
    begin = start(problem, joint=not options.modulo_only)
    hopeless = begin.infeasible or problem.implementations
    made = None if hopeless else _constructed(problem, options, begin, report, _late(options.seconds - spent))
    return Begun(begin, made, own_clock().since(began))


def restricted(problem: Problem, options: Options, report: Report, wider: Result) -> Begun:
    """What is known of a problem of which every schedule is one of that with the result `wider`."""
    return replace(begun(problem, options, report), wider=wider)


def adopted(problem: Problem, options: Options, wider: Result, found: Iterable[Result]) -> Result | None:
    """The answer of a problem of which every schedule is one of that with the result `wider`, where a
    schedule that was `found` for another one keeps its rules too, and none can be better."""
    from twill.verify import check, check_result

    joint = not options.modulo_only
    for one in () if problem.implementations else found:
        solution = one.solution
        if solution is None or solution.interval > wider.proved or check(problem, solution, joint=joint):
            continue
        begin, most = start(problem, joint=joint), max(wider.max_in_flight, solution.in_flight(problem))
        answer = replace(begin.met(problem, options, solution), max_in_flight=most, notes=one.notes)
        answer = replace(answer, proved=solution.interval, refuted=(*begin.refuted, *wider.refuted))
        if not check_result(answer, joint=joint, in_flight=most):
            return replace(answer, reasons=wider.reasons)
    return None


def soon(problem: Problem, options: Options, report: Report, known: Begun) -> Begun:
    """With a schedule at the lower bound where a solver finds one at once, which is not verified."""
    small = len(problem.operations) <= LARGE and not problem.implementations
    if known.made or known.start.infeasible or not small or options.engine != "auto":
        return known
    from twill.smt import search

    began = own_clock().mark(known.spent)
    made = search.at_bound(problem, options, report, known.start, began)
    return replace(known, made=made, spent=own_clock().since(began))


def up_to(problem: Problem, highest: Time, options: Options, report: Report, *, best: bool = True) -> Outcome:
    """A schedule whose interval is at most `highest`, the best one or any, not verified; `Refuted` where
    there is none."""
    begin = start(problem, joint=not options.modulo_only)
    if begin.low > highest:
        return Refuted()
    from twill.smt import search

    return search.up_to(problem, options, report, begin, highest, best=best)


def _found(problem: Problem, options: Options, report: Report, known: Begun | None = None) -> Result:
    """By the bounds alone where they decide, or by construction where that meets them; the solvers are
    imported only after that."""
    began = own_clock().mark(known.spent if known else 0.0)
    known = known or begun(problem, options, report)
    begin, made = known.start, known.made
    report(Progress(began.ago, "bounds", begin.low, "note", f"at least {begin.low}"))
    if begin.infeasible:
        return begin.result(problem, options)
    if made is not None and known.at_bound and _simplest(problem, options, begin, made):
        return begin.met(problem, options, made)
    count = len(problem.operations)
    late = _late(options.seconds - own_clock().since(began))
    soon = _soon(problem, options, begin, report, began) if count <= STATED else ()
    rough = None
    if count > LARGE and made is None:
        rough = _rough(problem, options, begin, report, late, soon=soon)
    if count > STATED:
        result = begin.undecided(problem, options, f"{count} operations are too many for a solver")
    else:
        from twill.smt.search import search

        small = count <= LARGE and made is None
        reserve = partial(_in_reserve, problem, options, begin) if small else lambda: None
        made = made or rough
        result = search(problem, options, report, begin, made, began, known.wider, reserve, known.use)
    if result.status == "unknown" and rough is None:
        end = time.thread_time() + LONGEST
        rough = _rough(problem, options, begin, report, lambda: time.thread_time() > end, LAST_RESORT)
    return result if rough is None else _or_rough(result, rough)


def _or_rough(result: Result, rough: Solution) -> Result:
    """The result with a rough answer where it has none as good."""
    if result.solution is not None and result.solution.interval <= rough.interval:
        return result
    optimal = result.proved >= rough.interval
    note = "a first answer, constructed without a solver; others may be faster and simpler"
    return replace(
        result,
        status="optimal" if optimal else "feasible",
        solution=rough,
        notes=(*result.notes, note),
    )


def _late(seconds: float) -> Callable[[], bool]:
    """Whether construction, from now on, has had its thread's processor for so long, `LEAST` at least."""
    end = time.thread_time() + max(LEAST, seconds)
    return lambda: time.thread_time() > end


def _rough(
    problem: Problem,
    options: Options,
    begin: Start,
    report: Report,
    late: Callable[[], bool],
    patience: float = PATIENCE,
    soon: Iterable[Solution] = (),
) -> Solution | None:
    """A first answer, mostly at an interval that is not the smallest: the best of the ways to construct one
    and of `soon`, the last ones of which are spared where one is at the lower bound."""
    from twill.modulo.constructive import rising, shifted, slowly
    from twill.smt.symmetry import families

    if options.engine != "auto":
        return None
    joint, most = not options.modulo_only, begin.max_in_flight(options)
    alike = families(problem) if joint and len(problem.operations) <= SYMMETRIC else ()
    lowest, *higher = slowly(begin.low)
    ways = (
        rising(problem, begin.low, begin.top, most, joint=joint, late=late),
        shifted(problem, (lowest,), most, alike, late),
        soon if alike else (),
        shifted(problem, higher, most, alike, late),
    )
    best: Solution | None = None
    for way in ways:
        one = None if best and best.interval == begin.low else _first(problem, options, way, report, patience)
        best = min((x for x in (best, one) if x is not None), key=lambda x: x.interval, default=None)
    return _issuing_at_once(problem, options, begin, report, late, patience, best) if joint else best


def _in_reserve(problem: Problem, options: Options, begin: Start) -> Solution | None:
    """A schedule near the lower bound whose groups issue several operations at once, for a small loop where
    the best is to be proven."""
    from twill.modulo.overlapping import rising
    from twill.verify import check

    if options.modulo_only or not options.proofs or options.engine != "auto":
        return None
    low, most = begin.low, begin.max_in_flight(options)
    near = low + low // NEAR
    found = rising(problem, low, near + 1, most, placed=FEW)
    return next((one for one in found if not check(problem, one)), None)


def _issuing_at_once(
    problem: Problem,
    options: Options,
    begin: Start,
    report: Report,
    late: Callable[[], bool],
    patience: float,
    best: Solution | None,
) -> Solution | None:
    """The best so far, or a schedule of a smaller interval whose groups issue several operations at once;
    where the best is to be proven, which the rules say, not what a warp does."""
    from twill.modulo.overlapping import COARSE, FINE, rising, within_registers

    most = begin.max_in_flight(options)
    for construct in (rising, within_registers) if options.proofs else ():
        low = begin.low
        for part in (COARSE, FINE):
            high = best.interval if best else begin.top
            found = construct(problem, low, high, most, late, part)
            best = _first(problem, options, found, report, patience) or best
            if best is None or best.interval == begin.low:
                break
            low = max(begin.low, best.interval - best.interval // COARSE)
    return best


def _soon(
    problem: Problem, options: Options, begin: Start, report: Report, began: Mark
) -> Iterator[Solution]:
    """A schedule at the lower bound that quick probes of a solver find, if any; not verified."""
    from twill.smt import search

    found = search.at_bound(problem, options, report, begin, began)
    yield from () if found is None else (found,)


def _first(
    problem: Problem, options: Options, found: Iterable[Solution], report: Report, patience: float = PATIENCE
) -> Solution | None:
    """The first of these schedules that keeps every rule, within `patience`."""
    from twill.verify import check

    began, joint = time.monotonic(), not options.modulo_only
    most = int(patience * options.time_limit * CHECKED / len(problem.operations))
    for one in islice(found, max(1, most)):
        if not check(problem, one, joint=joint):
            report(Progress(time.monotonic() - began, "construction", one.interval, "feasible"))
            return one
    return None


def _constructed(
    problem: Problem, options: Options, begin: Start, report: Report, late: Callable[[], bool]
) -> Solution | None:
    """A schedule at the lower bound that keeps every rule, the simplest of those that are constructed."""
    from twill.modulo.constructive import rising, schedules
    from twill.verify import check

    began, joint = time.monotonic(), not options.modulo_only
    if options.engine != "auto":
        return None
    best: Solution | None = None
    most = options.max_in_flight or MOST
    iterative = schedules(problem, begin.low, most, joint=joint, late=late)
    in_order = rising(problem, begin.low, begin.low, most, joint=joint, late=late)
    for found in chain(iterative, in_order):
        better = best is None or _simplicity(problem, found) < _simplicity(problem, best)
        if better and not check(problem, found, joint=joint):
            best = found
            report(Progress(time.monotonic() - began, "construction", begin.low, "feasible"))
            if _simplest(problem, options, begin, best):
                break
    return best


def _simplicity(problem: Problem, solution: Solution) -> tuple[int, int, int, int]:
    """Less is simpler: groups, channels between them, stages, length."""
    joined = len(channels(problem, solution.group))
    return len(solution.groups), joined, solution.stages, solution.length(problem)


def _simplest(problem: Problem, options: Options, begin: Start, solution: Solution) -> bool:
    """Nothing is left to improve, to prove or to explain."""
    unexplained = options.explain and not options.modulo_only and begin.low > begin.bounds.value
    joint = not options.modulo_only
    return not unexplained and proven(problem, solution, joint=joint, in_order=joint).all
