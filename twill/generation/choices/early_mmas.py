"""Schedules whose MMAs start early, where the user leaves the schedule open.

A search ends with the latest starts that an interval allows where its groups are late for each other (see
`smt.polish`): an MMA whose operands have been there for long then divides what its group computes meanwhile.
`early_mmas` takes the attempt that is best, and a function that lowers its loops with other schedules of the
same intervals and groups, in which MMAs start as early as they can; gives the one that is predicted to be
faster. On an H200 attention with heads of 64 and tiles of 128 x 192 took 2.30 million SM cycles as searched
and 2.03 with the second MMA of each group behind the first, where 2407 and 2305 cycles an iteration are
predicted (reports/h200.md).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from twill.diagnostics import TwillError
from twill.engine.partitions import under
from twill.engine.probe import Budget
from twill.generation.attempt import Attempt
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Result, Solution
from twill.modulo.simplest import issuable
from twill.smt import cpsat
from twill.smt.cpsat import Tactics
from twill.verify import check_result

SECONDS, WORK = 10.0, 0.5
"""Limits for each loop: of time, and of the solver's deterministic time."""

Lowering = Callable[[Mapping[str, Result]], Attempt]
"""Lowers loops with the schedules given by their names. Raises TwillError."""


def early_mmas(first: Attempt, attempt: Lowering, known: dict[Solution, Solution]) -> Attempt:
    """The attempt, or the one with early MMAs, with a note that has both predictions. `known`: what was found
    for other forms of the kernel, added to."""
    if all(_settled(one) for one in first.results.values()):
        return first
    early = {name: found for name, one in first.results.items() if (found := with_early_mmas(one, known))}
    if not early:
        return first
    try:
        other = attempt(early)
    except TwillError:
        return first
    before, after = first.of_sm(), other.of_sm()
    if after >= before:
        return first
    note = f"MMAs start early: an iteration every {after:.0f} cycles predicted, {before:.0f} otherwise"
    return replace(other, program=replace(other.program, notes=(*other.program.notes, note)))


def _settled(one: Result) -> bool:
    """No more than one group computes, what is computed does not lie in registers, or each group issues one
    operation after the other: a search has started MMAs early, or nothing is late."""
    if one.solution is None or one.problem.limits.tensor:
        return True
    pairs = zip(one.problem.operations, one.solution.group, strict=True)
    return len({group for op, group in pairs if op.warps > 1}) < 2 or _in_order(one.problem, one.solution)


def _in_order(problem: Problem, found: Solution) -> bool:
    """No group issues two operations at once."""
    issued = defaultdict[int, list[tuple[Time, Time]]](list)
    for op, start, group in zip(problem.operations, found.start, found.group, strict=True):
        if held := problem.held(op):
            issued[group].append((start % found.interval, held))
    for spans in map(sorted, issued.values()):
        following = (*spans[1:], (spans[0][0] + found.interval, 0))
        if any(start + held > after for (start, held), (after, _) in zip(spans, following, strict=True)):
            return False
    return True


def with_early_mmas(result: Result, known: dict[Solution, Solution]) -> Result | None:
    """The schedule of the same interval and groups, no longer, whose MMAs start earliest; None where that is
    the same, or not found."""
    best = result.solution
    if best is None:
        return None
    if best not in known:
        known[best] = _earliest(result.problem, best)
    other = replace(result, solution=known[best])
    return None if known[best] == best or check_result(other, in_flight=result.max_in_flight) else other


def _earliest(problem: Problem, best: Solution) -> Solution:
    found, _ = cpsat.improve(
        "readiness",
        under(problem, best.group),
        best,
        best.in_flight(problem),
        budget=Budget(SECONDS, WORK),
        tactics=Tactics(issuable=issuable(problem, best.interval, best.group)),
    )
    return found
