"""Steps that make an answer simple (`twill.smt.polish`), each solved once, so that those that are likely to
come can be solved ahead on another core.

What a step finds follows from the step alone: whoever solves it, and whenever, the answer is the same, and it
counts as if it were solved when it is asked for.
"""

import threading
from concurrent.futures import Future
from dataclasses import dataclass, replace

from twill.engine.clock import SEARCHED, Clock
from twill.engine.probe import Budget
from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.smt import cpsat
from twill.smt.cpsat import Goal, Tactics


@dataclass(frozen=True, slots=True)
class Step:
    """`found` made better by one goal, with so many deterministic seconds of `work`."""

    goal: Goal
    problem: Problem
    found: Solution
    in_flight: int
    joint: bool
    tactics: Tactics
    work: float


@dataclass(frozen=True, slots=True)
class Improved:
    """What a step found."""

    best: Solution | None
    """None where it found nothing: what it began with, which is another object for whoever asks."""
    proven: bool
    counted: float
    """Seconds that a time limit counts for it."""

    def within(self, step: Step, seconds: float) -> bool:
        """It had all of its work with so many seconds left of the time limit: more of them give the same."""
        return seconds - self.counted >= SEARCHED * step.work


class Solved:
    """The results of steps, also of those that another thread is at."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._results: dict[Step, Future[Improved | None]] = {}

    def improved(self, step: Step, budget: Budget) -> Improved:
        """The result of a step: the one that is known, where the time limit does not matter, or a new one."""
        with self._changing:
            known = self._results.get(step)
            own = self._results.setdefault(step, Future())
        result = known.result() if known is not None else None
        if result is None or not result.within(step, budget.seconds):
            result = _solved(step, budget, own if known is None else None)
        budget.count(result.counted)
        return result


def _solved(step: Step, budget: Budget, waiting: Future[Improved | None] | None) -> Improved:
    """A new result, which goes to those who wait for it too, unless a limit has cut it short."""
    result: Improved | None = None
    try:
        result = _improved(step, budget)
        return result
    finally:
        whole = result is not None and result.within(step, budget.seconds) and not budget.stopped
        if waiting is not None:
            waiting.set_result(result if whole else None)


def _improved(step: Step, budget: Budget) -> Improved:
    clock = Clock()
    began = clock.mark()
    best, proven = cpsat.improve(
        step.goal,
        step.problem,
        step.found,
        step.in_flight,
        joint=step.joint,
        budget=replace(budget, work=step.work, clock=clock),
        tactics=step.tactics,
    )
    return Improved(None if best is step.found else best, proven, clock.since(began))
