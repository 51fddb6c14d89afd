"""An optimum refuted again: the interval below it, by another engine than the one on record.

Takes a `Result`; gives a `Confirmation`. The engines differ in model and solver (CP-SAT on integers; SAT on
the boolean formulation; partitions in coarse time), so a defect of one of them does not confirm itself. Where
the record rests on a projection, the whole problem is refuted.
"""

from dataclasses import dataclass

from twill.engine.probe import Budget, Engine, Feasible, Refuted, Unknown
from twill.ir.problem import Time
from twill.ir.schedule import Refutation, Result
from twill.smt.portfolio import engine

ORDER = ("cpsat", "benders", "sat")
"""Engines that may confirm, the fastest first."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What another engine makes of the interval below the answer."""

    interval: Time
    max_in_flight: int
    recorded: str
    """The engine on record."""
    by: str | None
    """The engine that refuted the interval too; None where none did within the time."""
    contradicted: bool = False
    """An engine found a schedule there: the record is wrong."""


def confirm(result: Result, time_limit: float, *, joint: bool = True) -> Confirmation | None:
    """Refute the interval below `proved` again; None where a bound refutes it, which the check computes
    itself."""
    record = _record(result)
    if record is None:
        return None
    interval, most = result.proved - 1, record.max_in_flight or result.max_in_flight
    others = [name for name in ORDER if name != record.by and _decides(name, result, joint)]
    for name in others:
        attempt: Engine = engine(name)
        budget = Budget(time_limit / len(others))
        match attempt(result.problem, interval, most, joint=joint, budget=budget).outcome:
            case Refuted():
                return Confirmation(interval, most, record.by, name)
            case Feasible():
                return Confirmation(interval, most, record.by, name, contradicted=True)
            case Unknown():
                continue
    return Confirmation(interval, most, record.by, None)


def _decides(name: str, result: Result, joint: bool) -> bool:
    """Partitions are for joint, monotone problems."""
    return name != "benders" or (joint and result.problem.monotone)


def _record(result: Result) -> Refutation | None:
    """The engine's refutation on which the proof of the last interval rests, if it does not rest on a
    bound."""
    last = [r for r in result.refuted if r.interval >= result.proved - 1]
    covering = [r for r in last if r.max_in_flight is None or r.max_in_flight >= result.max_in_flight]
    if any(r.by.startswith(("ResMII", "RecMII", "capacity of")) for r in covering):
        return None
    return covering[0] if covering else None
