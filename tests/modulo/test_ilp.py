# pyright: basic
"""The paper's integer program in both solvers: lengths are least, statuses honest, answers those of an
exhaustive search."""

from random import Random
from types import ModuleType, SimpleNamespace

import pulp
import pytest

from tests.properties.oracle import best
from tests.properties.tiny import tiny_problem
from tests.samples import figure1
from twill.engine.boolean.formula import Addend, Formula, Lane
from twill.engine.probe import solution as found_by
from twill.engine.probe import what
from twill.ir.problem import Edge, Operation, Problem, Reservation, Unit
from twill.modulo import cbc, scip
from twill.modulo.ilp import Optimum, Shortest, rows, shortest
from twill.verify.check import check

pytestmark = pytest.mark.filterwarnings("ignore:.*PuLP 4.0")

SOLVERS = pytest.mark.parametrize("solver", [cbc, scip], ids=["cbc", "scip"])


@SOLVERS
def test_figure_1_has_length_four_at_interval_two(solver: ModuleType) -> None:
    problem = figure1().problem
    found = solver.shortest(problem, 2, 4, time_limit=20.0)
    solution = found.solution
    assert found.proven
    assert solution.length(problem) == 4
    assert check(problem, solution, joint=False) == ()
    assert solver.shortest(problem, 1, 4, time_limit=20.0) == Shortest(None, proven=True)


@SOLVERS
@pytest.mark.parametrize("joint", [False, True])
def test_agrees_with_the_exhaustive_search(solver: ModuleType, joint: bool) -> None:
    statuses: set[str] = set()
    for seed in range(1000, 1025):
        random = Random(seed)
        problem = tiny_problem(random, 4)
        interval, in_flight = random.randint(1, 5), random.randint(1, 3)
        decision, answer = (
            solver.decide(problem, interval, in_flight, joint=joint, time_limit=20.0),
            best(problem, interval, in_flight, joint=joint),
        )
        solution = found_by(decision)
        statuses.add(what(decision))
        assert (what(decision) == "feasible") == (answer is not None), f"seed {seed}"
        assert solution is None or check(problem, solution, joint=joint) == (), f"seed {seed}"
    assert statuses == {"feasible", "infeasible"}


@SOLVERS
def test_the_length_is_least(solver: ModuleType) -> None:
    found = 0
    for seed in range(2000, 2020):
        random = Random(seed)
        problem = tiny_problem(random, 4)
        interval, in_flight = random.randint(2, 5), random.randint(1, 3)
        answer = best(problem, interval, in_flight, joint=False)
        solution = solver.shortest(problem, interval, in_flight, time_limit=20.0).solution
        assert (solution is not None) == (answer is not None), f"seed {seed}"
        if answer and not problem.starts:
            assert solution.length(problem) == answer.length, f"seed {seed}"
            found += 1
    assert found > 5


def _chain(count: int) -> Problem:
    """Operations that wait for each other in a row."""
    operations = tuple(Operation(f"o{i}", "op", (Reservation("U", 1),), 3) for i in range(count))
    edges = tuple(Edge(f"o{i}", f"o{i + 1}", 3) for i in range(count - 1))
    return Problem("chain", "toy", (Unit("U"),), operations, edges)


def test_a_solution_at_the_time_limit_is_not_called_the_shortest() -> None:
    problem = _chain(3)

    def stopped(formula: Formula, objective: Lane | None, time_limit: float) -> Optimum:
        """A solver that holds a solution when the limit comes."""
        return Optimum("feasible", cbc.minimize(formula, None, time_limit).truth)

    found = shortest(stopped, problem, 3, 4, time_limit=20.0)
    solution = found.solution
    assert not found.proven
    assert solution is not None
    assert check(problem, solution, joint=False) == ()


@pytest.mark.parametrize(
    ("status", "solution", "claim"),
    [
        (pulp.LpStatusOptimal, pulp.LpSolutionOptimal, "optimal"),
        (pulp.LpStatusOptimal, pulp.LpSolutionIntegerFeasible, "feasible"),
        (pulp.LpStatusInfeasible, pulp.LpSolutionNoSolutionFound, "infeasible"),
        (pulp.LpStatusInfeasible, pulp.LpSolutionInfeasible, "infeasible"),
        (pulp.LpStatusNotSolved, pulp.LpSolutionNoSolutionFound, "unknown"),
    ],
)
def test_what_pulp_reports_is_read_for_what_cbc_did(status: int, solution: int, claim: str) -> None:
    assert cbc.outcome(SimpleNamespace(status=status, sol_status=solution), []).status == claim  # pyright: ignore[reportArgumentType]


def test_rows_mean_what_clauses_and_sums_mean() -> None:
    formula = Formula()
    a, b, c = formula.literal(), formula.literal(), formula.literal()
    formula.clause(a, -b)
    formula.at_most([Addend((2,), (a,)), Addend((3,), (-b,)), Addend((1, 1), (c, -a))], 4)
    linear = list(rows(formula))
    for bits in range(8):
        value = {1: 1, a: bits & 1, b: bits >> 1 & 1, c: bits >> 2 & 1}
        total = 2 * value[a] + 3 * (1 - value[b]) + value[c] + (1 - value[a])
        allowed = (value[a] or not value[b]) and total <= 4
        satisfied = all(
            sum(k * value[x] for k, x in zip(row.coefficients, row.unknowns, strict=True)) >= row.least
            for row in linear
        )
        assert satisfied == bool(allowed)
