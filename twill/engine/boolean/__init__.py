"""The time-indexed boolean formulation of one interval, shared by the SAT, Yices and ILP engines.

`formulate` states every rule of `twill.ir.problem` as clauses and sums over 0-1 variables: starts in order
encoding, units and live ranges per residue, groups, grants and addresses. One rule family per module; an
engine translates the formula and hands back truth values, which `Model.solution` reads as a schedule.
`decide` is what all engines do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twill.engine import decode
from twill.engine.boolean import addresses, concurrency, groups, registers, starts, timing
from twill.engine.boolean import allocation as memory
from twill.engine.boolean.formula import Formula, TooLargeError
from twill.engine.probe import Feasible, Outcome, Refuted, Unknown
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution

__all__ = ["Formula", "Model", "Satisfy", "TooLargeError", "decide", "formulate"]

Satisfy = Callable[[Formula], NDArray[np.bool_] | Refuted | Unknown]
"""A solver: the values of variables 0..n of a satisfying assignment (that of 0 means nothing), or why it has
none."""


@dataclass(frozen=True, slots=True)
class Model:
    """A formula together with what its variables mean."""

    problem: Problem
    interval: Time
    joint: bool
    formula: Formula
    starts: starts.Starts
    groups: groups.Groups
    addresses: tuple[addresses.Address, ...] | None
    """None where the formula says nothing of addresses."""

    def solution(self, truth: NDArray[np.bool_]) -> Solution | None:
        """The schedule that an assignment means; None where addresses were left to first fit, which found
        none."""
        begins = self.starts.read(truth)
        if not self.joint:
            return decode.modulo(self.problem, self.interval, begins)
        labels = self.groups.read(truth)
        if self.addresses is None:
            chosen = addresses.first_fit(self.problem, self.interval, begins, labels)
        else:
            chosen = addresses.read(self.addresses, truth)
        return (
            None if chosen is None else decode.solution(self.problem, self.interval, begins, labels, chosen)
        )


def formulate(
    problem: Problem, interval: Time, in_flight: int, *, joint: bool, addressed: bool, grace: Time = 0
) -> Model | None:
    """The formula that holds exactly for solutions of length <= in_flight * interval; None where the
    dependences alone exclude any.

    Without `addressed` it holds for more: what is live fits the memories at every residue, wherever it lies;
    with `grace` too (see `concurrency.state`). Raises `TooLargeError` where it would not fit a solver.
    """
    formula = Formula()
    begins = starts.state(formula, problem, interval, in_flight)
    if begins is None:
        return None
    assigned = groups.state(formula, problem, joint=joint)
    table = timing.Timetable(formula, begins)
    timing.dependences(formula, problem, begins, assigned)
    timing.units(formula, problem, table)
    chosen: tuple[addresses.Address, ...] | None = None
    if joint and problem.operations:
        concurrency.state(formula, problem, table, assigned, grace)
        registers.state(formula, problem, begins, assigned)
        lodgings = memory.state(formula, problem, begins, assigned)
        chosen = addresses.state(formula, lodgings) if addressed else None
    return Model(problem, interval, joint, formula, begins, assigned, chosen)


def decide(satisfy: Satisfy, problem: Problem, interval: Time, in_flight: int, *, joint: bool) -> Outcome:
    """The outcome at one interval: without addresses first, and with them where that decides nothing."""
    for addressed in (False, True):
        try:
            model = formulate(problem, interval, in_flight, joint=joint, addressed=addressed)
            if model is None:
                return Refuted()
            truth = satisfy(model.formula)
        except TooLargeError:
            return Unknown("size")
        if isinstance(truth, Refuted | Unknown):
            return truth
        solution = model.solution(truth)
        if solution is not None:
            return Feasible(solution)
    raise AssertionError("addresses were part of the formula")
