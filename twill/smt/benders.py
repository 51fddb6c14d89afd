# pyright: basic
"""Partition first, then times: logic-based Benders decomposition (Hooker, Ottosson 2003).

The master problem is the boolean formulation with times rounded down (`twill.smt.coarse` says why that loses no schedule) and memories
without addresses: SAT proposes a partition that it allows. The subproblem is the exact one under that partition, which CP-SAT decides
fast, because who waits for whom is known. Where it fails, the operations to blame (`twill.smt.conflict`) are not proposed in these groups
again, nor their images under the loop's symmetries; so it goes on until a partition works or none is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from random import Random

import numpy as np
from pysat.solvers import Solver

from twill.engine import boolean
from twill.engine.boolean.cnf import clausify
from twill.engine.probe import FEW, Feasible, Outcome, Probe, Refuted, Unknown
from twill.engine.subprocess_engine import isolated
from twill.ir.problem import Problem, Time
from twill.smt import conflict, cpsat, sat
from twill.smt.coarse import rounded_down
from twill.smt.cpsat import Tactics
from twill.smt.partitions import Labels, under
from twill.smt.symmetry import mirrors

UNITS = 144
"""Units of time per interval, about, of the master problem: coarser ones propose partitions that fail, finer ones take longer."""

EFFORT = 2.0
"""Deterministic seconds for the times under one partition."""

PATIENCE = 12
"""Partitions, more than which seldom fail."""

BLAME_EFFORT = 0.05
"""Deterministic seconds, per iteration in flight, for a test of who is to blame: what is refuted is most often refuted soon."""


def decide(
    problem: Problem,
    interval: Time,
    in_flight: int,
    *,
    joint: bool,
    time_limit: float = 0,
    step: Time | None = None,
    patience: int = PATIENCE,
) -> Outcome:
    """The outcome at one interval, for monotone problems; `step` is what times of the master problem are multiples of, `patience` how many
    partitions may fail before anyone asks why.

    `Refuted` where the master problem ran out of partitions, each refuted on exact times; `Unknown` where CP-SAT left one undecided.
    """
    undecided = False
    try:
        master = _Master.of(problem, interval, in_flight, joint, max(1, interval // UNITS) if step is None else step)
    except boolean.TooLargeError:
        return Unknown("size")
    exact, failed = _Exact(problem, interval, joint), 0
    while master and (labels := master.partition()):
        probe = exact.decided(labels, in_flight)
        if probe.solution:
            return Feasible(probe.solution)
        failed += 1
        undecided |= not probe.refuted
        blame = joint and failed > patience and probe.refuted
        master.exclude(labels, exact.blamed(labels, in_flight) if blame else conflict.groupable(problem))
    return Unknown() if undecided else Refuted()


@dataclass(frozen=True, slots=True)
class _Exact:
    """The subproblem."""

    problem: Problem
    interval: Time
    joint: bool

    def under(self, labels: Labels, in_flight: int) -> Probe:
        tactics = Tactics(EFFORT, proving=False)
        return cpsat.attempt(under(self.problem, labels), self.interval, in_flight, joint=self.joint, tactics=tactics)

    def decided(self, labels: Labels, in_flight: int) -> Probe:
        """A schedule with few iterations in flight, or else the probe of all."""
        few = self.under(labels, min(FEW, in_flight))
        return few if few.solution or in_flight <= FEW else self.under(labels, in_flight)

    def blamed(self, labels: Labels, in_flight: int) -> list[int]:
        """Few operations whose groups exclude a schedule: for few iterations in flight, which is soon asked, then those and as many more
        as it takes for all."""
        everyone = conflict.groupable(self.problem)
        ops = conflict.fewer(everyone, lambda kept: self._refuted(labels, kept, min(FEW, in_flight)))
        return conflict.more(self.problem, ops, lambda kept: self._refuted(labels, kept, in_flight)) if in_flight > FEW else ops

    def _refuted(self, labels: Labels, kept: Sequence[int], in_flight: int) -> bool:
        loose = conflict.loose(self.problem, labels, kept)
        return cpsat.attempt(loose, self.interval, in_flight, tactics=Tactics(BLAME_EFFORT * in_flight, proving=False)).refuted


@dataclass(frozen=True, slots=True)
class _Master:
    """Partitions that times rounded down allow, one after the other."""

    model: boolean.Model
    variables: int
    mirrors: tuple[tuple[int, ...], ...]
    solver: Solver = field(default_factory=lambda: Solver(name=sat.SOLVER))
    random: Random = field(default_factory=lambda: Random(1))

    @classmethod
    def of(cls, problem: Problem, interval: Time, in_flight: int, joint: bool, step: Time) -> "_Master | None":
        """None where the dependences alone exclude any schedule."""
        rounded = rounded_down(problem, step)
        model = boolean.formulate(rounded, -(-interval // step), in_flight, joint=joint, addressed=False, grace=1)
        if model is None:
            return None
        for a, b in combinations(range(len(problem.operations)), 2):
            model.groups.same(a, b)  # may be spoken of later
        clauses = clausify(model.formula)
        master = cls(model, clauses.variables, mirrors(problem))
        for block in clauses.clauses:
            master.solver.append_formula(block.tolist())
        return master

    def partition(self) -> Labels | None:
        """The groups of one more schedule in coarse time; None where there is none.

        The solver is told to guess other groups each time: left alone it proposes the last partition again with one operation moved.
        """
        member = self.model.groups.member
        guess = [(row, self.random.randrange(len(row))) for row in member if row]
        self.solver.set_phases([x if g == chosen else -x for row, chosen in guess for g, x in enumerate(row)])
        if not self.solver.solve():
            return None
        truth = np.zeros(self.variables + 1, bool)
        truth[[x for x in self.solver.get_model() or () if x > 0]] = True
        return tuple(self.model.groups.read(truth))

    def exclude(self, labels: Labels, ops: Sequence[int]) -> None:
        """Not these operations again, nor their images, together and apart as they are here."""
        for image in (range(len(labels)), *self.mirrors):
            parts: dict[int, list[int]] = {}
            for op in ops:
                parts.setdefault(labels[op], []).append(image[op])
            heads = [members[0] for members in parts.values()]
            joined = [-self.model.groups.same(a, b) for members in parts.values() for a, b in pairwise(members)]
            self.solver.add_clause([*joined, *(self.model.groups.same(a, b) for a, b in combinations(heads, 2))])


attempt = isolated("benders", decide)
"""`decide` as an engine (see `twill.engine.probe`)."""
