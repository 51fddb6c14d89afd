"""Schedules the loops of one kernel and lowers them together.

Takes cases with a function that solves one; returns the program and its scheduled loops. The loops of one
kernel share its warp groups. Where the best partition of a later loop would move a carried variable to
another group, the loop is solved again with the carried variables pinned to their groups, and the program's
notes state the cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from twill.diagnostics import TwillError, together
from twill.inputs import Case
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.refusals import refusals
from twill.targets import target
from twill.warp.alignment import CarriedSplitError, aligned, carried
from twill.warp.dataflow import Code, read, variables
from twill.warp.lower import Draft, Options, lower
from twill.warp.target import Target
from twill.warp.tasks import Scheduled
from twill.whatif import Pins, pinned

Solve = Callable[[Problem], Result]

_HELP = {False: "give it more time (--time-limit)", True: "twill schedule says why"}
"""The suggestion for a loop without a schedule, by whether infeasibility is proven."""


def program(
    cases: Sequence[Case],
    solve: Solve,
    options: Options | None = None,
    observe: Callable[[str, Draft], None] = lambda name, draft: None,
) -> tuple[Program, tuple[Scheduled, ...]]:
    """`observe` is called after each pass of lowering with its name. Raises TwillError where a loop has no
    schedule or an operation cannot be lowered; what no schedule can mend is listed at once, before any is
    solved."""
    targets = [_target(case) for case in cases]
    if refused := together(refusals(cases)):
        raise refused
    loops, notes = list[Scheduled](), list[str]()
    for case in cases:
        one, note = (
            _fitting(case, solve(case.problem), loops, solve)
            if loops
            else (_scheduled(case, solve(case.problem)), [])
        )
        notes += note
        loops.append(one)
    module = cases[0].module
    assert module is not None
    made = lower(module, loops, targets[0], options, observe)
    return replace(made, notes=(*made.notes, *notes)), tuple(loops)


def _target(case: Case) -> Target:
    """Raises TwillError for loops that no schedule can be lowered for."""
    if case.module is None or case.machine is None:
        raise TwillError(f"{case.name} is a graph: only a kernel can become warp programs")
    try:
        return target(case.machine.arch)
    except TwillError as problem:
        raise TwillError(
            f"{case.module.file} is for {case.machine.arch}; {problem.message}", help=problem.help
        ) from problem


def _scheduled(case: Case, result: Result) -> Scheduled:
    assert case.module is not None
    assert case.loop is not None
    assert case.graph is not None
    assert case.machine is not None
    if result.solution is None:
        raise TwillError(
            f"{case.name} has no schedule ({result.status})",
            case.loop.location,
            help=_HELP[result.status == "infeasible"],
        )
    return Scheduled(case.loop, case.graph, result.problem, result.solution, case.machine)


def _fitting(
    case: Case, result: Result, loops: Sequence[Scheduled], solve: Solve
) -> tuple[Scheduled, list[str]]:
    """The loop with its own schedule, or solved again with carried variables pinned to their groups."""
    assert case.module is not None
    assert case.loop is not None
    code = read(case.module, case.loop.function)
    names = variables(code, [*(other.loop for other in loops), case.loop])
    if result.solution is not None:
        one = _scheduled(case, result)
        try:
            aligned(code, [*loops, one], names)
        except CarriedSplitError:
            pass
        else:
            return one, []
    fitted = _scheduled(
        case,
        solve(pinned(case.problem, Pins({}, _partition(code, case, aligned(code, loops, names), names)))),
    )
    alone = (
        f"instead of {result.solution.interval}" if result.solution else "with no schedule found otherwise,"
    )
    return fitted, [
        f"{case.name}: interval {fitted.solution.interval} {alone}, so that it shares the groups of the loops"
        " before it"
    ]


def _partition(
    code: Code, case: Case, before: Sequence[Scheduled], names: Mapping[int, str]
) -> tuple[tuple[str, ...], ...]:
    """The operations that write carried variables, by the group that holds the variable."""
    assert case.loop is not None
    assert case.graph is not None
    homes = {name: group for other in before for name, group in carried(code, other, names).items()}
    writers = {
        value.id: node.id
        for node in case.graph.nodes
        for index in node.ops
        for value in code.ops[index].results
    }
    groups = dict[int, list[str]]()
    for carry in case.loop.carried:
        if (name := names[carry.arg.id]) in homes:
            groups.setdefault(homes[name], []).append(writers[carry.yielded.id])
    return tuple(tuple(members) for _, members in sorted(groups.items()))
