"""Options of a search, and the progress events that it reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution

Engine = Literal["auto", "cpsat", "sat", "yices", "cbc", "scip"]
"""auto: a portfolio. cbc and scip solve plain modulo scheduling and the boolean joint model; yices is the
paper's solver."""


IN_FLIGHT = 4
"""The most iterations in flight, unless more are given or help."""

JOBS = 2
"""Solvers that run at once, where there are cores for them."""

UNRECORDED = ("jobs", "reserved", "proofs", "few")
"""Options of a run, which no schedule file has: its status says what is proven."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to search."""

    engine: Engine = "auto"
    time_limit: float = 60.0
    """Seconds for the whole search, counted by its work (`twill.engine.clock`); the best answer so far
    and its proven bound are given at the limit."""
    max_in_flight: int | None = None
    """Schedules of up to this many iterations in flight are considered: L <= max_in_flight * I. None:
    `IN_FLIGHT`, or one more than the shortest possible iteration needs at the lower bound, and more where
    they are found to help."""
    modulo_only: bool = False
    """Plain modulo scheduling: dependences and units alone, every operation in group 0."""
    explain: bool = True
    """Explain what keeps the interval above the lower bound, where it is above."""
    jobs: int = JOBS
    """Solvers that run at once; the answer does not depend on it."""
    reserved: float = 0.0
    """Seconds of the limit that are left for another form of the kernel."""
    proofs: bool = True
    """Decide what few iterations in flight leave open below an answer. Without, it is mostly the same answer,
    found in half the time, and seldom proven."""
    few: bool = False
    """The loop has no more iterations than `max_in_flight`. Without proofs, an answer near its lower bound is
    enough then."""

    @property
    def seconds(self) -> float:
        """Seconds for this search."""
        return self.time_limit - self.reserved


def _any(found: Solution) -> bool:
    return True


def _as_it_is(problem: Problem, found: Solution) -> Problem:
    return problem


@dataclass(frozen=True, slots=True)
class Use:
    """Which schedules are of use, beyond the rules: a search spends no time on what is not."""

    kept: Callable[[Solution], bool] = _any
    """Whether a schedule can be the answer; otherwise a large one is not made simpler, as another problem is
    searched for that."""
    brief: bool = False
    """The search ends with its first answers, unless they decide: another problem is searched instead."""
    fits: Callable[[Solution], bool] = _any
    """Whether a thread block has what its groups need; otherwise a schedule is not made simpler, but that a
    small one has fewer groups where these are found soon."""
    within: Callable[[Problem, Solution], Problem] = _as_it_is
    """The problem with limits that make simpler forms of a schedule fit too."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One event of the search: `engine` starts or ends trying `interval`."""

    seconds: float
    engine: str
    interval: Time
    what: Literal["trying", "feasible", "infeasible", "timeout", "improved", "note"]
    detail: str = ""


Report = Callable[[Progress], None]
"""Called with each event, from the searching thread."""
