"""Steps solved ahead give what they give when they are asked for, and count as much."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from tests.samples import attention, figure1
from twill.engine import clock, probe
from twill.engine.clock import Clock
from twill.engine.parallel import Stop
from twill.engine.partitions import partitions
from twill.engine.probe import Budget
from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.modulo.simplest import Proven
from twill.smt import ahead, cpsat, polish
from twill.smt.ahead import Solved, Step
from twill.smt.cpsat import Tactics
from twill.smt.polish import Polish
from twill.smt.setting import Setting
from twill.verify.check import check


def setting(problem: Problem, jobs: int, seconds: float = 60.0) -> Setting:
    own, options = Clock(), Options(jobs=jobs, time_limit=seconds)
    return Setting(
        problem, options, 3, lambda event: None, partitions(problem), (), 0.5, began=own.mark(), clock=own
    )


def found(problem: Problem, more: int = 0) -> Solution | None:
    return cpsat.attempt(problem, bounds(problem).value + more, 3).solution


def step_of(problem: Problem, work: float = 0.5) -> Step:
    answer = found(problem, 2)
    assert answer is not None
    return Step("length", problem, answer, 3, True, Tactics(), work)


def simplified(given: Setting, answer: Solution) -> tuple[Solution, list[str], float]:
    before = given.clock.mark()
    return *Polish(given, answer).run(), given.clock.since(before)


def test_a_guess_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the schedule nor what is proven of it, nor what counts, with much time and with little."""
    for module, name in ((clock, "WRONG"), (clock, "PATIENCE"), (probe, "PATIENCE")):
        monkeypatch.setattr(module, name, 1e6)
    compared = 0
    for random in map(Random, range(80)):
        problem = tiny_problem(random, 5)
        answer = found(problem, random.randint(0, 5))
        if answer is None:
            continue
        seconds = random.choice((60.0, 60.0, 1.5, 0.02))
        alone, beside = (simplified(setting(problem, jobs, seconds), answer) for jobs in (1, 2))
        assert beside[:2] == alone[:2]
        assert abs(beside[2] - alone[2]) < 1e-6
        assert check(problem, beside[0]) == ()
        compared += 1
    assert compared >= 20


def unmet(_: Polish, *, length: bool = False) -> Proven:
    """No goal is at its lower bound, so that all proofs are tried."""
    return Proven(False, False, False, False)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_guess_ends_where_a_proof_finds_something(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows begins with what the first, second or third proof has found, not with the guess."""
    monkeypatch.setattr(polish, "SHARE", 0.02)
    problem = attention().problem
    answer = found(problem, 60)
    assert answer is not None
    other = cpsat.attempt(problem, answer.interval, 3, tactics=Tactics(seed=7)).solution
    assert other is not None
    assert other.start != answer.start
    own, proofs, ended = Polish._proves, list[bool](), list[bool]()  # pyright: ignore[reportPrivateUsage]

    def proves(self: Polish, proof: Callable[[], bool]) -> bool:
        if self.guess is not None:
            return own(self, proof)
        proofs.append(True)
        if len(proofs) != count:
            return own(self, lambda: False)

        def finds() -> bool:
            self.best = other
            return False

        sure = own(self, finds)
        ended.append(self.ahead is None or self.ahead.is_set())
        return sure

    monkeypatch.setattr(Polish, "_proves", proves)
    monkeypatch.setattr(Polish, "_met", unmet)
    alone = Polish(setting(problem, 1), answer).run()
    assert len(proofs) >= count
    proofs.clear()
    assert Polish(setting(problem, 2), answer).run() == alone
    assert ended == [True, True]


def test_a_step_is_solved_once_and_counts_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    step, solved, count, calls = step_of(figure1().problem), Solved(), Clock(), list[str]()
    own = cpsat.improve

    def improve(*given: object, **how: object) -> object:
        calls.append("improve")
        return own(*given, **how)  # pyright: ignore

    monkeypatch.setattr(ahead.cpsat, "improve", improve)
    with ThreadPoolExecutor(4) as pool:
        budget = Budget(60.0, clock=count)
        results = [one.result() for one in [pool.submit(solved.improved, step, budget) for _ in range(4)]]
    assert calls == ["improve"]
    assert all(one == results[0] for one in results)
    counted = count.since(replace(count.mark(), counted=0.0))
    assert abs(counted - 4 * results[0].counted) < 1e-6


def test_what_a_limit_cut_short_is_not_kept() -> None:
    """A stopped step, and one with less time than its work takes, say nothing of the whole one."""
    step, solved, stop = step_of(figure1().problem), Solved(), Stop()
    whole = Solved().improved(step, Budget(60.0))
    assert whole.proven
    stop.set()
    assert not solved.improved(step, Budget(60.0, stop=stop)).proven
    assert not solved.improved(step, Budget(1e-9)).proven
    assert solved.improved(step, Budget(60.0)) == whole
    known = Solved()
    assert known.improved(step, Budget(60.0)) == whole
    assert not known.improved(step, Budget(1e-9)).proven, "what is known had more time"


def test_who_waits_for_a_step_that_fails_solves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    step, solved = step_of(figure1().problem), Solved()
    begun, own, first = threading.Event(), cpsat.improve, list[bool]()

    def improve(*given: object, **how: object) -> object:
        if not first:
            first.append(True)
            begun.set()
            raise RuntimeError("broken")
        return own(*given, **how)  # pyright: ignore

    monkeypatch.setattr(ahead.cpsat, "improve", improve)
    with ThreadPoolExecutor(1) as pool:
        broken = pool.submit(solved.improved, step, Budget(60.0))
        begun.wait()
        assert solved.improved(step, Budget(60.0)).proven
        with pytest.raises(RuntimeError, match="broken"):
            broken.result()


def test_what_finds_nothing_names_no_schedule() -> None:
    """Who asks next began with an equal schedule that is another object."""
    step, solved = step_of(figure1().problem), Solved()
    step = replace(step, tactics=Tactics(longest=1))
    for one in (step, replace(step, found=replace(step.found))):
        improved = solved.improved(one, Budget(60.0))
        assert (improved.best, improved.proven) == (None, False)
