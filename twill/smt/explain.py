"""Why the interval is above its lower bound: which constraint families stand in the way, in words with numbers.

Takes a finished `Result`; gives `Reason`s. A family is relaxed by changing the problem (more registers, no hand-over delay, ...), so that
the same engines answer; a smallest set of families whose relaxation together lets the bound be reached is what causes the gap.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twill.ir.problem import Limits, Problem, Time
from twill.ir.schedule import Reason, Result, Solution
from twill.smt import decode

Decide = Callable[[Problem, Time], Solution | None]
"""A schedule of the problem at exactly this interval, if one was found in a share of work."""

PLENTY = 1 << 16


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of constraint: how to lift it, and how to say what was needed once it was lifted."""

    name: str
    lift: Callable[[Problem], Problem]
    needs: Callable[[Problem, Solution], str]
    amounts: Callable[[Problem], tuple[Limits, ...]] = lambda problem: ()
    """Limits from little to much, where the family has an amount."""

    def sparing(self, problem: Problem, target: Time, decide: Decide) -> Solution | None:
        """A schedule with as little of the family's amount as a bisection finds, so that the number in words means something."""
        choices, found = self.amounts(problem), None
        low, high = 0, len(choices)
        while low < high:
            middle = (low + high) // 2
            word = decide(replace(problem, limits=choices[middle]), target)
            low, high, found = (low, middle, word) if word else (middle + 1, high, found)
        return found


def explain(result: Result, target: Time, decide: Decide) -> tuple[Reason, ...]:
    """The families that keep `result` from reaching interval `target`, with what they need and have.

    Empty where even all families lifted give nothing in the share of work: then dependences and units themselves are in the way, or
    nothing can be said.
    """
    lifted = list(FAMILIES)
    found = decide(_lift(result.problem, lifted), target)
    if found is None:
        return ()
    for family in FAMILIES:
        fewer = [other for other in lifted if other is not family]
        again = decide(_lift(result.problem, fewer), target)
        if again is not None:
            lifted, found = fewer, again
    for family in lifted:
        found = family.sparing(_lift(result.problem, [other for other in lifted if other is not family]), target, decide) or found
    return tuple(Reason(family.name, family.needs(result.problem, found)) for family in lifted)


def _lift(problem: Problem, families: Sequence[Family]) -> Problem:
    for family in families:
        problem = family.lift(problem)
    return problem


# --- what each family is ------------------------------------------------------------------------------------------------


def _more_registers(problem: Problem) -> Problem:
    return replace(problem, limits=replace(problem.limits, registers_per_thread=PLENTY, registers_total=PLENTY * 1024))


def _more_shared(problem: Problem) -> Problem:
    return replace(problem, limits=replace(problem.limits, shared=_all_room(problem, "shared") + problem.limits.shared))


def _more_tensor(problem: Problem) -> Problem:
    return replace(problem, limits=replace(problem.limits, tensor=_all_room(problem, "tensor") + problem.limits.tensor))


def _all_room(problem: Problem, memory: str) -> int:
    """Room for several copies of everything."""
    sizes = (value.shared + value.staging if memory == "shared" else value.tensor for value in problem.values)
    slots = (value.slots for value in problem.values)
    return sum(size * (4 + more) for size, more in zip(sizes, slots, strict=True))


def _more_groups(problem: Problem) -> Problem:
    limits = problem.limits
    roomier = replace(limits, groups=limits.groups + 3, warps=2 * limits.warps, registers_total=2 * limits.registers_total)
    return replace(problem, limits=roomier)


def _no_waits(problem: Problem) -> Problem:
    return replace(problem, operations=tuple(replace(op, issue=0) for op in problem.operations))


def _free_hand_over(problem: Problem) -> Problem:
    return replace(problem, edges=tuple(replace(edge, cross_delay=None) for edge in problem.edges))


def _free_partition(problem: Problem) -> Problem:
    return replace(problem, together=(), apart=())


def _unpinned(problem: Problem) -> Problem:
    return replace(problem, starts=())


def _register_amounts(problem: Problem) -> tuple[Limits, ...]:
    """More per thread, in steps of the machine, up to three times what it has; the file as large as it takes."""
    has, step = problem.limits.registers_per_thread, problem.limits.register_step
    counts = range(has, 3 * has, step)
    return tuple(replace(problem.limits, registers_per_thread=count, registers_total=PLENTY * 1024) for count in counts)


def _tensor_amounts(problem: Problem) -> tuple[Limits, ...]:
    """More columns, an eighth of the memory at a time, up to twice what there is."""
    has = problem.limits.tensor
    return tuple(replace(problem.limits, tensor=has + has * eighths // 8) for eighths in range(1, 9))


def _shared_amounts(problem: Problem) -> tuple[Limits, ...]:
    """More bytes, a sixteenth of the memory at a time, up to twice what there is."""
    has = problem.limits.shared
    return tuple(replace(problem.limits, shared=has + has * parts // 16) for parts in range(1, 17))


# --- in words -----------------------------------------------------------------------------------------------------------


def _registers_in_words(problem: Problem, found: Solution) -> str:
    limits = problem.limits
    wide = [group for group in found.groups if group.warps > 1]
    most = max((group.registers for group in wide), default=0)
    total = sum(32 * group.warps * group.registers for group in wide)
    if most > limits.registers_per_thread:
        group = max(wide, key=lambda g: g.registers)
        return f"needs {most} registers per thread in group {group.id}, has {limits.registers_per_thread}"
    return f"needs {total} registers per SM in {len(wide)} wide groups, has {limits.registers_total}"


def _memory_in_words(memory: str, unit: str) -> Callable[[Problem, Solution], str]:
    def words(problem: Problem, found: Solution) -> str:
        top = max((p.address + p.size * p.copies for p in found.places if p.memory == memory), default=0)
        has = problem.limits.shared if memory == "shared" else problem.limits.tensor
        return f"needs {top} {unit} in the least allocation found, has {has}"

    return words


def _groups_in_words(problem: Problem, found: Solution) -> str:
    return f"needs {len(found.groups)} groups as found, has {problem.limits.groups}"


def _waits_in_words(problem: Problem, found: Solution) -> str:
    clashes = [f"{a} while {b} issues" for a, b in decode.wait_clashes(problem, found.interval, found.start, found.group)]
    return "blocking waits stop other issue of their group: " + ("; ".join(clashes[:4]) or "no clash in the schedule found")


def _hand_over_in_words(problem: Problem, found: Solution) -> str:
    late = [
        f"{edge.src} to {edge.dst} needs {edge.crossing}, has {gap}"
        for edge in problem.edges
        if found.group[a := problem.index(edge.src)] != found.group[b := problem.index(edge.dst)]
        and (gap := found.start[b] + edge.distance * found.interval - found.start[a]) < edge.crossing
    ]
    return "values passed between groups arrive late: " + ("; ".join(late[:4]) or "none in the schedule found")


def _partition_in_words(problem: Problem, found: Solution) -> str:
    labels = dict(zip((op.id for op in problem.operations), found.group, strict=True))
    split = [ops for ops in problem.together if len({labels[op] for op in ops}) > 1]
    joined = [pair for pair in problem.apart if labels[pair[0]] == labels[pair[1]]]
    parts = [f"{', '.join(ops)} would be split" for ops in split[:3]] + [f"{a} and {b} would share a group" for a, b in joined[:3]]
    return "the groups asked for: " + ("; ".join(parts) or "no difference in the schedule found")


def _pins_in_words(problem: Problem, found: Solution) -> str:
    moved = [f"{op} at {found.start[problem.index(op)]}, not {start}" for op, start in problem.starts]
    return "the starts asked for: " + "; ".join(moved[:4])


FAMILIES = (
    Family("pinned starts", _unpinned, _pins_in_words),
    Family("given partition", _free_partition, _partition_in_words),
    Family("hand-over", _free_hand_over, _hand_over_in_words),
    Family("synchronization", _no_waits, _waits_in_words),
    Family("groups", _more_groups, _groups_in_words),
    Family("shared memory", _more_shared, _memory_in_words("shared", "bytes of shared memory"), _shared_amounts),
    Family("tensor memory", _more_tensor, _memory_in_words("tensor", "columns of tensor memory"), _tensor_amounts),
    Family("registers", _more_registers, _registers_in_words, _register_amounts),
)
"""In the order in which they are put back: the first is kept lifted only if nothing else will do."""
