"""The schedules of a kernel's loops whose program is predicted to be fastest.

Takes the loops and a function that schedules and lowers them; gives the best of what it returns for the loops
as they are, for every implementation that they have, with groups of their own for accumulator updates, with
another choice of the loads that run ahead, with waits inside of elementwise operations, with the costs of
hand-offs, of each loop the fastest of these, and for the part of an SM that leaves room for more thread
blocks (`choices.shared_sm`).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from twill.diagnostics import TwillError
from twill.generation.attempt import Attempt, Solving, faster, least_of_sm
from twill.generation.choices.hand_offs import with_hand_offs
from twill.generation.choices.shared_sm import with_more_blocks
from twill.generation.choices.stated import Stated
from twill.generation.choices.update_groups import with_update_group
from twill.inputs import Case
from twill.ir.problem import Problem
from twill.warp.plan import Options as Lowering

MOST_BLOCKS = Lowering().most_blocks
"""Thread blocks on an SM, unless fewer are given."""
UPDATES = "updates of accumulators in a group of their own"
AHEAD = "other loads run ahead"
DIVIDED = "waits inside of exponentials"
HANDED = "hand-offs between groups counted"
EACH = "each loop as it is fastest"


def fastest(
    found: Sequence[Case],
    attempt: Solving,
    slowest: float = inf,
    most_blocks: int = MOST_BLOCKS,
    stated: Stated | None = None,
) -> Attempt:
    """The schedules whose program is predicted to be fastest: of every implementation, with a group of its
    own for updates of accumulators where other groups have too much to do, with waits inside of elementwise
    operations, and where the program takes longer than its schedule with another choice of the loads that run
    ahead, and with the costs of hand-offs (with these where there is no schedule, too); the first of those
    that are equal. Others than the first are only scheduled where they may take no more than `slowest` cycles
    of an SM, and for no more than `most_blocks` on one, where these are few. Raises TwillError where none
    may."""
    if (least := least_of_sm(found)) > slowest:
        raise TwillError(f"an iteration takes {least:.0f} cycles at least, more than {slowest:.0f}")
    handed = _with_hand_offs(found)
    others = _restated(found, [case.others_ahead if case.overlaps else None for case in found])
    try:
        first = attempt(found, 1)
    except TwillError:
        if handed is None:
            raise
        return attempt(handed, 1)
    moved, divided = _with_update_groups(first), _with_divided_waits(first)
    names = list({one.name: None for case in found for one in case.problem.implementations})
    alone = first.cycles() if moved or divided or handed or others or names else 0.0
    handed, others = (handed, others) if alone > first.scheduled() else (None, None)
    limit = slowest * first.program.resident_blocks
    best, what, made = (first, alone), "", [first]

    def recorded(cases: Sequence[Case], room: int) -> Attempt:
        made.append(attempt(cases, room))
        return made[-1]

    for label, cases in ((UPDATES, moved), (AHEAD, others), (DIVIDED, divided), (HANDED, handed)):
        if cases and (other := faster(best, cases, recorded, limit=limit)) is not best:
            best, what = other, label
    if (each := _best_of_each(made, limit)) and (other := faster(best, each, attempt)) is not best:
        best, what = other, EACH
    for name in names[1:]:
        best = faster(best, tuple(_implemented(case, name) for case in best[0].cases), attempt)
    if best[0] is not first:
        return _with_note(*best, alone, what)
    return first if moved or names else with_more_blocks(first, attempt, most_blocks, stated)


def _best_of_each(made: Sequence[Attempt], limit: float) -> tuple[Case, ...] | None:
    """The loops, each as in the attempt that is fastest in it, where no attempt is in all, and they take no
    more than `limit` cycles so."""
    if len(made) < 2 or len(made[0].loops) < 2:
        return None
    cycles = [one.of_loops() for one in made]
    if sum(map(min, zip(*cycles, strict=True))) > limit:
        return None
    chosen = [min(range(len(made)), key=lambda i: cycles[i][loop]) for loop in range(len(made[0].loops))]
    return tuple(made[i].cases[loop] for loop, i in enumerate(chosen)) if len(set(chosen)) > 1 else None


def _implemented(case: Case, name: str) -> Case:
    has = name in [one.name for one in case.problem.implementations]
    return replace(case, problem=case.problem.implemented(name)) if has else case


def _with_update_groups(one: Attempt) -> tuple[Case, ...] | None:
    """The loops to schedule with groups of their own for updates; None where no loop needs any."""
    pairs = zip(one.cases, one.loops, strict=True)
    return _restated(one.cases, [with_update_group(case.problem, loop) for case, loop in pairs])


def _with_hand_offs(found: Sequence[Case]) -> tuple[Case, ...] | None:
    """The loops to schedule with the costs of hand-offs; None where no loop has any."""
    changed = [
        with_hand_offs(case.problem, case.graph, case.machine) if case.graph and case.machine else None
        for case in found
    ]
    return _restated(found, changed)


def _restated(found: Sequence[Case], changed: Sequence[Problem | None]) -> tuple[Case, ...] | None:
    """The loops with these problems, those of None as they are; None where all are."""
    if not any(changed):
        return None
    pairs = zip(found, changed, strict=True)
    return tuple(replace(case, problem=problem or case.problem) for case, problem in pairs)


def _with_divided_waits(one: Attempt) -> tuple[Case, ...] | None:
    """The loops to schedule with waits inside of elementwise operations, for accumulators of the iteration
    before; None where no loop has any."""
    divided = [case.divided if case.overlaps else None for case in one.cases]
    if not any(divided):
        return None
    pairs = zip(one.cases, divided, strict=True)
    return tuple(replace(case, problem=other or case.problem, divided=None) for case, other in pairs)


def _with_note(best: Attempt, cycles: float, first: float, what: str) -> Attempt:
    """The program with a note of why it has these schedules."""
    names = sorted({one.problem.implementation for one in best.loops} - {""})
    why = ", ".join([*names, *([what] if what else [])])
    note = f"{why}: an iteration every {cycles:.0f} cycles predicted, {first:.0f} otherwise"
    return replace(best, program=replace(best.program, notes=(*best.program.notes, note)))
