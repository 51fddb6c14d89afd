"""What a branch alone needs is left out where an iteration does not take it."""

import shutil
from collections.abc import Sequence
from functools import cache

import pytest

from tests.kernels.programs import changed, loops, program
from twill.diagnostics import TwillError
from twill.emulate.check import check as executed
from twill.generation.attempts import Attempt
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.loop_nest import NoScheduleError
from twill.generation.multistage import multistage
from twill.inputs import Case, Inputs
from twill.ir.program import Program
from twill.ir.statements import Compute, MmaIssue, Pipelined, ProducerStore, walk
from twill.ops.table import role
from twill.simulate.check import check
from twill.simulate.explore import explore, same
from twill.targets import target
from twill.targets.cuda.statements import TAKEN
from twill.warp.plan import Options
from twill.warp.skipped import Skipped, flagged, runs, skipped

SPARSE, DENSE, PICKING, TURNED = "skipping", "queries", "picking", "gleaning"
"""Attention whose blocks have flags, without, over a list of blocks, and with weights that are turned."""
MULTISTAGE = Options(multistage=True)


@cache
def _sparse(kernel: str = SPARSE) -> Generated:
    """One group computes and loads."""
    inputs = Inputs(f"tests/kernels/ttgir/{kernel}.sm90.ttgir", arch="sm90", groups=2)
    return generate(inputs, GenerateOptions(time_limit=5.0, check=False, lowering=MULTISTAGE))


def _found(made: Program) -> Sequence[tuple[Pipelined, Skipped | None]]:
    (group,) = made.groups
    return [(one, skipped(made, one)) for one in walk(group.body) if isinstance(one, Pipelined)]


def test_numbers_that_say_what_is_loaded_are_loaded_by_whoever_reads_them() -> None:
    made = _sparse().program
    assert len(made.groups) == 1
    for trips in range(made.channels[0].depth + 4):
        assert explore(made, same(trips)).complete
    assert check(made, lambda what: None).values


@pytest.mark.parametrize("kernel", [SPARSE, TURNED])
def test_all_mmas_are_left_out_together(kernel: str) -> None:
    made = _sparse(kernel).program
    ((loop, found),) = _found(made)
    assert found is not None
    assert found.from_memory
    assert flagged(made, loop.op)
    for needless, run in runs(found, loop.steady):
        assert needless or not any(isinstance(one, MmaIssue) for one in run)
    assert f"if ({TAKEN}) {{" in target("sm90").source(made)


def test_a_tile_that_the_group_passes_to_itself_is_left_out_with_what_reads_it() -> None:
    """All of the iteration but its loads and what they wait for; a barrier keeps the slots."""
    made = _sparse(TURNED).program
    ((loop, found),) = _found(made)
    assert found is not None
    stores = [one for one in loop.steady if isinstance(one, ProducerStore)]
    assert {one.channel for one in stores} == found.branch.local
    assert stores
    left = [one for needless, run in runs(found, loop.steady) if not needless for one in run]
    assert not any(isinstance(one, Compute | ProducerStore) for one in left)
    text = target("sm90").source(made)
    branch = text[text.index(f"if ({TAKEN}) {{") :]
    assert "named_barrier_sync" in branch.split("\n")[1]


def test_numbers_of_blocks_are_no_flags() -> None:
    """They are checked for being there, and say where the branch reads."""
    ((_, found),) = _found(_sparse(PICKING).program)
    assert found is not None
    assert any(role(op) == "pointer_load" for op in found.needed)
    assert not found.from_memory


def test_what_every_iteration_needs_stays() -> None:
    made = changed(DENSE, MULTISTAGE)
    assert [found for _, found in _found(made)] == [None]
    assert TAKEN not in target("sm90").source(made)


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", [SPARSE, PICKING, TURNED])
def test_the_ptx_computes_the_same(kernel: str) -> None:
    made = _sparse(kernel)
    assert executed(made.program, made.loops, made.cuda, lambda what: None).values > 1000


@pytest.mark.parametrize("sparse", [True, False])
def test_iterations_that_take_no_time_are_a_reason_for_the_form(
    monkeypatch: pytest.MonkeyPatch, sparse: bool
) -> None:
    """Both forms take as long where all iterations take the branch."""
    other = _sparse()
    alone = Attempt(other.cases, other.program, other.loops, other.results, {})
    first = Attempt(other.cases, program(SPARSE), loops(SPARSE)[1], {}, {})
    whole = alone.of_sm()
    monkeypatch.setattr(Attempt, "of_sm", lambda one: whole)  # pyright: ignore
    if not sparse:
        monkeypatch.setattr("twill.generation.multistage.skipped", lambda program, it: None)  # pyright: ignore
    best = multistage(first, lambda given: alone)
    assert best.program.groups == (alone if sparse else first).program.groups


@pytest.mark.parametrize("flags", [True, False])
def test_more_warps_where_one_group_has_no_schedule(monkeypatch: pytest.MonkeyPatch, flags: bool) -> None:
    """A loop that a flag decides; others have their groups."""
    other = _sparse()
    alone = Attempt(other.cases, other.program, other.loops, other.results, {})
    first = Attempt(other.cases, program(SPARSE), loops(SPARSE)[1], {}, {})
    tried = list[Sequence[Case]]()

    def attempt(given: Sequence[Case]) -> Attempt:
        tried.append(given)
        if len(tried) < 3:
            raise (TwillError if len(tried) == 1 else NoScheduleError)("no")
        return alone

    monkeypatch.setattr("twill.generation.multistage.computing", lambda one: 2)  # pyright: ignore
    monkeypatch.setattr("twill.generation.multistage.divided_in_vain", lambda one, limits: True)  # pyright: ignore
    monkeypatch.setattr("twill.generation.multistage.flagged", lambda made, loop: flags)  # pyright: ignore
    best = multistage(first, attempt, wide=lambda: other.cases)
    assert len(tried) == (3 if flags else 2)
    assert (len(best.program.groups) == 1) == flags
