# pyright: basic
"""The boolean formulation, decided by SAT: it says yes exactly where an exhaustive search does, and its
schedules hold."""

import os
import threading
import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.properties.oracle import TooLargeError, best
from tests.properties.tiny import tiny_problem
from tests.samples import attention, figure1
from twill.engine.boolean import formula as formulas
from twill.engine.boolean import formulate
from twill.engine.boolean.cnf import clausify
from twill.engine.boolean.formula import Addend, Formula
from twill.engine.probe import Budget, what
from twill.engine.probe import solution as found_by
from twill.ir.problem import Limits, Operation, Problem, Reservation, Unit
from twill.smt import cpsat, sat
from twill.verify.check import check


def test_figure_1_needs_an_interval_of_two() -> None:
    problem = figure1().problem
    assert what(sat.probe(problem, 1, 4, joint=False).outcome) == "infeasible"
    assert what(sat.probe(problem, 2, 1, joint=False).outcome) == "infeasible"
    solution = found_by(sat.probe(problem, 2, 2, joint=False).outcome)
    assert solution is not None
    assert check(problem, solution, joint=False) == ()


@pytest.mark.parametrize("block", range(8))
def test_agrees_with_the_exhaustive_search(block: int) -> None:
    statuses: set[str] = set()
    for seed in range(block * 40, block * 40 + 40):
        random = Random(seed)
        problem = tiny_problem(random, 4)
        interval, in_flight, joint = random.randint(1, 6), random.randint(1, 3), random.random() < 0.85
        try:
            answer = best(problem, interval, in_flight, joint=joint, left=[5000])
        except TooLargeError:
            continue
        decision = sat.probe(problem, interval, in_flight, joint=joint).outcome
        solution = found_by(decision)
        statuses.add(what(decision))
        assert (solution is not None) == (answer is not None), f"seed {seed}"
        if solution:
            assert check(problem, solution, joint=joint) == (), f"seed {seed}"
            assert solution.length(problem) <= in_flight * interval, f"seed {seed}"
    assert statuses == {"feasible", "infeasible"}


def test_waits_that_divide_operations_agree_with_the_exhaustive_search() -> None:
    """SAT and CP-SAT, with every operation but loads divisible; some are feasible for this reason alone."""
    relieved = 0
    for seed in range(60):
        random = Random(seed)
        plain = tiny_problem(random, 4)
        operations = tuple(replace(op, divisible=not op.variable) for op in plain.operations)
        problem, interval = replace(plain, operations=operations), random.randint(1, 4)
        try:
            answer = best(problem, interval, 2, left=[5000])
            relieved += answer is not None and best(plain, interval, 2, left=[5000]) is None
        except TooLargeError:
            continue
        decided = found_by(sat.probe(problem, interval, 2, joint=True).outcome)
        for solution in (decided, cpsat.attempt(problem, interval, 2).solution):
            assert (solution is not None) == (answer is not None), f"seed {seed}"
            assert solution is None or check(problem, solution) == (), f"seed {seed}"
    assert relieved


def test_attention_on_raw_cycles_holds() -> None:
    problem = attention().problem
    solution = found_by(sat.probe(problem, 2112, 2, joint=True).outcome)
    assert solution is not None
    assert check(problem, solution) == ()


def test_a_formula_that_outgrows_memory_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formulas, "LARGEST", 1000)
    assert what(sat.probe(attention().problem, 2112, 2, joint=True).outcome) == "timeout"


def pigeons(count: int, holes: int) -> Problem:
    """More unit-length operations than one unit has residues, disguised by wide windows: slow to refute for a
    SAT solver."""
    operations = tuple(Operation(f"o{i}", "op", (Reservation("U", 2),), 2) for i in range(count))
    return Problem("pigeons", "toy", (Unit("U"),), operations, (), (), Limits(groups=holes))


@pytest.mark.parametrize("ending", ["limit", "event"])
def test_an_attempt_ends_when_told_and_leaves_no_process(ending: str) -> None:
    stop, begin = threading.Event(), time.monotonic()
    if ending == "event":
        threading.Timer(0.5, stop.set).start()
    attempt = sat.attempt(pigeons(40, 8), 79, 3, budget=Budget(0.5 if ending == "limit" else 60.0, stop=stop))
    assert attempt.what == "timeout"
    assert time.monotonic() - begin < 30
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_an_attempt_carries_the_decision_over() -> None:
    problem = figure1().problem
    assert sat.attempt(problem, 1, 3).refuted
    attempt = sat.attempt(problem, 2, 3)
    assert attempt.engine == "sat"
    assert attempt.solution is not None
    assert check(problem, attempt.solution) == ()


@pytest.mark.parametrize("seed", range(20))
def test_sums_as_clauses_mean_the_same(seed: int) -> None:
    """Every assignment of a few random addends, chains included, is allowed exactly where the sum is within
    the bound."""
    random = Random(seed)
    formula, addends = Formula(), list[Addend]()
    for _ in range(random.randint(2, 7)):
        literals = tuple(formula.literal() for _ in range(random.randint(1, 3)))
        for more, less in zip(literals[1:], literals, strict=False):
            formula.imply([more], less)
        addends.append(Addend(tuple(random.randint(1, 9) for _ in literals), literals))
    inputs, bound = formula.variables, random.randint(0, 25)
    formula.at_most(addends, bound)
    clauses = clausify(formula)
    with sat.Solver(name=sat.SOLVER) as solver:
        for block in clauses.clauses:
            solver.append_formula(block.tolist())
        for counts in np.ndindex(*(len(addend.weights) + 1 for addend in addends)):
            chosen = [
                x if k < count else -x
                for addend, count in zip(addends, counts, strict=True)
                for k, x in enumerate(addend.literals)
            ]
            total = sum(sum(addend.weights[:count]) for addend, count in zip(addends, counts, strict=True))
            assert len(chosen) == inputs - 1
            assert solver.solve(assumptions=chosen) == (total <= bound)


def test_no_room_for_an_operation_is_infeasible_without_a_solver() -> None:
    assert formulate(pigeons(1, 1), 1, 1, joint=True, addressed=False) is None
