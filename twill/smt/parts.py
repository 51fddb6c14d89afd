"""Independent parts: what is left of a loop without its streaming loads, where that falls into several.

Sub-tiles share little but what they load. Without those loads every rule holds for the rest, and each part
may begin any number of whole periods later: all rules but the length of one iteration depend only on
residues and on times within a part. So each part may begin in the first period, which leaves few places for
its starts, however many iterations are in flight. Refuting this refutes the interval; a schedule of it is not
one of the loop, since one load feeds parts that may be far apart.
"""

from dataclasses import dataclass, replace
from itertools import permutations

from twill.engine.connected import components
from twill.engine.probe import Budget, Probe
from twill.ir.problem import Edge, Limits, Operation, Problem, Time
from twill.smt.cpsat import Tactics, attempt

NAME = "cpsat on the projection to independent parts"


@dataclass(frozen=True, slots=True)
class Parts:
    """A problem that every schedule of the loop solves too."""

    problem: Problem
    parts: tuple[tuple[int, ...], ...]
    """Positions of the operations of each part; no edge or value leads from one to another."""


def independent(problem: Problem) -> Parts | None:
    """The loop without streaming loads, if it has several parts then."""
    operations = tuple(op for op in problem.operations if not op.streaming)
    names = {op.id for op in operations}
    loads, left = (any(op.variable for op in ops) for ops in (problem.operations, operations))
    small = replace(
        problem,
        operations=operations,
        edges=tuple(edge for edge in problem.edges if {edge.src, edge.dst} <= names),
        values=tuple(
            replace(value, uses=tuple(use for use in value.uses if use.op in names))
            for value in problem.values
            if value.src in names
        ),
        together=tuple(ops for same in problem.together if (ops := tuple(op for op in same if op in names))),
        apart=tuple(pair for pair in problem.apart if set(pair) <= names),
        limits=replace(problem.limits, groups=max(1, problem.limits.groups - (loads and not left))),
    )
    ends = [(edge.src, edge.dst) for edge in small.edges]
    ends += [(value.src, use.op) for value in small.values for use in value.uses]
    found = components((op.id for op in operations), ends)
    parts = tuple(tuple(sorted(small.index(op) for op in part)) for part in found)
    return Parts(small, parts) if len(parts) > 1 and not problem.starts else None


def refute(whole: Parts, interval: Time, in_flight: int, budget: Budget) -> Probe:
    """Refuted where the parts have no schedule in which each takes up to `in_flight` periods."""
    tactics = Tactics(linearization=0, parts=whole.parts)
    return replace(attempt(whole.problem, interval, in_flight, budget=budget, tactics=tactics), engine=NAME)


def stated(whole: Parts, in_flight: int) -> Problem:
    """What `refute` decides, for engines that know rules alone: up to one more iteration in flight of this.

    Each part has a first operation, before which none of it starts and `in_flight` periods after which all of
    it has ended; those of any two parts are less than a period apart. They stream, so that nothing waits for
    them, take no time, and are together in the group of the loads, which issue in no time here.
    """
    problem = whole.problem
    firsts = tuple(f"first of part {part}" for part in range(len(whole.parts)))
    loads = any(op.variable for op in problem.operations)
    limits = problem.limits if loads else _with_loads(problem.limits)
    bounds = (
        edge
        for first, part in zip(firsts, whole.parts, strict=True)
        for op in (problem.operations[i] for i in part)
        for edge in (
            Edge(first, op.id, 0, kind="order"),
            Edge(op.id, first, op.duration, in_flight, kind="order"),
        )
    )
    near = (Edge(a, b, 1, 1, kind="order") for a, b in permutations(firsts, 2))
    return replace(
        problem,
        operations=(
            *(replace(op, issue=0) if op.variable else op for op in problem.operations),
            *(Operation(first, "first", variable=True, streaming=True) for first in firsts),
        ),
        edges=(*problem.edges, *bounds, *near),
        limits=limits,
    )


def _with_loads(limits: Limits) -> Limits:
    """One more group, of one warp, in a warpgroup of its own at most."""
    return replace(
        limits,
        groups=limits.groups + 1,
        warps=limits.warps + 4,
        registers_total=limits.registers_total + 128 * limits.narrow_registers,
    )
