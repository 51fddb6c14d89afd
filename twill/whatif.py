"""What-if questions: a problem changed in one respect, to be solved again.

Each function takes a `Problem` and gives another one; the search and the verifier know nothing of the question. Names that the problem
does not have raise `TwillError`.
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
    """What is fixed in advance."""

    starts: Mapping[str, Time]
    groups: tuple[tuple[str, ...], ...]
    """Operations of one tuple are in one group, those of two tuples in two."""


def limited(
    problem: Problem,
    *,
    groups: int | None = None,
    registers: int | None = None,
    shared: int | None = None,
    tensor: int | None = None,
) -> Problem:
    """Other limits: groups (the loads' included), registers per thread of any group, bytes of shared memory, columns of tensor memory."""
    changes = {"groups": groups, "registers_per_thread": registers, "shared": shared, "tensor": tensor}
    return replace(problem, limits=replace(problem.limits, **{name: value for name, value in changes.items() if value is not None}))


def without_hand_over(problem: Problem) -> Problem:
    """Nothing computed in the loop passes from one group to another; only what variable-latency operations bring does."""
    groups = _connected(problem.operations, (edge for edge in problem.edges if not _brought(problem, edge)))
    return replace(problem, together=(*problem.together, *groups))


def _brought(problem: Problem, edge: Edge) -> bool:
    return problem.operation(edge.src).variable or problem.operation(edge.dst).variable


def _connected(operations: Sequence[Operation], edges: Iterable[Edge]) -> tuple[tuple[str, ...], ...]:
    """The operations that edges join, directly or through others, as sets of two or more."""
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
    """The operations that `pattern` means get another latency; their readers wait by as much more or less."""
    named = [(op.id, op.name) for op in problem.operations]
    changed = {op: latency - problem.operation(op).latency for op in matching(named, pattern, problem.name)}
    operations = (replace(op, latency=latency) if op.id in changed else op for op in problem.operations)
    edges = (_slower(edge, changed[edge.src]) if edge.src in changed else edge for edge in problem.edges)
    return replace(problem, operations=tuple(operations), edges=tuple(edges))


def matching(named: Iterable[tuple[str, str]], pattern: str, loop: str) -> tuple[str, ...]:
    """The ids, of (id, name) pairs, of which either matches `pattern`; `*` and `?` are allowed. At least one must."""
    pairs = tuple(named)
    found = tuple(op for op, name in pairs if fnmatchcase(op, pattern) or fnmatchcase(name, pattern))
    if not found:
        raise _unknown([op for op, _ in pairs], pattern, loop)
    return found


def _slower(edge: Edge, by: Time) -> Edge:
    """An edge that carries a result, its source slower by `by`; one that only keeps an order stays as it is."""
    if edge.kind in ("war", "order"):
        return edge
    cross = None if edge.cross_delay is None else max(0, edge.cross_delay + by)
    return replace(edge, delay=max(0, edge.delay + by), cross_delay=cross)


def _unknown(known: Sequence[str], name: str, loop: str) -> TwillError:
    close = get_close_matches(name, known, 3) or known[:12]
    return TwillError(f"{loop} has no operation {name!r}", help=f"some that it has: {', '.join(close)}")


def pinned(problem: Problem, pins: Pins) -> Problem:
    """Fixed starts, and a fixed partition into groups."""
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
    """The pins of a JSON file: `{"starts": {"qk0": 0}, "groups": [["qk0", "p0"], ["qk1", "p1"]]}`, either of which may be left out."""
    root = parse(text, file)
    members = root.members()
    for name, node in members.items():
        if name not in ("starts", "groups"):
            node.fail(f"unknown member {name!r}", help="a pin file has 'starts' and 'groups'")
    starts = {op: node.whole(0, 10**9) for op, node in members["starts"].members().items()} if "starts" in members else {}
    groups = tuple(_names(group) for group in members["groups"].items()) if "groups" in members else ()
    return Pins(starts, groups)


def _names(group: Node) -> tuple[str, ...]:
    return tuple(op.string() for op in group.items())
