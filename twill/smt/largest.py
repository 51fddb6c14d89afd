"""Whether there is any schedule at all: the largest interval that could matter, decided first.

A loop of a few operations is decided there in less time than schedules are looked for. Where a longer
interval may hurt, because of pins or offsets, the loop without them is decided: every schedule of the loop is
one of that, and a longer interval never hurts it.
"""

from collections.abc import Iterator
from dataclasses import replace

from twill.engine.probe import Probe
from twill.ir.problem import Problem
from twill.ir.schedule import Refutation
from twill.smt import cpsat
from twill.smt.relax import Projection, projections
from twill.smt.setting import Evidence, Setting

FEW = 8
"""Operations up to which a loop is decided at its largest interval before schedules are looked for."""

LARGE = 48
"""The same where each interval is to be decided otherwise."""

SHARE = 0.5
"""Of work, for each probe."""

NAME = "cpsat on the projection without pins and offsets"


def without_pins_and_offsets(problem: Problem) -> Problem:
    """A relaxation that is monotone: no start is fixed, and what a unit is used for later is free."""
    operations = tuple(
        replace(op, reservations=tuple(used for used in op.reservations if used.offset == 0))
        for op in problem.operations
    )
    return replace(problem, operations=operations, starts=())


def largest(setting: Setting, evidence: Evidence) -> Evidence:
    """Everything is excluded, or nothing: a schedule there says little of shorter intervals."""
    few = len(setting.problem.operations) <= (FEW if setting.problem.monotone else LARGE)
    auto = setting.options.engine in ("auto", "cpsat")
    if not (few and auto and evidence.open and evidence.best is None):
        return evidence
    for probe, binding in _probes(setting, evidence):
        refutation: Refutation | None = probe.refutation(evidence.top, setting.in_flight, below=True)
        if refutation:
            setting.tell("infeasible", probe.engine, evidence.top)
            return replace(evidence.excluding(refutation), binding=binding)
    return evidence


def _probes(
    setting: Setting, evidence: Evidence
) -> Iterator[tuple[Probe, tuple[tuple[Projection, int], ...]]]:
    """The largest interval by projections, which say what excludes it, and as a whole; with the projections
    that a refutation rests on."""

    def probed(problem: Problem) -> Probe:
        budget, joint = setting.budget(SHARE * setting.work), setting.joint
        return cpsat.attempt(problem, evidence.top, setting.in_flight, joint=joint, budget=budget)

    if not setting.problem.monotone:
        yield replace(probed(without_pins_and_offsets(setting.problem)), engine=NAME), ()
        return
    whole = probed(setting.problem)
    if whole.solution is None and setting.decomposes:
        for one in projections(setting.problem):
            yield replace(probed(one.at(evidence.top)), engine=one.engine), ((one, evidence.top),)
    yield whole, ()
