"""Of the schedules of an interval one is taken whose groups issue one operation after the other, where there
is one."""

from dataclasses import replace
from random import Random

from tests.properties.tiny import tiny_problem
from tests.samples import attention
from twill.engine.partitions import under
from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit
from twill.ir.schedule import Solution
from twill.ir.search import Options, Use
from twill.modulo.bounds import bounds
from twill.modulo.simplest import issuable, proven
from twill.smt import cpsat
from twill.smt.polish import Polish
from twill.smt.setting import Setting
from twill.verify.check import check
from twill.whatif import limited


def setting(problem: Problem) -> Setting:
    return Setting(problem, Options(), 2, lambda event: None, (), (), 0.5)


def overlap(problem: Problem, solution: Solution) -> int:
    """Cycles of an interval in which a group is to issue more than one operation."""
    found = 0
    for group in set(solution.group):
        issued = [0] * solution.interval
        for op, start, own in zip(problem.operations, solution.start, solution.group, strict=True):
            for cycle in range(op.issue if own == group else 0):
                issued[(start + cycle) % solution.interval] += 1
        found += sum(count - 1 for count in issued if count > 1)
    return found


def test_in_order_no_group_issues_two_operations_at_once() -> None:
    answers = crossed = 0
    for random in map(Random, range(60)):
        problem = tiny_problem(random, 4)
        interval = bounds(problem).value + random.randint(0, 6)
        free = cpsat.attempt(problem, interval, 2).solution
        if free is None:
            continue
        problem = under(problem, free.group)
        ordered = cpsat.attempt(problem, interval, 2, tactics=cpsat.Tactics(in_order=True)).solution
        crossed += overlap(problem, free) > 0
        if ordered is not None:
            answers += 1
            assert check(problem, ordered) == ()
            assert overlap(problem, ordered) == 0
    assert answers >= 10
    assert crossed >= 5


def test_the_answer_is_in_order_and_as_simple() -> None:
    """Attention at an interval that leaves room: the answer with everything at once is put in order, in no
    more stages."""
    problem = attention().problem
    interval = 2 * bounds(problem).value
    found = cpsat.attempt(problem, interval, 2).solution
    assert found is not None
    best, unproven = Polish(setting(problem), found).run()
    assert check(problem, best) == ()
    assert best.stages <= found.stages
    assert overlap(problem, best) == 0
    assert unproven == []


def test_where_no_order_fits_the_answer_stays() -> None:
    """Issuing takes longer than the interval: there is none, and the goals are as they were."""
    sample = attention()
    assert sample.solution is not None
    long = tuple(
        replace(op, issue=sample.solution.interval if not op.variable else op.issue)
        for op in sample.problem.operations
    )
    problem = replace(
        sample.problem,
        operations=long,
        edges=tuple(replace(edge, blocking=False) for edge in sample.problem.edges),
    )
    found = cpsat.attempt(problem, sample.solution.interval, 2).solution
    assert found is not None
    best, _ = Polish(setting(problem), found).run()
    assert check(problem, best) == ()
    assert overlap(problem, best) > 0


def _two_halves(issue: int) -> Problem:
    """Two operations on one unit each, which nothing joins, and which take long to issue."""
    units = (Unit("ALU"), Unit("SFU"))
    operations = tuple(
        Operation(unit.name.lower(), "compute", (Reservation(unit.name, 10),), 10, issue, 4) for unit in units
    )
    return Problem("halves", "toy", units, operations, (), (), Limits())


def test_fewer_groups_count_only_where_they_can_issue_it() -> None:
    """One group would have 12 cycles to issue in an interval of 10, which the rules allow and warps do not
    do: two groups are the fewest, without a solver. What fits one group is put into one."""
    for issue, groups in ((6, 2), (5, 1)):
        problem = _two_halves(issue)
        found = cpsat.attempt(replace(problem, apart=(("alu", "sfu"),)), 10, 2).solution
        assert found is not None
        assert len(found.groups) == 2
        assert issuable(problem, 10, found.group)
        assert proven(problem, found, joint=True, in_order=False).groups == (groups == 2)
        best, unproven = Polish(setting(problem), found).run()
        assert check(problem, best) == ()
        assert (len(best.groups), unproven) == (groups, [])


def test_where_no_group_could_issue_it_fewer_groups_count() -> None:
    problem = _two_halves(11)
    found = cpsat.attempt(replace(problem, apart=(("alu", "sfu"),)), 10, 2).solution
    assert found is not None
    assert not issuable(problem, 10, found.group)
    best, _ = Polish(setting(problem), found).run()
    assert len(best.groups) == 1


def test_where_one_group_computes_what_works_on_starts_early() -> None:
    """The MMA, which the tensor core executes by itself, as soon as its operand is there; the rest as late as
    the length allows."""
    operations = (
        Operation("first", "add", (Reservation("u", 8),), 8, 8, 4),
        Operation("mma", "dot", (Reservation("t", 9),), 9, 1, 4),
        Operation("other", "add", (Reservation("u", 4),), 4, 4, 4),
        Operation("last", "add", (Reservation("u", 8),), 8, 8, 4),
    )
    edges = (Edge("first", "mma", 8), Edge("mma", "last", 20), Edge("other", "last", 4))
    problem = Problem("loop", "", (Unit("u"), Unit("t")), operations, edges, limits=Limits(groups=1))
    found = cpsat.attempt(problem, 40, 1).solution
    assert found is not None
    best, _ = cpsat.improve("readiness", problem, found, 1, tactics=cpsat.Tactics(longest=40))
    starts = dict(zip((op.id for op in operations), best.start, strict=True))
    assert starts["mma"] - starts["first"] == 8
    assert starts["last"] - starts["other"] == 4


def test_what_fits_a_thread_block_still_does_when_it_is_simple() -> None:
    """And what does not is not made simpler, but that it may have fewer groups."""
    problem = attention().problem
    interval = 2 * bounds(problem).value
    first = cpsat.attempt(problem, interval, 2).solution
    assert first is not None
    simple = Polish(setting(problem), first).run()[0]
    assert simple != first
    use = Use(fits=lambda found: found == first)
    assert Polish(replace(setting(problem), use=use), first).run()[0] == first
    unfit = Polish(replace(setting(problem), use=Use(fits=lambda found: False)), first).run()[0]
    assert unfit == first or len(unfit.groups) < len(first.groups)
    most = max(group.registers for group in first.groups)
    use = Use(
        fits=lambda found: max(group.registers for group in found.groups) <= most,
        within=lambda problem, found: limited(problem, registers=most),
    )
    best = Polish(replace(setting(problem), use=use), first).run()[0]
    assert use.fits(best)
