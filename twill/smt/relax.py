"""Projections: small problems that every schedule of the whole problem solves too, so that refuting one
refutes the interval.

A projection keeps a few operations and forgets the others but for the time that paths through them take: at
interval I the longest path weight W(a, b) = max over paths of (delays - distances * I) still separates a and
b. What decides tight loops is often a handful of operations (those that live in tensor memory, those with
whole tiles in registers), and there the engines are fast.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from twill.ir.problem import Edge, Operation, Problem, Time, Value

NEVER = -(1 << 40)
"""Weight of no path."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A named relaxation of one problem."""

    name: str
    at: Callable[[Time], Problem]
    """The projected problem at an interval (path weights depend on it)."""
    quick: bool
    """So small that it is worth asking before anything else."""

    @property
    def engine(self) -> str:
        """By which a refutation of it is recorded: CP-SAT decides projections."""
        return f"cpsat on the {self.name} projection"


def projections(problem: Problem) -> tuple[Projection, ...]:
    """The projections that may bind, the smallest first."""
    found: list[Projection] = []
    tensor = _touched(value for value in problem.values if value.tensor)
    if tensor:
        found.append(
            Projection(
                "tensor memory", lambda interval: _tensor_memory(problem, interval, tensor), quick=True
            )
        )
    tile = max((value.registers for value in problem.values), default=0)
    wide = _touched(value for value in problem.values if 4 * value.registers > tile)
    kept = wide | {value.src for value in problem.values if value.registers and _carried(value)}
    if tile and wide:
        found.append(
            Projection("registers", lambda interval: _registers(problem, interval, kept), quick=False)
        )
    return tuple(found)


def dependences(problem: Problem) -> Projection:
    """Dependences alone, with the cheaper delay of each; to be decided as plain modulo scheduling."""
    edges = tuple(
        replace(edge, delay=min(edge.delay, edge.crossing), cross_delay=None) for edge in problem.edges
    )
    alone = replace(problem, units=(), edges=edges, values=(), together=(), apart=())
    return Projection("dependences", lambda _: alone, quick=True)


def units(problem: Problem) -> Projection:
    """Dependences, with the cheaper delay of each, and units, which two circuits of little slack may need at
    the same time."""
    free = replace(
        problem,
        operations=tuple(
            replace(op, issue=0, warps=1, variable=False, streaming=False, divisible=False)
            for op in problem.operations
        ),
        edges=tuple(
            replace(edge, delay=min(edge.delay, edge.crossing), cross_delay=None, blocking=False)
            for edge in problem.edges
        ),
        values=(),
        together=(tuple(op.id for op in problem.operations),),
        apart=(),
        limits=replace(problem.limits, groups=1, narrow_registers=0),
    )
    return Projection("units", lambda _: free, quick=True)


def _carried(value: Value) -> bool:
    """Its own next instance reads it, so that it takes its registers all the time: what is left of them may
    be too little for two tiles at once."""
    return any(use.op == value.src and use.distance for use in value.uses)


def _touched(values: Iterable[Value]) -> frozenset[str]:
    """Who writes or reads these values."""
    return frozenset(op for value in values for op in (value.src, *(use.op for use in value.uses)))


def _tensor_memory(problem: Problem, interval: Time, kept: frozenset[str]) -> Problem:
    """Timing and tensor memory alone: groups are free of charge."""
    small = project(problem, interval, kept)
    return replace(
        small,
        operations=tuple(replace(op, issue=0, warps=1) for op in small.operations),
        edges=tuple(
            replace(edge, delay=min(edge.delay, edge.crossing), cross_delay=None) for edge in small.edges
        ),
        values=tuple(
            replace(value, registers=0, shared=0, staging=0) for value in small.values if value.tensor
        ),
        together=(tuple(op.id for op in small.operations),),
        apart=(),
        limits=replace(small.limits, groups=1, narrow_registers=0),
    )


def _registers(problem: Problem, interval: Time, kept: frozenset[str]) -> Problem:
    """Timing, groups and registers of the operations that hold tiles; memories are free.

    No rule of waiting: where a path through a forgotten operation crosses groups, it may be that one which
    waits. Narrow groups are free too: what is kept of a wide one may look narrow.
    """
    small = project(problem, interval, kept)
    return replace(
        small,
        operations=tuple(replace(op, issue=0) for op in small.operations),
        values=tuple(
            replace(value, shared=0, staging=0, tensor=0) for value in small.values if value.registers
        ),
        limits=replace(small.limits, narrow_registers=0),
    )


def project(problem: Problem, interval: Time, kept: frozenset[str]) -> Problem:
    """Only the operations in `kept` (loads never), with paths through the others as edges.

    At this interval every rule of the result but CONCURRENCY, and the registers of narrow groups, follows
    from the rules of `problem`.
    """
    operations = tuple(op for op in problem.operations if op.id in kept and not op.variable)
    names = {op.id for op in operations}
    direct = tuple(edge for edge in problem.edges if edge.src in names and edge.dst in names)
    loads = any(op.variable for op in problem.operations)
    return replace(
        problem,
        operations=tuple(_on_real_units(problem, op) for op in operations),
        edges=(*direct, *_paths(problem, interval, operations)),
        values=tuple(_read_by(value, names) for value in problem.values if value.src in names),
        together=_nontrivial(tuple(op for op in ops if op in names) for ops in problem.together),
        apart=tuple(pair for pair in problem.apart if set(pair) <= names),
        starts=tuple(pin for pin in problem.starts if pin[0] in names),
        limits=replace(problem.limits, groups=max(1, problem.limits.groups - loads)),
    )


def _on_real_units(problem: Problem, op: Operation) -> Operation:
    real = {unit.name for unit in problem.units if not unit.aggregate}
    return replace(op, reservations=tuple(use for use in op.reservations if use.unit in real))


def _read_by(value: Value, names: set[str]) -> Value:
    return replace(value, uses=tuple(use for use in value.uses if use.op in names))


def _nontrivial(sets: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(ops for ops in sets if len(ops) > 1)


def _paths(problem: Problem, interval: Time, kept: tuple[Operation, ...]) -> list[Edge]:
    """An edge for each longest path between kept operations that no third kept operation splits."""
    weight = longest_paths(problem, interval)
    index = [problem.index(op.id) for op in kept]
    edges: list[Edge] = []
    for a in index:
        for b in index:
            direct = weight[a][b]
            split = any(weight[a][c] + weight[c][b] >= direct for c in index if c not in (a, b))
            if a != b and direct > NEVER // 2 and not split:
                back = -(direct // interval) if direct < 0 else 0
                names = problem.operations[a].id, problem.operations[b].id
                edges.append(Edge(*names, direct + back * interval, back, kind="order"))
    return edges


def longest_paths(problem: Problem, interval: Time) -> list[list[Time]]:
    """W[a][b]: b starts at least this long after a (Floyd-Warshall); NEVER or less where no path leads from a
    to b."""
    count = len(problem.operations)
    weight = [[NEVER] * count for _ in range(count)]
    for edge in problem.edges:
        a, b = problem.index(edge.src), problem.index(edge.dst)
        weight[a][b] = max(weight[a][b], min(edge.delay, edge.crossing) - edge.distance * interval)
    for middle in range(count):
        out = weight[middle]
        for row in weight:
            first = row[middle]
            if first > NEVER // 2:
                row[:] = [max(old, first + more) for old, more in zip(row, out, strict=True)]
    return weight
