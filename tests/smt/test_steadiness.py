"""The answer does not depend on the time that anything takes, as long as the user's limit is not reached.

No load of a machine is needed to show it, which a lucky run may survive: the clock of the search is one that
leaps ahead by seconds, and every step of the portfolio waits for a random time before and after its work.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from benchmarks.random_schedules import made_simple
from benchmarks.ranks import KERNEL, kept, narrowed, shuffled
from tests.properties.tiny import tiny_problem
from twill.engine import parallel
from twill.engine.parallel import Cores, Step, Stop, find_and_prove
from twill.engine.probe import Probe
from twill.inputs import Inputs, cases
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.pipeline import solve
from twill.smt import race

LIMIT = 2e4
"""Seconds, which these clocks reach where a search goes on for long: it does if no probe is conclusive."""

SEARCHED = (49, 55, 80, 126, 169, 193)
"""Seeds of tiny problems that neither bounds nor construction decide."""


def answer(problem: Problem, jobs: int) -> Result:
    """What a reproducible run writes: all but the times measured."""
    found = solve(problem, Options(time_limit=LIMIT, jobs=jobs))
    return replace(found, seconds=(), refuted=tuple(replace(one, seconds=0.0) for one in found.refuted))


def leaping(random: Random, clock: Callable[[], float]) -> Callable[[], float]:
    """A clock that is ahead by one to two seconds more whenever it is read."""
    ahead = [0.0]

    def now() -> float:
        ahead[0] += 1 + random.random()
        return clock() + ahead[0]

    return now


def hesitating(random: Random, own: Callable[[Step, Stop, Cores], Probe]) -> Callable[..., Probe]:
    """Steps that begin, and end, some time later."""
    waits = [random.random() * 0.03 for _ in range(64)]

    def wait() -> None:
        time.sleep(waits[random.randrange(64)])

    def step(work: Step, stop: Stop, cores: Cores) -> Probe:
        wait()
        found = own(work, stop, cores)
        wait()
        return found

    return step


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes clock and steps unsteady, in another way for each seed."""
    clock, own = time.monotonic, parallel._with_a_core  # pyright: ignore[reportPrivateUsage]

    def begin(seed: int) -> None:
        monkeypatch.setattr(time, "monotonic", leaping(Random(seed), clock))
        monkeypatch.setattr(time, "thread_time", leaping(Random(seed + 1), clock))
        monkeypatch.setattr(time, "process_time", leaping(Random(seed + 2), clock))
        monkeypatch.setattr(parallel, "_with_a_core", hesitating(Random(seed), own))

    return begin


@pytest.mark.parametrize("seed", SEARCHED)
def test_the_answer_does_not_depend_on_time(
    seed: int, unsteady: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    raced = list[int]()

    def counted(find: Sequence[Step], prove: Sequence[Step], jobs: int, stop: Stop, limit: float) -> Probe:
        raced.append(jobs)
        return find_and_prove(find, prove, jobs, stop, limit)

    monkeypatch.setattr(race, "find_and_prove", counted)
    problem = tiny_problem(Random(seed), 5)
    quiet = answer(problem, 2)
    assert raced, "the engines take part"
    for jobs in (1, 4):
        unsteady(100 * seed + jobs)
        assert answer(problem, jobs) == quiet


def test_attention_does_not_depend_on_time(unsteady: Callable[[int], None]) -> None:
    """With projections, natural partitions and the goals after the interval."""
    (case,) = cases(Inputs("examples/ttgir/fa_bwd.sm90.ttgir"))
    quiet = answer(case.problem, 2)
    unsteady(7)
    assert answer(case.problem, 4) == quiet


def test_the_clock_is_the_one_that_searches_read(unsteady: Callable[[int], None]) -> None:
    """A limit that it leaps over ends the search, which says so."""
    problem = tiny_problem(Random(49), 5)
    unsteady(1)
    found = solve(problem, Options(time_limit=0.02))
    assert found.status != "optimal"
    assert any("time limit" in note for note in found.notes)


def test_random_schedules_of_a_partition_become_one() -> None:
    """Whatever schedule of attention's interval an engine comes upon, the search ends with the same one."""
    best = kept(KERNEL)
    problem = narrowed(KERNEL, best, any_partition=False)
    found = [shuffled(best, problem, seed, 30) for seed in (2, 3, 4)]
    assert all(found)
    starts = {one.solution.start for one in found if one and one.solution}
    assert len(starts) == len(found), "they are different"
    simple = {made_simple(one, 30, 1.0).solution for one in found if one}
    assert len(simple) == 1
