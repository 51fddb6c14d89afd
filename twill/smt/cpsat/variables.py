# pyright: reportUnknownMemberType=false
"""The decision variables of one interval, named once.

Every operation has a start s = q * I + r; every cluster of operations that must be together has one group.
Modular resources are stated on the line [0, 2 I): each interval appears at its residue r and again at r + I,
so that whatever wraps past I meets what starts after 0 (the window [I, 2 I) sees the steady state, the rest
sees a part of it).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TypeAlias, cast

from ortools.sat.python import cp_model

from twill.engine.clusters import Clusters, clusters
from twill.ir.problem import Problem, Time

Literal: TypeAlias = cp_model.BoolVarT | bool
"""A 0-1 variable, its negation, or a constant."""


class StoppedError(Exception):
    """There is no time left to state the model."""


class TooLargeError(StoppedError):
    """Stating the model counts for more than there is left of a time limit."""


@dataclass
class Variables:
    """A CP-SAT model under construction for `problem` at interval `interval`."""

    problem: Problem
    interval: Time
    in_flight: int
    joint: bool
    late: Callable[[], bool] = lambda: False
    """Whether to give up; checked once for every operation and family of rules, as large models take seconds
    to state."""
    to_improve: bool = False
    """Whether an answer is made better, not found or refuted: what starts are counted from differs."""
    most: float = inf
    """Constraints that there is time for."""
    anchored: bool = False
    """What starts are counted from starts at a constant, not only at residue 0, so that circuits through it
    bound the starts of all in them."""
    model: cp_model.CpModel = field(default_factory=cp_model.CpModel)
    _same: dict[tuple[int, int], Literal] = field(default_factory=dict[tuple[int, int], Literal])
    _before: dict[tuple[int, int], Literal] = field(default_factory=dict[tuple[int, int], Literal])

    def __post_init__(self) -> None:
        ops, span = self.problem.operations, self.in_flight * self.interval
        self.horizon, latest = self._window()
        self.start = [self.model.new_int_var(0, self.horizon, f"s[{op.id}]") for op in ops]
        self.stage = [self.model.new_int_var(0, self.horizon // self.interval, f"q[{op.id}]") for op in ops]
        self.residue = [self.model.new_int_var(0, self.interval - 1, f"r[{op.id}]") for op in ops]
        for s, q, r in zip(self.start, self.stage, self.residue, strict=True):
            self.model.add(s == q * self.interval + r)
        self.first = self.model.new_int_var(0, latest, "first")
        self.length = self.model.new_int_var(0, span, "length")

    @property
    def alone(self) -> bool:
        """One iteration is in flight: it takes one period, which begins with it."""
        return self.in_flight == 1 and self.anchored and not self.problem.starts

    def _window(self) -> tuple[Time, Time]:
        """The latest start of an operation, and of the first one."""
        span = self.in_flight * self.interval
        if self.problem.starts or self.alone:
            return span, 0
        return (2 * span, span) if self.anchored else (span + self.interval, self.interval - 1)

    # --- groups --------------------------------------------------------------------------------------------

    @cached_property
    def clusters(self) -> Clusters:
        """Operations that must share a group share one cluster."""
        return clusters(self.problem)

    @property
    def group_count(self) -> int:
        """Groups that may be used; 1 without the joint rules."""
        return min(self.problem.limits.groups, len(self.clusters.members)) if self.joint else 1

    @cached_property
    def in_group(self) -> list[list[cp_model.IntVar]]:
        """in_group[c][g]: cluster c runs on group g."""
        names = range(len(self.clusters.members))
        return [[self.model.new_bool_var(f"x[{c},{g}]") for g in range(self.group_count)] for c in names]

    def on(self, op: int, group: int) -> cp_model.IntVar:
        """Operation `op` runs on `group`."""
        return self.in_group[self.clusters.of[op]][group]

    def same(self, a: int, b: int) -> Literal:
        """Operations a and b share a group: a constant where that is already decided."""
        first, second = sorted((self.clusters.of[a], self.clusters.of[b]))
        if first == second or not self.joint:
            return True
        if (
            self.clusters.variable[first] != self.clusters.variable[second]
            or (first, second) in self.clusters.apart
        ):
            return False
        if self.clusters.variable[first]:
            return True
        if (first, second) not in self._same:
            self._same[first, second] = self._new_same(first, second)
        return self._same[first, second]

    @cached_property
    def label(self) -> list[cp_model.IntVar]:
        """The number of each cluster's group."""
        labels = [
            self.model.new_int_var(0, max(0, self.group_count - 1), f"g[{c}]")
            for c in range(len(self.clusters.members))
        ]
        for label, row in zip(labels, self.in_group, strict=True):
            for g, x in enumerate(row):
                self.model.add(label == g).only_enforce_if(x)
                self.model.add(label != g).only_enforce_if(x.negated())
        return labels

    def _new_same(self, first: int, second: int) -> Literal:
        same = self.model.new_bool_var(f"same[{first},{second}]")
        self.model.add(self.label[first] == self.label[second]).only_enforce_if(same)
        self.model.add(self.label[first] != self.label[second]).only_enforce_if(same.negated())
        return same

    # --- spans modulo I ------------------------------------------------------------------------------------

    def before(self, a: cp_model.IntVar, b: cp_model.IntVar) -> Literal:
        """Residue a comes before residue b; of equal ones, that of the operation that comes first."""
        if a.index == b.index:
            return False
        if a.index > b.index:
            return negate(self.before(b, a))
        if (a.index, b.index) not in self._before:
            literal = self.model.new_bool_var("")
            self.model.add(a <= b).only_enforce_if(literal)
            self.model.add(a > b).only_enforce_if(literal.negated())
            self._before[a.index, b.index] = literal
        return self._before[a.index, b.index]

    @cached_property
    def latest_end(self) -> Time:
        """No live range ends later than this."""
        uses = [use for value in self.problem.values for use in value.uses]
        return (
            min(self.horizon, (self.in_flight + 1) * self.interval)
            + max((use.distance * self.interval + use.hold for use in uses), default=0)
            + self.longest_latency
        )

    @cached_property
    def longest_latency(self) -> Time:
        return max((op.latency for op in self.problem.operations), default=0)

    @property
    def most_instances(self) -> int:
        """Whole periods that the longest live range can last."""
        return self.latest_end // self.interval + 1

    def pause(self) -> None:
        """Where construction may end: raises `StoppedError` if the model is too large or late. The size
        comes first, as it does not depend on how busy the machine is."""
        if len(cast(Sequence[object], self.model.proto.constraints)) > self.most:
            raise TooLargeError
        if self.late():
            raise StoppedError

    # --- small helpers -------------------------------------------------------------------------------------

    def any_of(self, literals: list[Literal], name: str) -> Literal:
        """A literal equal to the disjunction."""
        if any(lit is True for lit in literals):
            return True
        live = [lit for lit in literals if lit is not False]
        if len(live) <= 1:
            return live[0] if live else False
        result = self.model.new_bool_var(name)
        self.model.add_max_equality(result, live)
        return result

    def both(self, a: Literal, b: Literal, name: str) -> Literal:
        """A literal equal to the conjunction."""
        return negate(self.any_of([negate(a), negate(b)], name))

    def when(self, constraint: cp_model.Constraint, *literals: Literal) -> None:
        """Enforce a constraint only where all literals hold; a constant false literal drops it."""
        live = [lit for lit in literals if lit is not True]
        if live:
            constraint.only_enforce_if(live)


def negate(literal: Literal) -> Literal:
    """The negation, constants included."""
    return (not literal) if isinstance(literal, bool) else literal.negated()
