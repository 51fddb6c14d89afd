"""The schedules of a kernel's loops whose program is predicted to be fastest.

Takes the loops and a function that schedules and lowers them; gives the best of what it returns for the loops
as they are, for every implementation that they have, and with groups of their own for accumulator updates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.diagnostics import TwillError
from twill.inputs import Case
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.update_groups import with_update_group
from twill.warp.tasks import Scheduled


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """Schedules of the loops, and the program that follows from them."""

    cases: tuple[Case, ...]
    program: Program
    loops: tuple[Scheduled, ...]
    results: Mapping[str, Result]
    dumps: Mapping[str, str]

    def cycles(self) -> float:
        """Predicted machine cycles of an iteration of each loop, together."""
        from twill.simulate.predict import predict

        return sum(found.interval for found in predict(self.program, self.loops).loops.values())


def fastest(found: Sequence[Case], attempt: Callable[[Sequence[Case]], Attempt]) -> Attempt:
    """The schedules whose program is predicted to be fastest: of every implementation, and with a group of
    its own for updates of accumulators where other groups have too much to do; the first of those that are
    equal."""
    first = attempt(found)
    moved = _with_update_groups(first)
    names = list({one.name: None for case in found for one in case.problem.implementations})
    if moved is None and not names:
        return first
    alone = first.cycles()
    best = _faster((first, alone), moved, attempt) if moved else (first, alone)
    for name in names[1:]:
        best = _faster(best, tuple(_implemented(case, name) for case in best[0].cases), attempt)
    return first if best[0] is first else _with_note(*best, alone)


def _faster(
    best: tuple[Attempt, float], cases: Sequence[Case], attempt: Callable[[Sequence[Case]], Attempt]
) -> tuple[Attempt, float]:
    """The best attempt so far, or one with these cases that is predicted to take fewer cycles, with these."""
    try:
        other = attempt(cases)
    except TwillError:
        return best
    return min(best, (other, other.cycles()), key=lambda one: one[1])


def _implemented(case: Case, name: str) -> Case:
    has = name in [one.name for one in case.problem.implementations]
    return replace(case, problem=case.problem.implemented(name)) if has else case


def _with_update_groups(one: Attempt) -> tuple[Case, ...] | None:
    """The loops to schedule with groups of their own for updates; None where no loop needs any."""
    changed = [with_update_group(case.problem, loop) for case, loop in zip(one.cases, one.loops, strict=True)]
    if not any(changed):
        return None
    pairs = zip(one.cases, changed, strict=True)
    return tuple(replace(case, problem=problem or case.problem) for case, problem in pairs)


def _with_note(best: Attempt, cycles: float, first: float) -> Attempt:
    """The program with a note of why it has these schedules."""
    names = sorted({one.problem.implementation for one in best.loops} - {""})
    groups = [one for one in best.loops if one.problem.apart]
    what = [*names, *(["updates of accumulators in a group of their own"] if groups else [])]
    note = f"{', '.join(what)}: an iteration every {cycles:.0f} cycles predicted, {first:.0f} otherwise"
    return replace(best, program=replace(best.program, notes=(*best.program.notes, note)))
