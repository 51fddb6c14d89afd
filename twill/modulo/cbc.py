# pyright: basic
"""CBC, the paper's integer programming solver, through PuLP.

PuLP calls a solution found before the time limit "Optimal"; the status is read from whether CBC finished.
"""

import numpy as np
import pulp

from twill.ir.problem import Problem, Time
from twill.modulo import ilp
from twill.modulo.ilp import Outcome
from twill.smt.boolean.formula import TRUE, Formula, Lane
from twill.smt.subprocess_engine import Decision, isolated


def minimize(formula: Formula, objective: Lane | None, time_limit: float) -> Outcome:
    """Solve by branch and cut; see `twill.modulo.ilp.Minimize`."""
    unknowns = [pulp.LpVariable(f"x{x}", cat=pulp.LpBinary) for x in range(formula.variables + 1)]
    unknowns[TRUE].lowBound = 1
    program = pulp.LpProblem("modulo", pulp.LpMinimize)
    program += pulp.LpAffineExpression([(unknowns[x], 1) for x in (() if objective is None else objective.tolist())])
    for row in ilp.rows(formula):
        terms = [(unknowns[x], coefficient) for x, coefficient in zip(row.unknowns, row.coefficients, strict=True)]
        program.addConstraint(pulp.LpConstraint(pulp.LpAffineExpression(terms), pulp.LpConstraintGE, rhs=row.least))
    program.solve(pulp.PULP_CBC_CMD(msg=False, timeLimit=max(time_limit, 0.1), threads=1, options=["randomSeed 1"]))
    return outcome(program, unknowns)


def outcome(program: pulp.LpProblem, unknowns: list[pulp.LpVariable]) -> Outcome:
    """What CBC did: it proved its solution the best, or stopped with one, or proved that there is none, or neither."""
    match program.status, program.sol_status:
        case _, pulp.LpSolutionOptimal:
            return Outcome("optimal", _truth(unknowns))
        case _, pulp.LpSolutionIntegerFeasible:
            return Outcome("feasible", _truth(unknowns))
        case pulp.LpStatusInfeasible, _:
            return Outcome("infeasible")
        case _:
            return Outcome("unknown")


def _truth(unknowns: list[pulp.LpVariable]) -> np.ndarray:
    return np.array([(unknown.varValue or 0) > 0.5 for unknown in unknowns])


def decide(problem: Problem, interval: Time, copies: int, *, joint: bool, time_limit: float) -> Decision:
    """The verdict on one interval."""
    return ilp.decide(minimize, problem, interval, copies, joint=joint, time_limit=time_limit)


def shortest(problem: Problem, interval: Time, copies: int, *, time_limit: float) -> Decision:
    """The modulo schedule of least length; see `twill.modulo.ilp.shortest`."""
    return ilp.shortest(minimize, problem, interval, copies, time_limit=time_limit)


attempt = isolated("cbc", decide)
"""The engine (see `twill.smt.engine`)."""
