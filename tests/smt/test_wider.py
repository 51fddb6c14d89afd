"""What is known of a problem of which every schedule of another one is a schedule."""

from dataclasses import replace

from tests.samples import attention
from twill.engine.partitions import partitions
from twill.ir.problem import Limits, Operation, Problem, Reservation, Unit
from twill.ir.search import Options
from twill.pipeline import adopted, solve
from twill.smt.search import _Agenda, _next  # pyright: ignore[reportPrivateUsage]
from twill.smt.setting import Evidence, Setting

QUICKLY = Options(time_limit=20, explain=False)


def four(*, together: tuple[tuple[str, ...], ...] = (), groups: int = 5) -> Problem:
    """Four operations that share a unit, which one iteration takes for 100 cycles."""
    sizes = {"a": 40, "b": 30, "c": 20, "d": 10}
    ops = tuple(Operation(name, name, (Reservation("fma", n),), n, n, warps=4) for name, n in sizes.items())
    return Problem("four", "toy", (Unit("fma"),), ops, (), (), Limits(groups=groups), together=together)


def test_a_schedule_that_keeps_more_rules_is_their_answer_too() -> None:
    wider = solve(four(), QUICKLY)
    assert wider.status == "optimal"
    narrower = four(together=(("a", "b"), ("c", "d")), groups=1)
    found = adopted(narrower, QUICKLY, wider, [solve(narrower, QUICKLY)])
    assert found is not None
    assert (found.status, found.proved) == ("optimal", wider.proved)
    assert found.problem == narrower


def test_a_schedule_that_breaks_a_rule_is_no_answer() -> None:
    problem = attention().problem
    wider = solve(problem, replace(QUICKLY, time_limit=10))
    assert wider.solution is not None
    apart = [wider.solution.group.index(group.id) for group in wider.solution.groups[:2]]
    pair = tuple(problem.operations[op].id for op in apart)
    assert adopted(replace(problem, together=(*problem.together, pair)), QUICKLY, wider, [wider]) is None


def test_what_was_not_proven_is_not_taken() -> None:
    wider = solve(four(), QUICKLY)
    assert wider.solution is not None
    worse = replace(wider, proved=wider.proved - 1)
    assert adopted(four(groups=1), QUICKLY, worse, [solve(four(groups=1), QUICKLY)]) is None


def test_all_proofs_come_at_once_where_one_interval_is_left() -> None:
    problem = four()
    best = solve(problem, QUICKLY).solution
    assert best is not None
    setting = Setting(problem, QUICKLY, 4, lambda event: None, partitions(problem), (), 0.5)
    last = Evidence(best.interval - 1, best.interval, best)
    agenda, interval = _next(setting, last, _Agenda(0.5, tried=frozenset({best.interval - 1}), stage="brief"))
    assert (agenda.stage, interval) == ("full", best.interval - 1)
