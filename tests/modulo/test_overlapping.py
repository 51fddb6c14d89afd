"""Schedules whose groups issue several operations at once keep all rules that are looked at."""

from dataclasses import replace
from itertools import islice
from random import Random

from tests.properties.oracle import search
from tests.properties.tiny import tiny_problem
from twill.engine.clock import own_clock
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.ir.search import Options
from twill.modulo import constructive
from twill.modulo.bounds import bounds
from twill.modulo.orders import results_first
from twill.modulo.overlapping import at, rising, within_registers
from twill.modulo.start import start
from twill.pipeline import solve
from twill.smt.relax import dependences
from twill.smt.search import _as_long, _setting  # pyright: ignore[reportPrivateUsage]
from twill.smt.setting import Evidence
from twill.verify.check import check

LAST = 24
"""Largest interval that the oracle tries."""

LOOKED_AT = {"DEPENDENCE", "UNITS", "CONCURRENCY"}


def four_at_once() -> Problem:
    """Four operations of one group that are issued for 40 cycles each, on units that take 10."""
    ops = tuple(Operation(f"o{i}", "o", (Reservation(f"u{i}", 10),), 40, 40, 4) for i in range(4))
    units = tuple(Unit(f"u{i}") for i in range(4))
    edges = tuple(Edge(f"o{i}", f"o{i + 1}", 40) for i in range(3))
    return Problem("four", "toy", units, ops, edges, limits=Limits(groups=1))


def test_a_group_issues_several_operations_at_once() -> None:
    problem = four_at_once()
    found = next(at(problem, 40, 4))
    assert not check(problem, found)
    assert next(constructive.schedules(problem, 40, 4), None) is None, "in order they take 160"


def test_nothing_is_issued_as_an_operation_waits() -> None:
    """At 10 cycles less than what the others are issued for there is no place for the one that waits."""
    problem = four_at_once()
    edges = (*problem.edges[:2], replace(problem.edges[2], blocking=True))
    problem = replace(problem, edges=edges)
    assert next(at(problem, 40, 4), None) is None
    found = next(rising(problem, 40, 80, 4))
    assert not check(problem, found)
    assert found.interval > 40


def test_constructed_schedules_keep_the_rules_that_are_looked_at() -> None:
    """Of random loops; those that keep all rules are no better than the oracle's."""
    valid = 0
    for random in map(Random, range(80)):
        problem = tiny_problem(random, 3)
        low = bounds(problem).value
        for found in islice(rising(problem, max(1, low), 2 * low + 4, 2), 40):
            broken = check(problem, found)
            assert not LOOKED_AT & {one.rule for one in broken}
            if not broken:
                valid += 1
                known = search(problem, 2, LAST)
                assert known is None or known.interval <= found.interval
                break
    assert valid >= 20


def test_what_one_iteration_is_too_long_for_has_no_schedule() -> None:
    """Of random loops with one iteration in flight: the oracle has none where dependences refute it."""
    refuted = 0
    for random in map(Random, range(120)):
        problem = tiny_problem(random, 3)
        if not problem.monotone or problem.starts:
            continue
        begin, options = start(problem), Options(max_in_flight=1, explain=False)
        if begin.infeasible:
            continue
        setting = _setting(problem, options, lambda _: None, begin, 1, own_clock().mark())
        raised = _as_long(setting, Evidence(begin.low, begin.top))
        known = search(problem, 1, LAST)
        assert known is None or raised.low <= known.interval
        refuted += raised.low > begin.low
    assert refuted >= 10


def test_a_loop_of_one_iteration_is_as_long_as_its_path() -> None:
    """What refutes shorter intervals is on record, and known to the check of results."""
    problem = four_at_once()
    result = solve(problem, Options(max_in_flight=1, explain=False))
    assert result.solution is not None
    assert (result.status, result.solution.interval) == ("optimal", 160)
    assert dependences(problem).engine in {one.by for one in result.refuted}


def three_chains(registers: int) -> Problem:
    """A tile of 32 registers is loaded, changed and summed up, three times, in one group."""
    ops, edges, values = list[Operation](), list[Edge](), list[Value]()
    for i in range(3):
        first, middle, last = f"made{i}", f"changed{i}", f"summed{i}"
        ops += [Operation(name, "o", (Reservation("u", 10),), 50, 10, 4) for name in (first, middle, last)]
        edges += [Edge(first, middle, 50), Edge(middle, last, 50)]
        values += [Value(first, first, (Use(middle),), 32), Value(middle, middle, (Use(last, hold=10),), 32)]
    limits = Limits(groups=1, registers_per_thread=registers)
    return Problem("chains", "toy", (Unit("u"),), tuple(ops), tuple(edges), tuple(values), limits)


def test_no_operation_starts_before_its_group_has_registers() -> None:
    """Two chains fit beside each other; what looks at no registers begins all three."""
    problem = three_chains(64)
    broken = {one.rule for found in rising(problem, 130, 400, 4) for one in check(problem, found)}
    assert "REGISTERS" in broken
    found = [one for one in within_registers(problem, 130, 400, 4) if not check(problem, one)]
    assert found
    assert min(one.interval for one in found) < 3 * 120


def test_one_result_after_the_other_keeps_few_values() -> None:
    problem = three_chains(64)
    order = [problem.operations[op].id for op in results_first(problem)]
    assert order == [f"{name}{i}" for i in range(3) for name in ("made", "changed", "summed")]


def test_schedules_within_registers_keep_the_rules_that_are_looked_at() -> None:
    valid = 0
    for random in map(Random, range(80)):
        problem = tiny_problem(random, 4)
        low = max(1, bounds(problem).value)
        for found in islice(within_registers(problem, low, 2 * low + 4, 3), 40):
            broken = {one.rule for one in check(problem, found)}
            assert not broken & LOOKED_AT
            valid += not broken
    assert valid > 20
