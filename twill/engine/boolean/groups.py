"""Rules VARIABLE, TOGETHER, APART and GROUPS: which group runs an operation.

Gives `Groups`: a literal per cluster and group, and "these two share a group" for any pair of operations.
"""

from dataclasses import dataclass, field

import numpy as np

from twill.engine.boolean.formula import FALSE, TRUE, Formula
from twill.engine.clusters import Clusters, clusters
from twill.ir.problem import Problem


@dataclass(frozen=True, slots=True)
class Groups:
    """`member[c][g]`: cluster c runs on group g. Without the joint rules there is one group, which runs
    everything."""

    formula: Formula
    problem: Problem
    clusters: Clusters
    member: tuple[tuple[int, ...], ...]
    _same: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    @property
    def count(self) -> int:
        return len(self.member[0]) if self.member else 0

    def on(self, op: int, group: int) -> int:
        """Operation `op` runs on `group`."""
        return self.member[self.clusters.of[op]][group]

    def same(self, a: int, b: int) -> int:
        """Operations a and b share a group."""
        pair = first, second = (
            min(self.clusters.of[a], self.clusters.of[b]),
            max(self.clusters.of[a], self.clusters.of[b]),
        )
        if first == second or self.count == 1:
            return TRUE
        if self.clusters.variable[first] != self.clusters.variable[second] or pair in self.clusters.apart:
            return FALSE
        if pair not in self._same:
            self._same[pair] = self._share(first, second)
        return self._same[pair]

    def _share(self, first: int, second: int) -> int:
        same = self.formula.literal()
        x, y = np.array(self.member[first], np.int32), np.array(self.member[second], np.int32)
        self.formula.imply([same, x], y)
        self.formula.imply([same, y], x)
        self.formula.imply([x, y], same)
        return same

    def widest(self, group: int, width: int) -> int:
        """The group runs an operation at least `width` warps wide."""
        operations = self.problem.operations
        members = [
            c
            for c, ops in enumerate(self.clusters.members)
            if any(operations[op].warps >= width for op in ops)
        ]
        return self.formula.equivalent_any([self.member[c][group] for c in members])

    def used(self, group: int) -> int:
        """Some operation runs on the group."""
        return self.formula.equivalent_any([row[group] for row in self.member])

    def read(self, truth: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
        """The group of every operation in an assignment."""
        chosen = [
            next(g for g, literal in enumerate(row) if literal > 0 and truth[literal]) for row in self.member
        ]
        return [chosen[cluster] for cluster in self.clusters.of]


def state(formula: Formula, problem: Problem, *, joint: bool) -> Groups:
    """Every cluster has one group; the loads have group 0 to themselves."""
    known = clusters(problem)
    if not joint:
        return Groups(formula, problem, known, tuple((TRUE,) for _ in known.members))
    count = min(problem.limits.groups, len(known.members))
    member = tuple(_choices(formula, count, variable, any(known.variable)) for variable in known.variable)
    groups = Groups(formula, problem, known, member)
    if known.contradiction or (known.members and count == 0):
        formula.contradict()
        return groups
    for row in member:
        _exactly_one(formula, row)
    for a, b in sorted(known.apart):
        for x, y in zip(member[a], member[b], strict=True):
            formula.clause(-x, -y)
    _number(formula, groups)
    return groups


def _choices(formula: Formula, count: int, variable: bool, loads: bool) -> tuple[int, ...]:
    """One literal per group, constants where VARIABLE decides."""
    if variable:
        return (TRUE, *[FALSE] * (count - 1)) if count else ()
    return tuple(FALSE if loads and g == 0 else formula.literal() for g in range(count))


def _exactly_one(formula: Formula, row: tuple[int, ...]) -> None:
    formula.clause(*row)
    for i, x in enumerate(row):
        for y in row[:i]:
            formula.clause(-x, -y)


def _number(formula: Formula, groups: Groups) -> None:
    """Groups are interchangeable: a cluster opens group g only if an earlier cluster is in group g - 1."""
    for c, row in enumerate(groups.member):
        for g in range(1, groups.count):
            formula.clause(-row[g], *(earlier[g - 1] for earlier in groups.member[:c]))
