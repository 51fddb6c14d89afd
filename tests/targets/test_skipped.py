"""What a branch alone needs is left out where an iteration does not take it."""

import re
import shutil
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from tests.kernels.programs import changed, loops, program
from twill.diagnostics import TwillError
from twill.emulate.check import check as executed
from twill.generation.attempt import Attempt
from twill.generation.choices.multistage import multistage
from twill.generation.choices.stated import Stated
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.loop_nest import NoScheduleError
from twill.inputs import Case, Inputs
from twill.ir.operands import Register
from twill.ir.program import Program
from twill.ir.statements import (
    Compute,
    ConsumerRelease,
    InitializeCarried,
    MmaIssue,
    MmaWait,
    Pipelined,
    ProducerStore,
    walk,
)
from twill.ops.table import role
from twill.simulate.check import check
from twill.simulate.explore import explore, same
from twill.targets import target
from twill.targets.cuda.statements import TAKEN
from twill.warp.branch_accumulators import in_place
from twill.warp.plan import Options
from twill.warp.skipped import Skipped, flagged, read_where_taken, runs, skipped

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


def test_a_branch_adds_to_what_the_loop_carries_in_place() -> None:
    made = _sparse(TURNED).program
    ((loop, found),) = _found(made)
    assert found is not None
    own, taken = loop.steady, in_place(made, found, loop.steady)
    before, after = ([one for one in part if isinstance(one, MmaIssue)] for part in (own, taken))
    carried = {one.register.variable for one in loop_carried(made)}
    assert [one.accumulate for one in before] == ["never", "never"]
    assert [one.accumulate for one in after] == ["never", "always"]
    assert isinstance(after[-1].accumulator, Register)
    assert after[-1].accumulator.variable in carried
    computed = [made.op(index).name for one in taken if isinstance(one, Compute) for index in one.ops]
    assert not {"arith.select", "arith.addf"} & set(computed)
    assert "_part, " not in target("sm90").source(made)


def loop_carried(made: Program) -> Sequence[InitializeCarried]:
    (group,) = made.groups
    return [one for one in walk(group.body) if isinstance(one, InitializeCarried)]


def test_other_accumulators_stay_as_they_are() -> None:
    """They are rescaled before the MMA, which has them alone."""
    made = _sparse().program
    ((loop, found),) = _found(made)
    assert found is not None
    assert in_place(made, found, loop.steady) == loop.steady


def test_a_wait_between_mmas_is_for_what_uses_their_results() -> None:
    """Where the sum of the first MMA's result is added in place, all are awaited at once."""
    made = _sparse(TURNED).program
    ((loop, found),) = _found(made)
    assert found is not None
    own = (one for one in loop.steady if found.branch.alone(one))
    branch = tuple(one for one in own if not isinstance(one, ConsumerRelease))
    issue = next(one for one in branch if isinstance(one, MmaIssue))
    counts = [
        sum(isinstance(one, MmaWait) for one in part)
        for part in (
            branch,
            in_place(made, found, branch),
            in_place(made, found, (*branch, issue, MmaWait(0))),
        )
    ]
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize("kernel", [SPARSE, PICKING, TURNED])
def test_slots_that_nothing_reads_are_not_filled(kernel: str) -> None:
    """The copies of an iteration, of which the number that decides is loaded behind those of the one before."""
    made = _sparse(kernel).program
    ((loop, found),) = _found(made)
    assert found is not None
    copied = {one.id for one in made.channels if one.filled_by == "cp_async"}
    read = read_where_taken(made, made.groups[0], loop)
    assert copied <= read.keys()
    assert {value.id for value in read.values()} == {found.condition.id}
    text = target("sm90").source(made)
    for channel in copied:
        lines = text.split("\n")
        names = [
            line.split()[1] for line in lines if re.fullmatch(rf" *int32_t \w+_for_{channel} = 0;", line)
        ]
        assert len(names) == 1
        assert (
            sum(f"{names[0]} = " in line for line in lines) == 4
        )  # declared, the first, before and in the loop


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
    """Both forms take as long where all iterations take the branch, and groups that pass tiles no longer."""
    monkeypatch.setattr("twill.generation.choices.multistage.LATE_BY_PASSING", 1.0)
    other = _sparse()
    alone = Attempt(other.cases, other.program, other.loops, other.results, {})
    first = Attempt(other.cases, program(SPARSE), loops(SPARSE)[1], {}, {})
    whole = alone.of_sm()
    monkeypatch.setattr(Attempt, "of_sm", lambda one: whole)  # pyright: ignore
    if not sparse:
        monkeypatch.setattr("twill.generation.choices.multistage.skipped", lambda program, it: None)  # pyright: ignore
    best = multistage(first, lambda given: alone)
    assert best.program.groups == (alone if sparse else first).program.groups


class _Wide(Stated):
    """Loops that are those of more warps."""

    def wide(self) -> tuple[Case, ...]:
        return self.loops

    def as_written(self) -> tuple[Case, ...]:
        return ()

    def without_copies(self) -> Iterator[tuple[Case, ...]]:
        return iter(())


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

    monkeypatch.setattr("twill.generation.choices.multistage.computing", lambda one: 2)  # pyright: ignore
    monkeypatch.setattr("twill.generation.choices.multistage.divided_in_vain", lambda one, limits: True)  # pyright: ignore
    monkeypatch.setattr("twill.generation.choices.multistage.flagged", lambda made, loop: flags)  # pyright: ignore
    best = multistage(first, attempt, _Wide(Inputs("", groups=2), other.cases))
    assert len(tried) == (3 if flags else 2)
    assert (len(best.program.groups) == 1) == flags
