"""Who is to blame for a partition without a schedule: what is let go never excludes a schedule."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.properties.tiny import tiny_problem
from twill import Inputs, cases
from twill.engine.partitions import under
from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.pipeline import solve
from twill.smt import conflict, cpsat


def _example(name: str) -> Problem:
    (case,) = cases(Inputs(f"examples/ttgir/{name}.ttgir"))
    return case.problem


def _holds(problem: Problem, answer: Solution, kept: Sequence[int]) -> bool:
    """The answer's own starts solve what is left when only `kept` have their groups."""
    loose = conflict.loose(problem, answer.group, kept)
    pinned = replace(
        loose,
        starts=tuple((op.id, start) for op, start in zip(problem.operations, answer.start, strict=True)),
    )
    return cpsat.attempt(pinned, answer.interval, answer.in_flight(problem) + 1).what == "feasible"


def test_every_schedule_solves_what_is_left() -> None:
    count = 0
    for random in map(Random, range(300)):
        problem = tiny_problem(random, 5)
        answer = cpsat.attempt(problem, bounds(problem).value + random.randint(0, 3), 3).solution
        if answer:
            kept = [op for op in conflict.groupable(problem) if random.random() < 0.5]
            assert _holds(problem, answer, kept), f"{problem}, {kept}"
            count += 1
    assert count > 100


@pytest.mark.parametrize("name", ["fa_fwd_subtiled.sm90", "fa_bwd.sm100"])
def test_so_does_a_real_one(name: str) -> None:
    problem = _example(name)
    answer = solve(problem, Options(time_limit=20, explain=False)).solution
    assert answer
    for random in map(Random, range(6)):
        assert _holds(problem, answer, random.sample(conflict.groupable(problem), random.randint(1, 12)))


def test_most_refutations_survive() -> None:
    """With all groups kept it is nearly the partition's own problem."""
    refuted = survived = 0
    for random in map(Random, range(200)):
        problem = tiny_problem(random, 4)
        labels = tuple(0 if op.variable else random.randint(1, 2) for op in problem.operations)
        roomy = replace(problem, together=(), apart=(), limits=replace(problem.limits, groups=3))
        interval = bounds(problem).value + random.randint(0, 2)
        if cpsat.attempt(under(roomy, labels), interval, 2).refuted:
            refuted += 1
            survived += cpsat.attempt(conflict.loose(roomy, labels, range(len(labels))), interval, 2).refuted
    assert refuted > 20
    assert survived > refuted / 2


def test_few_are_left_and_they_suffice() -> None:
    for random in map(Random, range(50)):
        ops = list(range(random.randint(2, 40)))
        guilty = set(random.sample(ops, random.randint(1, min(4, len(ops)))))
        assert set(conflict.fewer(ops, lambda kept, guilty=guilty: guilty <= set(kept))) == guilty


def test_more_are_taken_from_nearby() -> None:
    problem = _example("fa_fwd_subtiled.sm90")
    ops = conflict.groupable(problem)[:2]
    sizes: list[int] = []

    def never(kept: Sequence[int]) -> bool:
        sizes.append(len(kept))
        return False

    assert sorted(conflict.more(problem, ops, never)) == conflict.groupable(problem)
    assert sizes == sorted(sizes)
    near = conflict.more(problem, ops, lambda kept: len(kept) >= 8)
    assert near[:2] == ops
    assert len(near) == 8
