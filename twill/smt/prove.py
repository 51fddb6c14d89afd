"""An optimum refuted again: the interval below it, by another engine than the one on record.

Takes a `Result`; gives a `Confirmation`. The engines differ in model and solver (CP-SAT on integers; SAT on
the boolean formulation; partitions in coarse time), so a defect of one of them does not confirm itself. Where
the record rests on a projection (onto few operations, independent parts or numbers of slots), another engine
refutes that, and the whole problem is refuted for as many iterations in flight as the time allows, the fewest
first: a defect of the projection does not confirm itself either.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from twill.engine.clock import Limit, own_clock
from twill.engine.probe import FEW, Budget, Engine, Feasible, Probe
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Refutation, Result
from twill.smt import parts, slots
from twill.smt.portfolio import engine
from twill.smt.relax import dependences, projections, units

ORDER = ("cpsat", "benders", "sat")
"""Engines that may confirm, the fastest first."""

PROJECTED = ("sat", "benders", "yices")
"""Those that may refute a projection, which is CP-SAT's on record."""

SHARE = 0.5
"""Of the time that is left, for each engine but the last."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What other engines make of the interval below the answer."""

    interval: Time
    max_in_flight: int
    recorded: str
    """The engine on record."""
    projected: str | None = None
    """The engine that refuted the projection on record too, for `max_in_flight`."""
    by: str | None = None
    """The engine that refuted the whole problem, or has a schedule of it, with the most iterations in flight;
    None where none did within the time."""
    whole: int = 0
    """Iterations in flight up to which it did."""
    contradicted: bool = False
    """It found a schedule there: the record is wrong."""

    @property
    def confirmed(self) -> bool:
        """For all iterations in flight of the record."""
        return not self.contradicted and (self.projected is not None or self.whole >= self.max_in_flight)


def confirm(result: Result, time_limit: float, *, joint: bool = True) -> Confirmation | None:
    """Refute the interval below `proved` again; None where a bound refutes it, which the check computes
    itself."""
    record = _record(result)
    if record is None:
        return None
    end = Limit(time_limit)
    most = record.max_in_flight or result.max_in_flight
    begun = Confirmation(result.proved - 1, most, record.by)
    begun = replace(begun, projected=_projection_refuted(result, begun, end))
    return _whole_refuted(result, begun, end, joint)


def _projection_refuted(result: Result, begun: Confirmation, end: Limit) -> str | None:
    """The engines that refute the projection on record, where it rests on one."""
    found: list[str] = []
    names = tuple(name for name in PROJECTED if _decides(name, result, joint=True))
    pieces = _projected(result.problem, begun)
    for left, (piece, most) in zip(range(len(pieces), 0, -1), pieces, strict=True):
        until = end if left == 1 else Limit(end.left / left)
        probes = _probes(names, piece, begun.interval, most, until, joint=True)
        probe = next((probe for probe in probes if probe.conclusive), None)
        if probe is None or not probe.refuted:
            return None
        found.append(probe.engine)
    return " and ".join(dict.fromkeys(found)) or None


def _projected(problem: Problem, begun: Confirmation) -> list[tuple[Problem, int]]:
    """The projection on record as problems, all of which are refuted, each with the iterations in flight up
    to which it is."""
    most = begun.max_in_flight
    named = {one.engine: one for one in (*projections(problem), dependences(problem), units(problem))}
    if begun.recorded in named:
        return [(named[begun.recorded].at(begun.interval), most)]
    whole = parts.independent(problem) if begun.recorded == parts.NAME else None
    if whole is not None:
        return [(parts.stated(whole, most), most + 1)]
    load = slots.splits(problem) if begun.recorded == slots.NAME else None
    return [(piece, most) for piece in slots.pieces(problem, load)] if load is not None else []


def _whole_refuted(result: Result, begun: Confirmation, end: Limit, joint: bool) -> Confirmation:
    """The whole problem for more and more iterations in flight, until no engine decides."""
    names = tuple(name for name in ORDER if name != begun.recorded and _decides(name, result, joint))
    found = begun
    for most in range(min(FEW, begun.max_in_flight), begun.max_in_flight + 1):
        probes = _probes(names, result.problem, begun.interval, most, end, joint=joint)
        probe = next((probe for probe in probes if probe.conclusive), None)
        if probe is None:
            break
        found = replace(found, by=probe.engine, whole=most, contradicted=isinstance(probe.outcome, Feasible))
        if found.contradicted:
            break
    return found


def _probes(
    names: tuple[str, ...], problem: Problem, interval: Time, in_flight: int, end: Limit, *, joint: bool
) -> Iterator[Probe]:
    """One engine after the other, each with a share of the time that is left."""
    for name in names:
        attempt: Engine = engine(name)
        share = 1.0 if name == names[-1] else SHARE
        budget = Budget(share * end.left, clock=own_clock())
        yield attempt(problem, interval, in_flight, joint=joint, budget=budget)


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
