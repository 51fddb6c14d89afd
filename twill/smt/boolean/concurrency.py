"""Rule CONCURRENCY: where an operation starts with a blocking wait, its group issues nothing else."""

from twill.ir.problem import Problem, Time
from twill.smt.boolean.formula import FALSE, TRUE, Formula
from twill.smt.boolean.groups import Groups
from twill.smt.boolean.timing import Timetable


def state(formula: Formula, problem: Problem, table: Timetable, groups: Groups, grace: Time = 0) -> None:
    """For every operation that may wait and every other that may be issuing in its group.

    With `grace`, the wait may fall on the other's first units of time (where times were rounded down, their order is lost).
    """
    for op in range(len(problem.operations)):
        waits = _waits(formula, problem, groups, op)
        for other in range(len(problem.operations)):
            if other != op and waits != FALSE and not _exclusive(problem, op, other):
                _keep_clear(formula, problem, table, op, other, [waits, groups.same(op, other)], grace)


def _waits(formula: Formula, problem: Problem, groups: Groups, op: int) -> int:
    """A literal forced where `op` waits for an operation."""
    incoming = [edge for edge in problem.edges if problem.index(edge.dst) == op]
    here = [groups.same(problem.index(edge.src), op) for edge in incoming if edge.blocking]
    across = [-groups.same(problem.index(edge.src), op) for edge in incoming if not problem.operation(edge.src).streaming]
    reasons = sorted({*here, *across} - {FALSE})
    if TRUE in reasons or any(-reason in reasons for reason in reasons):
        return TRUE
    return formula.equivalent_any(reasons)


def _exclusive(problem: Problem, op: int, other: int) -> bool:
    """A unit of capacity 1 already keeps `op` from starting while `other` issues."""
    single = {unit.name for unit in problem.units if unit.capacity == 1 and not unit.aggregate}
    taken = {use.unit for use in problem.operations[op].reservations if use.offset == 0 and use.cycles and use.amount}
    issue = problem.operations[other].issue
    return any(
        use.unit in single & taken and use.offset == 0 and use.cycles >= issue and use.amount
        for use in problem.operations[other].reservations
    )


def _keep_clear(formula: Formula, problem: Problem, table: Timetable, op: int, other: int, given: list[int], grace: Time) -> None:
    issue = problem.operations[other].issue
    clash = formula.equivalent_all(given)
    if issue >= table.starts.interval:
        formula.imply([clash], FALSE)
    elif issue > grace and clash != FALSE:
        formula.imply([clash, table.during(op, 0, 1), table.during(other, grace, issue - grace)], FALSE)
