# pyright: reportPrivateUsage=false
"""Cases of a partition: together they are the problem, and they decide what resists as a whole."""

from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from twill.engine.clusters import clusters
from twill.engine.parallel import Stop
from twill.engine.probe import Budget, Probe, Refuted
from twill.inputs import Inputs
from twill.inputs import cases as loops
from twill.ir.problem import Problem
from twill.ir.schedule import Refutation
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.modulo.start import start
from twill.smt import cases, cpsat, race, search, slots
from twill.smt.conflict import narrow_anywhere
from twill.smt.cpsat import Tactics
from twill.verify import check


def test_the_cases_together_are_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divided down to the last pair of operations, they decide what the complete model does, and what they
    find is a schedule of the whole."""
    monkeypatch.setattr(cases, "RESISTS", 0.0)
    refuted, found = 0, 0
    for random in map(Random, range(50)):
        problem = tiny_problem(random, 6)
        interval = bounds(problem).value + random.randint(0, 2)
        whole = cpsat.attempt(problem, interval, 3)
        divided = cases.refute(problem, interval, 3, Budget(600))
        assert divided.what == whole.what, f"{problem}"
        refuted, found = refuted + divided.refuted, found + (divided.solution is not None)
        if divided.solution is not None:
            assert check(problem, divided.solution) == ()
    assert refuted > 5
    assert found > 5


def leaves(problem: Problem) -> list[Problem]:
    halves = cases._halves(problem)
    return [leaf for half in halves for leaf in leaves(half)] if halves else [problem]


def test_every_partition_is_in_one_case() -> None:
    for random in map(Random, range(20)):
        ends = [clusters(leaf) for leaf in leaves(tiny_problem(random, 5))]
        for end in ends:
            wide = [c for c, loads in enumerate(end.variable) if not loads]
            assert all((a, b) in end.apart for a in wide for b in wide if a < b)
        whole = [end.of for end in ends if end.contradiction is None]
        assert len(set(whole)) == len(whole)


def test_work_ends_what_resists() -> None:
    (case,) = loops(Inputs("examples/ttgir/fa_bwd.sm100.ttgir", registers=128))
    probe = cases.refute(case.problem, 3991, 4, Budget(600, 0.4))
    assert probe.what == "timeout"
    assert probe.work < 1.0


def test_cases_decide_what_resists_as_a_whole() -> None:
    """A backward pass with few registers, whose queries last two periods, 0.98 of the answer: CP-SAT needs
    over 6 deterministic seconds for all partitions together."""
    (case,) = loops(Inputs("examples/ttgir/fa_bwd.sm100.ttgir", registers=128))
    tactics = Tactics(periods=("load.x", 2))
    assert cases.refute(narrow_anywhere(case.problem), 3888, 4, Budget(900, 6.0), tactics).refuted


@pytest.mark.parametrize("known", [False, True])
def test_the_last_proof_goes_by_cases(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once few iterations in flight are refuted, with a larger budget; before that at once."""
    (case,) = loops(Inputs("examples/ttgir/fa_bwd.sm100.ttgir", registers=128))
    asked: list[tuple[bool, float | None]] = []

    def refute(*given: object, by_cases: bool) -> Probe:
        asked.extend((by_cases, budget.work) for budget in given if isinstance(budget, Budget))
        return Probe(Refuted(), slots.NAME)

    monkeypatch.setattr(slots, "refute", refute)
    begin = start(case.problem, joint=True)
    setting = search._setting(case.problem, Options(), lambda _: None, begin, 4, None)
    few = Refutation(3991, 2, "cpsat", 0.1, below=True) if known else None
    last = race.Race(setting, 3991, setting.work, "full", None, (), few)
    (step,) = race._by_slots(last)
    assert step(Stop()).refuted
    assert asked == [(known, (race.SLOTS if known else race.PARTS) * setting.work)]
