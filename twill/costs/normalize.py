"""Exact cycles -> small integers whose ratios are as close as possible (Twill, section 5.2).

Takes a problem in cycles and a total U; gives the problem in coarser units of time. The integer program is
the paper's, with its defects mended: one unknown per distinct duration, so that a repeated one does not count
many times; no positive duration becomes zero; among all answers with the least error F the one with the
largest total is taken, so the finest resolution; and the error is stated, with every duration it moved. What
only enters a sum (shared memory bandwidth, issue slots) is not rounded: such a unit's capacity is stated per
new unit of time instead. Exact cycles remain the default: engines that handle them need none of this.

Minimize F so that for all distinct durations C: |C[i] C'[j] - C[j] C'[i]| <= F, 1 <= C'[i], sum of C' <= U.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from pyscipopt import Model, Variable, quicksum

from twill.diagnostics import TwillError
from twill.engine.scip_limits import limit
from twill.ir.problem import Edge, Operation, Problem, Reservation, Resolution, Time, Use, Value

FINE = 1000
"""Parts that aggregate amounts are counted in, so that a capacity per unit of time need not be a round
number."""

STARTS = 10_000
"""Most roundings that are looked at before the solver."""


@dataclass(frozen=True, slots=True)
class Normalization:
    """Durations before and after, and what it cost."""

    problem: Problem
    table: Mapping[Time, Time]
    """Units by cycles, for every distinct duration."""
    cycles_per_unit: float
    error: int
    """F: the largest cross product error."""
    proven: bool
    """F and the total are proven best; False where the time limit came first."""

    @property
    def moved(self) -> tuple[tuple[Time, float], ...]:
        """Durations that are no longer exact: cycles before, and cycles that the units stand for now."""
        now = ((cycles, units * self.cycles_per_unit) for cycles, units in self.table.items())
        return tuple((before, after) for before, after in now if abs(after - before) > 1e-9 * before)

    @property
    def worst_error(self) -> float:
        """The largest relative change of a duration."""
        return max((abs(after - before) / before for before, after in self.moved), default=0.0)


def normalize(problem: Problem, total: int = 300, time_limit: float = 10.0) -> Problem:
    """The problem in units of time that sum to at most `total` over its distinct durations; the resolution
    says how exact they are."""
    return normalization(problem, total, time_limit).problem


def normalization(problem: Problem, total: int = 300, time_limit: float = 10.0) -> Normalization:
    """Raises TwillError where `total` is too small to keep every duration above zero."""
    distinct = sorted({time for time in durations(problem) if time > 0})
    if total < len(distinct):
        raise TwillError(
            f"{len(distinct)} different durations cannot be told from zero in {total} units",
            help=f"use --resolution {len(distinct)} or more",
        )
    units, error, proven = _solve(distinct, total, time_limit) if distinct else ([], 0, True)
    table = dict(zip(distinct, units, strict=True))
    scale = _scale(table)
    found = Normalization(problem, table, scale, error, proven)
    resolution = Resolution(problem.resolution.cycles_per_unit * scale, found.worst_error)
    return replace(found, problem=replace(_mapped(problem, table, scale), resolution=resolution))


def durations(problem: Problem) -> Iterator[Time]:
    """Every duration that a problem states, those that only enter a sum left out."""
    aggregate = {unit.name for unit in problem.units if unit.aggregate}
    for op in problem.operations:
        yield from (op.latency, op.issue)
        for reservation in op.reservations:
            if reservation.unit not in aggregate:
                yield from (reservation.cycles, reservation.offset)
    for edge in problem.edges:
        yield from (edge.delay, edge.crossing)
    for value in problem.values:
        yield from (use.hold for use in value.uses)


def _scale(table: Mapping[Time, Time]) -> float:
    """Cycles per unit: the least squares fit, which the long durations decide."""
    return sum(c * u for c, u in table.items()) / sum(u * u for u in table.values()) if table else 1.0


# --- the integer program ----------------------------------------------------------------------------------


def _solve(costs: list[Time], total: int, time_limit: float) -> tuple[list[Time], int, bool]:
    """The new durations, F, and whether both are proven best: first the least F, then the largest total at
    that F."""
    start = _rounded(costs, total)
    first = _program(costs, total, time_limit, bound=None, start=start)
    units, error = _better(costs, start, _answer(first))
    second = _program(costs, total, time_limit, bound=error, start=units)
    finer = _answer(second)
    if finer and _error(costs, finer) <= error and sum(finer) >= sum(units):
        units = finer
    return units, error, first.model.getStatus() == "optimal" == second.model.getStatus()


class _Program(NamedTuple):
    """The integer program, solved."""

    model: Model
    units: list[Variable]


def _program(
    costs: list[Time], total: int, time_limit: float, bound: int | None, start: list[Time]
) -> _Program:
    """The paper's program; with `bound`, F is held there and the total maximized."""
    model = Model()
    model.hideOutput()
    limit(model, time_limit, seed=0)
    units = [model.addVar(f"c{cost}", vtype="I", lb=1, ub=total) for cost in costs]
    error = model.addVar("F", vtype="I", lb=0, ub=None if bound is None else bound)
    for i, j in combinations(range(len(costs)), 2):
        model.addCons(costs[i] * units[j] - costs[j] * units[i] <= error)
        model.addCons(costs[j] * units[i] - costs[i] * units[j] <= error)
    model.addCons(quicksum(units) <= total)
    if bound is None:
        model.setObjective(error, "minimize")
    else:
        model.setObjective(quicksum(units), "maximize")
    guess = model.createSol()
    for variable, value in zip(units, start, strict=True):
        model.setSolVal(guess, variable, value)
    model.setSolVal(guess, error, _error(costs, start))
    model.addSol(guess)
    model.optimize()
    return _Program(model, units)


def _answer(program: _Program) -> list[Time] | None:
    if not program.model.getNSols():
        return None
    return [round(program.model.getVal(unit)) for unit in program.units]


def _better(costs: list[Time], start: list[Time], found: list[Time] | None) -> tuple[list[Time], int]:
    """The answer of smaller error; F is computed again, not taken from the solver."""
    best = min((units for units in (found, start) if units), key=lambda units: _error(costs, units))
    return best, _error(costs, best)


def _error(costs: list[Time], units: list[Time]) -> int:
    pairs = combinations(zip(costs, units, strict=True), 2)
    return max((abs(a * v - b * u) for (a, u), (b, v) in pairs), default=0)


def _rounded(costs: list[Time], total: int) -> list[Time]:
    """A start: divide by one number and round, the best such number."""
    finest = min(total, costs[-1], STARTS)
    candidates = (
        [max(1, round(cost * parts / costs[-1])) for cost in costs] for parts in range(1, finest + 1)
    )
    return min(
        (c for c in candidates if sum(c) <= total),
        key=lambda c: (_error(costs, c), -sum(c)),
        default=[1] * len(costs),
    )


# --- the problem in other units ---------------------------------------------------------------------------


def _mapped(problem: Problem, table: Mapping[Time, Time], scale: float) -> Problem:
    """Every duration replaced; one that is zero stays zero."""
    aggregate = {unit.name for unit in problem.units if unit.aggregate}

    def units(time: Time) -> Time:
        return table[time] if time > 0 else time

    def reservation(taken: Reservation) -> Reservation:
        if taken.unit in aggregate:
            return Reservation(taken.unit, 1, 0, taken.amount * taken.cycles * FINE)
        return replace(taken, cycles=units(taken.cycles), offset=units(taken.offset))

    def operation(op: Operation) -> Operation:
        return replace(
            op,
            reservations=tuple(map(reservation, op.reservations)),
            latency=units(op.latency),
            issue=units(op.issue),
        )

    def edge(edge: Edge) -> Edge:
        cross = None if edge.cross_delay is None else units(edge.cross_delay)
        return replace(edge, delay=units(edge.delay), cross_delay=cross)

    def value(value: Value) -> Value:
        return replace(value, uses=tuple(Use(use.op, use.distance, units(use.hold)) for use in value.uses))

    return replace(
        problem,
        units=tuple(
            replace(u, capacity=round(u.capacity * scale * FINE)) if u.aggregate else u for u in problem.units
        ),
        operations=tuple(map(operation, problem.operations)),
        edges=tuple(map(edge, problem.edges)),
        values=tuple(map(value, problem.values)),
    )
