"""The interface of every engine: a function that probes one interval, and the three things it can find out.

`attempt(problem, interval, in_flight, joint=..., budget=...)` decides whether a solution exists at exactly
this interval with every s(v) + duration(v) <= in_flight * interval, under all rules of `twill.ir.problem`
(joint) or under DEPENDENCE, UNITS and PINNED alone. The outcome is a closed union: only a `Refuted`, which an
engine makes where its solver finished with "no solution", is a proof. An exhausted limit is an `Unknown`, a
value of another type, so that it can not be counted as a refutation.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, assert_never

from twill.engine.clock import PATIENCE, Clock
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Refutation, Solution

FEW = 2
"""Iterations in flight that are probed first: most answers have no more, and every probe is easier with no
more."""

Limit = Literal["work", "time", "size", "stopped"]
"""Why a probe ended without a result: its budget of work, the time limit, a formula too large to build,
or the stop event."""


@dataclass(frozen=True, slots=True)
class Feasible:
    """A solution exists."""

    solution: Solution


@dataclass(frozen=True, slots=True)
class Refuted:
    """Proof: no solution exists."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither was found out."""

    limit: Limit = "work"


Outcome = Feasible | Refuted | Unknown

What = Literal["feasible", "infeasible", "timeout"]


def what(outcome: Outcome) -> What:
    """The word for an outcome in progress events."""
    match outcome:
        case Feasible():
            return "feasible"
        case Refuted():
            return "infeasible"
        case Unknown():
            return "timeout"
        case _:
            assert_never(outcome)


def solution(outcome: Outcome) -> Solution | None:
    """The schedule of a feasible outcome."""
    return outcome.solution if isinstance(outcome, Feasible) else None


@dataclass(frozen=True, slots=True)
class Probe:
    """The outcome of one engine at one interval."""

    outcome: Outcome
    engine: str
    seconds: float = 0.0
    work: float = 0.0
    """Deterministic seconds of a solver, where it counts them."""
    counted: float = 0.0
    """Seconds that a time limit counts for it (see `twill.engine.clock`)."""

    @property
    def solution(self) -> Solution | None:
        return solution(self.outcome)

    @property
    def refuted(self) -> bool:
        return isinstance(self.outcome, Refuted)

    @property
    def conclusive(self) -> bool:
        """Feasible or refuted."""
        return not isinstance(self.outcome, Unknown)

    @property
    def what(self) -> What:
        """The word for the outcome in progress events."""
        return what(self.outcome)

    def with_cost_of(self, other: "Probe") -> "Probe":
        """This probe, with what another one took added."""
        return replace(
            self,
            seconds=self.seconds + other.seconds,
            work=self.work + other.work,
            counted=self.counted + other.counted,
        )

    def refutation(self, interval: Time, in_flight: int | None, *, below: bool) -> Refutation | None:
        """The evidence that a refuted probe is; None for any other outcome. There is no other way from a
        probe to a `Refutation`."""
        match self.outcome:
            case Refuted():
                return Refutation(interval, in_flight, self.engine, self.seconds, below)
            case Feasible() | Unknown():
                return None
            case _:
                assert_never(self.outcome)


class Stoppable(Protocol):
    """A request to stop: a `threading.Event` or a `twill.engine.parallel.Stop`."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a probe may spend."""

    seconds: float = 60.0
    """What is left of the time limit, which the user sets, as `twill.engine.clock` counts it."""
    work: float | None = None
    """Deterministic seconds: a solver's own count of its work, about a second each on an idle core. None: no
    limit of work."""
    stop: Stoppable | None = None
    clock: Clock | None = None
    """Counts what probes take; None where the caller does that."""

    @property
    def measured(self) -> float:
        """Seconds of measured time, after which a probe ends in any case."""
        return PATIENCE * self.seconds

    def count(self, seconds: float) -> None:
        if self.clock is not None:
            self.clock.count(seconds)

    @property
    def stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    def after(self, probe: Probe) -> "Budget":
        """What a probe leaves of it."""
        work = None if self.work is None else max(0.0, self.work - probe.work)
        return replace(self, seconds=self.seconds - probe.counted, work=work)

    def at_most(self, work: float) -> "Budget":
        """So much of its work."""
        return replace(self, work=work if self.work is None else min(work, self.work))


UNLIMITED = Budget()


class Engine(Protocol):
    """The signature that all engines share."""

    def __call__(
        self,
        problem: Problem,
        interval: Time,
        in_flight: int,
        *,
        joint: bool = True,
        budget: Budget = UNLIMITED,
    ) -> Probe: ...
