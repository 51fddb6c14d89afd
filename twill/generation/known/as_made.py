"""The loop that a schedule was made for, of the forms that loops have in generated kernels.

Takes `Inputs` and a `Result`; gives the `Case` whose problem is the result's. A generated kernel may be
persistent, have sub-tiles, wait inside of elementwise operations, count what hand-offs cost, have more warps
or tiles that are spilled, let other loads run ahead, or leave room on an SM for more thread blocks, and its
schedule does not say which: forms are made until one has the numbers of the schedule.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from twill.diagnostics import TwillError
from twill.extract.frontend.persistent import Order
from twill.generation.choices.hand_offs import with_hand_offs
from twill.generation.choices.part_of_sm import limited_as
from twill.generation.choices.subtiles import COUNT, MORE_WARPS, SPILLS
from twill.generation.known.given import divided_waits
from twill.inputs import Case, Inputs, is_graph
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.verify.document import same_problem

Prepare = Callable[[Inputs], tuple[Case, ...]]
"""Reads and costs the loops of inputs."""


@dataclass(frozen=True, slots=True)
class Made:
    """A loop in the form that a schedule was made for."""

    case: Case
    blocks: int | None = None
    """Its limits are those of one of so many thread blocks on an SM; None for those of the inputs."""


WALKS: tuple[tuple[bool, Order], ...] = (
    (False, "mirrored"),
    (True, "mirrored"),
    (True, "claimed"),
    (True, "neighbours"),
)
"""Whether a kernel is persistent, and the order in which it has the programs of the grid."""


def as_made(inputs: Inputs, result: Result, prepare: Prepare) -> Made:
    """The loop in the form that the schedule was made for; where no form has its numbers, in the first one
    that has its operations, or as the inputs say. Raises TwillError where no form has a loop of its name."""
    ids = [op.id for op in result.problem.operations]
    found, refused = list[Case](), list[TwillError]()
    for form in _forms(inputs, result):
        try:
            case, *_ = prepare(form)
        except TwillError as error:
            refused.append(error)
            continue
        if made := next(_agreeing(case, result), None):
            return made
        found.append(case)
    if not found:
        raise refused[0]
    alike = (case for case in found if [op.id for op in case.problem.operations] == ids)
    return Made(next(alike, found[0]))


def _agreeing(case: Case, result: Result) -> Iterator[Made]:
    """The loop as it is, with what hand-offs cost, and in a part of an SM, where it has the numbers of the
    schedule."""
    stated = result.problem
    for whole in (case, *_handed(case)):
        part = limited_as(whole, stated.limits)
        for made in (Made(whole), *([Made(*part)] if part else [])):
            if same_problem(stated, made.case.problem):
                yield made


def _forms(inputs: Inputs, result: Result) -> Iterator[Inputs]:
    """The inputs as they are, then with what they leave open, the usual first."""
    if is_graph(inputs.spec):
        yield inputs
        return
    if inputs.divide_waits is None:
        inputs = replace(inputs, divide_waits=divided_waits(result))
    yield from _walks(inputs)
    if not inputs.ahead and (ahead := _ahead(result.problem)):
        yield from _walks(replace(inputs, ahead=ahead))


def _ahead(problem: Problem) -> tuple[tuple[str, int], ...]:
    """How many iterations the loads of a problem may run ahead, where some may not, or not as many as
    others."""
    loads = [value for value in problem.values if value.shared and problem.operation(value.src).variable]
    found = tuple((value.src, value.slots) for value in loads)
    counts = {count for _, count in found}
    return found if 0 in counts or len(counts) > 1 else ()


def _walks(inputs: Inputs) -> Iterator[Inputs]:
    """In the ways in which thread blocks may have the programs of the grid, then with more warps."""
    counts = (1, COUNT) if inputs.subtile is None else (inputs.subtile,)
    for persistent, order in WALKS:
        for count in counts:
            yield replace(inputs, subtile=count, persistent=persistent, order=order)
    if inputs.warps is None:
        for spills, warps in product((1, *SPILLS), (MORE_WARPS, None)):
            yield replace(inputs, subtile=counts[0], spills=spills, warps=warps)


def _handed(case: Case) -> Iterator[Case]:
    """The loop with the costs of hand-offs, where it has any."""
    if case.graph is None or case.machine is None:
        return
    problem = with_hand_offs(case.problem, case.graph, case.machine)
    if problem is not None:
        yield replace(case, problem=problem)
