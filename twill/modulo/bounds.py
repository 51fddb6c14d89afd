"""Lower bounds on the interval: ResMII over the units, RecMII over the circuits of the dependence graph.

Takes a `Problem`; gives `Bounds` that name the unit and the circuit that set them. Both are cheap and hold
whatever the engine.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from twill.engine.connected import strong
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


EXACT = 5000
"""Operations up to which RecMII is the largest over all circuits, however long that takes."""

RELAXATIONS = 4_000_000
"""Edges relaxed, for more operations, before the largest circuit found so far has to do (a few seconds)."""


def recurrence_bound(problem: Problem, *, joint: bool = True) -> RecurrenceBound:
    """RecMII: the largest ceil(delay / distance) over circuits; over those that `RELAXATIONS` find where
    there are more than `EXACT` operations.

    At interval I an edge weighs delay - distance * I; a circuit of positive weight refutes I, and so every
    interval up to its own ceil(delay / distance): the interval rises from one circuit's to the next.
    """
    arcs = _in_circuits(problem, joint)
    left = RELAXATIONS if len(problem.operations) > EXACT else 1 << 60
    low, critical = 0, tuple[str, ...]()
    while (pushed := _pushed(arcs, low, left)).circuit:
        circuit, left = pushed.circuit, left - pushed.relaxed
        delay, distance = sum(arc.delay for arc in circuit), sum(arc.distance for arc in circuit)
        critical = _from_first(problem, [arc.src for arc in circuit])
        if distance == 0:
            return RecurrenceBound(1 + sum(arc.delay for arc in arcs), critical)
        low = -(-delay // distance)
    return RecurrenceBound(low, critical)


def _in_circuits(problem: Problem, joint: bool) -> list["_Arc"]:
    """The edges that are part of circuits, in the order of `swept`."""
    component = strong([op.id for op in problem.operations], ((e.src, e.dst) for e in problem.edges))
    return [
        _Arc(edge.src, edge.dst, _delay(edge, joint), edge.distance)
        for edge in swept(problem)
        if component[edge.src] == component[edge.dst]
    ]


def _from_first(problem: Problem, circuit: Sequence[str]) -> tuple[str, ...]:
    """The circuit from its first operation on."""
    first = min(range(len(circuit)), key=lambda at: problem.index(circuit[at]))
    return (*circuit[first:], *circuit[:first])


def swept(problem: Problem) -> list[Edge]:
    """The edges in an order in which relaxing one after the other settles many paths at once (Yen 1970):
    those that lead on in a topological order of one iteration, then those that lead back, from the last
    source to the first."""
    order = {op: at for at, op in enumerate(_one_iteration(problem))}
    onward = [edge for edge in problem.edges if order[edge.src] < order[edge.dst]]
    back = [edge for edge in problem.edges if order[edge.src] >= order[edge.dst]]
    return [
        *sorted(onward, key=lambda edge: order[edge.src]),
        *sorted(back, key=lambda edge: -order[edge.src]),
    ]


def _one_iteration(problem: Problem) -> Iterable[str]:
    """A topological order of one iteration; what a circuit of distance 0 holds up comes last."""
    missing = dict.fromkeys((op.id for op in problem.operations), 0)
    after: defaultdict[str, list[str]] = defaultdict(list)
    for edge in problem.edges:
        if not edge.distance:
            after[edge.src].append(edge.dst)
            missing[edge.dst] += 1
    ready = [op for op, count in missing.items() if not count]
    for op in ready:
        for other in after.get(op, ()):
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return dict.fromkeys((*ready, *missing))


def _delay(edge: Edge, joint: bool) -> Time:
    return min(edge.delay, edge.crossing) if joint else edge.delay


class _Arc(NamedTuple):
    """An edge with the delay that counts."""

    src: str
    dst: str
    delay: Time
    distance: int


@dataclass(frozen=True, slots=True)
class _Pushed:
    """A circuit whose delays exceed its distances times the interval, in dependence order; empty where none
    was found."""

    circuit: list[_Arc]
    relaxed: int


def _pushed(arcs: Sequence[_Arc], interval: Time, most: int) -> _Pushed:
    """Look for a positive circuit, relaxing about `most` arcs at most.

    Bellman and Ford: starts are pushed later until they settle; where the arcs that last pushed each start
    close a circuit, its weight is positive. (networkx's search for a negative cycle mistakes other circuits
    for it where paths tie.)
    """
    start, cause = dict.fromkeys((arc.src for arc in arcs), 0), dict[str, _Arc]()
    moved, relaxed = bool(arcs), 0
    while moved and relaxed < most:
        moved, relaxed = False, relaxed + len(arcs)
        for arc in arcs:
            src, dst, delay, distance = arc
            time = start[src] + delay - distance * interval
            if time > start[dst]:
                start[dst], cause[dst], moved = time, arc, True
        if moved and (circuit := _circuit_of(cause)):
            return _Pushed(circuit, relaxed)
    return _Pushed([], relaxed)


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
    cheaper delays, or where `RELAXATIONS` do not settle it, a shorter one."""
    start = {op.id: 0 for op in problem.operations}
    arcs = [_Arc(edge.src, edge.dst, _delay(edge, joint), edge.distance) for edge in swept(problem)]
    moved, left = True, RELAXATIONS
    while moved and left > 0:
        moved, left = False, left - len(arcs)
        for src, dst, delay, distance in arcs:
            time = start[src] + delay - distance * interval
            if time > start[dst]:
                start[dst], moved = time, True
    return max((start[op.id] + op.duration for op in problem.operations), default=0)
