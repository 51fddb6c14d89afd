"""The verifier on schedules of random loops: it accepts the oracle's, and calls a mutant broken exactly when
a simulation does."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.oracle import Answer, TooLargeError, search
from tests.properties.simulate import broken
from tests.properties.strategies import problems, randoms
from tests.properties.tiny import tiny_problem
from twill.ir.problem import Problem
from twill.ir.schedule import Allocation, Group, Solution
from twill.verify import check


def answer(problem: Problem, *, joint: bool = True) -> Answer | None:
    try:
        return search(problem, 2, 8, joint=joint, visits=5000)
    except TooLargeError:
        return None


def names(problem: Problem, solution: Solution, *, joint: bool = True) -> set[str]:
    return {violation.rule for violation in check(problem, solution, joint=joint)}


@settings(max_examples=100, deadline=None)
@given(problems(), st.booleans())
def test_accepts_what_the_oracle_finds(problem: Problem, joint: bool) -> None:
    best = answer(problem, joint=joint)
    if best:
        assert check(problem, best.solution, joint=joint) == ()
        assert broken(problem, best.solution, joint=joint) == set()
        assert best.length <= 2 * best.interval


@settings(max_examples=200, deadline=None)
@given(problems(), randoms)
def test_rejects_every_mutant_that_breaks_a_rule(problem: Problem, random: Random) -> None:
    best = answer(problem)
    if best:
        for _ in range(5):
            mutant = mutate(random, problem, best.solution)
            assert names(problem, mutant) == broken(problem, mutant), mutant


def mutate(random: Random, problem: Problem, s: Solution) -> Solution:
    """One or two random changes."""
    for _ in range(random.randint(1, 2)):
        i = random.randrange(len(s.start))
        kind = random.choice(
            ("start", "start", "group", "interval", "address", "size", "drop", "registers", "width")
        )
        if kind == "start":
            s = replace(
                s,
                start=(
                    *s.start[:i],
                    s.start[i] + random.choice((-2, -1, 1, 2, s.interval, -s.interval)),
                    *s.start[i + 1 :],
                ),
            )
        elif kind == "group":
            s = with_groups(
                problem, replace(s, group=(*s.group[:i], random.randint(0, 3), *s.group[i + 1 :]))
            )
        elif kind == "interval":
            s = replace(s, interval=max(1, s.interval + random.choice((-1, 1))))
        elif kind in ("registers", "width") and s.groups:
            s = replace(s, groups=changed(random, s.groups, kind))
        elif s.allocations:
            s = replace(s, allocations=moved(random, s.allocations, kind))
    return s


def changed(random: Random, groups: tuple[Group, ...], kind: str) -> tuple[Group, ...]:
    i = random.randrange(len(groups))
    group = (
        replace(groups[i], registers=groups[i].registers + 1)
        if kind == "registers"
        else replace(groups[i], warps=2)
    )
    return (*groups[:i], group, *groups[i + 1 :])


def moved(random: Random, places: tuple[Allocation, ...], kind: str) -> tuple[Allocation, ...]:
    i = random.randrange(len(places))
    place = places[i]
    match kind:
        case "address":
            changed = [replace(place, address=place.address + random.choice((-2, -1, 1, 2)))]
        case "size":
            changed = [replace(place, slots=place.slots + 1)]
        case _:
            changed = list[Allocation]()
    return (*places[:i], *changed, *places[i + 1 :])


def with_groups(problem: Problem, s: Solution) -> Solution:
    """Groups restated for a new partition, so that other rules than the statement's are tried too."""
    known = {group.id: group for group in s.groups}
    used = sorted(set(s.group))
    widths = {
        g: max(op.warps for op, x in zip(problem.operations, s.group, strict=True) if x == g) for g in used
    }
    return replace(
        s, groups=tuple(Group(g, widths[g], known[g].registers if g in known else 0) for g in used)
    )


@pytest.mark.parametrize("field", ["start", "group"])
def test_rejects_numbers_missing(field: str) -> None:
    tried = (tiny_problem(Random(seed)) for seed in range(100))
    problem, best = next((problem, best) for problem in tried if (best := answer(problem)))
    assert {v.rule for v in check(problem, replace(best.solution, **{field: ()}))} == {"FORM"}
    assert {v.rule for v in check(problem, replace(best.solution, interval=0))} == {"FORM"}
