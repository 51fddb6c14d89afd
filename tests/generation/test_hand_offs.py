"""Problems that count what hand-offs between groups cost."""

from collections.abc import Sequence
from math import inf

import pytest

from tests.kernels.programs import loops, program
from twill.costs.model import costed
from twill.diagnostics import TwillError
from twill.generation.attempt import Attempt
from twill.generation.attempts import fastest
from twill.generation.choices.hand_offs import with_hand_offs
from twill.inputs import Case, Inputs, cases
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.simulate.predict import Predicted, predict
from twill.verify.check import check
from twill.warp.tasks import Scheduled


def problems(kernel: str) -> tuple[Scheduled, Problem, Problem]:
    """The loop, its problem, and that with hand-offs."""
    (one,) = loops(kernel)[1]
    plain = costed(one.graph, one.machine)
    found = with_hand_offs(plain, one.graph, one.machine)
    assert found
    return one, plain, found


def test_mmas_have_a_group_of_their_own() -> None:
    one, plain, found = problems("fa_fwd_subtiled.sm100")
    mmas = {node.id for node in one.graph.nodes if node.kind == "mma"}
    assert mmas in [set(ids) for ids in set(found.together) - set(plain.together)]
    wide = {op.id for op in plain.operations if op.warps > 1} - mmas
    assert set(found.apart) - set(plain.apart) == {(mma, op) for mma in mmas for op in wide}


def test_tiles_stay_in_their_group_and_vectors_need_not() -> None:
    _, plain, found = problems("fa_fwd_subtiled.sm100")
    joined = [set(ids) for ids in set(found.together) - set(plain.together)]
    assert any({"ffma.weights_37", "exp2.weights_38"} <= ids for ids in joined)
    assert not any({"exp2.shrink_39", "update.acc0_60"} <= ids for ids in joined)


def test_waits_hold_the_group_and_delay_what_they_guard() -> None:
    one, plain, found = problems("fa_fwd_subtiled.sm100")
    poll, barrier = one.machine.handover.poll, one.machine.handover.barrier
    get, maximum = "get.scores0_29", "reduce_max.raised_31"
    assert found.operation(get).issue == plain.operation(get).issue + poll
    assert found.operation(maximum) == plain.operation(maximum), "its operand comes from its own group"
    delays = [{e.delay for e in p.edges if (e.src, e.dst) == (get, maximum)} for p in (plain, found)]
    assert {delay + poll for delay in delays[0]} == delays[1]
    scores = [next(v for v in p.values if v.src == "dot.scores0_27") for p in (plain, found)]
    assert {u.hold for u in scores[1].uses} == {u.hold + barrier for u in scores[0].uses}


def test_operations_of_a_group_are_in_order() -> None:
    """Also where neither is an asynchronous one."""
    _, plain, found = problems("fa_fwd_subtiled.sm100")
    pair = "exp2.weights_38", "reduce_sum.24"
    blocking = [{e.blocking for e in p.edges if (e.src, e.dst) == pair} for p in (plain, found)]
    assert blocking == [{False}, {True}]


def test_its_schedules_are_schedules_of_the_loop() -> None:
    """All that is counted besides makes rules stricter."""
    one, plain, found = problems("fa_bwd_subtiled.sm100")
    assert one.problem.apart, "kept with the costs of hand-offs"
    assert not list(check(found, one.solution))
    loose = [v for v in check(plain, one.solution) if v.rule not in ("SHARED", "TENSOR")]
    assert not loose, "but for the number of slots"


@pytest.mark.parametrize("kernel", ["gemm", "fa_fwd_subtiled", "gemm.sm100"])
def test_loops_without_computing_beside_tensor_memory_have_none(kernel: str) -> None:
    (one,) = loops(kernel)[1]
    assert with_hand_offs(costed(one.graph, one.machine), one.graph, one.machine) is None


def attempted(kernel: str) -> tuple[Sequence[Case], Attempt]:
    found = cases(Inputs(f"examples/ttgir/{kernel}.ttgir", arch="sm100"))
    return found, Attempt(found, program(kernel), loops(kernel)[1], {}, {})


@pytest.mark.parametrize(("late", "tried"), [(0, 1), (1, 2)])
def test_they_are_counted_where_a_program_is_late(
    monkeypatch: pytest.MonkeyPatch, late: int, tried: int
) -> None:
    found, first = attempted("fa_bwd.sm100")
    calls = list[Problem]()

    def cycles(one: Attempt) -> float:
        return one.scheduled() + late

    def without_more(one: Attempt, *_: object) -> Attempt:
        return one

    monkeypatch.setattr(Attempt, "cycles", cycles)
    monkeypatch.setattr("twill.generation.attempts.with_more_blocks", without_more)

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        calls.append(given[0].problem)
        return first

    assert fastest(found, attempt) is first
    assert [bool(problem.apart) for problem in calls] == [False, True][:tried]


def test_they_are_counted_where_there_is_no_other_schedule() -> None:
    found, first = attempted("fa_bwd.sm100")

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        if not given[0].problem.apart:
            raise TwillError("no schedule")
        return first

    assert fastest(found, attempt) is first


@pytest.mark.parametrize(("slowest", "tried"), [(inf, True), (2.4e4, True), (2.3e4, False)])
def test_each_loop_is_taken_as_it_is_fastest(
    monkeypatch: pytest.MonkeyPatch, slowest: float, tried: bool
) -> None:
    """The first with hand-offs counted, the second without: what is known of both makes a third attempt,
    unless that takes too long. The second loop has two iterations at most: an eighth of its cycles count."""
    found, first = attempted("fa_fwd_causal.sm100")
    made = list[tuple[bool, ...]]()
    times: dict[tuple[bool, ...], tuple[float, ...]] = {
        (False, False): (3e4, 3e4),
        (True, True): (2e4, 1.5e5),
        (True, False): (2e4, 3e4),
    }

    def attempt(given: Sequence[Case], room: int) -> Attempt:
        made.append(tuple(len(case.problem.apart) > 3 for case in given))
        return Attempt(tuple(given), first.program, first.loops, {}, {})

    def intervals(one: Attempt) -> dict[str, float]:
        paths = [loop.loop.path for loop in one.loops]
        taken = times[tuple(len(case.problem.apart) > 3 for case in one.cases)]
        return dict(zip(paths, taken, strict=True))

    monkeypatch.setattr(Attempt, "intervals", property(intervals))
    assert first.program.resident_blocks == 1
    best = fastest(found, attempt, slowest)
    assert (made[-1] == (True, False)) == tried
    assert best.cycles() == (2e4 if tried else 3e4) + 3e4 / 8
    assert ("each loop as it is fastest" in "".join(best.program.notes)) == tried


def test_an_attempt_is_predicted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Attempt((), program("fa_fwd_causal"), loops("fa_fwd_causal")[1], {}, {})
    predicted = list[Predicted]()

    def counted(made: Program, scheduled: Sequence[Scheduled]) -> Predicted:
        predicted.append(predict(made, scheduled))
        return predicted[-1]

    monkeypatch.setattr("twill.simulate.predict.predict", counted)
    assert one.cycles() == sum(one.of_loops()) > 0
    assert one.of_sm() >= one.cycles() / one.program.resident_blocks
    assert len(predicted) == 1
