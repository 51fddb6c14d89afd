"""Rule CONCURRENCY: where an operation starts with a blocking wait, its group issues nothing else."""

import numpy as np

from twill.engine.boolean.formula import FALSE, TRUE, Formula, Lane
from twill.engine.boolean.groups import Groups
from twill.engine.boolean.timing import Timetable
from twill.ir.problem import Problem, Time


def state(formula: Formula, problem: Problem, table: Timetable, groups: Groups, grace: Time = 0) -> None:
    """For every operation that may wait and every other that may be issuing in its group.

    With `grace`, the wait may fall on the other's first units of time (where times were rounded down, their
    order is lost).
    """
    for op in range(len(problem.operations)):
        waits = _waits(formula, problem, groups, op)
        if waits == FALSE:
            continue
        others = sorted(set(range(len(problem.operations))) - {op} - _exclusive(problem, op))
        rivals = [
            (other, clash)
            for other in others
            if (clash := formula.equivalent_all([waits, groups.same(op, other)])) != FALSE
        ]
        _keep_clear(formula, problem, table, op, rivals, grace)


def _waits(formula: Formula, problem: Problem, groups: Groups, op: int) -> int:
    """A literal forced where `op` waits for an operation."""
    incoming = [edge for edge in problem.edges if problem.index(edge.dst) == op]
    here = [groups.same(problem.index(edge.src), op) for edge in incoming if edge.blocking]
    across = [
        -groups.same(problem.index(edge.src), op)
        for edge in incoming
        if not problem.operation(edge.src).streaming
    ]
    reasons = sorted({*here, *across} - {FALSE})
    if TRUE in reasons or any(-reason in reasons for reason in reasons):
        return TRUE
    return formula.equivalent_any(reasons)


def _exclusive(problem: Problem, op: int) -> set[int]:
    """Operations that keep a unit of capacity 1, which `op` starts on, for as long as they issue."""
    single = {unit.name for unit in problem.units if unit.capacity == 1 and not unit.aggregate}
    taken = {
        use.unit
        for use in problem.operations[op].reservations
        if use.offset == 0 and use.cycles and use.amount
    } & single
    return {
        i
        for i, other in enumerate(problem.operations)
        for use in other.reservations
        if use.unit in taken and use.offset == 0 and use.cycles >= other.issue and use.amount
    }


def _keep_clear(
    formula: Formula, problem: Problem, table: Timetable, op: int, rivals: list[tuple[int, int]], grace: Time
) -> None:
    """Where it clashes with a rival, `op` does not start while that is issuing; all rivals at once, as there
    are many."""
    interval, lanes, clashes = table.starts.interval, list[Lane](), list[int]()
    for other, clash in rivals:
        issue = problem.operations[other].undivided
        if issue >= interval:
            formula.clause(-clash)
        elif issue > grace:
            lanes.append(table.during(other, grace, issue - grace))
            clashes.append(clash)
    if lanes:
        formula.clause(-np.array(clashes, np.int32)[:, None], -table.during(op, 0, 1), -np.stack(lanes))
