"""The independent checker: a solution against every rule of its problem.

Takes a `Problem` and a `Solution`; gives every `Violation`, none for a valid one. No solver is imported and
nothing that an engine derived is trusted: groups, widths, registers and allocations are computed again and
compared.
"""

from collections.abc import Iterator

from twill.ir.problem import Problem
from twill.ir.schedule import Group, Solution
from twill.verify.memory import allocations
from twill.verify.numbers import Numbers
from twill.verify.rules import JOINT, SINGLE, granted, widths
from twill.verify.violation import Violation


def check(problem: Problem, solution: Solution, *, joint: bool = True) -> tuple[Violation, ...]:
    """All violations; `joint=False` judges plain modulo scheduling, where every operation is in group 0 and
    nothing is allocated."""
    malformed = tuple(_form(problem, solution, joint))
    if malformed:
        return malformed
    numbers = Numbers.of(problem, solution)
    found = [violation for rule in SINGLE + (JOINT if joint else ()) for violation in rule(numbers)]
    if joint:
        found += [*_grants(numbers, solution), *allocations(numbers, solution.allocations)]
    return tuple(found)


def _form(problem: Problem, solution: Solution, joint: bool) -> Iterator[Violation]:
    """FORM: numbers for every operation, an interval of at least 1."""
    count = len(problem.operations)
    if solution.interval < 1:
        yield Violation("FORM", "the interval is not positive", needs=1, has=solution.interval)
    for what, has in (("start times", len(solution.start)), ("groups", len(solution.group))):
        if has != count:
            yield Violation("FORM", f"not as many {what} as operations", needs=count, has=has)
    if not joint and (any(solution.group) or solution.groups or solution.allocations):
        yield Violation("FORM", "a plain modulo schedule has neither groups nor allocations")


def _grants(n: Numbers, solution: Solution) -> Iterator[Violation]:
    """GROUPS, REGISTERS: the groups as stated are those used, each with its width and the registers it
    needs."""
    grant = granted(n)
    needed = tuple(Group(group, width, grant[group]) for group, width in widths(n).items())
    for group in needed:
        stated = [g for g in solution.groups if g.id == group.id]
        match stated:
            case [one] if one.warps != group.warps:
                yield Violation(
                    "GROUPS", f"group {group.id} has the wrong width", needs=group.warps, has=one.warps
                )
            case [one] if one.registers != group.registers:
                yield Violation(
                    "REGISTERS",
                    f"group {group.id} is granted the wrong number",
                    needs=group.registers,
                    has=one.registers,
                )
            case [_]:
                pass
            case _:
                yield Violation(
                    "GROUPS",
                    f"group {group.id} is used and stated {len(stated)} times",
                    needs=1,
                    has=len(stated),
                )
    for group in solution.groups:
        if group.id not in grant:
            yield Violation("GROUPS", f"group {group.id} is stated and has no operation")
