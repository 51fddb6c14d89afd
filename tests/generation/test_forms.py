"""Other forms of a kernel, which may be built where it turns out slower than hoped."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from twill.diagnostics import TwillError
from twill.generation.builds import built as module
from twill.generation.builds import forms
from twill.generation.builds.spills import Compiled
from twill.generation.generate import generate
from twill.generation.generated import Generated, GenerateOptions, source
from twill.inputs import Inputs
from twill.launch import build
from twill.launch.folders import LIBRARY

GEMM = Inputs("examples/kernels.py:gemm", arch="sm90", persistent=None)
OPTIONS = GenerateOptions(time_limit=20, check=False)


@pytest.fixture(scope="module")
def gemm() -> Generated:
    return generate(GEMM, OPTIONS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def words(made: Generated) -> list[str]:
    return [form.what for form in forms.others(made)]


def test_a_persistent_kernel_has_its_grid(gemm: Generated) -> None:
    assert gemm.form == "made persistent"
    assert words(replace(gemm.others[0], others=())) == ["its computing group loads"]
    assert words(gemm) == ["not made persistent", "not made persistent, its computing group loads"]


def test_a_kernel_whose_computing_group_loads_has_the_form_with_another_group(gemm: Generated) -> None:
    (grid,) = gemm.others
    assert words(replace(grid, others=(), loading=None, loading_apart=grid)) == ["a group of its own loads"]


def test_a_kernel_of_one_group_has_the_form_of_the_groups_before(gemm: Generated) -> None:
    (grid,) = gemm.others
    assert words(replace(grid, others=(), loading=None, several=grid)) == ["several groups compute"]


def test_no_more_forms_than_are_worth_their_builds(gemm: Generated) -> None:
    (grid,) = gemm.others
    divided = replace(grid, form="divided into sub-tiles")
    assert words(replace(gemm, others=(divided, grid))) == ["divided into sub-tiles", "not made persistent"]


def test_forms_are_kept_beside_the_kernel(gemm: Generated, tmp_path: Path) -> None:
    assert forms.load(tmp_path) == ()
    found = forms.others(gemm)
    forms.save(found, tmp_path)
    kept = forms.load(tmp_path)
    assert [one.what for one in kept] == [one.what for one in found]
    for one, before in zip(kept, found, strict=True):
        assert source(one.made.program, one.made.loops) == source(before.made.program, before.made.loops)
        assert (one.made.others, one.made.searched, one.made.loading) == ((), (), None)


@pytest.fixture
def nvcc(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What ptxas says of each kernel, one after the other, in place of the compiler."""
    said: list[tuple[str, ...]] = []

    def warnings(made: Generated, folder: Path, home: Path | None = None) -> tuple[str, ...]:
        (folder / LIBRARY).write_text(made.cuda)
        return said.pop(0)

    def leaner(first: Compiled) -> Compiled:
        return replace(first, said=said.pop(0))

    def version() -> tuple[int, int]:
        return 12, 8

    monkeypatch.setattr(module, "warnings", warnings)
    monkeypatch.setattr(module, "library", warnings)
    monkeypatch.setattr(module, "leaner", leaner)
    monkeypatch.setattr(build, "nvcc", version)
    return said


@pytest.mark.parametrize("said", [[()], [("8 bytes",), (), ()]])
def test_a_form_is_built_once(
    gemm: Generated, nvcc: list[tuple[str, ...]], said: Sequence[tuple[str]]
) -> None:
    """As it is, or in its lean form where ptxas warns of it."""
    nvcc.extend(said)
    form = forms.others(gemm)[0]
    folder = module.built_form(Path("kernel"), form, OPTIONS)
    assert "not made persistent" in (folder / "kernel.cu").read_text()
    assert (folder / LIBRARY).exists()
    assert module.built_form(Path("kernel"), form, OPTIONS) == folder
    assert nvcc == []


def test_forms_of_different_kernels_are_kept_apart(gemm: Generated, nvcc: list[tuple[str, ...]]) -> None:
    nvcc.extend([()] * 3)
    first, second = forms.others(gemm)
    found = [
        module.built_form(Path(name), one, OPTIONS)
        for name, one in (("a", first), ("a", second), ("b", first))
    ]
    assert len({*found}) == 3


def test_a_form_that_spills_is_refused(gemm: Generated, nvcc: list[tuple[str, ...]]) -> None:
    nvcc.extend([("8 bytes of registers are spilled",)] * 2)
    with pytest.raises(TwillError, match="not made persistent: 8 bytes of registers are spilled"):
        module.built_form(Path("kernel"), forms.others(gemm)[0], OPTIONS)
