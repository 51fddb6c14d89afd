"""Yices: on the shared formulation it agrees with SAT; on the paper's printed encoding it finds what the
paper prints, defects included."""

import sys
from pathlib import Path
from random import Random

import pytest

from benchmarks import paper_encoding as printed
from tests.properties.tiny import tiny_problem
from tests.samples import figure1
from twill.diagnostics import TwillError
from twill.engine.probe import solution as found_by
from twill.engine.probe import what
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.smt import sat, yices
from twill.verify.check import check

pytestmark = pytest.mark.filterwarnings("ignore:.*PuLP 4.0")


def test_agrees_with_sat_and_its_schedules_hold() -> None:
    statuses: set[str] = set()
    for seed in range(3000, 3030):
        random = Random(seed)
        problem = tiny_problem(random, 4)
        interval, in_flight = random.randint(1, 6), random.randint(1, 3)
        decision = yices.decide(problem, interval, in_flight, joint=True)
        solution = found_by(decision)
        statuses.add(what(decision))
        assert what(decision) == what(sat.probe(problem, interval, in_flight, joint=True).outcome), (
            f"seed {seed}"
        )
        assert solution is None or check(problem, solution) == (), f"seed {seed}"
    assert statuses == {"feasible", "infeasible"}


def test_an_attempt_carries_the_decision_over() -> None:
    attempt = yices.attempt(figure1().problem, 2, 3)
    assert (attempt.what, attempt.engine) == ("feasible", "yices")


def test_without_the_library_the_engine_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yices_api.py").write_text("raise OSError('no library')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(TwillError, match="not installed"):
        yices.attempt(figure1().problem, 2, 3)


def test_algorithm_1_finds_figure_1() -> None:
    found = printed.search(figure1().problem, 20.0)
    assert found.interval == 2
    assert found.start == (0, 2, 3)


def test_algorithm_1_stops_at_its_limit() -> None:
    found = printed.search(figure1().problem, 0.0)
    assert (found.interval, found.reached) == (None, 0)


def test_printed_liveness_misses_what_is_carried_into_the_program() -> None:
    """A value read two iterations on: three instances live at once, of which the unrolled program counts
    one."""
    problem = Problem(
        "carried",
        "toy",
        (Unit("U"),),
        (Operation("a", "op", (Reservation("U", 2),), 2), Operation("b", "op", (Reservation("U", 2),), 2)),
        (Edge("a", "b", 2), Edge("a", "b", 2, 2)),
        (Value("x", "a", (Use("b", 2),), shared=1),),
        Limits(groups=2, shared=1),
    )
    found = printed.search(problem, 20.0)
    assert found.interval == 4
    assert what(sat.probe(problem, 4, 3, joint=True).outcome) == "infeasible"
