"""Iterations in flight are raised where the lower bound needs more, and no further where none help."""

from dataclasses import replace
from random import Random

from tests.properties.tiny import tiny_problem
from twill.engine.partitions import partitions
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
from twill.ir.search import Options, Progress
from twill.modulo.start import start
from twill.pipeline import solve
from twill.smt import cpsat
from twill.smt.early import early
from twill.smt.lowest import lowest
from twill.smt.search import search
from twill.smt.setting import Evidence, Setting
from twill.verify import check


def gemm(latency: int) -> Problem:
    """A load, and an MMA that takes 256 cycles of the tensor core; the load takes `latency`."""
    load = Operation("load", "load", (Reservation("tma", 200),), latency, 10, variable=True, streaming=True)
    mma = Operation("mma", "mma", (Reservation("tensor", 256),), 300, 10, warps=4)
    edges = (Edge("load", "mma", latency), Edge("mma", "mma", 256, 1))
    values = (Value("tile", "load", (Use("mma", 0, 256),), shared=16384),)
    units = (Unit("tma"), Unit("tensor"))
    return Problem("gemm", "toy", units, (load, mma), edges, values, Limits(groups=2, shared=16384 * 8))


def test_the_lower_bound_is_reached_with_five_in_flight() -> None:
    result = solve(gemm(900))
    assert result.solution is not None
    assert (result.status, result.solution.interval) == ("optimal", 256)
    assert result.solution.in_flight(result.problem) == 5
    assert result.max_in_flight == 6, "one more than the shortest iteration has"


def test_a_number_that_is_given_holds() -> None:
    result = solve(gemm(900), Options(max_in_flight=4, explain=False))
    assert result.solution is not None
    assert result.solution.interval > 256
    assert result.max_in_flight == 4
    assert any("all 4 iterations in flight" in note for note in result.notes)


def test_where_more_do_not_help_the_proof_covers_them() -> None:
    """Two slots of shared memory keep the interval above the bound, however many iterations are in flight."""
    problem = gemm(900)
    result = solve(replace(problem, limits=replace(problem.limits, shared=16384 * 2)), Options(explain=False))
    assert result.status == "optimal"
    assert result.solution is not None
    assert result.solution.interval > 256
    assert result.solution.in_flight(problem) <= result.max_in_flight


def test_a_long_iteration_is_probed_with_as_many_in_flight_as_it_has() -> None:
    """A load of 1,700 cycles beside an interval of 256: no schedule has two iterations in flight, and none is
    looked for."""
    problem, events = gemm(1700), list[Progress]()
    result = search(problem, Options(explain=False), events.append)
    assert result.solution is not None
    assert (result.status, result.solution.interval) == ("optimal", 256)
    assert result.solution.in_flight(problem) == 8
    tried = [event for event in events if event.what == "trying" and event.interval > 256]
    assert tried == []


def test_without_an_early_answer_one_without_overlap_is_found() -> None:
    """Where there is no partition to probe, the complete model finds one, with little time to spare."""
    problem, events = gemm(300), list[Progress]()
    begin = start(problem)
    setting = Setting(problem, Options(), 4, events.append, (), (), 0.5, begin.shortest)
    found = early(setting, Evidence(begin.low, begin.top)).best
    assert found is not None
    assert not check(problem, found)
    assert found.in_flight(problem) == 1
    assert found.interval == max(begin.shortest, begin.low + begin.low // 256)
    assert [event.detail for event in events if event.what == "trying"][-1] == "without overlap of iterations"


def test_the_lowest_interval_is_decided_under_any_partition() -> None:
    """What is found keeps every rule, also under partitions that are not natural; what is refuted has no
    schedule."""
    found = unnatural = refuted = 0
    for random in map(Random, range(150)):
        problem = tiny_problem(random)
        begin = start(problem)
        if begin.infeasible:
            continue
        natural = partitions(problem)
        setting = Setting(problem, Options(), 3, lambda event: None, natural, (), 0.5, begin.shortest)
        evidence = lowest(setting, Evidence(begin.low, begin.top))
        if evidence.best is not None:
            found += 1
            unnatural += evidence.best.group not in natural
            assert evidence.best.interval == begin.low
            assert check(problem, evidence.best) == ()
        known = evidence.known(begin.low, 3) or (evidence.low > begin.low)
        refuted += bool(known)
        assert not known or cpsat.attempt(problem, begin.low, 3).refuted
    assert found >= 30
    assert unnatural >= 3
    assert refuted >= 3
