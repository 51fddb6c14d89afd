"""Explanations: what is named is broken by the schedule that shows it, and by the verifier's word."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.verify.loops import piped
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Bounds, RecurrenceBound, ResourceBound, Result, Solution
from twill.smt.explain import explain
from twill.verify import check

BOUNDS = Bounds(ResourceBound("TC", 4), RecurrenceBound(2, ("pv",)))


def limited(**limits: int) -> Callable[[Problem], Problem]:
    return lambda problem: replace(problem, limits=replace(problem.limits, **limits))


TIGHTER: tuple[tuple[str, Callable[[Problem], Problem], str], ...] = (
    ("registers", limited(registers_per_thread=16), "needs 24 registers per thread in group 1, has 16"),
    ("registers", limited(registers_total=9000), "needs 9216 registers per SM for 2 wide groups, has 9000"),
    ("groups", limited(groups=2), "needs 3 groups as found, has 2"),
    ("groups", limited(warps=11), "needs 9 warps with 9216 registers as found, has 11 with 9216"),
    (
        "shared memory",
        limited(shared=31),
        "needs 32 bytes of shared memory in the least allocation found, has 31",
    ),
    (
        "tensor memory",
        limited(tensor=11),
        "needs 12 columns of tensor memory in the least allocation found, has 11",
    ),
    (
        "cross-group delay",
        lambda problem: replace(
            problem, edges=tuple(replace(e, cross_delay=4) if e.src == "exp" else e for e in problem.edges)
        ),
        "values passed between groups arrive late: exp to pv needs 4, has 3",
    ),
    (
        "synchronization",
        lambda problem: replace(
            problem,
            operations=tuple(replace(op, issue=3) if op.id == "qk" else op for op in problem.operations),
        ),
        "blocking waits stop other issue of their group: pv while qk issues",
    ),
    (
        "given partition",
        lambda problem: replace(problem, together=(("qk", "exp"),)),
        "the given groups: qk, exp would be split",
    ),
    (
        "given partition",
        lambda problem: replace(problem, apart=(("qk", "pv"),)),
        "the given groups: qk and pv would share a group",
    ),
    (
        "pinned starts",
        lambda problem: replace(problem, starts=(("exp", 2),)),
        "the given starts: exp at 3, not 2",
    ),
)


def reasons(problem: Problem, answers: list[Solution | None]) -> list[tuple[str, str]]:
    """What is said where the engine gives these answers, and then nothing more."""

    def decide(asked: Problem, target: Time) -> Solution | None:
        return answers.pop(0) if answers else None

    return [
        (found.family, found.text) for found in explain(Result(problem, "feasible", BOUNDS, 4), 4, decide)
    ]


@pytest.mark.parametrize(("family", "tighten", "text"), TIGHTER)
def test_only_what_is_broken_is_named(family: str, tighten: Callable[[Problem], Problem], text: str) -> None:
    """Also where the engine, once nothing else is lifted, runs out of time: the schedule at hand says what is
    in the way."""
    problem, found = piped()
    assert not check(problem, found)
    assert check(tighten(problem), found)
    assert reasons(tighten(problem), [found]) == [(family, text)]


def test_a_schedule_that_breaks_nothing_names_nothing() -> None:
    problem, found = piped()
    assert reasons(problem, [found]) == []
    assert reasons(problem, []) == []


def test_a_family_is_not_named_where_another_schedule_does_without() -> None:
    problem, found = piped()
    later = replace(found, start=tuple(start + 1 for start in found.start))
    pinned = replace(problem, starts=(("load", 1),))
    assert check(pinned, found)
    assert not check(pinned, later)
    assert reasons(pinned, [found, later]) == []
