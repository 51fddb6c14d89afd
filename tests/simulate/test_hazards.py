"""Correct programs have no hazard in any interleaving; programs with a mistake do, whatever the mistake."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels.programs import EXAMPLES, program
from tests.simulate.mutate import Edit, mutants, swapped
from tests.simulate.test_values import ATTENTION, GEMM, grid
from twill.diagnostics import TwillError
from twill.ir.program import Program
from twill.ir.statements import (
    ConsumerRelease,
    ConsumerWait,
    MmaIssue,
    MmaWait,
    Move,
    OrderBarrierArrive,
    OrderBarrierWait,
    ProducerLoad,
    ProducerStore,
    Statement,
    StoreWait,
)
from twill.simulate.compare import compare
from twill.simulate.explore import adversaries, explore, same
from twill.simulate.protocol import HazardError


@pytest.mark.parametrize("kernel", EXAMPLES)
def test_no_interleaving_of_a_program_goes_wrong(kernel: str) -> None:
    for trips in range(6):
        assert explore(program(kernel), same(trips)).complete
    assert adversaries(program(kernel), same(17)) > 20


def caught(mutant: Program) -> str:
    """The complaint about a program; empty where there is none."""
    try:
        for trips in (2, 5):
            explore(mutant, same(trips))
        numbers = (
            ATTENTION | {"length": 256 if "dq" in mutant.module.text else 512}
            if "length" in mutant.module.text
            else GEMM
        )
        found = compare(mutant, numbers, grid(0, 0, (2, 2)))
        return "" if all(one.good for one in found) else "other values"
    except (HazardError, TwillError) as problem:
        return str(problem)


def dropped(kind: type[Statement]) -> Edit:  # pyright: ignore[reportGeneralTypeIssues]
    return lambda statement: () if isinstance(statement, kind) else None


def twice(kind: type[Statement]) -> Edit:  # pyright: ignore[reportGeneralTypeIssues]
    return lambda statement: (statement, statement) if isinstance(statement, kind) else None


def weaker(statement: Statement) -> tuple[Statement, ...] | None:
    """A wait that lets one more MMA fly, where something depends on it."""
    return (
        (replace(statement, pending=statement.pending + 1),)
        if isinstance(statement, MmaWait) and not statement.early
        else None
    )


def unawaited(statement: Statement) -> tuple[Statement, ...] | None:
    """No such wait at all."""
    return () if isinstance(statement, MmaWait) and not statement.early else None


def late(statement: Statement) -> tuple[Statement, ...] | None:
    """A slot of the iteration before."""
    if (
        not isinstance(statement, ConsumerWait | ConsumerRelease | ProducerLoad | ProducerStore)
        or statement.at.iteration.base == "once"
    ):
        return None
    it = statement.at.iteration
    return (replace(statement, at=replace(statement.at, iteration=replace(it, offset=it.offset + 1))),)


MISTAKES: dict[str, tuple[Edit, str]] = {
    "dropped release": (dropped(ConsumerRelease), "deadlock|twice|without"),
    "dropped consumer wait": (dropped(ConsumerWait), "outside of its ConsumerWait|without having acquired"),
    "dropped load": (dropped(ProducerLoad), "deadlock|belongs|read before"),
    "dropped MMA": (dropped(MmaIssue), "values|before it is assigned|issued from|in part|releases|in flight"),
    "dropped MMA wait": (unawaited, "in flight|while"),
    "wrong wait count": (weaker, "in flight|while"),
    "dropped move": (dropped(Move), "values|before it is assigned"),
    "dropped hand-off wait": (dropped(OrderBarrierWait), "signals hand_off. twice"),
    "dropped hand-off signal": (dropped(OrderBarrierArrive), "deadlock"),
    "double release": (twice(ConsumerRelease), "without having acquired"),
    "double wait": (twice(ConsumerWait), "deadlock|twice"),
    "wrong phase": (
        late,
        (
            "belongs|deadlock|without having acquired|twice|outside|read before|overwrites|without having"
            " released"
        ),
    ),
    "store not waited for": (dropped(StoreWait), "a store may still read|while a store reads"),
    "dropped producer store": (dropped(ProducerStore), "deadlock|read before"),
    "tile stored twice": (twice(ProducerStore), "belongs|deadlock|overwrites"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("kernel", ["gemm", "fa_fwd", "fa_fwd_subtiled", "fa_bwd"])
def test_every_mistake_is_caught(kernel: str, mistake: str) -> None:
    edit, complaint = MISTAKES[mistake]
    made = list(mutants(program(kernel), edit))
    if not made:
        lacking = (
            {"dropped move", "dropped hand-off wait", "dropped hand-off signal"}
            if kernel == "fa_bwd"
            else {"dropped producer store", "tile stored twice"}
        )
        assert kernel not in ("fa_fwd_subtiled", "fa_bwd") or mistake in lacking, (
            "the two have statements of every kind"
        )
    for where, mutant in made:
        found = caught(mutant)
        assert found, f"not caught: {mistake}, {where}"
        assert re.search(complaint, found), f"{where}: {found}"


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [(ConsumerWait, "fa_fwd_subtiled"), (MmaIssue, "fa_fwd_subtiled"), (MmaIssue, "fa_fwd")],
)
def test_exchanged_statements_are_caught(kind: type[Statement], kernel: str) -> None:  # pyright: ignore[reportGeneralTypeIssues]
    made = list(swapped(program(kernel), kind))
    assert made
    assert not [where for where, mutant in made if not caught(mutant)]


@pytest.mark.parametrize("kernel", [kernel for kernel in EXAMPLES if kernel != "gemm_persistent"])
def test_a_wait_one_statement_too_late_is_caught(kernel: str) -> None:
    """But for a wait before an issue, which may stand there for the compiler's sake alone."""
    made = list(swapped(program(kernel), MmaWait, MmaIssue))
    assert made
    assert not [where for where, mutant in made if not caught(mutant)]


def test_a_ring_too_shallow_is_caught() -> None:
    """The slot of iteration i is released after iteration i + 1 has acquired its own."""
    made = program("gemm")
    shallow = replace(made, channels=tuple(replace(channel, depth=1) for channel in made.channels))
    with pytest.raises(
        HazardError,
        match="deadlock: group 0 at ProducerLoad x_y, iteration 1; group 1 at ConsumerWait x_y, iteration 1",
    ):
        explore(shallow, same(3))


def test_a_release_while_a_store_reads_the_slot_is_caught() -> None:
    made = program("fa_fwd_subtiled")
    group = made.groups[1]
    early = replace(group, body=(*group.body[:-1], ConsumerRelease("x0"), group.body[-1]))
    with pytest.raises(HazardError, match="releases x0 while a store reads"):
        explore(replace(made, groups=(made.groups[0], early, made.groups[2])), same(2))


def test_exploring_stops_at_its_limit() -> None:
    assert not explore(program("fa_fwd_subtiled"), same(5), limit=50).complete


@pytest.mark.parametrize("choose", [explore, adversaries])
def test_both_ways_of_running_find_a_deadlock(choose: Callable[..., object]) -> None:
    """Group 1 never signals the hand-off to group 2."""
    made = next(
        mutant
        for where, mutant in mutants(program("fa_fwd_subtiled"), dropped(OrderBarrierArrive))
        if where.startswith("group 1")
    )
    with pytest.raises(HazardError, match=r"deadlock: .*OrderBarrierWait hand_off"):
        choose(made, same(9))
