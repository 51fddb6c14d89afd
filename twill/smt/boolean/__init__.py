"""The time-indexed boolean formulation of one interval, shared by the SAT, Yices and ILP engines.

`formulate` states every rule of `twill.ir.problem` as clauses and sums over 0-1 variables: starts in order encoding, units and live
ranges per residue, groups, grants and addresses. One rule family per module; an engine translates the formula and hands back truth values,
which `Model.solution` reads as a schedule.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.smt import decode
from twill.smt.boolean import concurrency, groups, memory, registers, starts, timing
from twill.smt.boolean.formula import Formula, TooLargeError

__all__ = ["Formula", "Model", "TooLargeError", "formulate"]


@dataclass(frozen=True, slots=True)
class Model:
    """A formula together with what its variables mean."""

    problem: Problem
    interval: Time
    joint: bool
    formula: Formula
    starts: starts.Starts
    groups: groups.Groups
    tenants: tuple[memory.Tenant, ...]

    def solution(self, truth: NDArray[np.bool_]) -> Solution:
        """The schedule that an assignment means; `truth[x]` is the value of variable x, `truth[0]` is not read."""
        begins = self.starts.read(truth)
        if not self.joint:
            return decode.modulo(self.problem, self.interval, begins)
        return decode.solution(self.problem, self.interval, begins, self.groups.read(truth), memory.read(list(self.tenants), truth))


def formulate(problem: Problem, interval: Time, copies: int, *, joint: bool) -> Model | None:
    """The formula that holds exactly for solutions of length <= copies * interval; None where the dependences alone exclude any.

    Raises `TooLargeError` where it would not fit a solver.
    """
    formula = Formula()
    begins = starts.state(formula, problem, interval, copies)
    if begins is None:
        return None
    assigned = groups.state(formula, problem, joint=joint)
    table = timing.Timetable(formula, begins)
    timing.dependences(formula, problem, begins, assigned)
    timing.units(formula, problem, table)
    tenants: list[memory.Tenant] = []
    if joint and problem.operations:
        concurrency.state(formula, problem, table, assigned)
        registers.state(formula, problem, begins, assigned)
        tenants = memory.state(formula, problem, begins, assigned)
    return Model(problem, interval, joint, formula, begins, assigned, tuple(tenants))
