"""When the group that computes loads too, where the user leaves that open."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.programs import changed, loops, program
from twill.diagnostics import TwillError
from twill.files import load, read_schedule
from twill.generation.attempts import Attempt
from twill.generation.candidates import candidates
from twill.generation.generated import GenerateOptions
from twill.generation.multistage import CLEARLY, multistage
from twill.inputs import Case, Inputs
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.warp.plan import Options

SMALL, SHORT = "matmul_half", "echoed"
"""One whose number of iterations is not known, and one with a single iteration."""


def _attempts(kernel: str) -> tuple[Attempt, Attempt]:
    """With a group that loads, and without."""
    made = program(kernel), changed(kernel, Options(multistage=True))
    first, other = (Attempt((), one, loops(kernel)[1], {}, {}) for one in made)
    return first, other


def _never(given: Sequence[Case]) -> Attempt:
    raise AssertionError(given)


@pytest.mark.parametrize(("times", "taken"), [(CLEARLY * 1.01, True), (CLEARLY * 0.99, False)])
def test_taken_where_an_iteration_is_clearly_shorter(
    monkeypatch: pytest.MonkeyPatch, times: float, taken: bool
) -> None:
    first, other = _attempts(SMALL)

    def of_sm(one: Attempt) -> float:
        return 1000 * times if one is first else 1000.0

    monkeypatch.setattr(Attempt, "of_sm", of_sm)
    best = multistage(first, lambda given: other)
    assert best.program.groups == (other if taken else first).program.groups
    notes = [note for note in best.program.notes if "the group that computes loads too" in note]
    assert len(notes) == taken
    assert all("every 1000 cycles predicted" in note for note in notes)


@pytest.mark.parametrize(("cycles", "taken"), [(1e5, True), (1.0, False)])
def test_a_short_loop_counts_its_thread_block(
    monkeypatch: pytest.MonkeyPatch, cycles: float, taken: bool
) -> None:
    """From begin to end, for each of those that an SM holds; but no less than the busiest unit works."""
    first, other = _attempts(SHORT)

    def block_time(made: Program, given: object, trips: int) -> float:
        assert trips == 1
        return cycles if made is first.program else 1.0

    monkeypatch.setattr("twill.generation.multistage.block_time", block_time)
    assert (multistage(first, lambda given: other) is not first) == taken


def test_what_can_not_be_is_not_taken() -> None:
    def refused(given: Sequence[Case]) -> Attempt:
        raise TwillError("2 groups compute")

    first, _ = _attempts(SMALL)
    assert multistage(first, refused) is first


@pytest.mark.parametrize("kernel", ["fa_bwd.sm100", "gemm_persistent"])
def test_not_on_blackwell_nor_where_a_block_walks_over_tiles(kernel: str) -> None:
    first = Attempt((), program(kernel), loops(kernel)[1], {}, {})
    assert multistage(first, _never) is first


@pytest.fixture
def kept() -> Callable[..., Result]:
    path = f"tests/kernels/schedules/{SMALL}.for.0.json"
    found = read_schedule(load(path), path).result

    def solve(problem: Problem, *others: object) -> Result:
        return replace(found, problem=problem)

    return solve


@pytest.mark.parametrize(("wanted", "groups"), [(True, 1), (False, 2), (None, 2)])
def test_what_the_user_decides(kept: Callable[..., Result], wanted: bool | None, groups: int) -> None:
    inputs = Inputs(str(Path("tests/kernels/ttgir") / f"{SMALL}.sm90.ttgir"), arch="sm90", persistent=False)
    options = GenerateOptions(check=False, lowering=Options(multistage=wanted))
    made, *_ = candidates(inputs, options, lambda name, event: None, solve=kept)
    assert len(made.program.groups) == groups
