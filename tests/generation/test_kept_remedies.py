"""What keeps a kernel from spilling is tried first for others with the same loops."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from twill.generation.builds import retries, spills
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.known.kept_remedies import Remedy, load, place, save
from twill.inputs import Inputs
from twill.warp.thread_block import regranted

OPTIONS = GenerateOptions(time_limit=20, check=False)
GEMM = Inputs("examples/ttgir/gemm.sm90.ttgir", arch="sm90", subtile=1)
SPILLED = ["260 bytes of registers are spilled, of 240 registers per thread: lower the limit"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def gemm() -> Generated:
    return generate(GEMM, OPTIONS)


class Compiler:
    """ptxas, which spills all but kernels that are scheduled for few registers, or have `granted`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 0, granted: tuple[int, ...] = ()) -> None:
        self.scheduled, self.builds, self.most, self.granted = list[int | None](), 0, most, granted
        monkeypatch.setattr(retries, "generate", self._again)
        monkeypatch.setattr(spills, "_warnings", self._said)
        self.made = generate(GEMM, OPTIONS)

    def _again(self, inputs: Inputs, *_: object) -> Generated:
        self.scheduled.append(inputs.registers)
        return replace(self.made, inputs=inputs)

    def _said(self, made: Generated) -> Sequence[str]:
        self.builds += 1
        registers = tuple(group.registers for group in made.program.groups)
        few = made.inputs.registers is not None and made.inputs.registers <= self.most
        return () if few or registers == self.granted else SPILLED


def test_a_schedule_for_fewer_registers_is_taken_at_once(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated
) -> None:
    most = max(group.registers for one in gemm.loops for group in one.solution.groups)
    compiler, known = Compiler(monkeypatch, most - 20), place(gemm, OPTIONS)
    first = without_warnings(GEMM, OPTIONS, gemm, SPILLED, known=known)
    assert first
    assert compiler.scheduled == [most - 8, most - 24]
    before = compiler.builds
    compiler.scheduled.clear()
    again = without_warnings(GEMM, OPTIONS, gemm, SPILLED, known=known)
    assert again
    assert (again.cuda, compiler.scheduled, compiler.builds - before) == (first.cuda, [most - 24], 1)


def test_other_registers_for_the_groups_are_taken_at_once(
    monkeypatch: pytest.MonkeyPatch, gemm: Generated
) -> None:
    plain = tuple(group.registers for group in gemm.program.groups)
    step = gemm.loops[0].problem.limits.register_step
    granted = next(
        tuple(group.registers for group in other.groups)
        for more in (-step, step, 2 * step)
        if (other := regranted(gemm.program, gemm.loops[0].problem.limits, {}, more)) is not None
    )
    assert granted != plain
    compiler, known = Compiler(monkeypatch, granted=granted), place(gemm, OPTIONS)
    save(known, Remedy("", gemm.program.lean, granted))
    found = without_warnings(GEMM, OPTIONS, gemm, SPILLED, known=known)
    assert found
    assert tuple(group.registers for group in found.program.groups) == granted
    assert "registers for each thread that loads: otherwise 260" in found.program.notes[-1]
    assert (compiler.scheduled, compiler.builds) == ([], 1)


def test_what_does_not_help_is_no_answer(monkeypatch: pytest.MonkeyPatch, gemm: Generated) -> None:
    """Of a Remedy that spills here too, or that this kernel has not, everything is tried as without it."""
    most = max(group.registers for one in gemm.loops for group in one.solution.groups)
    known, registers = place(gemm, OPTIONS), tuple(group.registers for group in gemm.program.groups)
    for wrong in (
        Remedy(f"{most - 8} registers per thread", False, registers),
        Remedy("nothing", True, (8,)),
    ):
        compiler = Compiler(monkeypatch, most - 20)
        save(known, wrong)
        found = without_warnings(GEMM, OPTIONS, gemm, SPILLED, known=known)
        assert found
        assert found.program.notes[-1].startswith(f"scheduled for {most - 24} registers per thread")
        assert compiler.scheduled[-2:] == [most - 8, most - 24]
        now = load(known)
        assert now
        assert now.what == f"{most - 24} registers per thread"


def test_other_loops_or_options_have_another_file(gemm: Generated) -> None:
    known = place(gemm, OPTIONS)
    assert place(replace(gemm, inputs=replace(gemm.inputs, spec="elsewhere.ttgir")), OPTIONS) == known
    assert place(gemm, replace(OPTIONS, time_limit=10)) != known
    assert place(replace(gemm, inputs=replace(gemm.inputs, groups=2)), OPTIONS) != known
    fewer = replace(gemm.loops[0].problem, edges=())
    assert place(replace(gemm, loops=(replace(gemm.loops[0], problem=fewer),)), OPTIONS) != known


def test_a_damaged_file_counts_as_missing(gemm: Generated) -> None:
    known = place(gemm, OPTIONS)
    assert load(known) is None
    for sparing in (False, True):
        save(known, Remedy("8 warps", True, (24, 240), sparing))
        assert load(known) == Remedy("8 warps", True, (24, 240), sparing)
    for text in ("", "{}", '{"what": 1, "lean": 0, "registers": 5}'):
        known.write_text(text)
        assert load(known) is None
