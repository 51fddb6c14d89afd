"""A time limit counts work, so that what a search finds within one does not depend on what else runs."""

import threading
import time
from dataclasses import replace
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from twill.engine import clock as module
from twill.engine.clock import PATIENCE, WRONG, Clock, own_clock
from twill.engine.parallel import Cores, Step, Stop, at_once, find_and_prove, first_conclusive
from twill.engine.probe import Budget, Feasible, Probe, Refuted, Unknown
from twill.inputs import Inputs, cases
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.pipeline import solve
from twill.smt import cpsat

FOUND = Probe(Feasible(Solution(1, (), ())), "one", counted=1.0)
REFUTED = Probe(Refuted(), "two", counted=2.0)
OPEN = Probe(Unknown(), "three", counted=4.0)


class Times:
    """Fakes of what is measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.processor = self.measured = 0.0
        monkeypatch.setattr(time, "process_time", lambda: self.processor)
        monkeypatch.setattr(time, "monotonic", lambda: self.measured)


def test_only_what_is_counted_is_gone_until_the_measured_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    times, clock = Times(monkeypatch), Clock()
    mark = clock.mark()
    clock.count(1.5)
    times.processor, times.measured = 2 * WRONG, 2 * PATIENCE
    assert clock.left(2.0, mark) == 0.5
    times.measured += 0.1
    assert clock.left(2.0, mark) == 0.0, "next to nothing of a core"
    times.measured, times.processor = 0.0, 2 * WRONG + 0.1
    assert clock.left(2.0, mark) == 0.0, "work that counts for too little"


def test_a_mark_may_be_some_time_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    Times(monkeypatch)
    clock = Clock()
    clock.count(3.0)
    assert clock.left(5.0, clock.mark(2.0)) == 3.0


def test_what_rounding_leaves_of_a_limit_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Times(monkeypatch)
    clock = Clock()
    clock.count(0.7)
    mark = clock.mark()
    clock.count(0.1)
    assert clock.since(mark) < 0.1
    assert clock.left(0.1, mark) == 0.0


def test_threads_do_not_count_each_others_work() -> None:
    others = list[Clock]()
    thread = threading.Thread(target=lambda: others.append(own_clock()))
    thread.start()
    thread.join()
    assert own_clock() is own_clock()
    assert others[0] is not own_clock()


def steps(*probes: Probe) -> list[Step]:
    return [lambda stop, probe=probe: probe for probe in probes]


@pytest.mark.parametrize("jobs", [1, 2, 4])
@pytest.mark.parametrize(
    ("find", "prove", "counted"),
    [
        ((OPEN, FOUND, OPEN), (OPEN,), 5.0),
        ((OPEN,), (OPEN, REFUTED, OPEN), 6.0),
        ((OPEN, OPEN), (OPEN,), 8.0),
        ((), (OPEN,), 4.0),
    ],
)
def test_of_a_race_counts_what_does_not_depend_on_which_side_is_faster(
    jobs: int, find: tuple[Probe, ...], prove: tuple[Probe, ...], counted: float
) -> None:
    assert find_and_prove(steps(*find), steps(*prove), jobs, Stop()).counted == counted


def test_steps_up_to_the_conclusive_one_count() -> None:
    assert first_conclusive(steps(OPEN, REFUTED, OPEN), Cores(1), Stop()).counted == 6.0


def test_a_probe_counts_the_same_each_time_and_not_what_is_measured() -> None:
    problem, clock = tiny_problem(Random(49), 5), Clock()
    budget = Budget(clock=clock)
    first, second = (cpsat.attempt(problem, 6, 2, budget=budget) for _ in range(2))
    assert first.counted == second.counted > 0
    assert clock.since(Clock().mark()) == first.counted + second.counted


def test_a_limit_that_ends_a_search_ends_it_at_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where measured time, of a machine that does other work, passes five times as fast."""
    (case,) = cases(Inputs("examples/ttgir/fa_fwd_subtiled.sm90.ttgir"))
    options = Options(time_limit=0.7)
    quiet, now = solve(case.problem, options), time.monotonic
    assert any("time limit" in note for note in quiet.notes)
    monkeypatch.setattr(module, "WRONG", 1e6)  # no fake of processor time passes
    monkeypatch.setattr(module.time, "monotonic", lambda: 5 * now())
    assert replace(solve(case.problem, options), refuted=(), seconds=()) == replace(
        quiet, refuted=(), seconds=()
    )


def test_a_model_that_is_not_stated_takes_what_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is too large, and where measured time ends first: a search goes on for ever otherwise. Not
    where another probe made it unnecessary."""
    problem, clock = tiny_problem(Random(0), 3), Clock()
    assert cpsat.attempt(problem, 20, 2, budget=Budget(1e-6, clock=clock)).counted == 1e-6
    assert clock.since(Clock().mark()) == 1e-6
    monkeypatch.setattr(Budget, "measured", -1.0)
    assert cpsat.attempt(problem, 20, 2, budget=Budget(5.0)).counted == 5.0
    stop = threading.Event()
    stop.set()
    assert cpsat.attempt(problem, 20, 2, budget=Budget(5.0, stop=stop)).counted == 0.0


@pytest.mark.parametrize(("load", "jobs"), [(0.5, 2), (4.0, 2), (4.5, 1)])
def test_one_solver_runs_at_once_beside_other_work(
    monkeypatch: pytest.MonkeyPatch, load: float, jobs: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    assert at_once(2) == jobs
