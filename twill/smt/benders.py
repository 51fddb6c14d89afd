# pyright: basic
"""Partition first, then times: logic-based Benders decomposition (Hooker, Ottosson 2003).

The master problem is the boolean formulation with times rounded down (`twill.smt.coarse` says why that loses no schedule) and memories
without addresses: SAT proposes a partition that it allows. The subproblem is the exact one under that partition, which CP-SAT decides
fast, because who waits for whom is known. A partition that fails is excluded and the next one asked for, until one works or none is left.
"""

from dataclasses import dataclass, field
from random import Random

import numpy as np
from pysat.solvers import Solver

from twill.ir.problem import Problem, Time
from twill.smt import boolean, cpsat, sat
from twill.smt.boolean.cnf import clausify
from twill.smt.child import Decision, isolated
from twill.smt.coarse import rounded_down
from twill.smt.partitions import Labels, under

UNITS = 144
"""Units of time per interval, about, of the master problem: coarser ones propose partitions that fail, finer ones take longer."""

EFFORT = 2.0
"""Deterministic seconds for the times under one partition."""


def decide(problem: Problem, interval: Time, copies: int, *, joint: bool, time_limit: float = 0, step: Time | None = None) -> Decision:
    """The verdict on one interval, for monotone problems; `step` is what times of the master problem are multiples of.

    `infeasible` where the master problem ran out of partitions, each refuted on exact times; `timeout` where CP-SAT left one undecided.
    """
    undecided = False
    try:
        master = _Master.of(problem, interval, copies, joint, max(1, interval // UNITS) if step is None else step)
    except boolean.TooLargeError:
        return Decision("timeout")
    while master and (labels := master.partition()):
        word = cpsat.attempt(under(problem, labels), interval, copies, joint=joint, effort=EFFORT, proving=False)
        if word.solution:
            return Decision("feasible", word.solution)
        undecided |= word.verdict == "timeout"
        master.exclude(labels)
    return Decision("timeout" if undecided else "infeasible")


@dataclass(frozen=True, slots=True)
class _Master:
    """Partitions that times rounded down allow, one after the other."""

    model: boolean.Model
    variables: int
    solver: Solver = field(default_factory=lambda: Solver(name=sat.SOLVER))
    random: Random = field(default_factory=lambda: Random(1))

    @classmethod
    def of(cls, problem: Problem, interval: Time, copies: int, joint: bool, step: Time) -> "_Master | None":
        """None where the dependences alone exclude any schedule."""
        rounded = rounded_down(problem, step)
        model = boolean.formulate(rounded, -(-interval // step), copies, joint=joint, addressed=False, grace=1)
        if model is None:
            return None
        clauses = clausify(model.formula)
        master = cls(model, clauses.variables)
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

    def exclude(self, labels: Labels) -> None:
        """Not this partition again: groups are numbered by their first operation, so it has these labels only."""
        groups = self.model.groups
        self.solver.add_clause([-groups.on(op, label) for op, label in enumerate(labels)])


attempt = isolated("benders", decide)
"""`decide` as an engine (see `twill.smt.engine`)."""
