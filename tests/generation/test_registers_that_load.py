"""Which registers are tried for the threads that load where ptxas spills."""

from dataclasses import replace

import pytest

from tests.kernels.programs import changed, loops
from twill.generation.builds.spills import COPYING, LEAN, SPARING, Compiled, in_fewer_registers, least_spilled
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions, source
from twill.inputs import Inputs
from twill.warp.plan import Options as Lowering

GEMM = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90", subtile=1)
PAGED = Inputs("tests/kernels/ttgir/paged.sm90.ttgir", arch="sm90", subtile=1, persistent=False)
SPILLED = ("72 bytes of registers are spilled, of 208 registers per thread: lower the limit",)
WORSE = ("428 bytes of registers are spilled, of 200 registers per thread: lower the limit",)


def loading(one: Generated) -> int:
    """Registers of each thread that loads."""
    return max(group.registers for group in one.program.groups if group.only_moves)


def test_far_more_registers_help_where_some_more_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """ptxas spills more with each step, and nothing with four."""
    made = generate(GEMM, GenerateOptions(time_limit=20, check=False))
    before, step = loading(made), made.loops[0].problem.limits.register_step

    def said(tried: Generated) -> tuple[str, ...]:
        more = loading(tried) - before
        return SPILLED if more == 0 else () if more >= 4 * step else WORSE

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    found = least_spilled(Compiled(made, SPILLED))
    assert not found.said
    assert loading(found.made) >= before + 4 * step


@pytest.mark.parametrize(
    ("warning", "runs"),
    [
        (SPILLED[0], 1),
        ("(C7512) MMAs are serialized due to insufficient register resources for the function", 1),
        ("(C7514) MMAs are serialized due to non wgmma instructions", 0),
    ],
)
def test_no_more_registers_are_tried_where_they_change_nothing(
    monkeypatch: pytest.MonkeyPatch, warning: str, runs: int
) -> None:
    """With two steps more: threads that load TMA's tiles have the fewest. Not where ptxas has enough."""
    made, tried = generate(GEMM, GenerateOptions(time_limit=20, check=False)), list[Generated]()

    def said(one: Generated) -> tuple[str, ...]:
        tried.append(one)
        return (warning,)

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    assert least_spilled(Compiled(made, (warning,))).made is made
    assert len(tried) == runs


@pytest.fixture(scope="module")
def paged() -> Generated:
    """Threads of a group that loads copy its tiles; with a kept schedule, whatever the machine is doing."""
    made = changed("paged", Lowering(most_blocks=1))
    return Generated(PAGED, made, loops("paged")[1], {}, source(made, loops("paged")[1]))


def spilled(count: int) -> tuple[str, ...]:
    return (f"{count} bytes of registers are spilled, of 80 registers per thread",) if count else ()


@pytest.mark.parametrize("bytes_with_more", [268, 200])
def test_the_lean_form_is_tried_with_other_registers_where_it_spills_more(
    monkeypatch: pytest.MonkeyPatch, paged: Generated, bytes_with_more: int
) -> None:
    """It spills nothing where threads that load have fewer registers, more or not less where they have
    others. The other form spills with any."""
    before = loading(paged)

    def said(tried: Generated) -> tuple[str, ...]:
        more = loading(tried) - before
        if not tried.program.lean:
            return spilled(268 + abs(more))
        return spilled(0 if more < 0 else bytes_with_more if more else 312)

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    found = least_spilled(Compiled(paged, spilled(268)))
    assert not found.said
    assert found.made.program.lean
    assert loading(found.made) < before


@pytest.mark.parametrize("fits", [True, False])
def test_iterations_exchange_tiles_where_other_registers_hold_them(
    monkeypatch: pytest.MonkeyPatch, paged: Generated, fits: bool
) -> None:
    """What copies them spills nothing with any."""
    before = loading(paged)

    def copying(built: Compiled) -> Compiled:
        return replace(built, changes=(COPYING,), said=())

    def said(tried: Generated) -> tuple[str, ...]:
        return () if fits and loading(tried) > before else spilled(56)

    monkeypatch.setattr("twill.generation.builds.spills._copying", copying)
    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    found = least_spilled(Compiled(paged, spilled(56)))
    assert not found.said
    assert (COPYING in found.changes) != fits


def test_one_form_is_tried_with_other_registers_where_both_spill_the_same(
    monkeypatch: pytest.MonkeyPatch, paged: Generated
) -> None:
    before, tried = loading(paged), set[tuple[bool, bool]]()

    def said(one: Generated) -> tuple[str, ...]:
        tried.add((one.program.lean, loading(one) != before))
        return spilled(268)

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    assert least_spilled(Compiled(paged, spilled(268))).said
    assert tried == {(True, False), (False, True)}


def test_one_form_is_tried_with_other_registers_where_tma_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What such threads execute does not depend on their registers."""
    made = generate(GEMM, GenerateOptions(time_limit=20, check=False))
    before, tried = loading(made), set[tuple[bool, bool]]()

    def said(one: Generated) -> tuple[str, ...]:
        tried.add((one.program.lean, loading(one) != before))
        return spilled(400 if one.program.lean else 300)

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    assert least_spilled(Compiled(made, spilled(268))).made is made
    assert (True, True) not in tried
    assert (False, True) in tried


@pytest.mark.parametrize(
    ("plain", "sparing", "lean", "both", "late", "changes"),
    [
        (8, 0, 0, 0, False, (SPARING,)),
        (8, 16, 0, 0, False, (LEAN,)),
        (8, 4, 4, 0, False, (SPARING, LEAN)),
        (8, 8, 4, 4, False, ()),
        (8, 4, 0, 0, True, ()),
    ],
)
def test_the_first_form_of_one_schedule_that_spills_nothing(
    monkeypatch: pytest.MonkeyPatch,
    paged: Generated,
    plain: int,
    sparing: int,
    lean: int,
    both: int,
    late: bool,
    changes: tuple[str, ...],
) -> None:
    """The lean form not where its copies are late. A form that spills less is not taken."""
    spills = {(False, False): plain, (True, False): sparing, (False, True): lean, (True, True): both}

    def said(one: Generated) -> tuple[str, ...]:
        return spilled(spills[one.program.sparing, one.program.lean])

    def paced(one: Generated) -> float | None:
        return 1.0 if late else None

    monkeypatch.setattr("twill.generation.builds.spills._warnings", said)
    monkeypatch.setattr("twill.generation.builds.spills.paced_by_copies", paced)
    found = in_fewer_registers(Compiled(paged, spilled(plain)))
    assert found.changes == changes
    assert (found.made.program.sparing, found.made.program.lean) == (SPARING in changes, LEAN in changes)
    assert found.said == said(found.made)
