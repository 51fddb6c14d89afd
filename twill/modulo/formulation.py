"""The integer program of optimal modulo scheduling (the paper's section 3.1; Eichenberger and Davidson 1997
for its structure).

Takes a problem, an interval and the most iterations in flight; gives a 0-1 program over the start times
alone: rules DEPENDENCE, UNITS and PINNED, and the length to minimize. The unknowns are y[v, t] = 1 where v
starts at t or later, the running sums of the usual x[v, t] (v starts at t): every dependence is then a row of
two unknowns, and the linear relaxation is as tight as it gets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from twill.engine import decode
from twill.engine.boolean import groups, timing
from twill.engine.boolean.formula import Addend, Formula, Lane
from twill.engine.boolean.starts import Starts, Times, Window, chain, within
from twill.ir.problem import Problem, Reservation, Time, Unit
from twill.ir.schedule import Solution


@dataclass(frozen=True, slots=True)
class LinearProgram:
    """A 0-1 program and what its unknowns mean."""

    problem: Problem
    interval: Time
    formula: Formula
    starts: Starts
    length: Lane
    """Unknowns that are 1 for every unit of time beyond the least length: their sum is to be minimized."""

    def solution(self, truth: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Solution:
        """The schedule that an assignment means; `truth[x]` is the value of unknown x."""
        return decode.modulo(self.problem, self.interval, self.starts.read(truth))


def modulo_program(problem: Problem, interval: Time, in_flight: int) -> LinearProgram | None:
    """The program; None where the dependences alone leave an operation no start within in_flight *
    interval."""
    formula = Formula()
    starts = within(formula, problem, interval, in_flight * interval)
    if starts is None:
        return None
    timing.dependences(formula, problem, starts, groups.state(formula, problem, joint=False))
    for unit in problem.units:
        if unit.aggregate:
            timing.bandwidth(formula, problem, interval, unit)
        else:
            _capacity(formula, problem, starts, unit)
    return LinearProgram(
        problem, interval, formula, starts, _length(formula, problem, starts, in_flight * interval)
    )


def _capacity(formula: Formula, problem: Problem, starts: Starts, unit: Unit) -> None:
    """At every residue, the instances that hold the unit: y at the window's begin less y at its end, over all
    periods."""
    bound, addends = unit.capacity, list[Addend]()
    reserved = ((i, use) for i, op in enumerate(problem.operations) for use in op.reservations)
    for op, use in reserved:
        if use.unit != unit.name or not use.cycles or not use.amount:
            continue
        for earliest, after in _covering(starts, op, use):
            addends.append(Addend((use.amount,), (starts.at_least(op, earliest),)))
            addends.append(Addend((use.amount,), (-starts.at_least(op, after),)))
            bound += use.amount
    formula.at_most(addends, bound)


def _covering(starts: Starts, op: int, use: Reservation) -> Iterator[tuple[Times, Times]]:
    """Per period, the starts [earliest, after) from which the reservation covers each residue."""
    interval, window = starts.interval, starts.windows[op]
    for period in range(
        (window.low + use.offset) // interval, (window.high + use.offset + use.cycles) // interval + 1
    ):
        after = period * interval + np.arange(interval) - use.offset + 1
        yield after - use.cycles, after


def _length(formula: Formula, problem: Problem, starts: Starts, longest: Time) -> Lane:
    """Nothing ends after the length."""
    least = max(
        (window.low + op.duration for window, op in zip(starts.windows, problem.operations, strict=True)),
        default=0,
    )
    length = Window(min(least, longest), longest)
    line = chain(formula, length)
    for op, operation in enumerate(problem.operations):
        ends = length.times
        formula.imply([starts.at_least(op, ends - operation.duration)], line[ends - length.low])
    return line[1:-1]
