"""Which operations must, or must not, share a group, whatever the engine decides.

Rules TOGETHER, APART and VARIABLE of a `Problem`, closed under transitivity; engines decide one group per
cluster.
"""

from dataclasses import dataclass

from twill.ir.problem import Problem


@dataclass(frozen=True, slots=True)
class Clusters:
    """`of[op]` is an operation's cluster; clusters are numbered by their first operation, that of the loads
    first."""

    of: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    variable: tuple[bool, ...]
    apart: frozenset[tuple[int, int]]
    contradiction: str | None
    """Why no assignment exists at all, as text."""


def clusters(problem: Problem) -> Clusters:
    """Merge by TOGETHER; all variable-latency operations form one cluster, which comes first."""
    merged = _merge(problem)
    of = {op: c for c, members in enumerate(merged) for op in members}
    variable = tuple(any(problem.operations[op].variable for op in members) for members in merged)
    pairs = [(of[problem.index(a)], of[problem.index(b)]) for a, b in problem.apart]
    return Clusters(
        tuple(of[i] for i in range(len(problem.operations))),
        merged,
        variable,
        frozenset((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]),
        _contradiction(problem, merged, pairs),
    )


def _merge(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Each set merges the parts it touches."""
    part = {i: {i} for i in range(len(problem.operations))}
    variable = [i for i, op in enumerate(problem.operations) if op.variable]
    for ops in [variable, *([problem.index(op) for op in ops] for ops in problem.together)]:
        merged = set[int]().union(*(part[op] for op in ops))
        part |= dict.fromkeys(merged, merged)
    parts = {tuple(sorted(members)) for members in part.values()}
    return tuple(sorted(parts, key=lambda members: (not problem.operations[members[0]].variable, members[0])))


def _contradiction(
    problem: Problem, merged: tuple[tuple[int, ...], ...], pairs: list[tuple[int, int]]
) -> str | None:
    for members in merged:
        kinds = {problem.operations[op].variable for op in members}
        if len(kinds) == 2:
            names = ", ".join(problem.operations[op].id for op in members)
            return f"{names} must share a group, but loads of variable latency have one of their own"
    for (a, b), (first, second) in zip(problem.apart, pairs, strict=True):
        if first == second:
            return f"{a} and {b} must share a group and must be apart"
    return None
