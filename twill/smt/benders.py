# pyright: reportUnknownMemberType=false
"""Partition first, then times: logic-based Benders decomposition (Hooker, Ottosson 2003).

The master problem is the boolean formulation with times rounded down (`twill.smt.coarse` says why that loses
no schedule) and memories without addresses: SAT proposes a partition that it allows. The subproblem is the
exact one under that partition, which CP-SAT decides fast, because who waits for whom is known. Where it
fails, a small set of operations in conflict (`twill.smt.conflict`) is excluded from these groups, and its
images under the loop's symmetries too, until a partition works or none is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from random import Random

from pysat.solvers import Solver

from twill.engine import boolean
from twill.engine.boolean.cnf import clausify
from twill.engine.clock import SEARCHED
from twill.engine.partitions import Labels, under
from twill.engine.probe import FEW, Budget, Feasible, Outcome, Probe, Refuted, Unknown
from twill.engine.subprocess_engine import isolated
from twill.ir.problem import Problem, Time
from twill.smt import conflict, cpsat, sat
from twill.smt.coarse import rounded_down
from twill.smt.cpsat import FINDING
from twill.smt.symmetry import mirrors

UNITS = 144
"""Units of time per interval, about, of the master problem: coarser ones propose partitions that fail, finer
ones take longer."""

EFFORT = 2.0
"""Deterministic seconds for the times under one partition."""

PATIENCE = 12
"""Partitions, more than which seldom fail: then conflicts are analysed."""

CONFLICT_EFFORT = 0.05
"""Deterministic seconds, per iteration in flight, for a test of a set of operations: most refutations are
soon found."""


MODEL_WORK = 0.05
"""Deterministic seconds that stating one model counts for."""

FOREVER = 3600.0
"""No wall-clock limit within the process: the one that waits for it ends it."""


def probe(
    problem: Problem,
    interval: Time,
    in_flight: int,
    *,
    joint: bool,
    time_limit: float = 0,
    work: float | None = None,
    step: Time | None = None,
    patience: int = PATIENCE,
) -> Probe:
    """The outcome at one interval, for monotone problems, with the work that it took.

    `step` is what times of the master problem are multiples of, `patience` how many partitions may fail
    before their conflicts are analysed. `Refuted` where the master problem ran out of partitions, each
    refuted on exact times; `Unknown` where CP-SAT left one undecided or the budget of work ran out.
    """
    meter = _Meter(float("inf") if work is None else work)
    units = max(1, interval // UNITS) if step is None else step
    try:
        master = _Master.of(problem, interval, in_flight, joint, units)
    except boolean.TooLargeError:
        return Probe(Unknown("size"), "benders")
    if master is None:
        return Probe(Refuted(), "benders")
    outcome = _partition_by_partition(master, _Exact(problem, interval, joint, meter), in_flight, patience)
    return Probe(outcome, "benders", work=meter.spent, counted=SEARCHED * meter.spent)


def _partition_by_partition(master: "_Master", exact: "_Exact", in_flight: int, patience: int) -> Outcome:
    undecided, failed = False, 0
    while exact.meter.left > 0:
        labels = master.partition(exact.meter)
        match labels:
            case Refuted():
                return Unknown() if undecided else Refuted()
            case Unknown():
                return labels
            case _:
                probe = exact.decided(labels, in_flight)
        if probe.solution:
            return Feasible(probe.solution)
        failed += 1
        undecided |= not probe.refuted
        analysed = exact.joint and failed > patience and probe.refuted
        master.exclude(
            labels, exact.conflict(labels, in_flight) if analysed else conflict.groupable(exact.problem)
        )
    return Unknown()


@dataclass(slots=True)
class _Meter:
    """The work that is left, in deterministic seconds."""

    left: float
    spent: float = 0.0

    def spend(self, work: float) -> None:
        self.left -= work
        self.spent += work


@dataclass(frozen=True, slots=True)
class _Exact:
    """The subproblem."""

    problem: Problem
    interval: Time
    joint: bool
    meter: _Meter

    def decided(self, labels: Labels, in_flight: int) -> Probe:
        """A schedule with few iterations in flight, or else the probe of all."""
        few = self._under(labels, min(FEW, in_flight))
        return few if few.solution or in_flight <= FEW else self._under(labels, in_flight)

    def conflict(self, labels: Labels, in_flight: int) -> list[int]:
        """Few operations whose groups exclude a schedule: for few iterations in flight, which is decided
        soon, then those and as many more as it takes for all."""
        everyone = conflict.groupable(self.problem)
        ops = conflict.fewer(everyone, lambda kept: self._refuted(labels, kept, min(FEW, in_flight)))
        return (
            conflict.more(self.problem, ops, lambda kept: self._refuted(labels, kept, in_flight))
            if in_flight > FEW
            else ops
        )

    def _under(self, labels: Labels, in_flight: int) -> Probe:
        return self._probe(under(self.problem, labels), in_flight, EFFORT)

    def _refuted(self, labels: Labels, kept: Sequence[int], in_flight: int) -> bool:
        return self._probe(
            conflict.loose(self.problem, labels, kept), in_flight, CONFLICT_EFFORT * in_flight
        ).refuted

    def _probe(self, problem: Problem, in_flight: int, work: float) -> Probe:
        budget = Budget(FOREVER, max(0.0, min(work, self.meter.left)))
        probe = cpsat.attempt(
            problem, self.interval, in_flight, joint=self.joint, budget=budget, tactics=FINDING
        )
        self.meter.spend(probe.work + MODEL_WORK)
        return probe


@dataclass(frozen=True, slots=True)
class _Master:
    """Partitions that times rounded down allow, one after the other."""

    model: boolean.Model
    variables: int
    mirrors: tuple[tuple[int, ...], ...]
    solver: Solver = field(default_factory=lambda: Solver(name=sat.SOLVER))
    random: Random = field(default_factory=lambda: Random(1))

    @classmethod
    def of(
        cls, problem: Problem, interval: Time, in_flight: int, joint: bool, step: Time
    ) -> "_Master | None":
        """None where the dependences alone exclude any schedule."""
        rounded = rounded_down(problem, step)
        model = boolean.formulate(
            rounded, -(-interval // step), in_flight, joint=joint, addressed=False, grace=1
        )
        if model is None:
            return None
        for a, b in combinations(range(len(problem.operations)), 2):
            model.groups.same(a, b)  # clauses of `exclude` may need it
        clauses = clausify(model.formula)
        master = cls(model, clauses.variables, mirrors(problem))
        for block in clauses.clauses:
            master.solver.append_formula(block.tolist())
        return master

    def partition(self, meter: _Meter) -> Labels | Refuted | Unknown:
        """The groups of one more schedule in coarse time; `Refuted` where there is none.

        The solver starts from other random groups each time: left alone it proposes the last partition again
        with one operation moved.
        """
        member = self.model.groups.member
        guess = [(row, self.random.randrange(len(row))) for row in member if row]
        self.solver.set_phases([x if g == chosen else -x for row, chosen in guess for g, x in enumerate(row)])
        before = sat.conflicts(self.solver)
        found = sat.solve_within(
            self.solver, None if meter.left == float("inf") else int(meter.left * sat.CONFLICTS)
        )
        meter.spend((sat.conflicts(self.solver) - before) / sat.CONFLICTS)
        return (
            found
            if found is not None
            else tuple(self.model.groups.read(sat.truth(self.solver, self.variables)))
        )

    def exclude(self, labels: Labels, ops: Sequence[int]) -> None:
        """Exclude these operations, and their images, together and apart as they are here."""
        for image in (range(len(labels)), *self.mirrors):
            parts: dict[int, list[int]] = {}
            for op in ops:
                parts.setdefault(labels[op], []).append(image[op])
            heads = [members[0] for members in parts.values()]
            joined = [
                -self.model.groups.same(a, b) for members in parts.values() for a, b in pairwise(members)
            ]
            self.solver.add_clause(
                [*joined, *(self.model.groups.same(a, b) for a, b in combinations(heads, 2))]
            )


attempt = isolated("benders", probe)
"""`probe` as an engine (see `twill.engine.probe`)."""
