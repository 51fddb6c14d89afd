# pyright: reportUnknownMemberType=false
"""The SAT engine: the boolean formulation as clauses, decided by Glucose.

Fast at refuting tight loops, on times up to a few thousand units. `probe` takes as long as it takes;
`attempt` runs it in a process of its own.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
from pysat.solvers import Solver

from twill.engine import boolean
from twill.engine.boolean.cnf import clausify
from twill.engine.clock import SEARCHED
from twill.engine.probe import Probe, Refuted, Unknown
from twill.engine.subprocess_engine import isolated
from twill.ir.problem import Problem, Time

SOLVER = "glucose4"  # faster than CaDiCaL on these formulas, for both results


CONFLICTS = 4000
"""Conflicts that count as one deterministic second: about what Glucose takes for them on these formulas."""


def probe(
    problem: Problem,
    interval: Time,
    in_flight: int,
    *,
    joint: bool,
    time_limit: float = 0,
    work: float | None = None,
) -> Probe:
    """The outcome at one interval, with the work that it took; a budget of work limits the conflicts."""
    taken = [0.0]
    outcome = boolean.decide(
        lambda formula: satisfy(formula, work, taken.append), problem, interval, in_flight, joint=joint
    )
    return Probe(outcome, "sat", work=sum(taken), counted=SEARCHED * sum(taken))


def satisfy(
    formula: boolean.Formula, work: float | None = None, took: Callable[[float], None] = lambda work: None
) -> np.ndarray | Refuted | Unknown:
    """An assignment found by Glucose. `took` takes the work."""
    clauses = clausify(formula)
    with Solver(name=SOLVER) as solver:
        for block in clauses.clauses:
            solver.append_formula(block.tolist())
        found = solve_within(solver, None if work is None else int(work * CONFLICTS))
        took(conflicts(solver) / CONFLICTS)
        return found if isinstance(found, Refuted | Unknown) else truth(solver, clauses.variables)


def solve_within(solver: Solver, conflicts: int | None) -> Refuted | Unknown | None:
    """None where the solver has a model; a limit that it reaches is `Unknown`."""
    if conflicts is None:
        return None if solver.solve() else Refuted()
    solver.conf_budget(max(1, conflicts))
    match cast(bool | None, solver.solve_limited()):
        case True:
            return None
        case False:
            return Refuted()
        case None:
            return Unknown("work")


def conflicts(solver: Solver) -> int:
    """How many there were."""
    stats = cast(dict[str, int], solver.accum_stats() or {})
    return stats.get("conflicts", 0)


def truth(solver: Solver, variables: int) -> np.ndarray:
    """The values of variables 0..n in the solver's model."""
    values = np.zeros(variables + 1, bool)
    model = cast(list[int], solver.get_model() or [])
    values[[x for x in model if x > 0]] = True
    return values


attempt = isolated("sat", probe)
"""The engine (see `twill.engine.probe`)."""
