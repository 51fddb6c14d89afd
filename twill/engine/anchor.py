"""The operation that a schedule is counted from: all starts may be shifted, so one may be at residue 0.

Which one it is excludes no schedule, but an engine decides it soonest where the start that it fixes fixes
others: those in circuits with it. Where most operations are, it may start at a constant: each circuit of
slack S at an interval leaves an operation on it S + 1 starts, whatever the number of iterations in flight.
"""

from collections import defaultdict

from twill.engine.connected import strong
from twill.ir.problem import Problem, Time

NEVER = -(1 << 60)
"""Weight of no circuit."""


def anchor(problem: Problem, interval: Time) -> int:
    """The operation with the longest reservation; of several, the one in the circuit with the least slack at
    this interval, and of these the first."""
    tied = _longest(problem)
    return tied[0] if len(tied) == 1 else max(tied, key=_circuits(problem, interval, tied).__getitem__)


def foremost(problem: Problem) -> int:
    """The first operation with the longest reservation: counted from it, the shortest schedule is proven
    soonest."""
    return _longest(problem)[0]


def fastened(problem: Problem) -> int | None:
    """An operation whose start bounds those of most operations that compute, by circuits through both: the
    one of these with the longest reservation; None where no circuits do."""
    component = strong([op.id for op in problem.operations], ((e.src, e.dst) for e in problem.edges))
    computing = [i for i, op in enumerate(problem.operations) if not op.variable]
    members: defaultdict[int, list[int]] = defaultdict(list)
    for i in computing:
        members[component[problem.operations[i].id]].append(i)
    most = max(members.values(), key=len, default=list[int]())
    if len(most) < 2 or 2 * len(most) < len(computing):
        return None
    return max(most, key=lambda i: max((use.cycles for use in problem.operations[i].reservations), default=0))


def _longest(problem: Problem) -> list[int]:
    longest = [max((use.cycles for use in op.reservations), default=0) for op in problem.operations]
    most = max(longest)
    return [op for op, cycles in enumerate(longest) if cycles == most]


def _circuits(problem: Problem, interval: Time, ops: list[int]) -> dict[int, Time]:
    """The weight of the heaviest circuit through each of these operations, of delays minus distances times
    the interval; some circuit's, where one of positive weight refutes the interval."""
    component = strong([op.id for op in problem.operations], ((e.src, e.dst) for e in problem.edges))
    arcs: defaultdict[int, list[tuple[str, str, Time]]] = defaultdict(list)
    for edge in problem.edges:
        if component[edge.src] == component[edge.dst]:
            weight = min(edge.delay, edge.crossing) - edge.distance * interval
            arcs[component[edge.src]].append((edge.src, edge.dst, weight))
    ids = {op: problem.operations[op].id for op in ops}
    return {op: _heaviest(name, arcs.get(component[name], [])) for op, name in ids.items()}


def _heaviest(op: str, arcs: list[tuple[str, str, Time]]) -> Time:
    """Of the walks from an operation back to it."""
    reached, back = {op: 0}, NEVER
    for _ in {src for src, _, _ in arcs}:
        moved = False
        for src, dst, weight in arcs:
            time = reached[src] + weight if src in reached else NEVER
            if dst == op:
                back = max(back, time)
            elif time > reached.get(dst, NEVER):
                reached[dst], moved = time, True
        if not moved:
            break
    return back
