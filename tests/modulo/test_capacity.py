"""Capacity bounds: they exclude nothing that the exhaustive search finds, and the verifier counts them
again."""

from dataclasses import replace
from random import Random

import pytest

from tests.properties.oracle import TooLargeError, best
from tests.properties.tiny import tiny_problem
from tests.samples import attention
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.ir.schedule import Refutation
from twill.ir.search import Options
from twill.modulo.capacity import shortages
from twill.modulo.start import start
from twill.pipeline import solve
from twill.verify import check_result


def tight(random: Random) -> Problem:
    """A tiny problem with one of its limits cut."""
    problem = tiny_problem(random, 4)
    name = random.choice(("groups", "warps", "registers_per_thread", "registers_total", "shared", "tensor"))
    less = replace(
        problem.limits, **{name: int(getattr(problem.limits, name) * random.choice((0, 0.3, 0.6)))}
    )
    return replace(problem, limits=replace(less, groups=max(1, less.groups)))


@pytest.mark.parametrize("block", range(4))
def test_what_they_exclude_has_no_schedule(block: int) -> None:
    excluded = 0
    for seed in range(block * 100, block * 100 + 100):
        problem = tight(Random(seed))
        for shortage in shortages(problem):
            for interval in range(1, 5 if shortage.least is None else shortage.least):
                try:
                    assert best(problem, interval, 2, left=[20000]) is None, f"seed {seed}, {shortage}"
                    excluded += 1
                except TooLargeError:
                    break
    assert excluded > 20


def test_the_verifier_agrees_and_refuses_more() -> None:
    found = 0
    for seed in range(300):
        problem = tight(Random(seed))
        begin, units = start(problem), {unit.name for unit in problem.units}
        if not begin.infeasible or units & {shortage.limit for shortage in shortages(problem)}:
            continue
        found += 1
        result = begin.result(problem, Options())
        assert check_result(result, in_flight=4) == ()
        plenty = Limits(8, 64, 1000, 10**9, 1, 0, 0, 10**9, 10**9)
        roomy = replace(problem, limits=plenty, together=())
        rules = {violation.rule for violation in check_result(replace(result, problem=roomy), in_flight=4)}
        assert "BOUNDS" in rules
    assert found > 20


def test_an_operation_that_leaves_itself_no_room_is_refuted_without_a_solver() -> None:
    """Two rectangles of its reservation table overlap on a unit: every interval was probed, one after the
    other. Side by side, or of two units, they exclude nothing."""
    tables = {
        (Reservation("u", 2), Reservation("u", 1, offset=1)): True,
        (Reservation("u", 1), Reservation("u", 3, offset=5), Reservation("u", 9, offset=7)): True,
        (Reservation("u", 2), Reservation("u", 1, offset=2)): False,
        (Reservation("u", 2), Reservation("w", 1, offset=1)): False,
        (Reservation("u", 2), Reservation("u", 0, offset=1)): False,
    }
    for table, excluded in tables.items():
        problem = Problem("table", "toy", (Unit("u"), Unit("w")), (Operation("o", "x", table),), ())
        begin = start(problem)
        assert begin.infeasible == excluded
        assert (best(problem, 40, 1, left=[20000]) is None) == excluded
        if excluded:
            result = begin.result(problem, Options())
            assert [one.by for one in result.refuted] == ["ResMII u", "capacity of u"]
            assert check_result(result, in_flight=4) == ()
            two = replace(problem, units=(Unit("u", 2), Unit("w")))
            assert check_result(replace(result, problem=two), in_flight=4)


def test_a_load_shares_no_group_with_others() -> None:
    """Through any number of sets that have to share one; the verifier counts it again, not without them."""
    problem = attention().problem
    load = next(op.id for op in problem.operations if op.variable)
    first, second = [op.id for op in problem.operations if not op.variable][:2]
    tied = replace(problem, together=((load, first), (second, first)))
    begin = start(tied)
    assert begin.infeasible
    result = begin.result(tied, Options())
    assert result.reasons[0].family == "groups"
    assert check_result(result, in_flight=4) == ()
    assert check_result(replace(result, problem=problem), in_flight=4)
    assert not start(replace(problem, together=((first, second),))).infeasible


def test_a_memory_bounds_the_interval() -> None:
    problem = attention().problem
    values = tuple(replace(value, slots=0, resident=False) for value in problem.values)
    small = replace(
        problem, values=values, limits=replace(problem.limits, shared=max(value.shared for value in values))
    )
    least = [shortage.least for shortage in shortages(small) if shortage.limit == "shared memory"]
    assert least
    assert least[0] is None or least[0] > 1


@pytest.mark.parametrize("limits", [{"shared": 0}, {"registers_per_thread": 1}, {"groups": 1}])
def test_an_impossible_loop_is_refused_without_a_solver(
    limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    import twill.smt.search

    monkeypatch.setattr(twill.smt.search, "search", _fail)
    problem = attention().problem
    result = solve(replace(problem, limits=replace(problem.limits, **limits)), Options())
    assert result.status == "infeasible"
    assert len(result.reasons) == 1


def test_a_false_capacity_claim_is_found() -> None:
    problem = attention().problem
    result = start(replace(problem, limits=replace(problem.limits, shared=0))).result(problem, Options())
    assert isinstance(result.refuted[-1], Refutation)
    assert "BOUNDS" in {violation.rule for violation in check_result(result, in_flight=4)}


def _fail(*given: object) -> None:
    pytest.fail("searched")


def test_what_one_operation_reads_must_fit_at_once() -> None:
    """Two tiles that one MMA reads, neither of which has slots of its own; and slots that are not shared."""
    loads = tuple(
        Operation(name, "load", (Reservation("tma", 10),), 0, 1, variable=True, streaming=True)
        for name in ("x", "y")
    )
    mma = Operation("mma", "mma", (Reservation("tensor", 10),), 12, 10, warps=4)
    edges = (Edge("x", "mma", 0), Edge("y", "mma", 0))
    values = tuple(Value(name, name, (Use("mma", 0, 12),), shared=100) for name in ("x", "y"))
    units = (Unit("tma"), Unit("tensor"))
    problem = Problem("pair", "toy", units, (*loads, mma), edges, values, Limits(groups=2, shared=199))
    (short,) = shortages(problem)
    assert (short.limit, short.least) == ("shared memory", None)
    assert short.text == "needs at least 200 bytes of shared memory, has 199"
    assert solve(problem).status == "infeasible"
    running = replace(values[0], slots=1)
    ahead = replace(problem, values=(running, values[1]), limits=replace(problem.limits, shared=399))
    (slots,) = shortages(ahead)
    assert (slots.least, solve(ahead).proved) == (12, 22)
    assert slots.text == "needs at least 500 bytes of shared memory below interval 12, has 399"
