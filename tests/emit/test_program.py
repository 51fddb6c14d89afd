"""The pipelined program against the definition: v of iteration k starts at s(v) + k * I, once for every k."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.samples import attention, figure1
from twill.emit.program import PipelinedListing, pipeline, text
from twill.ir.schedule import Solution


def starts(program: PipelinedListing, solution: Solution, count: int) -> Counter[tuple[int, int, int]]:
    """(operation, iteration, cycle) of everything that the program starts for `count` iterations."""
    interval, begin = solution.interval, program.stages - 1
    events = [(line.op, line.iteration, line.cycle) for line in program.prologue]
    events += [
        (line.op, i - line.iteration, i * interval + line.cycle)
        for i in range(begin, count)
        for line in program.steady
    ]
    events += [
        (line.op, count - 1 - line.iteration, count * interval + line.cycle) for line in program.epilogue
    ]
    return Counter(events)


@pytest.mark.parametrize("seed", range(20))
def test_every_instance_starts_once_and_on_time(seed: int) -> None:
    random.seed(seed)
    interval, count = random.randint(1, 9), 7
    solution = Solution(interval, tuple(random.randint(0, 4 * interval) for _ in range(6)), (0,) * 6)
    expected = Counter(
        (v, k, start + k * interval) for v, start in enumerate(solution.start) for k in range(count)
    )
    assert starts(pipeline(solution), solution, count) == expected


def test_figure1_is_the_program_of_the_paper() -> None:
    """Figure 1f: S first; then S, P, O of this iteration and the last; P and O at the end."""
    program = pipeline(figure1().solution or Solution(1, (), ()))
    assert [(line.op, line.iteration) for line in program.prologue] == [(0, 0)]
    assert [(line.op, line.iteration, line.cycle) for line in program.steady] == [
        (0, 0, 0),
        (1, 1, 0),
        (2, 1, 1),
    ]
    assert [(line.op, line.iteration, line.cycle) for line in program.epilogue] == [(1, 0, 0), (2, 0, 1)]


def test_text(golden: Callable[[str, str], None]) -> None:
    for result in (figure1(), attention()):
        assert result.solution
        golden(f"{result.problem.name.split('/')[0]}.program.txt", text(result.problem, result.solution))
