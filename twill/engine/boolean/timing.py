"""Rules DEPENDENCE and UNITS, and what is going on at a residue.

`Timetable.during` is the vocabulary of all modular rules: an operation's span covers a residue.
"""

from dataclasses import dataclass, field

import numpy as np

from twill.engine.boolean.formula import FALSE, TRUE, Addend, Formula, Lane
from twill.engine.boolean.groups import Groups
from twill.engine.boolean.starts import Starts
from twill.ir.problem import Edge, Problem, Time, Unit


@dataclass(frozen=True, slots=True)
class Timetable:
    """Spans of operations folded to residues, each built once."""

    formula: Formula
    starts: Starts
    _spans: dict[tuple[int, Time, Time], Lane] = field(default_factory=dict[tuple[int, Time, Time], Lane])

    def during(self, op: int, offset: Time, cycles: Time) -> Lane:
        """A literal per residue, forced where [s + offset, s + offset + cycles), shorter than I, covers
        it."""
        key = op, offset, cycles
        if key not in self._spans:
            self._spans[key] = self._fold(op, offset, cycles)
        return self._spans[key]

    def _fold(self, op: int, offset: Time, cycles: Time) -> Lane:
        interval, window = self.starts.interval, self.starts.windows[op]
        covered = self.formula.fresh(interval)
        residues = np.arange(interval)
        for period in range(
            (window.low + offset) // interval, (window.high + offset + cycles) // interval + 1
        ):
            latest = period * interval + residues - offset
            self.formula.imply(
                [self.starts.at_least(op, latest - cycles + 1), self.starts.at_most(op, latest)], covered
            )
        return covered


def dependences(formula: Formula, problem: Problem, starts: Starts, groups: Groups) -> None:
    """A consumer waits for its producer, `distance` iterations back; longer where they are in different
    groups."""
    for edge in problem.edges:
        same = groups.same(problem.index(edge.src), problem.index(edge.dst))
        if edge.delay == edge.crossing:
            _wait(formula, problem, starts, edge, edge.delay, TRUE)
            continue
        _wait(formula, problem, starts, edge, edge.delay, same)
        _wait(formula, problem, starts, edge, edge.crossing, -same)


def _wait(
    formula: Formula, problem: Problem, starts: Starts, edge: Edge, delay: Time, condition: int
) -> None:
    src, dst = problem.index(edge.src), problem.index(edge.dst)
    if condition != FALSE:
        times = starts.windows[src].times
        earliest = times + delay - edge.distance * starts.interval
        formula.imply([condition, starts.at_least(src, times)], starts.at_least(dst, earliest))


def units(formula: Formula, problem: Problem, table: Timetable) -> None:
    """Reservations fit the capacity, at every residue or, of an aggregate unit, over the iteration."""
    for unit in problem.units:
        if unit.aggregate:
            bandwidth(formula, problem, table.starts.interval, unit)
        else:
            _occupancy(formula, problem, table, unit)


def bandwidth(formula: Formula, problem: Problem, interval: Time, unit: Unit) -> None:
    """The work on an aggregate unit fits the interval."""
    work = sum(
        use.amount * use.cycles
        for op in problem.operations
        for use in op.reservations
        if use.unit == unit.name
    )
    if work > unit.capacity * interval:
        formula.contradict()


def _occupancy(formula: Formula, problem: Problem, table: Timetable, unit: Unit) -> None:
    """Whole periods of a long reservation count at every residue, its rest where it falls."""
    interval, free, addends = table.starts.interval, unit.capacity, list[Addend]()
    reserved = ((i, use) for i, op in enumerate(problem.operations) for use in op.reservations)
    for i, use in reserved:
        if use.unit != unit.name or not use.amount:
            continue
        whole, rest = divmod(use.cycles, interval)
        free -= use.amount * whole
        if rest:
            addends.append(Addend((use.amount,), (table.during(i, use.offset, rest),)))
    formula.at_most(addends, free)
