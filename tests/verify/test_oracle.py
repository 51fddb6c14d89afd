"""The oracle against plain enumeration of everything, and what it says of loops whose answer is known."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from tests.properties.oracle import TooLargeError, best, partitions, search
from tests.properties.simulate import broken
from tests.properties.tiny import tiny_problem
from tests.verify.loops import figure1, piped
from twill.ir.problem import Problem
from twill.ir.schedule import Allocation, Group, Solution
from twill.verify import channels, check
from twill.verify.packing import Box, pack


def test_the_running_example() -> None:
    answer = search(figure1(), 2, 9, joint=False)
    assert answer is not None
    assert (answer.interval, answer.length) == (2, 4)
    assert answer.solution.start in ((0, 1, 3), (0, 2, 3))


def test_order_of_goals() -> None:
    """The hand-made schedule is feasible; the oracle's is no worse, goal by goal."""
    problem, solution = piped()
    answer = search(problem, 3, solution.interval)
    assert answer is not None
    assert check(problem, answer.solution) == ()
    mine = (
        solution.interval,
        len(solution.groups),
        len(channels(problem, solution.group)),
        solution.stages,
        solution.length(problem),
    )
    assert (answer.interval, answer.groups, answer.channels, answer.stages, answer.length) <= mine
    assert mine[1:3] == (3, 2)


def test_gives_up_when_told() -> None:
    with pytest.raises(TooLargeError):
        search(piped()[0], 3, 4, visits=10)


@pytest.mark.parametrize("seed", range(60))
def test_is_the_best_of_everything(seed: int) -> None:
    """Every start up to the length, every partition, judged by simulation; timing rules and, without memory,
    all others."""
    problem = replace(tiny_problem(Random(seed), most=3), starts=())
    problem = replace(
        problem, values=tuple(replace(v, shared=0, tensor=0, staging=0, slots=0) for v in problem.values)
    )
    interval, in_flight = 2 + seed % 2, 2 if len(problem.operations) < 3 else 1
    answer = best(problem, interval, in_flight)
    every = min(((*figures(problem, s),) for s in everything(problem, interval, in_flight)), default=None)
    assert (answer and (answer.groups, answer.channels, answer.stages, answer.length)) == every


def everything(problem: Problem, interval: int, in_flight: int) -> Iterator[Solution]:
    """All valid solutions of at most that length, up to the names of groups."""
    windows = [range(in_flight * interval - op.duration + 1) for op in problem.operations]
    for start in product(*windows):
        for group in product(range(len(windows) + 1), repeat=len(windows)):
            solution = Solution(interval, start, group)
            if (
                min(start) == 0
                and not (broken(problem, solution) - {"GROUPS"})
                and len(set(group)) <= problem.limits.groups
            ):
                yield solution


def figures(problem: Problem, solution: Solution) -> tuple[int, int, int, int]:
    return (
        len(set(solution.group)),
        len(channels(problem, solution.group)),
        solution.stages,
        solution.length(problem),
    )


def test_partitions_are_named_once() -> None:
    problem, _ = piped()
    found = list(partitions(replace(problem, limits=replace(problem.limits, groups=8, warps=64))))
    assert len(found) == 5  # set partitions of the three operations that are not loads
    assert all(group["load"] == 0 for group in found)
    assert len(list(partitions(problem))) == 4  # three groups at most


def test_packing_finds_the_only_way() -> None:
    """A and C meet only through B: C must go above B although it may lie on A."""
    a, b, c = Box(2, 1, frozenset({0})), Box(1, 1, frozenset({0, 1})), Box(2, 1, frozenset({1}))
    addresses = pack([a, b, c], 3)
    assert addresses in ([0, 2, 0], [1, 0, 1])
    assert pack([a, b, c], 2) is None


@pytest.mark.parametrize("seed", range(40))
def test_packing_agrees_with_trying_every_address(seed: int) -> None:
    random = Random(seed)
    boxes = [
        Box(random.randint(1, 3), 1, frozenset(random.sample(range(3), random.randint(1, 2))))
        for _ in range(4)
    ]
    capacity = random.randint(3, 7)
    fits = any(
        apart(boxes, addresses) for addresses in product(*(range(capacity - box.size + 1) for box in boxes))
    )
    found = pack(boxes, capacity)
    assert (found is not None) == fits
    assert found is None or apart(boxes, tuple(found))


def apart(boxes: list[Box], addresses: tuple[int, ...]) -> bool:
    taken = [(range(at, at + box.size), box.residues) for box, at in zip(boxes, addresses, strict=True)]
    cells = [place for addresses, residues in taken for place in product(addresses, residues)]
    return len(cells) == len(set(cells))


def test_solutions_carry_groups_and_places() -> None:
    answer = search(piped()[0], 3, 4)
    assert answer is not None
    assert all(isinstance(group, Group) for group in answer.solution.groups)
    assert {(place.value, place.memory) for place in answer.solution.allocations} >= {
        ("k", "shared"),
        ("o", "tensor"),
    }
    assert all(isinstance(place, Allocation) for place in answer.solution.allocations)
