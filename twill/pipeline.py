"""The pipeline as functions: a problem in, a checked result out.

`solve` checks every answer before anybody sees it: every result of an engine passes `twill.verify` first.
"""

import time

from twill.diagnostics import TwillError
from twill.engine.decode import channels
from twill.ir.problem import Problem
from twill.ir.schedule import Result, Solution
from twill.ir.search import Options, Progress, Report
from twill.modulo.simplest import proven
from twill.modulo.start import Start, start


def solve(problem: Problem, options: Options | None = None, report: Report = lambda event: None) -> Result:
    """The schedule of smallest interval, verified.

    Raises `TwillError` if an answer breaks a rule or claims more than its evidence shows (a defect of Twill,
    never of the input).
    """
    from twill.verify import check_result

    options = options or Options()
    result = _found(problem, options, report)
    broken = check_result(result, joint=not options.modulo_only, in_flight=result.max_in_flight)
    if broken:
        raise TwillError(
            "the engine's answer breaks a rule: " + "; ".join(map(str, broken[:5])), help="please report this"
        )
    return result


def _found(problem: Problem, options: Options, report: Report) -> Result:
    """By the bounds alone where they decide, or by construction where that meets them; the solvers are
    imported only after that."""
    begin = start(problem, joint=not options.modulo_only)
    if begin.infeasible:
        return begin.result(problem, options)
    made = _constructed(problem, options, begin, report)
    if made is not None and _simplest(problem, options, begin, made):
        return begin.met(problem, options, made)
    from twill.smt.search import search

    return search(problem, options, report, begin, made)


def _constructed(problem: Problem, options: Options, begin: Start, report: Report) -> Solution | None:
    """A schedule at the lower bound that keeps every rule, the simplest of those that are constructed."""
    from twill.modulo.constructive import schedules
    from twill.verify import check

    began, joint = time.monotonic(), not options.modulo_only
    if options.engine != "auto":
        return None
    best: Solution | None = None
    for found in schedules(problem, begin.low, begin.max_in_flight(options), joint=joint):
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
