"""The pipeline as functions: a problem in, a checked result out.

`solve` is the one place where an answer is judged before anybody sees it: whatever an engine says passes `twill.verify` first.
"""

from twill.diagnostics import TwillError
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options, Report


def solve(problem: Problem, options: Options | None = None, report: Report = lambda event: None) -> Result:
    """The schedule of smallest interval, verified.

    Raises `TwillError` if an answer breaks a rule or claims more than its evidence shows (a defect of Twill, never of the input).
    """
    from twill.smt.search import search
    from twill.verify import check_result

    options = options or Options()
    result = search(problem, options, report)
    broken = check_result(result, joint=not options.modulo_only, in_flight=options.max_in_flight)
    if broken:
        raise TwillError("the engine's answer breaks a rule: " + "; ".join(map(str, broken[:5])), help="please report this")
    return result
