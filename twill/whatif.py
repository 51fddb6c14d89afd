"""What-if queries: each function takes a `Problem` and returns one that differs in one respect, to be solved
again.

The search and the verifier do not know that the problem was changed. Unknown operation names raise
`TwillError`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from twill.diagnostics import TwillError
from twill.files.text import Node, parse
from twill.ir.problem import Edge, Operation, Problem, Time


@dataclass(frozen=True, slots=True)
class Pins:
    """Start times and a partition that the search must keep."""

    starts: Mapping[str, Time]
    groups: tuple[tuple[str, ...], ...]
    """Operations of one tuple are in the same group, operations of different tuples in different groups."""


def limited(
    problem: Problem,
    *,
    groups: int | None = None,
    registers: int | None = None,
    shared: int | None = None,
    tensor: int | None = None,
    registers_in_all: int | None = None,
) -> Problem:
    """The problem with other limits: groups (including the load group), registers per thread, bytes of shared
    memory, columns of tensor memory, registers of all threads together."""
    changes = {
        "groups": groups,
        "registers_per_thread": registers,
        "shared": shared,
        "tensor": tensor,
        "registers_total": registers_in_all,
    }
    return replace(
        problem,
        limits=replace(
            problem.limits, **{name: value for name, value in changes.items() if value is not None}
        ),
    )


def spilling(problem: Problem, times: int) -> Problem:
    """The problem in which tiles take up to `times` the registers of a thread: each counts that part of its
    own, and the compiler keeps in local memory what has no room."""
    values = (replace(value, registers=-(-value.registers // times)) for value in problem.values)
    return replace(problem, values=tuple(values))


def without_cross_group(problem: Problem) -> Problem:
    """The problem without cross-group register values: only results of variable-latency operations pass
    between groups."""
    groups = _connected(problem.operations, (edge for edge in problem.edges if not _variable(problem, edge)))
    return replace(problem, together=(*problem.together, *groups))


def _variable(problem: Problem, edge: Edge) -> bool:
    """The edge starts or ends at an operation of variable latency."""
    return problem.operation(edge.src).variable or problem.operation(edge.dst).variable


def _connected(operations: Sequence[Operation], edges: Iterable[Edge]) -> tuple[tuple[str, ...], ...]:
    """The connected components of two or more operations."""
    leader = {op.id: op.id for op in operations}

    def find(op: str) -> str:
        while leader[op] != op:
            op = leader[op]
        return op

    for edge in edges:
        leader[find(edge.dst)] = find(edge.src)
    sets: dict[str, list[str]] = {}
    for op in operations:
        sets.setdefault(find(op.id), []).append(op.id)
    return tuple(tuple(members) for members in sets.values() if len(members) > 1)


def with_latency(problem: Problem, pattern: str, latency: Time) -> Problem:
    """The problem with another latency for the operations that match `pattern`; delays to their readers
    change by the difference."""
    named = [(op.id, op.name) for op in problem.operations]
    changed = {op: latency - problem.operation(op).latency for op in matching(named, pattern, problem.name)}
    operations = (replace(op, latency=latency) if op.id in changed else op for op in problem.operations)
    edges = (_slower(edge, changed[edge.src]) if edge.src in changed else edge for edge in problem.edges)
    return replace(problem, operations=tuple(operations), edges=tuple(edges))


def matching(named: Iterable[tuple[str, str]], pattern: str, loop: str) -> tuple[str, ...]:
    """The ids of the (id, name) pairs of which either matches `pattern` (`*` and `?` as in a shell). Raises
    TwillError for none."""
    pairs = tuple(named)
    found = tuple(op for op, name in pairs if fnmatchcase(op, pattern) or fnmatchcase(name, pattern))
    if not found:
        raise _unknown([op for op, _ in pairs], pattern, loop)
    return found


def _slower(edge: Edge, by: Time) -> Edge:
    """The edge with a source slower by `by`. Edges that only order memory accesses do not change."""
    if edge.kind in ("war", "order"):
        return edge
    cross = None if edge.cross_delay is None else max(0, edge.cross_delay + by)
    return replace(edge, delay=max(0, edge.delay + by), cross_delay=cross)


def _unknown(known: Sequence[str], name: str, loop: str) -> TwillError:
    close = get_close_matches(name, known, 3) or known[:12]
    return TwillError(f"{loop} has no operation {name!r}", help=f"operations of the loop: {', '.join(close)}")


def pinned(problem: Problem, pins: Pins) -> Problem:
    """The problem with fixed start times and a fixed partition into groups."""
    known = [op.id for op in problem.operations]
    for op in (*pins.starts, *(op for group in pins.groups for op in group)):
        if op not in known:
            raise _unknown(known, op, problem.name)
    first = [group[0] for group in pins.groups if group]
    apart = tuple((a, b) for i, a in enumerate(first) for b in first[i + 1 :])
    return replace(
        problem,
        starts=(*problem.starts, *sorted(pins.starts.items())),
        together=(*problem.together, *(group for group in pins.groups if len(group) > 1)),
        apart=(*problem.apart, *apart),
    )


def read_pins(text: str, file: str) -> Pins:
    """The pins of a JSON file: `{"starts": {"qk0": 0}, "groups": [["qk0", "p0"], ["qk1", "p1"]]}`; both
    members are optional."""
    root = parse(text, file)
    members = root.members()
    for name, node in members.items():
        if name not in ("starts", "groups"):
            node.fail(f"unknown member {name!r}", help="a pin file has 'starts' and 'groups'")
    starts = (
        {op: node.whole(0, 10**9) for op, node in members["starts"].members().items()}
        if "starts" in members
        else {}
    )
    groups = tuple(_names(group) for group in members["groups"].items()) if "groups" in members else ()
    return Pins(starts, groups)


def _names(group: Node) -> tuple[str, ...]:
    return tuple(op.string() for op in group.items())
