"""The pipeline as functions: a problem in, a checked result out.

`solve` checks every answer before anybody sees it: every result of an engine passes `twill.verify` first.
"""

from twill.diagnostics import TwillError
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options, Report
from twill.modulo.start import start


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
    """By the bounds alone where they decide; the solvers are imported only after that."""
    begin = start(problem, joint=not options.modulo_only)
    if begin.infeasible:
        return begin.result(problem, options)
    from twill.smt.search import search

    return search(problem, options, report, begin)
