"""Schedules that the user gives instead of a search: read from files, refused where they belong to another
kernel, taken as what a search would find where it would, or else kept, and replaced where no kernel can be
made with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TypeVar

from twill.diagnostics import DefectError, TwillError
from twill.generation.choices.subtiles import COUNT, MORE_WARPS, SPILLS
from twill.generation.coded import for_code
from twill.generation.generated import Generated, GenerateOptions, noted
from twill.generation.known.alike import shape
from twill.inputs import Case, Inputs, cases
from twill.ir.problem import Operation, Problem
from twill.ir.schedule import Result
from twill.verify import check_result
from twill.verify.document import same_problem

INSTEAD = 6.0
"""Seconds of a time limit that count where other schedules than given are searched for: the user has searched
already, and waits for a kernel. (The kernels in reports/wild.md that run beside Triton's were built with 5 s
for each search.)"""

Made = TypeVar("Made")


class GivenScheduleError(TwillError):
    """A given schedule is not one of this kernel."""


def given(paths: Iterable[str]) -> dict[str, Result]:
    """The schedules of some files, by loop name. Raises TwillError for two of one loop."""
    from twill.files import load, read_schedule

    found = dict[str, Result]()
    for path in paths:
        result = read_schedule(load(path), path).result
        if result.problem.name in found:
            raise GivenScheduleError(
                f"{path} is a second schedule for {result.problem.name}",
                help="give --schedule once for a loop",
            )
        found[result.problem.name] = result
    return found


def matching(inputs: Inputs, kept: Mapping[str, Result]) -> Inputs:
    """The inputs with what given schedules were made for, where they do not say: the form whose loops have
    the numbers of the schedules, or of those that have their operations one with as many warps for each, if
    any."""
    warps_alike: Inputs | None = None
    alike: Inputs | None = None
    for form, found in _forms(inputs):
        if _agree(found, kept, _numbers_agree):
            return form
        if warps_alike is None and _agree(found, kept, _has(lambda op: (op.id, op.warps))):
            warps_alike = form
        if alike is None and _agree(found, kept, _has(lambda op: op.id)):
            alike = form
    return warps_alike or alike or replace(inputs, subtile=inputs.subtile or 1)


def _forms(inputs: Inputs) -> Iterator[tuple[Inputs, dict[str, Case]]]:
    """The inputs with whole tiles or sub-tiles, with the kernel's warps or more, with tiles that take more
    registers than a thread has, and persistent, where they do not say."""
    counts = (1, COUNT) if inputs.subtile is None else (inputs.subtile,)
    warps = (None, MORE_WARPS) if inputs.warps is None else (inputs.warps,)
    spills = (1, *SPILLS) if inputs.spills == 1 else (inputs.spills,)
    walks = (False, True) if inputs.persistent is None else (inputs.persistent,)
    for walk, times, held, count in product(walks, spills, warps, counts):
        if times > 1 and (walk or count != counts[0]):
            continue
        form = replace(inputs, subtile=count, warps=held, spills=times, persistent=walk)
        with suppress(TwillError):
            yield form, {case.name: case for case in cases(form)}


def _agree(
    found: Mapping[str, Case], kept: Mapping[str, Result], alike: Callable[[Case, Result], bool]
) -> bool:
    """Whether the loops are those of the schedules."""
    return all(name in found and alike(found[name], one) for name, one in kept.items())


def _has(facts: Callable[[Operation], object]) -> Callable[[Case, Result], bool]:
    """Whether a loop has the operations of a schedule."""
    return lambda case, one: [*map(facts, case.problem.operations)] == [*map(facts, one.problem.operations)]


def _is_found(case: Case, one: Result) -> bool:
    """Whether a search for the loop finds the schedule, where it has as many groups and registers: not where
    it leaves shared memory to other thread blocks."""
    return one.problem.limits.shared == case.problem.limits.shared and _numbers_agree(case, one)


def _numbers_agree(case: Case, one: Result) -> bool:
    """Whether a loop has the numbers of a schedule: beside other loops that may be tied to groups of these,
    and have limits that leave them room."""
    forms = (case.problem, *([case.divided] if case.divided else []))
    return any(same_problem(one.problem, replace(own, limits=one.problem.limits)) for own in forms)


def refuse_foreign(kept: Mapping[str, Result], loops: Sequence[str]) -> None:
    """Raises TwillError for a schedule of a loop that the kernel does not have."""
    for name in kept:
        if name not in loops:
            raise GivenScheduleError(
                f"the given schedule is for {name}, and the kernel has {', '.join(loops)}",
                help="leave that --schedule out",
            )


def ways(options: GenerateOptions, inputs: Inputs) -> Iterator[GenerateOptions]:
    """The options for one kernel after the other that may be made with given schedules.

    Where these are of the problems that the loops have, they are what searches for these find: the kernel
    has the form that is predicted to be fastest, and the schedules if that form has their problems. Others
    (other costs, another machine file, a part of an SM) a search would not find: they stay. (On an H200,
    gradients of Triton's attention tutorial 0.442 ms in the form of the schedules of a thread block alone,
    0.301 in two thread blocks on an SM; vLLM's AWQ product 0.401 and 0.307 ms.)"""
    if not options.schedules or options.keep_schedules:
        yield options
        return
    kept = given(options.schedules)
    form = matching(inputs, kept)
    own = {case.name: case for case in cases(for_code(form, options.lowering))}
    refuse_foreign(kept, [*own])
    for one in kept.values():
        _refuse_broken(one)
    answers = all(_is_found(own[name], one) for name, one in kept.items())
    keeping = replace(options, keep_schedules=True)
    limit = min(options.time_limit, INSTEAD)
    instead = replace(
        options,
        schedules=(),
        time_limit=limit,
        whole_tiles=form.subtile == 1,
        answers=tuple(kept.values()),
    )
    yield from (instead, keeping) if answers else (keeping, instead)


def first_made(options: GenerateOptions, inputs: Inputs, make: Callable[[GenerateOptions], Made]) -> Made:
    """What is made in the first of the `ways`. Raises TwillError where nothing is in any: why not in that
    which keeps the schedules, if any does."""
    refused = dict[bool, TwillError]()
    for way in ways(options, inputs):
        why = next(map(_in_words, refused.values()), way.refused)
        try:
            return make(replace(way, refused=why))
        except GivenScheduleError:
            raise
        except TwillError as wrong:
            refused[way.keep_schedules] = wrong
    raise refused[max(refused)]


def _in_words(wrong: TwillError) -> str:
    return f"{wrong.message}; please report this" if isinstance(wrong, DefectError) else wrong.message


def replacing(made: Generated, kept: Sequence[Result], why: str) -> Generated:
    """The kernel with a note that it has other schedules than those given; as it is where it has intervals
    and problems of these."""
    taken = made.results.values()
    if all(any(_same(one, other) for other in taken) for one in kept):
        return made
    blocks = made.program.resident_blocks
    shared = f", {blocks} thread blocks on an SM," if blocks > 1 else ""
    instead = f"{_intervals(taken)} cycles an iteration{shared} instead of {_intervals(kept)}"
    reasons = (note for note in reversed(made.program.notes) if "predicted" in note or "otherwise" in note)
    why = why or next(reasons, "another form is predicted to be faster")
    note = f"given schedules are replaced (--keep-schedules keeps them): {instead}: {why}"
    return replace(noted(made, note), replaced=note)


def _same(one: Result, other: Result) -> bool:
    """Whether a schedule is another one, or that with MMAs that start early."""
    intervals = {found.solution and found.solution.interval for found in (one, other)}
    return len(intervals) == 1 and shape(one.problem) == shape(other.problem)


def _intervals(results: Iterable[Result]) -> str:
    """Machine cycles of each loop."""
    return " and ".join(
        f"{one.solution.interval * one.problem.resolution.cycles_per_unit:.0f}" if one.solution else "none"
        for one in results
    )


def divided_waits(result: Result) -> bool:
    """Whether the schedule is for groups that wait inside of elementwise operations."""
    return any(op.divisible for op in result.problem.operations)


def fitting(result: Result, problem: Problem) -> Result:
    """A given schedule, if it keeps all rules and has the same operations and dependences; its costs may
    differ. Raises TwillError otherwise."""
    same = [op.id for op in result.problem.operations] == [op.id for op in problem.operations]
    same = same and {(e.src, e.dst, e.distance) for e in result.problem.edges} == {
        (e.src, e.dst, e.distance) for e in problem.edges
    }
    if not same:
        raise GivenScheduleError(
            f"the given schedule for {problem.name} belongs to another loop: its operations or dependences"
            " differ",
            help="schedule the kernel as it is now, with the same what-if options",
        )
    _refuse_broken(result)
    return result


def _refuse_broken(result: Result) -> None:
    """Raises TwillError for a schedule that breaks a rule."""
    broken = check_result(result)
    if broken:
        raise GivenScheduleError(
            f"the given schedule for {result.problem.name} breaks a rule: {broken[0]}",
            help="`twill check` names every rule that a schedule breaks",
        )
