# pyright: basic
"""The SAT engine: the boolean formulation as clauses, decided by CaDiCaL.

Fast at refuting tight loops, on times up to a few thousand units. `decide` takes as long as it takes; `attempt` runs it in a process of
its own.
"""

import numpy as np
from pysat.solvers import Solver

from twill.ir.problem import Problem, Time
from twill.smt.boolean import TooLargeError, formulate
from twill.smt.boolean.cnf import clausify
from twill.smt.child import Decision, isolated

SOLVER = "cadical195"


def decide(problem: Problem, interval: Time, copies: int, *, joint: bool, time_limit: float = 0) -> Decision:
    """The verdict on one interval; only memory limits it."""
    try:
        model = formulate(problem, interval, copies, joint=joint)
        if model is None:
            return Decision("infeasible")
        formula = clausify(model.formula)
    except TooLargeError:
        return Decision("timeout")
    with Solver(name=SOLVER) as solver:
        for block in formula.clauses:
            solver.append_formula(block.tolist())
        if not solver.solve():
            return Decision("infeasible")
        truth = np.zeros(formula.variables + 1, bool)
        truth[[x for x in solver.get_model() or () if x > 0]] = True
        return Decision("feasible", model.solution(truth))


attempt = isolated("sat", decide)
"""The engine (see `twill.smt.engine`)."""
