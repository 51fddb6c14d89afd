"""Why the interval is above its bound: what keeps it above what timing alone allows."""

from dataclasses import replace

from twill.engine.partitions import partitions, under
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Reason, Result, Solution
from twill.smt import cpsat
from twill.smt.causes import cause
from twill.smt.cpsat import FINDING
from twill.smt.explain import explain
from twill.smt.setting import WORK, Evidence, Setting

EXPLAINING = 0.1
"""Part of the time limit for it, at most."""


def reasons(setting: Setting, evidence: Evidence, result: Result) -> tuple[Reason, ...]:
    """What keeps the interval above what timing alone allows: resources that are proven to, else families
    that do together."""
    target, best = result.bounds.value, evidence.best
    above = best is None or best.interval > target
    if not (setting.joint and setting.options.explain and above and setting.remaining > 0):
        return ()
    setting = setting.with_at_most(EXPLAINING)
    setting.tell("note", "cpsat", target, "which constraints keep the interval above its bound?")

    def refutes(problem: Problem, interval: Time, in_flight: int) -> bool:
        return cpsat.attempt(problem, interval, in_flight, budget=setting.budget(WORK)).refuted

    def quick(problem: Problem, interval: Time) -> Solution | None:
        return _quick(setting, problem, interval)

    proven = tuple(
        cause(projection, worst, target, setting.in_flight, refutes) for projection, worst in evidence.binding
    )
    if any(worst + 1 >= evidence.low for _, worst in evidence.binding):
        return proven
    below = best.interval - 1 if best else target
    together = explain(result, target, quick)
    if together or below <= target:
        return proven + together
    nearer = explain(result, below, quick)
    return proven + tuple(replace(reason, text=f"at {below} already: {reason.text}") for reason in nearer)


def _quick(setting: Setting, problem: Problem, interval: Time) -> Solution | None:
    """A schedule found in a share of work: under natural partitions, then freely."""
    if setting.remaining <= 0:
        return None
    problems = [under(problem, labels) for labels in partitions(problem)]
    probes = [
        (one, in_flight, WORK / 8)
        for in_flight in sorted({setting.few(interval), setting.in_flight})
        for one in problems
    ]
    for one, in_flight, work in (*probes, (problem, setting.in_flight, WORK / 4)):
        budget = setting.budget(work)
        found = cpsat.attempt(one, interval, in_flight, budget=budget, tactics=FINDING).solution
        if found:
            return found
    return None
