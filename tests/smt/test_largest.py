"""Loops without any schedule are decided at the largest interval that could matter, in one probe."""

from dataclasses import replace
from random import Random

import pytest

from tests.properties import oracle
from tests.properties.tiny import tiny_problem
from twill.ir.problem import Edge, Operation, Problem, Time
from twill.ir.search import Options, Progress
from twill.modulo.start import start
from twill.pipeline import solve
from twill.smt.largest import without_pins_and_offsets
from twill.verify import check_result
from twill.verify.evidence import MONOTONE

QUICKLY = Options(explain=False)


def loop(seed: int) -> Problem:
    return tiny_problem(Random(seed))


def slower(problem: Problem, times: Time) -> Problem:
    """The same loop, everything of which takes so many times as long."""

    def operation(op: Operation) -> Operation:
        used = tuple(replace(r, cycles=r.cycles * times, offset=r.offset * times) for r in op.reservations)
        return replace(op, reservations=used, latency=op.latency * times, issue=op.issue * times)

    def edge(one: Edge) -> Edge:
        crossing = None if one.cross_delay is None else one.cross_delay * times
        return replace(one, delay=one.delay * times, cross_delay=crossing)

    values = tuple(
        replace(value, uses=tuple(replace(use, hold=use.hold * times) for use in value.uses))
        for value in problem.values
    )
    return replace(
        problem,
        operations=tuple(map(operation, problem.operations)),
        edges=tuple(map(edge, problem.edges)),
        values=values,
        starts=tuple((op, time * times) for op, time in problem.starts),
    )


@pytest.mark.parametrize(
    ("seed", "times", "by"),
    [
        (7, 1, MONOTONE),
        (74, 1, MONOTONE),
        (52, 200, MONOTONE),
        (10, 200, "cpsat on the registers projection"),
    ],
)
def test_no_other_interval_is_probed(seed: int, times: int, by: str) -> None:
    """Each interval was, one after the other, where a longer one may hurt: over a minute for five operations
    of some hundred cycles."""
    problem, events = slower(loop(seed), times), list[Progress]()
    result = solve(problem, QUICKLY, events.append)
    last = result.refuted[-1]
    assert (result.status, last.by, last.below) == ("infeasible", by, True)
    assert last.interval == start(problem).top
    assert [event.what for event in events if event.engine != "bounds"] == ["infeasible"]
    assert check_result(result) == ()


def test_only_the_relaxation_speaks_of_smaller_intervals() -> None:
    """Where a longer interval may hurt, the refutation of one by the whole loop is no other's."""
    result = solve(loop(74), QUICKLY)
    false = replace(result, refuted=tuple(replace(r, by="cpsat") for r in result.refuted))
    assert "STATUS" in {violation.rule for violation in check_result(false)}


@pytest.mark.parametrize("seed", [46, 80, 89, 94])
def test_the_relaxation_has_every_schedule_of_the_loop(seed: int) -> None:
    problem = loop(seed)
    result, relaxed = solve(problem, QUICKLY), without_pins_and_offsets(problem)
    assert (problem.monotone, relaxed.monotone) == (False, True)
    assert result.solution is not None
    for interval in (result.solution.interval, result.solution.interval + 1):
        assert oracle.best(relaxed, interval, result.max_in_flight) is not None
