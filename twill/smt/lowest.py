"""The lowest interval under any partition, soon: a schedule there ends the search.

Natural partitions are tried first elsewhere (`twill.smt.early`); where the groups of each have more to issue
than fits the interval, another partition is needed, and the complete model finds it among few.
"""

from dataclasses import replace

from twill.engine.parallel import NOTHING
from twill.engine.partitions import Labels, cut, cut_if_needed, under
from twill.ir.problem import Time
from twill.ir.schedule import Solution
from twill.modulo.simplest import issuable
from twill.smt import cpsat
from twill.smt.cpsat import FINDING
from twill.smt.setting import Evidence, Setting

ISSUABLE, ANY = 2.0, 0.5
"""Shares of work for schedules whose groups can issue what they have, and for all."""

CUT, CUT_OF_LARGE = 1.0, 0.25
"""The same for each way to cut the order of the program into as few groups, of small and large loops ..."""

CUTTABLE = 96
"""... of so many operations at most."""


def hopeless(setting: Setting, interval: Time) -> bool:
    """No natural partition has groups that can issue what they have within this interval, of those with no
    more than one group beyond the fewest that can."""
    problem = setting.problem
    return _applies(setting) and (
        not any(issuable(problem, interval, labels) for labels in setting.candidates)
        or any(issuable(problem, interval, labels) for labels in cut_if_needed(problem, interval))
    )


def _cuts(setting: Setting, interval: Time) -> list[Labels]:
    found = cut(setting.problem, interval)
    return [labels for labels in found if issuable(setting.problem, interval, labels)]


def lowest(setting: Setting, evidence: Evidence) -> Evidence:
    """The lowest interval by the complete model, with one more iteration in flight than few, or that of the
    answer to a wider problem: what is there may need a partition that is not natural. First of schedules
    whose groups have no more to issue than fits the interval, which leaves few partitions; a refutation of
    the others is one for so many in flight. Last with the order of the program cut into groups."""
    if not _applies(setting):
        return evidence
    low = evidence.expected(setting.hoped)
    most = min(setting.few(low) + 1, setting.in_flight)
    setting.tell("trying", "cpsat", low, "under any partition")
    probe = NOTHING
    for narrow, shares in ((True, ISSUABLE), (False, ANY)):
        budget, tactics = setting.budget(shares * setting.work), replace(FINDING, issuable=narrow)
        probe = cpsat.attempt(setting.problem, low, most, budget=budget, tactics=tactics)
        if probe.solution is not None:
            setting.tell("feasible", "cpsat", low)
            return evidence.found(probe.solution)
    found = None if probe.refuted else _under_cuts(setting, low, CUT)
    if found is not None:
        return evidence.found(found)
    refutation = probe.refutation(low, most, below=setting.problem.monotone)
    if refutation and most == setting.in_flight:
        return evidence.excluding(refutation)
    return evidence.partly_excluding(refutation) if setting.problem.monotone else evidence


def lowest_of_large(setting: Setting, evidence: Evidence) -> Evidence:
    """The same for a loop that is too large for the complete model, with the order of the program cut
    alone."""
    auto = setting.options.engine in ("auto", "cpsat")
    applies = auto and setting.joint and not setting.small and len(setting.problem.operations) <= CUTTABLE
    found = _under_cuts(setting, evidence.expected(setting.hoped), CUT_OF_LARGE) if applies else None
    return evidence if found is None else evidence.found(found)


def _under_cuts(setting: Setting, interval: Time, shares: float) -> Solution | None:
    most = min(setting.few(interval) + 1, setting.in_flight)
    for labels in _cuts(setting, interval):
        setting.tell("trying", "cpsat", interval, "the order of the program cut")
        own, budget = under(setting.problem, labels), setting.budget(shares * setting.work)
        found = cpsat.attempt(own, interval, most, budget=budget, tactics=FINDING).solution
        if found is not None:
            setting.tell("feasible", "cpsat", interval)
            return found
    return None


def _applies(setting: Setting) -> bool:
    auto = setting.options.engine in ("auto", "cpsat")
    return auto and setting.joint and setting.small
