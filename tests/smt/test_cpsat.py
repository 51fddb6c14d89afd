# pyright: basic
"""The CP-SAT model: it stays small on large loops, and stating it ends with the time limit."""

import subprocess
import sys
import threading
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from tests.samples import attention
from twill.engine.clock import Clock
from twill.engine.probe import Budget
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.modulo.bounds import bounds
from twill.smt import cpsat
from twill.smt.cpsat.solve import build
from twill.smt.cpsat.variables import StoppedError
from twill.verify import check


def loop(count: int) -> Problem:
    """Random tile operations on three units; each reads one of the eight before it, registers hold what is
    read."""
    random = Random(count)
    ops = tuple(
        Operation(
            f"o{i}",
            "op",
            (Reservation(random.choice("abc"), 20),),
            latency=50,
            issue=random.choice((10, 20)),
            warps=4,
        )
        for i in range(count)
    )
    pairs = [(f"o{random.randrange(max(0, i - 8), i)}", f"o{i}") for i in range(1, count)]
    edges = tuple(Edge(src, dst, 50, cross_delay=150) for src, dst in pairs)
    uses = {op.id: tuple(Use(dst) for src, dst in pairs if src == op.id) for op in ops}
    values = tuple(Value(op.id, op.id, uses[op.id], registers=8, staging=1024) for op in ops if uses[op.id])
    units = tuple(Unit(name) for name in "abc")
    return Problem(f"loop{count}", "toy", units, ops, edges, values, Limits(groups=4, shared=200_000))


def test_the_model_grows_no_faster_than_the_square_of_the_loop() -> None:
    small, large = (
        len(build(loop(count), 1000, 4, True).variables.model.proto.constraints) for count in (30, 60)
    )
    assert large < 5 * small


def test_stating_a_model_can_be_stopped_at_any_point() -> None:
    """At every pause but the last one, and it looks at the clock at least once for each operation."""
    problem, pauses = loop(30), 0

    def count() -> bool:
        nonlocal pauses
        pauses += 1
        return False

    build(problem, 1000, 4, True, count)
    assert pauses >= len(problem.operations)
    for last in (1, pauses // 2, pauses):
        left = iter([False] * (last - 1))
        with pytest.raises(StoppedError):
            build(problem, 1000, 4, True, lambda left=left: next(left, True))


def test_no_time_is_a_timeout_and_keeps_what_was_found() -> None:
    result = attention()
    problem, solution = result.problem, result.solution
    assert solution is not None
    stop = threading.Event()
    stop.set()
    assert cpsat.attempt(problem, solution.interval, 2, budget=Budget(60, stop=stop)).what == "timeout"
    assert cpsat.attempt(problem, solution.interval, 2, budget=Budget(0)).what == "timeout"
    assert cpsat.improve("length", problem, solution, 2, budget=Budget(0)) == (solution, False)


def test_a_model_whose_symmetries_the_solver_trips_over_is_decided() -> None:
    """OR-Tools 9.15 raises an IndexError in the presolve of this one; the oracle refutes it."""
    assert cpsat.attempt(tiny_problem(Random(213949), 4), 5, 2).refuted


def test_schedules_no_longer_than_a_length() -> None:
    """What is found is no longer and keeps every rule, and the length of a known schedule loses none."""
    shorter = refuted = 0
    for random in map(Random, range(60)):
        problem = tiny_problem(random, 4)
        interval = bounds(problem).value + random.randint(0, 3)
        free = cpsat.attempt(problem, interval, 3).solution
        if free is None:
            continue
        length = free.length(problem)
        assert cpsat.attempt(problem, interval, 3, tactics=cpsat.Tactics(longest=length)).solution
        probe = cpsat.attempt(problem, interval, 3, tactics=cpsat.Tactics(longest=length - 1))
        refuted += probe.refuted
        if probe.solution is not None:
            shorter += 1
            assert probe.solution.length(problem) < length
            assert check(problem, probe.solution) == ()
    assert shorter >= 5
    assert refuted >= 5


def test_pandas_is_only_loaded_where_its_types_are_used() -> None:
    script = """
import sys, twill.smt.cpsat
from ortools.sat.python import cp_model
assert "pandas" not in sys.modules
import pandas
model = cp_model.CpModel()
model.add(sum(model.new_bool_var_series("x", pandas.Index([1, 2]))) == 2)
print(cp_model.CpSolver().solve(model) == cp_model.OPTIMAL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_model_that_counts_for_more_than_is_left_is_not_stated_to_the_end() -> None:
    """What it counts for is all that was left, whatever the machine."""
    problem, clock = loop(60), Clock()
    budget = Budget(0.05, clock=clock)
    probe = cpsat.attempt(problem, bounds(problem).value, 2, budget=budget)
    assert not probe.conclusive
    assert probe.counted == budget.seconds == clock.since(Clock().mark())
