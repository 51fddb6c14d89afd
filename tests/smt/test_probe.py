"""A limit is no proof: a probe that ran out of work, time or memory never becomes a refutation, and a mutant
in which it does is caught."""

from collections.abc import Callable
from random import Random
from threading import Barrier, Event

import pytest
from ortools.sat.python import cp_model
from pysat.solvers import Solver

from tests.samples import attention
from tests.smt.test_boolean import pigeons
from twill.engine.parallel import NOTHING, Cores, Step, Stop, find_and_prove, first_conclusive
from twill.engine.probe import Budget, Feasible, Probe, Refuted, Unknown
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.pipeline import solve
from twill.smt import benders, cpsat, sat
from twill.smt.cpsat import solve as cpsat_solve

INTERVAL = 2112
"""Of the attention sample: a schedule exists there, which takes more work than these tests allow."""

NO_WORK = Budget(60.0, 1e-6)


def exhausted_cpsat() -> None:
    """CP-SAT without work on an interval that has a schedule."""
    assert not cpsat.attempt(attention().problem, INTERVAL, 2, budget=NO_WORK).refuted


def exhausted_sat() -> None:
    """One conflict for a problem that needs thousands."""
    assert sat.probe(pigeons(40, 8), 79, 3, joint=True, work=1e-6).outcome == Unknown("work")


def exhausted_benders() -> None:
    assert benders.probe(attention().problem, INTERVAL, 2, joint=True, work=1e-6).outcome == Unknown("work")


def exhausted_search() -> None:
    """A search in which no probe has work claims no more than the bounds."""
    result = solve(attention().problem, Options(time_limit=0.3, explain=False))
    assert result.proved == result.bounds.value or all(
        r.max_in_flight is not None for r in result.refuted[1:]
    )
    assert all(
        refutation.by.startswith(("ResMII", "RecMII"))
        for refutation in result.refuted
        if refutation.max_in_flight is None
    )


CHECKS = (exhausted_cpsat, exhausted_sat, exhausted_benders)


@pytest.mark.parametrize("check", [*CHECKS, exhausted_search])
def test_a_limit_refutes_nothing(check: Callable[[], None]) -> None:
    check()


def _refutes(*given: object, **named: object) -> Refuted:
    return Refuted()


@pytest.mark.parametrize(
    ("module", "function", "check"),
    [
        (cpsat_solve, "_outcome", exhausted_cpsat),
        (sat, "solve_within", exhausted_sat),
        (benders, "_partition_by_partition", exhausted_benders),
    ],
)
def test_a_mutant_that_takes_a_limit_for_a_proof_is_caught(
    module: object, function: str, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, function, _refutes)
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("status", [cp_model.UNKNOWN, cp_model.MODEL_INVALID])
def test_only_infeasible_is_a_refutation_of_cpsat(status: cp_model.CpSolverStatus) -> None:
    built = cpsat_solve.build(attention().problem, INTERVAL, 2, True)
    solver = cp_model.CpSolver()
    assert cpsat_solve._outcome(built, solver, status) == Unknown("work")  # pyright: ignore[reportPrivateUsage]
    assert cpsat_solve._outcome(built, solver, cp_model.INFEASIBLE) == Refuted()  # pyright: ignore[reportPrivateUsage]


def test_a_solver_without_conflicts_left_is_undecided() -> None:
    with Solver(name=sat.SOLVER) as solver:
        for clause in ([1, 2], [1, -2], [-1, 2], [-1, -2]):
            solver.add_clause(clause)  # pyright: ignore[reportUnknownMemberType]
        assert sat.solve_within(solver, None) == Refuted()


def test_only_a_refuted_probe_is_evidence() -> None:
    found = Feasible(Solution(1, (0,), (0,)))
    assert [
        Probe(outcome, "x").refutation(3, 2, below=True) is not None
        for outcome in (found, Unknown(), Refuted())
    ] == [
        False,
        False,
        True,
    ]


# --- side by side -----------------------------------------------------------------------------------------


def step(outcome: Feasible | Refuted | Unknown, name: str) -> Step:
    return lambda stop: Probe(outcome, name)


@pytest.mark.parametrize("seed", range(40))
def test_the_result_does_not_depend_on_the_jobs(seed: int) -> None:
    random, found = Random(seed), Feasible(Solution(1, (0,), (0,)))
    conclusive = found if seed % 2 else Refuted()
    finders = [step(random.choice((found if seed % 2 else Unknown(), Unknown())), f"f{i}") for i in range(3)]
    provers = [step(random.choice((conclusive, Unknown(), Unknown())), f"p{i}") for i in range(3)]

    def both(jobs: int) -> Probe:
        return find_and_prove(finders, provers, jobs, Stop())

    assert len({both(jobs) for jobs in (1, 2, 3, 8)}) == 1


def test_a_refutation_stops_the_search_for_a_schedule() -> None:
    def hunt(stop: Stop) -> Probe:
        while not stop.is_set():
            pass
        return NOTHING

    assert find_and_prove([hunt], [step(Refuted(), "proof")], 2, Stop()) == Probe(Refuted(), "proof")


def test_proofs_take_the_cores_of_a_search_that_has_ended() -> None:
    """Two proofs that wait for each other end only side by side."""
    ended, meeting = Event(), Barrier(2, timeout=20)

    def proof(stop: Stop) -> Probe:
        meeting.wait()
        return Probe(Refuted(), "proof") if ended.is_set() else NOTHING

    def hunt(stop: Stop) -> Probe:
        ended.set()
        return NOTHING

    assert find_and_prove([hunt], [proof, proof], 2, Stop()).refuted


def test_no_step_begins_behind_a_conclusive_one() -> None:
    begun: list[str] = []

    def noted(stop: Stop) -> Probe:
        begun.append("late")
        return NOTHING

    assert first_conclusive([step(Refuted(), "first"), noted], Cores(1), Stop()).engine == "first"
    assert not begun


@pytest.mark.parametrize("cores", [1, 3])
def test_no_step_counts_once_those_before_it_have_taken_the_time(cores: int) -> None:
    """However many cores there are; each may have been given all of the time."""

    def taking(outcome: Refuted | Unknown, seconds: float) -> Step:
        return lambda stop: Probe(outcome, "some", counted=seconds)

    steps = [taking(Unknown(), 5), taking(Unknown(), 4), taking(Refuted(), 1)]
    assert first_conclusive(steps, Cores(cores), Stop(), limit=20).refuted
    late = first_conclusive(steps, Cores(cores), Stop(), limit=10)
    assert not late.conclusive
    assert late.counted == 9
