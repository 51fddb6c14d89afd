"""Schedules that no search would choose, verified; and what a search makes of them.

Takes a result and how to search; gives the result with another solution, or None where none is found in time.
"""

from dataclasses import replace

from twill.engine.partitions import under
from twill.engine.probe import Budget, solution
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Result
from twill.modulo.simplest import issuable
from twill.smt.cpsat import Goal, Tactics, attempt, improve
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


GOALS: tuple[Goal, ...] = ("stages", "length", "promptness")
"""By which a search makes its answer simple within a partition (`smt.polish`)."""


def made_simple(found: Result, seconds: float, work: float) -> Result:
    """The schedule of the same interval and partition that a search would end with. `work`: deterministic
    seconds for each goal."""
    best = found.solution
    assert best is not None, "a schedule to make simple"
    within = under(found.problem, best.group)
    tactics = Tactics(issuable=issuable(found.problem, best.interval, best.group))
    most = best.in_flight(found.problem)
    for goal in GOALS:
        best, _ = improve(goal, within, best, most, budget=Budget(seconds, work), tactics=tactics)
    return replace(found, solution=best)
