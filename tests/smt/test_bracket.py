"""Coarse time from both sides: what it refutes is refuted, what it finds holds, and between them lies the smallest interval."""

from dataclasses import dataclass, replace
from random import Random

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.modulo.bounds import bounds
from twill.smt import sat
from twill.smt.bracket import bracket
from twill.smt.coarse import rounded_down
from twill.verify.check import check
from twill.verify.tiny import tiny_problem


def _finer(problem: Problem, random: Random, factor: int) -> Problem:
    """The problem in smaller units, with times that are no multiples of any step."""

    def time(units: Time) -> Time:
        return units * factor + random.randint(0, factor - 1) if units else 0

    operations = tuple(
        replace(
            op,
            latency=time(op.latency),
            issue=time(op.issue),
            reservations=tuple(replace(use, cycles=time(use.cycles)) for use in op.reservations),
        )
        for op in problem.operations
    )
    edges = tuple(
        replace(edge, delay=time(edge.delay), cross_delay=None if edge.cross_delay is None else time(edge.cross_delay))
        for edge in problem.edges
    )
    values = tuple(replace(value, uses=tuple(replace(use, hold=time(use.hold)) for use in value.uses)) for value in problem.values)
    return replace(problem, operations=operations, edges=edges, values=values)


def _loops(seeds: range) -> list[tuple[Random, Problem]]:
    pairs = ((random, _finer(tiny_problem(random, 5), random, 4)) for random in map(Random, seeds))
    return [(random, problem) for random, problem in pairs if problem.monotone]


@dataclass
class Gap:
    """What is known: [smallest interval not refuted, smallest known to work)."""

    low: Time
    high: Time

    def get(self) -> tuple[Time, Time]:
        return self.low, self.high


def test_what_is_refuted_in_times_rounded_down_is_infeasible() -> None:
    refuted = 0
    for random, problem in _loops(range(150)):
        step, copies = random.randint(2, 5), random.randint(1, 3)
        units = -(-bounds(problem).value // step) + random.randint(0, 4)
        if sat.refute(rounded_down(problem, step), units, copies, joint=True).verdict == "infeasible":
            refuted += 1
            assert sat.decide(problem, units * step, copies, joint=True).verdict == "infeasible"
    assert refuted > 10


def test_the_gap_closes_on_the_smallest_interval() -> None:
    closed = 0
    for _, problem in _loops(range(200, 204)):
        gap = Gap(bounds(problem).value, 200)
        for word in bracket(problem, 3, gap.get, time_limit=30.0):
            if isinstance(word, Solution):
                assert check(problem, word) == ()
                gap.high = min(gap.high, word.interval)
            else:
                gap.low = max(gap.low, word.interval + 1)
        low, high = gap.get()
        verdicts = [sat.decide(problem, interval, 3, joint=True).verdict for interval in (max(1, low - 1), high)]
        assert verdicts[1] == ("infeasible" if high == 200 else "feasible")
        assert low == bounds(problem).value or verdicts[0] == "infeasible"
        closed += low == high
    assert closed > 1
