"""Schedules that no search would choose, verified.

Takes a result and how to search; gives the result with another solution, or None where none is found in time.
"""

from dataclasses import replace

from twill.engine.probe import Budget, solution
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Result
from twill.smt.cpsat import Tactics, attempt
from twill.verify import check_result


def verified(
    best: Result, problem: Problem, interval: Time, in_flight: int, seconds: float, tactics: Tactics
) -> Result | None:
    """A schedule of that interval. `problem` may have more rules than that of the result. Raises
    AssertionError where the answer breaks a rule."""
    probe = attempt(problem, interval, in_flight, budget=Budget(seconds), tactics=tactics)
    found = solution(probe.outcome)
    if found is None:
        return None
    status = "optimal" if interval == best.proved else "feasible"
    other = replace(best, status=status, solution=found)
    if broken := check_result(other):
        raise AssertionError(f"the engine's answer breaks a rule: {broken[0]}")
    return other
