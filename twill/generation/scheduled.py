"""Schedules of a kernel's loops by themselves, as `twill schedule` gives them: in the form that takes fewer
cycles, with more room for tiles where they have none otherwise, and so that one thread block can have all of
them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

from twill.diagnostics import TwillError
from twill.engine.clock import own_clock
from twill.generation.choices.subtiles import MORE_WARPS, OTHER, SPILLS, Searched, Solve, Told, searched
from twill.generation.going_together import going_together
from twill.generation.loop_nest import in_a_thread_block, keeping, tied_problem
from twill.inputs import Case, Inputs, cases, is_graph
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.pipeline import Begun, restricted


class Schedules(NamedTuple):
    """What was found."""

    form: Inputs
    """The inputs with the sub-tiles and warps that the schedules are for."""
    alone: tuple[Result, ...]
    """The results of loops as they are in the inputs, without what other code asks for."""
    together: tuple[Result, ...]
    """The results that go together: those of the loops alone, or others."""
    notes: tuple[str, ...]


def scheduled(inputs: Inputs, found: Sequence[Case], search: Options, solve: Solve, told: Told) -> Schedules:
    """The schedules of the loops `found` of the inputs, each searched by `solve`."""
    began, every = own_clock().mark(), list[Result]()

    def recorded(case: Case, options: Options, known: Begun | None) -> Result:
        every.append(solve(case, options, known))
        return every[-1]

    alone = solve if search.modulo_only else partial(of_use, recorded, told)
    form, made = _in_a_form(inputs, found, search, alone, told)
    notes = (made.note,) if made.note else ()
    if search.modulo_only:
        return Schedules(form, made.results, made.results, notes)
    taken = found if form == inputs else cases(form)
    own = tuple(one for case, one in zip(taken, made.results, strict=True) if _is_own(case, one))
    fitting = partial(_fitting, solve)
    together, said = going_together(taken, made.results, search, fitting, told, began, every)
    return Schedules(form, own, together, (*notes, *said))


def _is_own(case: Case, result: Result) -> bool:
    return result.problem == case.problem.implemented(result.problem.implementation)


def of_use(solve: Solve, told: Told, case: Case, options: Options, known: Begun | None) -> Result:
    """The loop by itself where its first answers decide, else with what is tied in one group: any schedule
    without that is not the loop's in the end."""
    use, tied, own = in_a_thread_block(case), tied_problem(case), own_clock()
    if known is None or case.problem.implementations or tied == case.problem:
        return solve(case, options, known and replace(known, use=use))
    began = own.mark(known.spent)
    kept = keeping(tied)
    result = solve(case, options, replace(known, use=replace(use, kept=kept, brief=True)))
    if result.status in ("optimal", "infeasible"):
        return result
    more = restricted(tied, options, partial(told, case.name), result)
    if result.solution and kept(result.solution) and more.made is None:
        more = replace(more, made=result.solution)
    more = replace(more, spent=own.since(began), use=use)
    found = solve(replace(case, problem=tied), options, more)
    return found if found.solution else solve(case, options, replace(known, spent=own.since(began)))


def _fitting(solve: Solve, case: Case, options: Options, known: Begun | None) -> Result:
    """The loop with what goes together."""
    return solve(case, options, known and replace(known, use=in_a_thread_block(case)))


def _in_a_form(
    inputs: Inputs, found: Sequence[Case], search: Options, solve: Solve, told: Told
) -> tuple[Inputs, Searched]:
    """The form that is scheduled: that of `subtiles.searched`, or, where a loop has no schedule there, the
    first of those with more room for tiles in which all have one: with a part of the time for each where
    that is not proven, as there may be none in any."""
    first = searched(inputs, found, search, solve, told)
    form = inputs if first.subtile is None else replace(inputs, subtile=first.subtile)
    missing = next((one for one in first.results if one.solution is None), None)
    if missing is None or is_graph(inputs.spec):
        return form, first
    why = missing.reasons[0].text if missing.reasons else f"{missing.problem.name} has no schedule"
    part = 1.0 if missing.status == "infeasible" else OTHER
    each = replace(search, time_limit=part * search.time_limit)
    for roomy, what in _with_more_room(inputs):
        try:
            more = searched(roomy, cases(roomy), each, solve, told)
        except TwillError:
            continue
        if all(one.solution for one in more.results):
            subtile = roomy.subtile if more.subtile is None else more.subtile
            note = "; ".join(filter(None, (more.note, f"{what}: otherwise {why}")))
            return replace(roomy, subtile=subtile), replace(more, note=note)
    return form, first


def _with_more_room(inputs: Inputs) -> Iterator[tuple[Inputs, str]]:
    """The inputs with more warps, each of which holds less, then with tiles that take more registers than a
    thread has, as `twill codegen` generates them; with what is different, in words. Limits that the user
    gives are not exceeded."""
    if inputs.warps is None:
        yield replace(inputs, warps=MORE_WARPS), f"{MORE_WARPS} warps hold tiles"
    limits = (inputs.registers, inputs.groups, inputs.shared, inputs.tensor, inputs.pins)
    if inputs.spills > 1 or any(one is not None for one in limits):
        return
    warps = (inputs.warps,) if inputs.warps is not None else (MORE_WARPS, None)
    for times, held in product(SPILLS, warps):
        what = f"tiles take up to {times} times the registers of a thread, which may spill"
        yield replace(inputs, subtile=inputs.subtile or 1, spills=times, warps=held), what
