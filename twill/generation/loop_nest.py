"""Schedules the loops of one kernel and lowers them together.

Takes cases with a function that solves one; returns the program and its scheduled loops. The loops of one
kernel share its warp groups: a later loop is solved with the carried variables pinned to their groups. Where
it has no schedule then, it is the first that is solved. Where it is known to be faster alone, the notes state
the cost.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from twill.diagnostics import TwillError, together
from twill.generation.refusals import refusals
from twill.inputs import Case
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result, Solution
from twill.ir.search import Use
from twill.modulo.bounds import bounds
from twill.targets import target
from twill.warp.alignment import CarriedSplitError, Ties, aligned, ties
from twill.warp.dataflow import Code, read, variables
from twill.warp.lower import lower
from twill.warp.plan import Draft, Options
from twill.warp.slot_counts import SharedMemoryError
from twill.warp.target import Target
from twill.warp.tasks import Scheduled
from twill.warp.thread_block import fits, granted, in_a_block, most_alike
from twill.whatif import Pins, limited, pinned

Solve = Callable[[Problem], Result]
Made = TypeVar("Made")


def _unknown(problem: Problem) -> Result | None:
    return None


def _perhaps(problem: Problem, result: Result) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Solver:
    """Searches for schedules."""

    solve: Solve
    known: Callable[[Problem], Result | None] = _unknown
    """A result that needs no search."""
    faster: Callable[[Problem, Result], bool] = _perhaps
    """Whether the problem may have a schedule of a smaller interval than that of the result."""


WITHHELD = (0, 1 << 13, 1 << 15, 1 << 16)
"""Bytes of shared memory that the schedules do without, by attempt: slots of channels are aligned, and there
are scratch buffers, which schedules do not count."""
LEAST = 0.25
"""Part of the time limit that a search has in any case."""
FEWEST = 2
"""Groups of loops whose groups need too many registers together: one that loads, one that computes."""
_HELP = {False: "give it more time (--time-limit)", True: "twill schedule says why"}
"""The suggestion for a loop without a schedule, by whether infeasibility is proven."""


def program(
    cases: Sequence[Case],
    solve: Solve,
    options: Options | None = None,
    observe: Callable[[str, Draft], None] = lambda name, draft: None,
    known: Callable[[Problem], Result | None] = _unknown,
    *,
    given: bool = False,
) -> tuple[Program, tuple[Scheduled, ...]]:
    """`known`: see `Solver`. `observe` is called after each pass of lowering with its name. Where what the
    schedules keep in shared memory does not fit there, the loops are scheduled again with less of it, and
    then with one group that computes, unless the schedules are `given`; likewise where their groups together
    need more registers than there are. Raises TwillError where a loop has no schedule or an operation cannot
    be lowered; what no schedule can mend is listed at once, before any is solved."""
    targets = [_target(case) for case in cases]
    if refused := together(refusals(cases)):
        raise refused
    aligned = min((case.aligned for case in cases), default=0)
    options, solver = replace(options or Options(), aligned=aligned), Solver(solve, known)
    for withheld in WITHHELD:
        less = [_with_less(case, withheld) for case in cases]
        lowering = replace(options, withheld=withheld)
        try:
            return sharing(
                less, partial(_lowered, target=targets[0], solver=solver, options=lowering, observe=observe)
            )
        except SharedMemoryError as short:
            if given:
                raise
            if withheld == WITHHELD[-1]:
                return _in_one_group(cases, targets[0], solver, options, observe, short)
    raise AssertionError("no attempt was made")


def _in_one_group(
    cases: Sequence[Case],
    target: Target,
    solver: Solver,
    options: Options,
    observe: Callable[[str, Draft], None],
    short: SharedMemoryError,
) -> tuple[Program, tuple[Scheduled, ...]]:
    """The loops with one group that computes: no tile of registers passes through shared memory. Raises
    `short` where that has been tried, or is no help."""
    if all(case.problem.limits.groups <= FEWEST for case in cases):
        raise short
    few = [replace(case, problem=limited(case.problem, groups=FEWEST)) for case in cases]
    try:
        return _lowered(few, target, solver, options, observe)
    except TwillError:
        raise short from None


def _with_less(case: Case, withheld: int) -> Case:
    """The loop with less shared memory."""
    shared = case.problem.limits.shared - withheld
    return replace(case, problem=limited(case.problem, shared=shared)) if withheld else case


class NoScheduleError(TwillError):
    """A loop has no schedule, or none that was found."""


class TogetherError(NoScheduleError):
    """The groups of several loops need more registers together than a thread block has, or a loop has no
    schedule on the groups of the others."""


def sharing(cases: Sequence[Case], attempt: Callable[[Sequence[Case]], Made]) -> Made:
    """The loops with the groups that each schedule has; with the fewest where these do not go together."""
    try:
        return attempt(cases)
    except (TogetherError, CarriedSplitError) as refused:
        few = [replace(case, problem=limited(case.problem, groups=FEWEST)) for case in cases]
        if all(case.problem.limits.groups <= FEWEST for case in cases):
            raise
        try:
            return attempt(few)
        except NoScheduleError:
            raise refused from None


def _lowered(
    cases: Sequence[Case],
    target: Target,
    solver: Solver,
    options: Options,
    observe: Callable[[str, Draft], None],
) -> tuple[Program, tuple[Scheduled, ...]]:
    found = on_shared_groups(cases, solver)
    loops, notes = [one for one, _ in found], [note for _, said in found for note in said]
    module = cases[0].module
    assert module is not None
    made = lower(module, loops, target, options, observe)
    if options.withheld:
        notes.append(f"scheduled with {options.withheld} bytes of shared memory less, so that all of it fits")
    return replace(made, notes=(*made.notes, *notes)), tuple(loops)


def _beside_each_other(
    code: Code, tied: Ties, cases: Sequence[Case], solver: Solver
) -> list[tuple[Scheduled, list[str]]]:
    """The loops in the order of the text, with notes. Each is scheduled on the groups of those before it; one
    that has no schedule there is scheduled before them, so that they have to share its groups."""
    order, first = list(range(len(cases))), set[int]()
    while True:
        found = dict[int, tuple[Scheduled, list[str]]]()
        try:
            for i in order:
                before = [one for one, _ in found.values()]
                found[i] = _fitting(code, tied, cases[i], before, solver)
            return [found[i] for i in range(len(cases))]
        except (TogetherError, CarriedSplitError):
            left = next(i for i in order if i not in found)
            if not found or left in first:
                raise
            first.add(left)
            order = [left, *(i for i in order if i != left)]


def on_shared_groups(cases: Sequence[Case], solver: Solver) -> list[tuple[Scheduled, list[str]]]:
    return _beside_each_other(*_tied(cases), cases, solver)


def _target(case: Case) -> Target:
    """Raises TwillError for loops that no schedule can be lowered for."""
    if case.module is None or case.machine is None:
        raise TwillError(
            f"{case.name} is a graph: only a kernel can become warp programs",
            help="give FILE.ttgir or FILE.py:FUNCTION",
        )
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
        reason = result.reasons[0] if result.status == "infeasible" and result.reasons else None
        general = _HELP[result.status == "infeasible"]
        raise NoScheduleError(
            f"{case.name} has no schedule ({result.status})" + (f": {reason.text}" if reason else ""),
            case.loop.location,
            help=(reason and reason.way_out) or general,
        )
    return Scheduled(case.loop, case.graph, result.problem, result.solution, case.machine)


def _tied(cases: Sequence[Case]) -> tuple[Code, Ties]:
    """The code of the kernel, and what of its loops shares a group."""
    module, loops = cases[0].module, [(case.loop, case.graph) for case in cases if case.loop and case.graph]
    assert module is not None
    code = read(module, loops[0][0].function)
    return code, ties(code, loops, variables(code, [loop for loop, _ in loops]))


def _fitting(
    code: Code, tied: Ties, case: Case, loops: Sequence[Scheduled], solver: Solver
) -> tuple[Scheduled, list[str]]:
    """The loop with tied operations in the groups of those that they are tied to. Where all groups need too
    many registers: within those of a thread block of as many groups, where fewer groups cannot issue it as
    fast, or with no more groups than the `loops` that are scheduled, if it is as fast so, else with the same
    number of registers for each group if that is faster, then with few groups. The schedule that it has
    without ties is searched only where it has none with them, but may have one on other groups. (Attention
    of Mistral from TritonBench, whose given schedule spills: two searches of a loop that has no schedule in
    one group that computes took 17 s of 33.) Raises TogetherError where it has a schedule alone."""
    problem = _partitioned(code, tied, case, aligned(code, loops, tied))
    alone = solver.known(case.problem)

    def shares(result: Result) -> bool:
        return bool(result.solution) and _shares(code, tied, [*loops, _scheduled(case, result)])

    first = alone if alone and shares(alone) else solver.solve(problem)
    if problem == case.problem:
        alone = first
    elif not first.solution and (loops or problem.limits.groups > FEWEST):
        first = alone = alone or solver.solve(case.problem)
    if not loops:
        _scheduled(case, first)
    result, slow = first, False
    for other, as_fast in _attempts(problem, case, loops, first) if first.solution else ():
        if shares(result) and not (slow and solver.faster(other, result)):
            break
        result = solver.solve(other)
        slow = as_fast and not _as_fast(result, first)
    if first.solution and not result.solution:
        raise TogetherError(
            f"{case.name} has no schedule on the groups of the other loops ({result.status})",
            case.loop.location if case.loop else None,
            help=_HELP[result.status == "infeasible"],
        )
    one = _scheduled(case, result)
    if not _shares(code, tied, [*loops, one]):
        aligned(code, [*loops, one], tied)
        raise TogetherError(
            f"{case.name} and the loops before it need more registers together than a thread block has",
            one.loop.location,
            help="schedule for fewer (--registers, --groups), or take smaller tiles",
        )
    free = result is alone or (_as_fast(result, alone) if alone else result is first)
    return one, [] if free else [_cost(case, alone, one, loops)]


def _as_fast(result: Result, first: Result) -> bool:
    """Whether nothing is lost beside the loop's own schedule."""
    return bool(result.solution and first.solution and result.solution.interval <= first.solution.interval)


def _attempts(
    problem: Problem, case: Case, loops: Sequence[Scheduled], first: Result
) -> Iterator[tuple[Problem, bool]]:
    """Problems to solve instead of the first one, which had this result, one after the other, and whether the
    next ones are to be solved, where they are faster, unless this one is as fast. (With few registers for
    each group most problems have no schedule, which takes long to find out.)"""
    if first.problem.together != problem.together:
        yield problem, False
    most = max((len(one.solution.groups) for one in loops), default=FEWEST)
    few, more = (limited(problem, groups=min(problem.limits.groups, most + n)) for n in (0, 1))
    one = _scheduled(case, first)
    registers = most_alike(granted([one]), one)
    unfit, few_issue = not fits(granted([one]), one), _issued_by(few, first)
    if unfit and not few_issue:
        yield _in_a_block(problem, one), True
    if max(group.registers for group in one.solution.groups) > registers:
        yield few, True
        if unfit and few_issue:
            yield _in_a_block(problem, one), True
        yield limited(problem, registers=registers), False
    yield few, False
    yield more, False


def _issued_by(problem: Problem, result: Result) -> bool:
    """Whether the groups that compute can issue the loop within the interval of a result."""
    computing = [op for op in problem.operations if not op.variable]
    groups = problem.limits.groups - (len(computing) < len(problem.operations))
    assert result.solution is not None
    return sum(map(problem.held, computing)) <= groups * result.solution.interval


def _shares(code: Code, tied: Ties, loops: Sequence[Scheduled]) -> bool:
    """Whether the loops can have the same groups, with the registers that there are."""
    try:
        return fits(granted(aligned(code, loops, tied)), loops[0])
    except CarriedSplitError:
        return False


def _cost(case: Case, alone: Result | None, one: Scheduled, loops: Sequence[Scheduled]) -> str:
    """What it costs that a loop does not have its own schedule, where that is known."""
    if alone is None:
        instead = f", at least {bounds(case.problem).value} alone"
    else:
        instead = f" instead of {alone.solution.interval}" if alone.solution else ", with no schedule alone"
    reason = "it shares the groups of other loops" if loops else "its results are used together"
    return f"{case.name}: interval {one.solution.interval}{instead}, so that {reason}"


def tied_problem(case: Case) -> Problem:
    """The problem of a loop whose operations share a group where the code behind it uses their results
    together; other loops may tie more. The loop's own where that code is not known."""
    if case.module is None or case.loop is None or case.graph is None:
        return case.problem
    try:
        code, tied = _tied([case])
    except TwillError:
        return case.problem
    return _partitioned(code, tied, case, ())


def keeping(problem: Problem) -> Callable[[Solution], bool]:
    """Whether a schedule has in one group what is together in `problem`."""
    sets = [[problem.index(op) for op in same] for same in problem.together]
    return lambda found: all(len({found.group[op] for op in same}) == 1 for same in sets)


def in_a_thread_block(case: Case) -> Use:
    """Schedules for whose groups a thread block has the registers."""
    if case.loop is None or case.graph is None or case.machine is None:
        return Use()
    scheduled = partial(Scheduled, case.loop, case.graph, case.problem, machine=case.machine)

    def fit(solution: Solution) -> bool:
        one = scheduled(solution=solution)
        return fits(granted([one]), one)

    def within(problem: Problem, solution: Solution) -> Problem:
        return _in_a_block(problem, scheduled(solution=solution))

    return Use(fits=fit, within=within)


def _in_a_block(problem: Problem, one: Scheduled) -> Problem:
    """With the registers that a thread block of up to as many groups has, whatever their number."""
    in_all = min(problem.limits.registers_total, in_a_block(granted([one]), one))
    return limited(problem, groups=len(one.solution.groups), registers_in_all=in_all)


def _partitioned(code: Code, tied: Ties, case: Case, before: Sequence[Scheduled]) -> Problem:
    """The problem with tied operations in the groups that the loops before it have for them."""
    assert case.loop is not None
    assert case.graph is not None
    homes = {name: group for other in before for name, group in tied.homes(code, other).items()}
    known, free = dict[int, list[str]](), dict[str, list[str]]()
    for node in case.graph.nodes:
        name = tied.sets.get((case.loop.path, node.id))
        if name in homes:
            known.setdefault(homes[name], []).append(node.id)
        elif name is not None:
            free.setdefault(name, []).append(node.id)
    pins = Pins({}, tuple(tuple(members) for _, members in sorted(known.items())))
    problem = pinned(case.problem, pins)
    together = (tuple(members) for _, members in sorted(free.items()) if len(members) > 1)
    more = tuple(members for members in together if members not in problem.together)
    return replace(problem, together=(*problem.together, *more))
