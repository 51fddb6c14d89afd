"""Why the interval is above its lower bound: which constraint families stand in the way, as text with
numbers.

Takes a finished `Result`; gives `Reason`s. A family is relaxed by changing the problem (more registers, no
cross-group delay, ...), so that the same engines answer; a small set of families whose relaxation together
lets the bound be reached is what causes the gap: every one of them is broken by the schedule found, and
without it none was found in the share of work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twill.engine import decode
from twill.ir.problem import Limits, Problem, Time
from twill.ir.schedule import Reason, Result, Solution

Decide = Callable[[Problem, Time], Solution | None]
"""A schedule of the problem at exactly this interval, if one was found in a share of work."""

PLENTY = 1 << 16

AMOUNTS = 16
"""About how many amounts of a resource are told apart: each halving of them is a probe."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of constraint: how to lift it, and how to say what was needed once it was lifted."""

    name: str
    lift: Callable[[Problem], Problem]
    broken: Callable[[Problem, Solution], bool]
    """Whether a schedule would break it, were it in force."""
    needs: Callable[[Problem, Solution], str]
    amounts: Callable[[Problem], tuple[Limits, ...]] = lambda problem: ()
    """Limits from little to much, where the family has an amount."""

    def sparing(self, problem: Problem, target: Time, decide: Decide) -> Solution | None:
        """A schedule with as little of the family's amount as a bisection finds, so that the number in the
        text means something."""
        choices, found = self.amounts(problem), None
        low, high = 0, len(choices)
        while low < high:
            middle = (low + high) // 2
            probe = decide(replace(problem, limits=choices[middle]), target)
            low, high, found = (low, middle, probe) if probe else (middle + 1, high, found)
        return found


def explain(result: Result, target: Time, decide: Decide) -> tuple[Reason, ...]:
    """The families that keep `result` from reaching interval `target`, with what they need and have.

    Empty where even all families lifted give nothing in the share of work: then dependences and units
    themselves are in the way, or nothing can be said.
    """
    lifted = list(FAMILIES)
    found = decide(_lift(result.problem, lifted), target)
    if found is None:
        return ()
    for family in FAMILIES:
        fewer = [other for other in lifted if other is not family]
        again = (
            decide(_lift(result.problem, fewer), target)
            if family.broken(_lift(result.problem, fewer), found)
            else found
        )
        if again is not None:
            lifted, found = fewer, again
    for family in lifted:
        found = family.sparing(_without(result.problem, lifted, family), target, decide) or found
    return tuple(
        Reason(f.name, f.needs(result.problem, found))
        for f in lifted
        if f.broken(_without(result.problem, lifted, f), found)
    )


def _without(problem: Problem, lifted: Sequence[Family], family: Family) -> Problem:
    """With all of them lifted but one."""
    return _lift(problem, [other for other in lifted if other is not family])


def _lift(problem: Problem, families: Sequence[Family]) -> Problem:
    for family in families:
        problem = family.lift(problem)
    return problem


# --- what each family is ----------------------------------------------------------------------------------


def _more_registers(problem: Problem) -> Problem:
    return replace(
        problem, limits=replace(problem.limits, registers_per_thread=PLENTY, registers_total=PLENTY * 1024)
    )


def _more_shared(problem: Problem) -> Problem:
    return replace(
        problem, limits=replace(problem.limits, shared=_all_room(problem, "shared") + problem.limits.shared)
    )


def _more_tensor(problem: Problem) -> Problem:
    return replace(
        problem, limits=replace(problem.limits, tensor=_all_room(problem, "tensor") + problem.limits.tensor)
    )


def _all_room(problem: Problem, memory: str) -> int:
    """Room for several in_flight of everything."""
    sizes = (value.shared + value.staging if memory == "shared" else value.tensor for value in problem.values)
    slots = (value.slots for value in problem.values)
    return sum(size * (4 + more) for size, more in zip(sizes, slots, strict=True))


def _more_groups(problem: Problem) -> Problem:
    limits = problem.limits
    roomier = replace(
        limits, groups=limits.groups + 3, warps=2 * limits.warps, registers_total=2 * limits.registers_total
    )
    return replace(problem, limits=roomier)


def _no_waits(problem: Problem) -> Problem:
    return replace(problem, operations=tuple(replace(op, issue=0) for op in problem.operations))


def _free_crossing(problem: Problem) -> Problem:
    return replace(problem, edges=tuple(replace(edge, cross_delay=None) for edge in problem.edges))


def _free_partition(problem: Problem) -> Problem:
    return replace(problem, together=(), apart=())


def _unpinned(problem: Problem) -> Problem:
    return replace(problem, starts=())


def _register_amounts(problem: Problem) -> tuple[Limits, ...]:
    """More per thread, in multiples of the machine's step, up to three times what it has; the file as large
    as it takes."""
    has, step = problem.limits.registers_per_thread, problem.limits.register_step
    counts = range(has, 3 * has, step * max(1, 2 * has // step // AMOUNTS))
    return tuple(
        replace(problem.limits, registers_per_thread=count, registers_total=PLENTY * 1024) for count in counts
    )


def _tensor_amounts(problem: Problem) -> tuple[Limits, ...]:
    """More columns, an eighth of the memory at a time, up to twice what there is."""
    has = problem.limits.tensor
    return tuple(replace(problem.limits, tensor=has + has * eighths // 8) for eighths in range(1, 9))


def _shared_amounts(problem: Problem) -> tuple[Limits, ...]:
    """More bytes, a sixteenth of the memory at a time, up to twice what there is."""
    has = problem.limits.shared
    return tuple(replace(problem.limits, shared=has + has * parts // 16) for parts in range(1, 17))


# --- as text ----------------------------------------------------------------------------------------------


def _granted(problem: Problem, found: Solution) -> int:
    """Registers of all groups; groups of one warp fill a warpgroup four to one."""
    narrow = sum(group.warps == 1 for group in found.groups)
    wide = sum(32 * group.warps * group.registers for group in found.groups if group.warps > 1)
    return wide + 128 * problem.limits.narrow_registers * -(-narrow // 4)


def _too_many_registers(problem: Problem, found: Solution) -> bool:
    most = max((group.registers for group in found.groups if group.warps > 1), default=0)
    return (
        most > problem.limits.registers_per_thread
        or _granted(problem, found) > problem.limits.registers_total
    )


def _registers_in_words(problem: Problem, found: Solution) -> str:
    limits = problem.limits
    wide = [group for group in found.groups if group.warps > 1]
    most = max(wide, key=lambda group: group.registers, default=None)
    if most and most.registers > limits.registers_per_thread:
        return (
            f"needs {most.registers} registers per thread in group {most.id}, has"
            f" {limits.registers_per_thread}"
        )
    return (
        f"needs {_granted(problem, found)} registers per SM for {len(wide)} wide groups, has"
        f" {limits.registers_total}"
    )


def _usage(memory: str) -> Callable[[Problem, Solution], tuple[int, int]]:
    """What a schedule takes of a memory, and what there is."""

    def usage(problem: Problem, found: Solution) -> tuple[int, int]:
        top = max((p.address + p.size * p.slots for p in found.allocations if p.memory == memory), default=0)
        return top, problem.limits.shared if memory == "shared" else problem.limits.tensor

    return usage


def _too_large(memory: str) -> Callable[[Problem, Solution], bool]:
    usage = _usage(memory)

    def broken(problem: Problem, found: Solution) -> bool:
        top, has = usage(problem, found)
        return top > has

    return broken


def _memory_in_words(memory: str, unit: str) -> Callable[[Problem, Solution], str]:
    usage = _usage(memory)

    def text(problem: Problem, found: Solution) -> str:
        top, has = usage(problem, found)
        return f"needs {top} {unit} in the least allocation found, has {has}"

    return text


def _too_many_groups(problem: Problem, found: Solution) -> bool:
    limits, narrow = problem.limits, sum(group.warps == 1 for group in found.groups)
    warps = sum(group.warps for group in found.groups if group.warps > 1) + 4 * -(-narrow // 4)
    return (
        len(found.groups) > limits.groups
        or warps > limits.warps
        or _granted(problem, found) > limits.registers_total
    )


def _groups_in_words(problem: Problem, found: Solution) -> str:
    limits, warps = problem.limits, sum(group.warps for group in found.groups)
    if len(found.groups) > limits.groups:
        return f"needs {len(found.groups)} groups as found, has {limits.groups}"
    return (
        f"needs {warps} warps with {_granted(problem, found)} registers as found, has {limits.warps} with"
        f" {limits.registers_total}"
    )


def _clashes(problem: Problem, found: Solution) -> list[str]:
    return [
        f"{a} while {b} issues"
        for a, b in decode.wait_clashes(problem, found.interval, found.start, found.group)
    ]


def _late(problem: Problem, found: Solution) -> list[str]:
    return [
        f"{edge.src} to {edge.dst} needs {edge.crossing}, has {gap}"
        for edge in problem.edges
        if found.group[a := problem.index(edge.src)] != found.group[b := problem.index(edge.dst)]
        and (gap := found.start[b] + edge.distance * found.interval - found.start[a]) < edge.crossing
    ]


def _regrouped(problem: Problem, found: Solution) -> list[str]:
    labels = dict(zip((op.id for op in problem.operations), found.group, strict=True))
    split = [ops for ops in problem.together if len({labels[op] for op in ops}) > 1]
    joined = [pair for pair in problem.apart if labels[pair[0]] == labels[pair[1]]]
    return [f"{', '.join(ops)} would be split" for ops in split[:3]] + [
        f"{a} and {b} would share a group" for a, b in joined[:3]
    ]


def _moved(problem: Problem, found: Solution) -> list[str]:
    starts = [(op, found.start[problem.index(op)], start) for op, start in problem.starts]
    return [f"{op} at {now}, not {start}" for op, now, start in starts if now != start]


def _listed(
    begin: str, listed: Callable[[Problem, Solution], list[str]]
) -> Callable[[Problem, Solution], str]:
    """The first few as text."""
    return lambda problem, found: begin + "; ".join(listed(problem, found)[:4])


def _any(listed: Callable[[Problem, Solution], list[str]]) -> Callable[[Problem, Solution], bool]:
    return lambda problem, found: bool(listed(problem, found))


SHARED, TENSOR = (
    _memory_in_words("shared", "bytes of shared memory"),
    _memory_in_words("tensor", "columns of tensor memory"),
)

FAMILIES = (
    Family("pinned starts", _unpinned, _any(_moved), _listed("the given starts: ", _moved)),
    Family("given partition", _free_partition, _any(_regrouped), _listed("the given groups: ", _regrouped)),
    Family(
        "cross-group delay",
        _free_crossing,
        _any(_late),
        _listed("values passed between groups arrive late: ", _late),
    ),
    Family(
        "synchronization",
        _no_waits,
        _any(_clashes),
        _listed("blocking waits stop other issue of their group: ", _clashes),
    ),
    Family("groups", _more_groups, _too_many_groups, _groups_in_words),
    Family("shared memory", _more_shared, _too_large("shared"), SHARED, _shared_amounts),
    Family("tensor memory", _more_tensor, _too_large("tensor"), TENSOR, _tensor_amounts),
    Family("registers", _more_registers, _too_many_registers, _registers_in_words, _register_amounts),
)
"""In the order in which they are put back: the first is kept lifted only if nothing else will do."""
