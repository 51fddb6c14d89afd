"""Every rule once by hand: a valid schedule, one number changed, and the message that says which."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.verify.loops import figure1, op, piped
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.ir.schedule import Allocation, Group, Solution
from twill.verify import Violation, check
from twill.verify.numbers import LiveSpan, peak

FIGURE1 = Solution(2, (0, 2, 3), (0, 0, 0))


def rules(problem: Problem, solution: Solution, *, joint: bool = True) -> list[str]:
    return sorted({violation.rule for violation in check(problem, solution, joint=joint)})


def test_a_peak_is_the_largest_sum_at_any_residue() -> None:
    """Spans of any length, from before 0 to after the interval, each repeated in every interval."""
    for random in map(Random, range(200)):
        interval = random.randint(1, 9)
        starts = [random.randint(-5, 20) for _ in range(random.randint(1, 6))]
        spans = [
            LiveSpan(str(i), start, start + random.randint(0, 25), random.randint(0, 4))
            for i, start in enumerate(starts)
        ]
        sums = [
            sum(
                one.amount
                for one in spans
                for shift in range(-60 * interval, 60 * interval, interval)
                if one.start + shift <= residue < one.end + shift
            )
            for residue in range(interval)
        ]
        assert peak(spans, interval).amount == max(sums)


def test_the_papers_schedule() -> None:
    assert check(figure1(), FIGURE1, joint=False) == ()
    assert FIGURE1.length(figure1()) == 4


def test_the_hand_made_pipeline() -> None:
    assert check(*piped()) == ()


@pytest.mark.parametrize(
    ("start", "broken"),
    [
        ((0, 2, 2), ["DEPENDENCE", "UNITS"]),
        ((0, 1, 2), ["UNITS"]),
        ((0, 0, 3), ["DEPENDENCE"]),
        ((-2, 0, 1), ["START"]),
    ],
)
def test_timing(start: tuple[int, ...], broken: list[str]) -> None:
    assert rules(figure1(), replace(FIGURE1, start=start), joint=False) == broken


def test_a_violation_says_who_and_how_much() -> None:
    (violation,) = check(figure1(), replace(FIGURE1, start=(0, 1, 2)), joint=False)
    assert violation == Violation(
        "UNITS", "TC is overbooked at residue 0 by S, O", ("S", "O"), needs=2, has=1
    )
    assert str(violation) == "UNITS: TC is overbooked at residue 0 by S, O (needs 2, has 1)"


def test_an_operation_longer_than_the_interval_meets_itself() -> None:
    problem = Problem("long", "toy", (Unit("TC", 2),), (op("a", cycles=5),), ())
    assert rules(problem, Solution(3, (0,), (0,)), joint=False) == []
    assert rules(problem, Solution(2, (0,), (0,)), joint=False) == ["UNITS"]


def test_an_aggregate_unit_bounds_the_sum_alone() -> None:
    ops = (op("a", "ISSUE", 3), op("b", "ISSUE", 3))
    problem = Problem("aggregate", "toy", (Unit("ISSUE", 1, aggregate=True),), ops, ())
    assert rules(problem, Solution(6, (0, 0), (0, 0)), joint=False) == []
    assert rules(problem, Solution(5, (0, 3), (0, 0)), joint=False) == ["UNITS"]


def test_a_reservation_may_start_late() -> None:
    late = Operation("b", "op", (Reservation("TC", 1, offset=2),), latency=3)
    problem = Problem("offset", "toy", (Unit("TC"),), (op("a"), late), ())
    assert rules(problem, Solution(2, (0, 0), (0, 0)), joint=False) == ["UNITS"]
    assert rules(problem, Solution(2, (0, 1), (0, 0)), joint=False) == []


CHANGES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("exp hears of qk too soon", {"start": (0, 0, 2, 6)}, ["DEPENDENCE"]),
    ("the load is not alone in group 0", {"group": (0, 0, 2, 0)}, ["GROUPS", "VARIABLE"]),
    ("the buffer has too few slots", {"allocations": (Allocation("k", "shared", 0, 10),)}, ["SHARED"]),
    (
        "a group is stated too wide",
        {"groups": (Group(0, 1, 24), Group(1, 8, 24), Group(2, 4, 24))},
        ["GROUPS"],
    ),
    (
        "a group is granted too little",
        {"groups": (Group(0, 1, 24), Group(1, 4, 16), Group(2, 4, 24))},
        ["REGISTERS"],
    ),
    ("a group is missing", {"groups": (Group(0, 1, 24), Group(1, 4, 24))}, ["GROUPS"]),
    ("a group has nothing to do", {"groups": (*piped()[1].groups, Group(3, 4, 8))}, ["GROUPS"]),
]


@pytest.mark.parametrize(
    ("change", "broken"), [(c, b) for _, c, b in CHANGES], ids=[name for name, _, _ in CHANGES]
)
def test_one_change_to_the_pipeline(change: dict[str, Any], broken: list[str]) -> None:
    problem, solution = piped()
    assert set(broken) <= set(rules(problem, replace(solution, **change)))


LIMITS: list[tuple[dict[str, int], str, int]] = [
    ({"groups": 2}, "GROUPS", 3),
    ({"warps": 11}, "THREADS", 12),
    ({"registers_per_thread": 23}, "REGISTERS", 24),
    ({"registers_total": 9215}, "REGISTERS", 9216),
    ({"shared": 31}, "SHARED", 32),
    ({"tensor": 11}, "TENSOR", 12),
]


@pytest.mark.parametrize(
    ("limit", "rule", "needs"), LIMITS, ids=[next(iter(limit)) for limit, _, _ in LIMITS]
)
def test_limits_bind_exactly(limit: dict[str, int], rule: str, needs: int) -> None:
    problem, solution = piped()
    enough = {name: value + 1 for name, value in limit.items()}
    assert check(replace(problem, limits=replace(problem.limits, registers_total=9216)), solution) == ()
    assert (rule, needs) in {
        (v.rule, v.needs) for v in check(replace(problem, limits=replace(problem.limits, **limit)), solution)
    }
    assert rule not in rules(replace(problem, limits=replace(problem.limits, **enough)), solution)


def test_ties() -> None:
    problem, solution = piped()
    assert (
        rules(
            replace(problem, together=(("qk", "pv"),), apart=(("qk", "exp"),), starts=(("exp", 3),)), solution
        )
        == []
    )
    assert rules(replace(problem, together=(("qk", "exp"),)), solution) == ["TOGETHER"]
    assert rules(replace(problem, apart=(("qk", "pv"),)), solution) == ["APART"]
    assert rules(replace(problem, starts=(("exp", 4),)), solution) == ["PINNED"]


def test_a_wait_stops_the_issue_of_its_group_alone() -> None:
    ops = (op("a", issue=2), op("b", "SFU", issue=2), op("c", "SFU", issue=1))
    problem = Problem("wait", "toy", (Unit("TC"), Unit("SFU")), ops, (Edge("a", "c", 1, blocking=True),))
    groups = (Group(1, 4, 0),)
    assert rules(problem, Solution(4, (0, 1, 2), (1, 1, 1), groups)) == ["CONCURRENCY"]
    assert rules(problem, Solution(4, (0, 1, 3), (1, 1, 1), groups)) == []
    two = (Group(1, 4, 0), Group(2, 4, 0))
    assert rules(problem, Solution(4, (0, 1, 2), (1, 2, 1), two)) == []
    divisible = replace(problem, operations=(ops[0], replace(ops[1], divisible=True), ops[2]))
    assert rules(divisible, Solution(4, (0, 1, 2), (1, 1, 1), groups)) == []
    assert rules(divisible, Solution(4, (0, 2, 1), (1, 1, 1), groups)) == ["CONCURRENCY"]


def test_a_value_is_held_through_its_hand_over_and_from_its_first_use() -> None:
    """Registers while nobody there reads it: the producer keeps it for its latency, the reader from its start
    on."""
    ops = (op("a", latency=3), op("b", "SFU", 2))
    value = Value("v", "a", (Use("b", hold=2),), registers=10)
    problem = Problem(
        "held", "toy", (Unit("TC"), Unit("SFU")), ops, (Edge("a", "b", 3),), (value,), Limits(register_step=1)
    )
    granted = (Group(1, 4, 10), Group(2, 4, 10))
    assert rules(problem, Solution(3, (0, 3), (1, 2), granted)) == []
    assert rules(problem, Solution(2, (0, 3), (1, 2), (Group(1, 4, 20), Group(2, 4, 10)))) == []
    assert rules(problem, Solution(2, (0, 3), (1, 2), granted)) == ["REGISTERS"]


def shared(first: int, second: int, interval: int = 4) -> list[str]:
    """Two values of one unit of time each on one address."""
    ops = (op("a"), op("b", "SFU"))
    values = (Value("x", "a", (Use("a", hold=2),), tensor=4), Value("y", "b", (Use("b", hold=2),), tensor=4))
    problem = Problem(
        "over", "toy", (Unit("TC"), Unit("SFU")), ops, (), values, Limits(tensor=4, register_step=1)
    )
    places = (Allocation("x", "tensor", 0, 4), Allocation("y", "tensor", 0, 4))
    return rules(problem, Solution(interval, (first, second), (1, 1), (Group(1, 4, 0),), places))


def test_an_address_is_shared_only_while_one_is_dead() -> None:
    assert shared(0, 2) == []
    assert shared(0, 6) == []
    assert shared(0, 1) == ["TENSOR"]
    assert shared(0, 3) == ["TENSOR"]
    assert shared(0, 2, interval=3) == ["TENSOR"]


def test_a_ring_is_shared_by_nobody() -> None:
    problem, solution = piped()
    roomy = replace(problem, limits=replace(problem.limits, shared=99, tensor=99))
    beside = [replace(p, address=p.address - 1) if p.staging else p for p in solution.allocations]
    assert rules(roomy, replace(solution, allocations=tuple(beside))) == ["SHARED"]


def test_no_place_for_what_takes_no_room() -> None:
    problem, solution = piped()
    for extra in (
        Allocation("p", "tensor", 0, 1),
        Allocation("s", "tensor", 8, 4),
        Allocation("nobody", "shared", 32, 1),
    ):
        assert len(check(problem, replace(solution, allocations=(*solution.allocations, extra)))) == 1
