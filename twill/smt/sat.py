# pyright: basic
"""The SAT engine: the boolean formulation as clauses, decided by Glucose.

Fast at refuting tight loops, on times up to a few thousand units. `decide` takes as long as it takes; `attempt` runs it in a process of
its own.
"""

import numpy as np
from pysat.solvers import Solver

from twill.engine import boolean
from twill.engine.boolean.cnf import clausify
from twill.engine.probe import Outcome, Refuted
from twill.engine.subprocess_engine import isolated
from twill.ir.problem import Problem, Time

SOLVER = "glucose4"  # faster than CaDiCaL on these formulas, on both verdicts


def decide(problem: Problem, interval: Time, in_flight: int, *, joint: bool, time_limit: float = 0) -> Outcome:
    """The outcome at one interval; only memory limits it."""
    return boolean.decide(satisfy, problem, interval, in_flight, joint=joint)


def satisfy(formula: boolean.Formula) -> np.ndarray | Refuted:
    """An assignment found by Glucose."""
    clauses = clausify(formula)
    with Solver(name=SOLVER) as solver:
        for block in clauses.clauses:
            solver.append_formula(block.tolist())
        if not solver.solve():
            return Refuted()
        truth = np.zeros(clauses.variables + 1, bool)
        truth[[x for x in solver.get_model() or () if x > 0]] = True
        return truth


attempt = isolated("sat", decide)
"""The engine (see `twill.engine.probe`)."""
