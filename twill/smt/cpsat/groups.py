# pyright: reportUnknownMemberType=false
"""Rules VARIABLE, GROUPS, THREADS and CONCURRENCY: who runs what, and what a blocking wait forbids."""

from itertools import combinations

from ortools.sat.python import cp_model

from twill.ir.problem import Problem, Reservation
from twill.smt.cpsat.timing import rectangles
from twill.smt.cpsat.variables import Literal, Variables, negate


def state(v: Variables) -> None:
    """All group rules but registers."""
    assignment(v)
    symmetry(v)
    concurrency(v)


def assignment(v: Variables) -> None:
    """Every cluster has one group; the loads' cluster has group 0 to itself."""
    if v.clusters.contradiction:
        v.model.add_bool_or([])
    for c, row in enumerate(v.in_group):
        v.model.add_exactly_one(row)
        if v.clusters.variable[c]:
            v.model.add(row[0] == 1)
        elif any(v.clusters.variable):
            v.model.add(row[0] == 0)
    for a, b in sorted(v.clusters.apart):
        for x, y in zip(v.in_group[a], v.in_group[b], strict=True):
            v.model.add_bool_or(negate(x), negate(y))


def symmetry(v: Variables) -> None:
    """Groups are interchangeable: a cluster may open group g only if an earlier cluster is in group g - 1."""
    for c, row in enumerate(v.in_group):
        for g in range(1, v.group_count):
            v.model.add_bool_or(negate(row[g]), *(v.in_group[earlier][g - 1] for earlier in range(c)))


def used(v: Variables) -> list[Literal]:
    """used[g]: some cluster is in group g. By `symmetry` the used groups are the first ones."""
    return [v.any_of([row[g] for row in v.in_group], f"used[{g}]") for g in range(v.group_count)]


def waits(v: Variables, op: int) -> Literal:
    """Operation `op` starts with a blocking wait."""
    incoming = [edge for edge in v.problem.edges if v.problem.index(edge.dst) == op]
    here = {v.problem.index(edge.src) for edge in incoming if edge.blocking}
    across = {v.problem.index(edge.src) for edge in incoming} - {
        i for i, o in enumerate(v.problem.operations) if o.streaming
    }
    if here & across:
        return True  # blocking where they share a group, a barrier where they do not
    return v.any_of(
        [v.same(src, op) for src in sorted(here)] + [negate(v.same(src, op)) for src in sorted(across)],
        f"waits[{op}]",
    )


def concurrency(v: Variables) -> None:
    """Where v waits, no other operation of its group may be issuing: (s(v) - s(o)) mod I >= issue(o)."""
    for op in range(len(v.problem.operations)):
        v.pause()
        waiting = waits(v, op)
        if waiting is False:
            continue
        for other, operation in enumerate(v.problem.operations):
            same = v.same(op, other)
            if other != op and operation.undivided > 0 and same is not False:
                _clear_of(v, op, other, [waiting, same])


def _clear_of(v: Variables, op: int, other: int, conditions: list[Literal]) -> None:
    issue = v.problem.operations[other].undivided
    enforced = [lit for lit in conditions if lit is not True]
    if issue > v.interval - 1:
        v.model.add_bool_or([negate(lit) for lit in enforced])
        return
    after = v.residue[op] - v.residue[other] + v.interval * v.before(v.residue[op], v.residue[other])
    v.when(v.model.add_linear_constraint(after, issue, v.interval - 1), *enforced)


def in_order(v: Variables) -> None:
    """Not a rule but a preference: operations that must share a group do not issue at the same time.

    A warp issues in order, so that what a schedule has it issue at once is late by as much.
    """
    for members in v.clusters.members:
        issues = [(op, Reservation("issue", v.problem.held(v.problem.operations[op]))) for op in members]
        v.model.add_no_overlap(
            [part for op, issue in issues if issue.cycles for part in rectangles(v, op, issue)]
        )


def issuable(v: Variables) -> None:
    """Not a rule but a preference: no group has more to issue in one iteration than fits an interval. Nothing
    is stated where the partition is given."""
    computing = [c for c, loads in enumerate(v.clusters.variable) if not loads]
    if all(pair in v.clusters.apart for pair in combinations(computing, 2)):
        return
    held = [v.problem.held(op) for op in v.problem.operations]
    times = [sum(held[op] for op in v.clusters.members[c]) for c in computing]
    for g in range(v.group_count):
        chosen = [v.in_group[c][g] for c in computing]
        v.model.add(cp_model.LinearExpr.weighted_sum(chosen, times) <= v.interval)


def widths(problem: Problem) -> list[int]:
    """The widths above one warp of operations, narrowest first."""
    return sorted({op.warps for op in problem.operations if op.warps > 1})


def wide(v: Variables, group: int, width: int) -> Literal:
    """Group holds an operation at least `width` warps wide."""
    members = [
        c
        for c, ops in enumerate(v.clusters.members)
        if any(v.problem.operations[op].warps >= width for op in ops)
    ]
    return v.any_of([v.in_group[c][group] for c in members], f"wide[{group},{width}]")


def channels(v: Variables) -> list[cp_model.IntVar]:
    """One literal per (operation, group) that hands over a value or an ordering to another group; loads that
    stream are free."""
    into: dict[tuple[int, int], list[int]] = {}
    for edge in v.problem.edges:
        src, dst = v.problem.index(edge.src), v.problem.index(edge.dst)
        if not v.problem.operations[src].streaming and v.same(src, dst) is not True:
            for g in range(v.group_count):
                into.setdefault((src, g), []).append(dst)
    result: list[cp_model.IntVar] = []
    for (src, g), readers in sorted(into.items()):
        channel = v.model.new_bool_var(f"channel[{src},{g}]")
        for dst in sorted(set(readers)):
            v.model.add_bool_or(channel, negate(v.on(dst, g)), v.on(src, g))
        result.append(channel)
    return result
