"""What the search may conclude: a projection loses no schedule, and past `largest_needed` nothing new turns
up."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.oracle import TooLargeError, best
from tests.properties.strategies import problems
from tests.properties.test_monotone import monotone
from twill.engine.anchor import fastened
from twill.engine.probe import UNLIMITED, Budget, Feasible, Probe, Refuted, Unknown
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.modulo.start import start
from twill.pipeline import solve
from twill.smt import cpsat, projecting, sat, search
from twill.smt.parts import independent, refute, stated
from twill.smt.relax import projections, units
from twill.smt.setting import Evidence


def op(name: str, *units: str, issue: int = 0) -> Operation:
    return Operation(
        name, "op", tuple(Reservation(unit, 1) for unit in units), latency=1, issue=issue, warps=4
    )


def hidden_wait() -> Problem:
    """`x` waits for the other group at the one residue where `o` does not issue; `b` after it does not wait,
    and must not be there."""
    values = tuple(
        Value(f"v{src}", src, (Use(reader, 1),), registers=8)
        for src, reader in (("a", "y"), ("b", "o"), ("o", "o"))
    )
    return Problem(
        "hidden",
        "toy",
        (Unit("U"),),
        (op("a"), op("x"), op("b", "U"), op("y", "U"), op("o", issue=3)),
        (Edge("a", "x", 1), Edge("x", "b", 1), Edge("a", "y", 1)),
        values,
        together=(("x", "b", "y", "o"),),
        apart=(("a", "y"),),
    )


def test_a_wait_of_a_forgotten_operation_is_nobody_elses() -> None:
    problem = hidden_wait()
    (registers,) = projections(problem)
    kept = {o.id for o in registers.at(4).operations}
    assert kept == {"a", "b", "y", "o"}
    assert best(problem, 4, 4) is not None
    assert best(registers.at(4), 4, 4) is not None


@settings(max_examples=60, deadline=None)
@given(problems().map(monotone), st.integers(0, 2), st.randoms(use_true_random=False))
def test_a_projection_has_every_schedule(problem: Problem, above: int, random: Random) -> None:
    small = [value for value in problem.values if random.random() < 0.5]
    problem = replace(
        problem, values=tuple(replace(v, registers=0, tensor=0) if v in small else v for v in problem.values)
    )
    interval, left = bounds(problem).value + above, [3000]
    try:
        if best(problem, interval, 2, left=left):
            for projection in (*projections(problem), units(problem)):
                assert best(projection.at(interval), interval, 2, left=left), projection.name
    except TooLargeError:
        pass


def two_paths() -> Problem:
    """A circuit of two paths whose middles need the same unit: neither a circuit nor the unit alone takes as
    long as one after the other."""
    middle = Reservation("U", 4)
    ops = tuple(
        Operation(name, "op", (middle,) * name.startswith("b"), 1, warps=4) for name in ("a", "b0", "b1", "c")
    )
    edges = [Edge("a", b, 1) for b in ("b0", "b1")] + [Edge(b, "c", 4) for b in ("b0", "b1")]
    return Problem("paths", "toy", (Unit("U"),), ops, (*edges, Edge("c", "a", 1, 1)))


def test_units_are_a_bound_where_circuits_have_no_slack() -> None:
    """However many iterations are in flight."""
    problem = two_paths()
    assert bounds(problem).value == 8
    assert fastened(problem) is not None
    small = units(problem)
    for interval, what in ((9, "infeasible"), (10, "feasible")):
        assert cpsat.attempt(small.at(interval), interval, 16, budget=Budget(60, 0.02)).what == what
        assert (best(problem, interval, 2) is None) == (what == "infeasible")
    result = solve(problem, Options(time_limit=60))
    assert (result.status, result.proved) == ("optimal", 10)


@settings(max_examples=80, deadline=None)
@given(problems(5).map(monotone), st.integers(0, 2), st.integers(1, 2))
def test_independent_parts_have_every_schedule(problem: Problem, above: int, in_flight: int) -> None:
    whole, interval = independent(problem), bounds(problem).value + above
    try:
        if whole and best(problem, interval, in_flight, left=[3000]):
            assert isinstance(refute(whole, interval, in_flight, UNLIMITED).outcome, Feasible)
            assert cpsat.attempt(stated(whole, in_flight), interval, in_flight + 1).what == "feasible"
    except TooLargeError:
        pass


def shared_load(room: int) -> Problem:
    """Two chains in one group that read one load; `room` registers hold what each has between its two
    operations, which takes more than half an interval of 8."""
    ops = [replace(op("load"), warps=1, variable=True, streaming=True)]
    ops += [op(f"{name}{i}", "U") for i in (0, 1) for name in "ab"]
    edges = [Edge("load", f"a{i}", 0) for i in (0, 1)] + [Edge(f"a{i}", f"b{i}", 5) for i in (0, 1)]
    values = tuple(Value(f"a{i}", f"a{i}", (Use(f"b{i}"),), registers=8) for i in (0, 1))
    limits = Limits(groups=2, registers_per_thread=room, narrow_registers=0)
    return Problem("shared", "toy", (Unit("U"),), tuple(ops), tuple(edges), values, limits)


def test_parts_without_their_load_refute_what_the_loop_does_not_allow() -> None:
    for room, refuted in ((8, True), (16, False)):
        problem = shared_load(room)
        whole = independent(problem)
        assert whole is not None
        assert [[whole.problem.operations[i].id for i in part] for part in whole.parts] == [
            ["a0", "b0"],
            ["a1", "b1"],
        ]
        probe = refute(whole, 8, 4, UNLIMITED)
        assert probe.refuted == refuted
        assert sat.attempt(stated(whole, 4), 8, 5).refuted == refuted
        assert (best(problem, 8, 2) is None) == refuted


def test_pins_far_apart_are_searched_far_enough() -> None:
    units = (Unit("TC"),)
    table = (Reservation("TC", 2),)
    ops = tuple(Operation(name, "op", table, latency=2, warps=4) for name in ("a", "b"))
    problem = Problem(
        "pins", "toy", units, ops, (Edge("b", "a", 20, distance=1),), starts=(("a", 0), ("b", 30))
    )
    result = solve(problem, Options(time_limit=120))
    assert result.status == "optimal"
    assert result.solution is not None
    assert result.solution.interval == 50


def test_with_an_answer_few_iterations_in_flight_are_not_looked_at_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A projection that all iterations in flight solve at the lowest interval is dropped at once."""
    problem = hidden_wait()
    (registers,) = projections(problem)
    begin = start(problem, joint=True)
    setting = search._setting(problem, Options(), lambda _: None, begin, 4, None)
    flights: list[int] = []

    def attempt(_problem: Problem, _interval: int, in_flight: int, **_: object) -> Probe:
        flights.append(in_flight)
        return Probe(Refuted() if in_flight == refuted else Unknown(), "cpsat")

    monkeypatch.setattr(projecting.cpsat, "attempt", attempt)
    for refuted, answer in ((2, Solution(90, (), ())), (2, None), (4, Solution(90, (), ()))):
        flights.clear()
        evidence = Evidence(begin.low, 100, answer)
        assert projecting.raise_by(setting, evidence, registers).evidence == evidence
        assert (flights == [4]) == (answer is not None and refuted == 2)
