# pyright: reportUnknownMemberType=false
"""CBC, the paper's integer programming solver, through PuLP.

PuLP calls a solution found before the time limit "Optimal"; the status is read from whether CBC finished.
"""

from typing import cast

import numpy as np
import pulp

from twill.engine.boolean.formula import TRUE, Formula, Lane
from twill.engine.probe import Outcome
from twill.engine.subprocess_engine import isolated
from twill.ir.problem import Problem, Time
from twill.modulo import ilp
from twill.modulo.ilp import Optimum, Shortest


def minimize(formula: Formula, objective: Lane | None, time_limit: float) -> Optimum:
    """Solve by branch and cut; see `twill.modulo.ilp.Minimize`."""
    unknowns = [pulp.LpVariable(f"x{x}", cat=pulp.LpBinary) for x in range(formula.variables + 1)]
    unknowns[TRUE].lowBound = 1
    program = pulp.LpProblem("modulo", pulp.LpMinimize)
    program += pulp.LpAffineExpression(
        [(unknowns[x], 1) for x in (() if objective is None else objective.tolist())]
    )
    for row in ilp.rows(formula):
        terms = [
            (unknowns[x], coefficient) for x, coefficient in zip(row.unknowns, row.coefficients, strict=True)
        ]
        program.addConstraint(
            pulp.LpConstraint(pulp.LpAffineExpression(terms), pulp.LpConstraintGE, rhs=row.least)
        )
    program.solve(
        pulp.PULP_CBC_CMD(msg=False, timeLimit=max(time_limit, 0.1), threads=1, options=["randomSeed 1"])
    )
    return outcome(program, unknowns)


def outcome(program: pulp.LpProblem, unknowns: list[pulp.LpVariable]) -> Optimum:
    """What CBC did: it proved its solution the best, or stopped with one, or proved that there is none, or
    neither."""
    match cast(tuple[int, int], (program.status, program.sol_status)):
        case _, pulp.LpSolutionOptimal:
            return Optimum("optimal", _truth(unknowns))
        case _, pulp.LpSolutionIntegerFeasible:
            return Optimum("feasible", _truth(unknowns))
        case pulp.LpStatusInfeasible, _:
            return Optimum("infeasible")
        case _:
            return Optimum("unknown")


def _truth(unknowns: list[pulp.LpVariable]) -> np.ndarray:
    return np.array([(unknown.varValue or 0) > 0.5 for unknown in unknowns])


def decide(
    problem: Problem,
    interval: Time,
    in_flight: int,
    *,
    joint: bool,
    time_limit: float,
    work: float | None = None,
) -> Outcome:
    """The outcome at one interval; there is no budget of work, only the time limit."""
    return ilp.decide(minimize, problem, interval, in_flight, joint=joint, time_limit=time_limit)


def shortest(problem: Problem, interval: Time, in_flight: int, *, time_limit: float) -> Shortest:
    """The modulo schedule of least length; see `twill.modulo.ilp.shortest`."""
    return ilp.shortest(minimize, problem, interval, in_flight, time_limit=time_limit)


attempt = isolated("cbc", decide)
"""The engine (see `twill.engine.probe`)."""
