"""Lower bounds on the interval: ResMII over the units, RecMII over the circuits of the dependence graph.

Takes a `Problem`; gives `Bounds` that name the unit and the circuit that set them. Both are cheap and hold
whatever the engine.
"""

from collections import defaultdict

from twill.ir.problem import Edge, Problem, Time, Unit
from twill.ir.schedule import Bounds, RecurrenceBound, ResourceBound


def bounds(problem: Problem, *, joint: bool = True) -> Bounds:
    """ResMII and RecMII (Rau 1994); `joint` lets an edge take the cheaper of its two delays."""
    return Bounds(resource_bound(problem), recurrence_bound(problem, joint=joint))


def resource_bound(problem: Problem) -> ResourceBound:
    """ResMII: the busiest unit's work per iteration over its capacity, rounded up; ties go to the unit named
    first."""
    needs = {unit.name: _unit_need(unit, problem) for unit in problem.units}
    name = max(needs, key=lambda unit: needs[unit], default=None)
    return ResourceBound(name, needs[name]) if name is not None else ResourceBound(None, 0)


def work(problem: Problem) -> dict[str, int]:
    """Amount x time that one iteration takes of every unit."""
    total: dict[str, int] = defaultdict(int)
    for op in problem.operations:
        for use in op.reservations:
            total[use.unit] += use.amount * use.cycles
    return {unit.name: total[unit.name] for unit in problem.units}


def _unit_need(unit: Unit, problem: Problem) -> Time:
    """Ceiling of work over capacity, and on a real unit no less than any reservation that cannot overlap
    itself."""
    uses = [use for op in problem.operations for use in op.reservations if use.unit == unit.name]
    average = -(-sum(use.amount * use.cycles for use in uses) // unit.capacity)
    if unit.aggregate:
        return average
    overlaps = (
        -(-use.cycles // (unit.capacity // use.amount)) for use in uses if 0 < use.amount <= unit.capacity
    )
    return max([average, *overlaps])


def recurrence_bound(problem: Problem, *, joint: bool = True) -> RecurrenceBound:
    """RecMII: the largest ceil(delay / distance) over circuits, by bisection on the interval.

    At interval I an edge weighs delay - distance * I; a circuit of positive weight refutes I (Lawler's
    parametric search).
    """
    low, critical = 0, tuple[str, ...]()
    high = 1 + sum(_delay(edge, joint) for edge in problem.edges)
    while low < high:
        middle = (low + high) // 2
        circuit = _positive_circuit(problem, middle, joint)
        if circuit is None:
            high = middle
        else:
            low, critical = middle + 1, circuit
    return RecurrenceBound(low, critical)


def _delay(edge: Edge, joint: bool) -> Time:
    return min(edge.delay, edge.crossing) if joint else edge.delay


def _positive_circuit(problem: Problem, interval: Time, joint: bool) -> tuple[str, ...] | None:
    """A circuit whose delays exceed its distances times the interval, in dependence order; None where there
    is none.

    Bellman and Ford: starts are pushed later until they settle; one still pushed after as many rounds as
    there are operations has a circuit behind it. (networkx's search for a negative cycle mistakes other
    circuits for it where paths tie.)
    """
    start = {op.id: 0 for op in problem.operations}
    cause: dict[str, str] = {}
    pushed: str | None = None
    for _ in range(len(start) + 1):
        pushed = None
        for edge in problem.edges:
            time = start[edge.src] + _delay(edge, joint) - edge.distance * interval
            if time > start[edge.dst]:
                start[edge.dst], cause[edge.dst], pushed = time, edge.src, edge.dst
        if pushed is None:
            return None
    return _circuit_behind(pushed, cause) if pushed else None


def _circuit_behind(op: str, cause: dict[str, str]) -> tuple[str, ...]:
    """The circuit that walking back from `op` runs into."""
    for _ in cause:
        op = cause[op]
    circuit = [op]
    while cause[circuit[-1]] != op:
        circuit.append(cause[circuit[-1]])
    return tuple(reversed(circuit))


def largest_needed(problem: Problem, low: Time) -> Time:
    """An interval so large that if it does not work, none does.

    When all delays, holds, durations and issue times of one iteration together are less than I, some residue
    is inside none of them and can be cut out of the period: a schedule at I + 1 gives one at I. The cut must
    come after every pin, so as not to move it.
    """
    ops = sum(op.duration + op.issue for op in problem.operations)
    edges = sum(max(edge.delay, edge.crossing) for edge in problem.edges)
    holds = sum(use.hold for value in problem.values for use in value.uses)
    pinned = max((start for _, start in problem.starts), default=0)
    return max(low, ops + edges + holds + pinned + 1)


def shortest_iteration(problem: Problem, interval: Time, *, joint: bool = True) -> Time:
    """A lower bound on the length at `interval`, which the recurrences allow: the longest path with the
    cheaper delays."""
    start = {op.id: 0 for op in problem.operations}
    moved = True
    while moved:
        moved = False
        for edge in problem.edges:
            time = start[edge.src] + _delay(edge, joint) - edge.distance * interval
            if time > start[edge.dst]:
                start[edge.dst], moved = time, True
    return max((start[op.id] + op.duration for op in problem.operations), default=0)
