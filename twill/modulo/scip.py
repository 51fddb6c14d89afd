"""SCIP on the same integer programs as CBC, handed over as a pseudo-boolean file: read much faster than rows
taken one by one."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyscipopt
from pyscipopt.scip import PY_SCIP_PARAMEMPHASIS as SCIP_PARAMEMPHASIS

from twill.engine.boolean.formula import TRUE, Formula, Lane
from twill.engine.probe import Outcome
from twill.engine.scip_limits import limit
from twill.engine.subprocess_engine import isolated
from twill.ir.problem import Problem, Time
from twill.modulo import ilp
from twill.modulo.ilp import Optimum, Row, Shortest


def minimize(formula: Formula, objective: Lane | None, time_limit: float) -> Optimum:
    """Solve by branch, cut and propagation; see `twill.modulo.ilp.Minimize`."""
    model = pyscipopt.Model()
    model.hideOutput()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.opb"
        path.write_text("\n".join(_pseudo_boolean(formula, objective)) + "\n")
        model.readProblem(str(path))
    # relaxations of fine-grained time cost more than they tell
    model.setEmphasis(SCIP_PARAMEMPHASIS.CPSOLVER)
    limit(model, max(time_limit, 0.1), seed=1)
    if objective is None:
        model.setParam("limits/solutions", 1)
    model.optimize()
    truth = _truth(model, formula) if model.getNSols() else None
    match model.getStatus():
        case "optimal" | "sollimit":
            return Optimum("optimal", truth)
        case "infeasible":
            return Optimum("infeasible")
        case _:
            return Optimum("unknown" if truth is None else "feasible", truth)


def _pseudo_boolean(formula: Formula, objective: Lane | None) -> Iterator[str]:
    """The OPB format (Roussel and Manquinho, input format of the pseudo-boolean competitions)."""
    if objective is not None and objective.size:
        yield "min: " + " ".join(f"+1 x{x}" for x in objective.tolist()) + " ;"
    yield f"+1 x{TRUE} >= 1 ;"
    for row in ilp.rows(formula):
        yield _line(row)


def _line(row: Row) -> str:
    terms = " ".join(
        f"{coefficient:+d} x{x}" for coefficient, x in zip(row.coefficients, row.unknowns, strict=True)
    )
    return f"{terms} >= {row.least} ;"


def _truth(model: pyscipopt.Model, formula: Formula) -> np.ndarray:
    truth = np.zeros(formula.variables + 1, bool)
    best = model.getBestSol()
    for variable in model.getVars():
        truth[int(variable.name[1:])] = model.getSolVal(best, variable) > 0.5
    return truth


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


attempt = isolated("scip", decide)
"""The engine (see `twill.engine.probe`)."""
