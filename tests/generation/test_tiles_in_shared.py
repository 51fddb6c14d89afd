"""Tiles in shared memory in place of registers, where ptxas spills."""

from dataclasses import replace
from pathlib import Path

import pytest

from twill.generation.builds.best_retry import best_retry
from twill.generation.builds.retries import Retry
from twill.generation.builds.shared_forms import shared_forms, tiles_in_shared, with_in_shared
from twill.generation.builds.spills import (
    IN_SHARED,
    Compiled,
    in_fewer_registers,
    with_tiles_in_shared,
)
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions, pace_of_sm
from twill.generation.known.kept_remedies import load, place
from twill.inputs import Inputs
from twill.ir.program import Program
from twill.warp.plan import Options as Lowering

VEILED = Inputs("tests/kernels/ttgir/veiled.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
OPTIONS = GenerateOptions(time_limit=20, check=False)


def spilled(count: int) -> tuple[str, ...]:
    return (f"{count} bytes of registers are spilled, of 232 registers: lower it",) if count else ()


@pytest.fixture(scope="module")
def veiled() -> Generated:
    return generate(VEILED, OPTIONS)


def _nothing(*_: object) -> tuple[Retry, ...]:
    return ()


def _spilling(monkeypatch: pytest.MonkeyPatch, *counts: int) -> None:
    """ptxas spills so many bytes with no tile in shared memory, with one, and so on."""

    def said(one: Generated) -> tuple[str, ...]:
        return spilled(counts[min(len(counts) - 1, len(tiles_in_shared(one.program)))])

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)


@pytest.mark.parametrize(("counts", "tiles"), [((640, 0, 0), 1), ((640, 400, 0), 2), ((640, 640, 640), 0)])
def test_as_few_tiles_as_spill_nothing(
    monkeypatch: pytest.MonkeyPatch, veiled: Generated, counts: tuple[int, ...], tiles: int
) -> None:
    """That which no iteration changes first. Slots make room for it."""
    _spilling(monkeypatch, *counts)
    found = with_tiles_in_shared(Compiled(veiled, spilled(640)), Lowering())
    names = tiles_in_shared(found.made.program)
    assert [name.split("_")[0] for _, name in names] == ["extf", "total"][:tiles]
    assert (found.changes == (IN_SHARED,)) == bool(tiles)
    assert found.made.program.shared.bytes <= found.made.program.shared.limit
    assert pace_of_sm(found.made) >= pace_of_sm(veiled)


def test_no_more_is_accessed_than_is_worth_it(veiled: Generated) -> None:
    """A tenth of an iteration, or about what is spilled. Without room there is none."""
    assert not list(shared_forms(veiled, 640))
    assert not list(shared_forms(veiled, 8, Lowering()))
    assert list(shared_forms(veiled, 640, Lowering()))


def test_a_kernel_that_spills_little_takes_them_last(
    monkeypatch: pytest.MonkeyPatch, veiled: Generated
) -> None:
    roomy = replace(
        veiled, intervals=dict.fromkeys(veiled.results, 100000.0), program=_with_few_slots(veiled)
    )
    _spilling(monkeypatch, 8, 0)
    assert in_fewer_registers(Compiled(roomy, spilled(8))).changes == (IN_SHARED,)


def _with_few_slots(made: Generated) -> Program:
    lowering = replace(OPTIONS.lowering, depths={one.id: 1 for one in made.program.channels}, most_blocks=1)
    return generate(VEILED, replace(OPTIONS, lowering=lowering), searched=made.searched).program


def test_they_come_before_a_kernel_that_takes_longer(
    monkeypatch: pytest.MonkeyPatch, veiled: Generated
) -> None:
    _spilling(monkeypatch, 640, 0)
    first = Compiled(veiled, spilled(640))
    found = best_retry(
        first,
        (),
        1.0,
        lambda what: None,
        lambda one: one.made,
        in_shared=lambda one: with_tiles_in_shared(one, Lowering()),
    )
    assert found
    assert tiles_in_shared(found.program)


def test_they_are_remembered(monkeypatch: pytest.MonkeyPatch, veiled: Generated, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _spilling(monkeypatch, 640, 0)
    known = place(veiled, OPTIONS)
    monkeypatch.setattr("twill.generation.builds.without_warnings.retries", _nothing)
    made = without_warnings(VEILED, OPTIONS, veiled, spilled(640), known=known)
    assert made
    assert IN_SHARED in made.program.notes[-1]
    remedy = load(known)
    assert remedy
    assert remedy.in_shared == tiles_in_shared(made.program)
    assert tiles_in_shared(with_in_shared(veiled.program, remedy.in_shared)) == remedy.in_shared
