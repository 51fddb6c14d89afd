"""Schedules that the user gives instead of a search: read from files, refused where they belong to another
kernel, or replaced where no good kernel can be made with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

from twill.diagnostics import TwillError
from twill.generation.choices.subtiles import COUNT, MORE_WARPS
from twill.generation.generated import Generated, GenerateOptions, noted
from twill.inputs import Inputs, cases
from twill.ir.problem import Operation, Problem
from twill.ir.schedule import Result

INSTEAD = 6.0
"""Seconds of a time limit that count where other schedules than given are searched for: the user has searched
already, and waits for a kernel. (The kernels in reports/wild.md that run beside Triton's were built with 5 s
for each search.)"""


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
    """The inputs with the sub-tiles and the warps that given schedules were made for, where they do not say:
    of forms whose loops have the operations of the schedules one with as many warps for each, if any."""
    alike: Inputs | None = None
    for form, found in _forms(inputs):
        if _agree(found, kept, lambda op: (op.id, op.warps)):
            return form
        if alike is None and _agree(found, kept, lambda op: op.id):
            alike = form
    return alike or replace(inputs, subtile=inputs.subtile or 1)


def _forms(inputs: Inputs) -> Iterator[tuple[Inputs, dict[str, Problem]]]:
    """The inputs with whole tiles or sub-tiles, with the kernel's warps or more, where they do not say."""
    counts = (1, COUNT) if inputs.subtile is None else (inputs.subtile,)
    warps = (None, MORE_WARPS) if inputs.warps is None else (inputs.warps,)
    for held, count in product(warps, counts):
        form = replace(inputs, subtile=count, warps=held)
        with suppress(TwillError):
            yield form, {case.name: case.problem for case in cases(form)}


def _agree(
    found: Mapping[str, Problem], kept: Mapping[str, Result], facts: Callable[[Operation], object]
) -> bool:
    """Whether the loops have the operations of the schedules."""
    return all(
        name in found and [*map(facts, found[name].operations)] == [*map(facts, one.problem.operations)]
        for name, one in kept.items()
    )


def refuse_foreign(kept: Mapping[str, Result], loops: Sequence[str]) -> None:
    """Raises TwillError for a schedule of a loop that the kernel does not have."""
    for name in kept:
        if name not in loops:
            raise GivenScheduleError(
                f"the given schedule is for {name}, and the kernel has {', '.join(loops)}",
                help="leave that --schedule out",
            )


def free(options: GenerateOptions, inputs: Inputs, kept: Mapping[str, Result]) -> GenerateOptions:
    """The options for other schedules than those given. Whether whole tiles are divided was decided in the
    search for these: whole tiles are searched first. (Gradients of FlagGems' attention, four loops: 48 s for
    other schedules in place of 55.)"""
    limit, whole = min(options.time_limit, INSTEAD), matching(inputs, kept).subtile == 1
    return replace(options, schedules=(), time_limit=limit, whole_tiles=whole)


def proven(kept: Mapping[str, Result]) -> tuple[Result, ...]:
    """The given schedules that a search need not find again."""
    return tuple(one for one in kept.values() if one.status == "optimal")


def replacing(made: Generated, kept: Mapping[str, Result], why: str) -> Generated:
    """The kernel with a note that it has other schedules than those given; as it is where it has these."""
    taken = made.results.values()
    if all(any(one.solution == other.solution for other in taken) for one in kept.values()):
        return made
    instead = f"{_intervals(taken)} cycles an iteration instead of {_intervals(kept.values())}"
    note = f"given schedules are replaced (--keep-schedules keeps them): {instead}: {why}"
    return replace(noted(made, note), replaced=note)


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
    from twill.verify import check_result

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
    broken = check_result(result)
    if broken:
        raise GivenScheduleError(
            f"the given schedule for {problem.name} breaks a rule: {broken[0]}",
            help="`twill check` names every rule that a schedule breaks",
        )
    return result
