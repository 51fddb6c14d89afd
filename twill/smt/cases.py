"""An interval refuted case by case: which operations share a group.

With its partition known a loop is decided in a fraction of the time, and most partitions are refuted by few
of their groups. So a proof that resists is divided in two: the ends of the costliest hand-off are in one
group, or they are in two. Each case is divided again while it resists, and each that is refuted speaks of all
partitions that it has. One with nothing left to divide has all of the work that is left.
"""

from dataclasses import replace

from twill.engine.clusters import Clusters, clusters
from twill.engine.probe import Budget, Outcome, Probe, Refuted, Unknown
from twill.ir.problem import Problem, Time
from twill.smt.cpsat import PLAIN, Tactics, attempt

RESISTS = 0.3
"""Deterministic seconds after which a case is divided."""


def refute(
    problem: Problem, interval: Time, in_flight: int, budget: Budget, tactics: Tactics = PLAIN
) -> Probe:
    """Refuted where every case is; ends with the first one that has a schedule, or that resists."""
    cases: list[Problem] = [problem]
    outcome: Outcome = Refuted()
    left, spent = budget, Probe(Refuted(), "cpsat")
    while cases and isinstance(outcome, Refuted):
        case = cases.pop()
        halves = _halves(case)
        share = left.at_most(RESISTS) if halves else left
        probe = attempt(case, interval, in_flight, budget=share, tactics=tactics)
        spent, left = spent.with_cost_of(probe), left.after(probe)
        if isinstance(probe.outcome, Unknown) and halves and left.work != 0:
            cases += reversed(halves)
        elif not probe.refuted:
            outcome = probe.outcome
    return replace(spent, outcome=outcome)


def _halves(problem: Problem) -> tuple[Problem, ...]:
    """The two cases of the pair that matters most; none where every group is known."""
    pair = _pair(problem)
    if pair is None:
        return ()
    return (
        replace(problem, together=(*problem.together, pair)),
        replace(problem, apart=(*problem.apart, pair)),
    )


def _pair(problem: Problem) -> tuple[str, str] | None:
    """Two operations that may share a group or not: those with the largest hand-off if they do not, in bytes,
    then in cycles; where no two of them depend on each other, those that would issue the most together."""
    known = clusters(problem)
    staging = {(value.src, use.op): value.staging for value in problem.values for use in value.uses}
    edges = [edge for edge in problem.edges if _open(problem, known, edge.src, edge.dst)]
    if edges:
        costly = max(edges, key=lambda e: (staging.get((e.src, e.dst), 0), e.crossing - e.delay))
        return costly.src, costly.dst
    first = [(problem.operations[ops[0]].id, _issue(problem, ops)) for ops in known.members]
    pairs = [
        ((a, b), min(x, y))
        for i, (a, x) in enumerate(first)
        for b, y in first[i + 1 :]
        if _open(problem, known, a, b)
    ]
    return max(pairs, key=lambda pair: pair[1])[0] if pairs else None


def _open(problem: Problem, known: Clusters, a: str, b: str) -> bool:
    """No rule says whether they share a group."""
    first, second = sorted((known.of[problem.index(a)], known.of[problem.index(b)]))
    loads = known.variable[first] or known.variable[second]
    return first != second and not loads and (first, second) not in known.apart


def _issue(problem: Problem, ops: tuple[int, ...]) -> Time:
    return sum(problem.operations[op].issue for op in ops)
