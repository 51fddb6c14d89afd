"""Whether a kernel's rows are divided into sub-tiles, where the user does not say.

Takes `Inputs` and the loops with whole tiles; gives the loops with sub-tiles where their lower bounds allow
fewer cycles. Registers are what whole tiles lack most often: an accumulator and scores of 128 rows leave no
room for a second iteration.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite

from twill.diagnostics import TwillError
from twill.explain import Change
from twill.inputs import Case, Inputs, cases
from twill.ir.schedule import Result
from twill.modulo.bounds import bounds

COUNT = 2
"""Sub-tiles that are tried."""
GAIN = 0.98
"""Sub-tiles are taken where the loops take at most this part of the cycles: a further group has barriers of
its own, which the schedule does not count (estimate)."""


def divided(inputs: Inputs, whole: Sequence[Case], results: Sequence[Result]) -> tuple[Case, ...]:
    """The loops with sub-tiles; none where the user has decided, rows can not be divided, or whole tiles are
    as good by the bounds."""
    if inputs.subtile is not None or inputs.pins is not None or any(case.module is None for case in whole):
        return ()
    if all(result.solution and result.solution.interval <= result.bounds.value for result in results):
        return ()
    try:
        found = cases(replace(inputs, subtile=COUNT))
    except TwillError:
        return ()
    least = sum(bounds(case.problem).value * case.problem.resolution.cycles_per_unit for case in found)
    return found if better(least, cycles(results)) else ()


def change(inputs: Inputs, case: Case) -> tuple[Change, ...]:
    """Sub-tiles as a change that `twill explain` tries; none where rows can not be divided."""
    if inputs.subtile is not None or inputs.pins is not None or case.module is None:
        return ()
    try:
        found = {one.name: one.problem for one in cases(replace(inputs, subtile=COUNT))}
    except TwillError:
        return ()
    return (Change(f"whole tiles (--subtile {COUNT})", lambda problem: found[problem.name]),)


def cycles(results: Iterable[Result]) -> float:
    """Of an iteration of each loop, together; infinite where one has no schedule."""
    return sum(
        result.solution.interval * result.problem.resolution.cycles_per_unit if result.solution else inf
        for result in results
    )


def better(divided: float, whole: float) -> bool:
    """Whether sub-tiles are taken, by the cycles of both; infinite where there is no schedule."""
    return isfinite(divided) and divided <= GAIN * whole


def note(divided: float, whole: float) -> str:
    """What is said of a kernel with sub-tiles."""
    before = f" instead of {whole:.0f}" if whole < inf else ", and none was found for whole tiles"
    return (
        f"rows are divided into {COUNT} sub-tiles: {divided:.0f} cycles an iteration{before}"
        " (--subtile 1 keeps them whole)"
    )


def matching(inputs: Inputs, given: Mapping[str, Result]) -> int:
    """The number of sub-tiles for which given schedules were made."""
    for count in (1, COUNT):
        try:
            found = cases(replace(inputs, subtile=count))
        except TwillError:
            continue
        names = {case.name: [op.id for op in case.problem.operations] for case in found}
        if all(names.get(name) == [op.id for op in one.problem.operations] for name, one in given.items()):
            return count
    return 1
