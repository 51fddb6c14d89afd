# pyright: reportPrivateUsage=false
"""Every number of slots refuted by itself: no schedule is lost, and what resists as a whole is refuted."""

from dataclasses import replace
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from twill.engine.probe import Budget, Probe, Refuted, Unknown
from twill.inputs import Inputs, cases
from twill.ir.problem import Problem, Value
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.modulo.start import start
from twill.smt import conflict, cpsat, search, slots
from twill.smt.cpsat import Tactics
from twill.smt.gap import by_slots
from twill.smt.relax import Projection
from twill.smt.setting import Evidence, Setting


def with_slots(problem: Problem, random: Random) -> Problem:
    """Loads may run ahead by one or two iterations."""
    streaming = {op.id for op in problem.operations if op.streaming}
    values = tuple(
        replace(value, shared=max(1, value.shared), slots=random.randint(1, 2), resident=False)
        if value.src in streaming and value.uses
        else value
        for value in problem.values
    )
    limits = replace(problem.limits, shared=problem.limits.shared + random.randint(2, 12))
    return replace(problem, values=values, limits=limits)


def periods(problem: Problem, answer: Solution, value: Value) -> int:
    """How many the value lives, one at least."""
    ends = [
        answer.start[problem.index(use.op)] + use.distance * answer.interval + use.hold for use in value.uses
    ]
    return max(1, -(-(max(ends) - answer.start[problem.index(value.src)]) // answer.interval))


def test_every_schedule_has_some_number_of_slots() -> None:
    """Its own starts solve the relaxation for the slots that it has, and for no other number."""
    count = 0
    for random in map(Random, range(500)):
        problem = with_slots(tiny_problem(random, 5), random)
        answer = cpsat.attempt(problem, bounds(problem).value + random.randint(0, 3), 3).solution
        loads = [value for value in problem.values if value.slots and value.shared and value.uses]
        if not answer or not loads:
            continue
        starts = tuple((op.id, start) for op, start in zip(problem.operations, answer.start, strict=True))
        pinned = replace(conflict.narrow_anywhere(problem), starts=starts)
        for load in loads:
            own = periods(problem, answer, load)
            most, tactics = answer.in_flight(problem) + 1, Tactics(periods=(load.id, own))
            found = cpsat.attempt(pinned, answer.interval, most, tactics=tactics)
            assert found.what == "feasible", f"{problem}, {load}"
            assert not slots.refute(problem, load, answer.interval, most, Budget(work=1.0)).refuted
            if own > 1:
                fewer = Tactics(periods=(load.id, own - 1))
                assert cpsat.attempt(pinned, answer.interval, most, tactics=fewer).refuted
        count += 1
    assert count > 12


def test_each_number_of_slots_is_a_problem_too() -> None:
    """What CP-SAT decides by a restriction, as rules for any engine: every schedule solves that of its own
    number, and what CP-SAT finds, too; most that it refutes is refuted, all but what the issue of loads
    decides, and ranges longer than any schedule."""
    schedules, refuted, weaker = 0, 0, 0
    for random in map(Random, range(400)):
        problem = with_slots(tiny_problem(random, 5), random)
        interval, small = bounds(problem).value + random.randint(0, 2), conflict.narrow_anywhere(problem)
        for load in (value for value in problem.values if value.slots and value.shared and value.uses):
            pieces = slots.pieces(problem, load)[:3]
            probes = [cpsat.attempt(piece, interval, 3) for piece in pieces]
            answer = cpsat.attempt(problem, interval, 3).solution
            if answer and periods(problem, answer, load) <= len(pieces):
                assert probes[periods(problem, answer, load) - 1].what == "feasible", f"{problem}, {load}"
                schedules += 1
            for number, probe in enumerate(probes, 1):
                own = cpsat.attempt(small, interval, 3, tactics=Tactics(periods=(load.id, number)))
                assert own.refuted or not probe.refuted, f"{problem}, {load}"
                refuted, weaker = refuted + probe.refuted, weaker + (own.refuted and not probe.refuted)
    assert schedules > 8
    assert refuted > 8 * weaker


def test_a_backward_pass_with_few_registers() -> None:
    """The complete model does not refute this in thirty times the work, nor a quarter of the interval."""
    (case,) = cases(Inputs("examples/ttgir/fa_bwd.sm100.ttgir", registers=128))
    load = slots.splits(case.problem)
    assert load is not None
    assert slots.refute(case.problem, load, 3500, 4, Budget(600, 3.0)).refuted


def test_most_of_a_gap_is_closed_before_the_long_proofs() -> None:
    """Once brief proofs just below the answer have ended, and once only."""
    (case,) = cases(Inputs("examples/ttgir/fa_bwd.sm100.ttgir", registers=128))
    begin = start(case.problem, joint=True)
    setting = search._setting(case.problem, Options(time_limit=600), lambda _: None, begin, 4, None)
    found = Evidence(begin.low, begin.top, Solution(3600, (), ()), begin.refuted)
    few = search._Agenda(setting.work)
    assert search._halved(setting, found, few) == (found, few)
    brief = replace(few, stage="brief", undecided=frozenset({3599}))
    evidence, agenda = search._halved(setting, found, brief)
    assert evidence.low > begin.low + (3599 - begin.low) // 3
    assert evidence.refuted[-1].by == slots.NAME
    assert search._halved(setting, evidence, agenda) == (evidence, agenda)
    near = Evidence(begin.low, begin.top, Solution(begin.low + 9, (), ()), begin.refuted)
    assert search._halved(setting, near, brief)[0] == near


@pytest.mark.parametrize(
    ("holds", "tried", "low"),
    [
        (3344, [3429, 3514], 3345),
        (3599, [3429, 3514], 3515),
        (3460, [3429, 3514, 3457, 3485], 3458),
    ],
)
def test_what_is_left_is_divided_where_something_is_refuted(
    holds: int, tried: list[int], low: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intervals up to `holds` are refuted; where all or none are, or little is left, it ends."""
    (case,) = cases(Inputs("examples/ttgir/fa_bwd.sm100.ttgir", registers=128))
    begin = start(case.problem, joint=True)
    setting = search._setting(case.problem, Options(), lambda _: None, begin, 4, None)
    asked: list[int] = []

    def refute(_problem: Problem, _load: Value, interval: int, *_: object) -> Probe:
        asked.append(interval)
        return Probe(Refuted() if interval <= holds else Unknown(), slots.NAME)

    monkeypatch.setattr(slots, "refute", refute)
    evidence = by_slots(setting, Evidence(3345, begin.top, Solution(3600, (), ())))
    assert (sorted(asked[:2]) + sorted(asked[2:4]) + sorted(asked[4:]), evidence.low) == (tried, low)


@pytest.mark.parametrize(("holds", "low"), [(3599, 3600), (3598, 3515), (3500, 3486)])
def test_the_interval_below_the_answer_is_last(holds: int, low: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every interval before it is refuted, each number of slots by itself."""
    (case,) = cases(Inputs("examples/ttgir/fa_bwd.sm100.ttgir", registers=128))
    begin = start(case.problem, joint=True)
    setting = search._setting(case.problem, Options(), lambda _: None, begin, 4, None)
    numbers: list[int] = []

    def refute(_problem: Problem, _load: Value, interval: int, *_: object) -> Probe:
        return Probe(Refuted() if interval <= holds else Unknown(), slots.NAME)

    def at_once(_problem: Problem, interval: int, _n: int, _budget: Budget, tactics: Tactics) -> Probe:
        assert tactics.periods is not None
        numbers.append(tactics.periods[1])
        return Probe(Refuted() if interval <= holds or tactics.periods[1] > 1 else Unknown(), slots.NAME)

    monkeypatch.setattr(slots, "refute", refute)
    monkeypatch.setattr(slots, "_at_once", at_once)
    evidence = by_slots(setting, Evidence(3345, begin.top, Solution(3600, (), ())), last_too=True)
    assert evidence.low == low
    assert sorted(numbers) == ([1, 2, 3, 4] if holds > 3514 else [])


def test_small_loads_split_nothing() -> None:
    (case,) = cases(Inputs("examples/ttgir/fa_bwd.sm100.ttgir"))
    values = tuple(replace(v, shared=min(v.shared, 1024)) for v in case.problem.values)
    assert slots.splits(replace(case.problem, values=values)) is None


@pytest.mark.parametrize("better", [False, True])
def test_they_wait_where_an_early_answer_is_far_from_the_best(
    better: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of sub-tiles, with a schedule just below it: other intervals come first. Where that one resists, what
    is left is divided at once."""
    (case,) = cases(Inputs("examples/ttgir/fa_fwd_subtiled.sm90.ttgir"))
    begin = start(case.problem, joint=True)
    setting = search._setting(case.problem, Options(), lambda _: None, begin, 4, None)
    assert setting.alike
    first, second = Solution(begin.low + 900, (), ()), Solution(begin.low + 899, (), ())
    calls: list[Solution | None] = []

    def none(_: Setting) -> list[Projection]:
        return []

    def early(_: Setting, evidence: Evidence) -> Evidence:
        return evidence.found(first)

    def enough(_: Setting, _evidence: Evidence) -> bool:
        return True

    def settled(_: Setting, evidence: Evidence, agenda: search._Agenda) -> tuple[Evidence, search._Agenda]:
        return (evidence.found(second) if better else evidence), agenda

    def divided(_: Setting, evidence: Evidence) -> Evidence:
        calls.append(evidence.best)
        return evidence

    monkeypatch.setattr(search, "_projections", none)
    monkeypatch.setattr(search, "_first", early)
    monkeypatch.setattr(search, "_settled", settled)
    monkeypatch.setattr(search, "by_slots", divided)
    monkeypatch.setattr(search, "_near_enough", enough)
    found = search._decided(setting, Evidence(begin.low, begin.top))
    assert found.best == (second if better else first)
    assert calls == ([] if better else [first])
