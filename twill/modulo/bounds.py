"""Lower bounds on the interval: ResMII over the units, RecMII over the circuits of the dependence graph.

Takes a `Problem`; gives `Bounds` that name the unit and the circuit that set them. Both are cheap and hold
whatever the engine.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """RecMII: the largest ceil(delay / distance) over circuits.

    At interval I an edge weighs delay - distance * I; a circuit of positive weight refutes I, and so every
    interval up to its own ceil(delay / distance): the interval rises from one circuit's to the next.
    """
    edges = [_Arc(edge.src, edge.dst, _delay(edge, joint), edge.distance) for edge in forward(problem)]
    low, critical = 0, tuple[str, ...]()
    while circuit := _positive_circuit([op.id for op in problem.operations], edges, low):
        delay, distance = sum(arc.delay for arc in circuit), sum(arc.distance for arc in circuit)
        critical = _from_first(problem, [arc.src for arc in circuit])
        if distance == 0:
            return RecurrenceBound(1 + sum(arc.delay for arc in edges), critical)
        low = -(-delay // distance)
    return RecurrenceBound(low, critical)


def _from_first(problem: Problem, circuit: Sequence[str]) -> tuple[str, ...]:
    """The circuit from its first operation on."""
    first = min(range(len(circuit)), key=lambda at: problem.index(circuit[at]))
    return (*circuit[first:], *circuit[:first])


def forward(problem: Problem) -> list[Edge]:
    """The edges by the topological order of their sources in one iteration, so that relaxing them one after
    the other settles all paths of that iteration at once (a circuit of distance 0 comes last)."""
    missing = dict.fromkeys((op.id for op in problem.operations), 0)
    after: defaultdict[str, list[Edge]] = defaultdict(list)
    for edge in problem.edges:
        after[edge.src].append(edge)
        missing[edge.dst] += not edge.distance
    ready = [op for op, count in missing.items() if not count]
    for op in ready:
        for edge in after.get(op, ()):
            missing[edge.dst] -= not edge.distance
            if not edge.distance and not missing[edge.dst]:
                ready.append(edge.dst)
    sources = dict.fromkeys((*ready, *missing))
    return [edge for op in sources if op in after for edge in after[op]]


def _delay(edge: Edge, joint: bool) -> Time:
    return min(edge.delay, edge.crossing) if joint else edge.delay


@dataclass(frozen=True, slots=True)
class _Arc:
    """An edge with the delay that counts."""

    src: str
    dst: str
    delay: Time
    distance: int


def _positive_circuit(ops: Sequence[str], arcs: Sequence[_Arc], interval: Time) -> list[_Arc]:
    """A circuit whose delays exceed its distances times the interval, in dependence order; empty where there
    is none.

    Bellman and Ford: starts are pushed later until they settle; where the arcs that last pushed each start
    close a circuit, its weight is positive. (networkx's search for a negative cycle mistakes other circuits
    for it where paths tie.)
    """
    start, cause = dict.fromkeys(ops, 0), dict[str, _Arc]()
    moved = True
    while moved:
        moved = False
        for arc in arcs:
            time = start[arc.src] + arc.delay - arc.distance * interval
            if time > start[arc.dst]:
                start[arc.dst], cause[arc.dst], moved = time, arc, True
        if moved and (circuit := _circuit_of(cause)):
            return circuit
    return []


def _circuit_of(cause: Mapping[str, _Arc]) -> list[_Arc]:
    """A circuit that walking back along `cause` runs into, in forward order, if any does."""
    seen: dict[str, str] = {}
    for first in cause:
        op = first
        while op in cause and op not in seen:
            seen[op] = first
            op = cause[op].src
        if seen.get(op) == first and op in cause:
            circuit = [cause[op]]
            while circuit[-1].src != op:
                circuit.append(cause[circuit[-1].src])
            return circuit[::-1]
    return []


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
    edges, moved = forward(problem), True
    while moved:
        moved = False
        for edge in edges:
            time = start[edge.src] + _delay(edge, joint) - edge.distance * interval
            if time > start[edge.dst]:
                start[edge.dst], moved = time, True
    return max((start[op.id] + op.duration for op in problem.operations), default=0)
