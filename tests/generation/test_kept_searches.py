"""Results of searches on disk, for kernels that differ in what no search sees."""

from dataclasses import replace
from pathlib import Path

import pytest

from twill.generation.candidates import candidates
from twill.generation.generated import GenerateOptions
from twill.generation.kept_searches import MOST, load, place, save
from twill.inputs import Inputs
from twill.ir.problem import Problem
from twill.ir.schedule import Result

OPTIONS = GenerateOptions(time_limit=20, check=False)
AUTO = Inputs("tests/kernels/ttgir/matmul_bands.sm90.ttgir", arch="sm90")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def silent(name: str, event: object) -> None:
    """No progress."""


def never(problem: Problem, *_: object) -> Result:
    raise AssertionError(f"{problem.name} is searched again")


def test_what_was_searched_is_not_searched_by_another_process() -> None:
    (first, *_) = candidates(AUTO, OPTIONS, silent)
    path = place(["bands"], "h200", 20)
    assert load(path) == ()
    save(path, first.searched)
    kept = load(path)
    assert [one.problem for one in kept] == [one.problem for one in first.searched]
    (again, *_) = candidates(AUTO, OPTIONS, silent, kept, solve=never)
    assert again.cuda == first.cuda
    save(path, first.searched)
    assert len(load(path)) == len(kept)
    assert place(["bands"], "h200", 10) != path


def test_a_damaged_file_counts_as_empty() -> None:
    (first, *_) = candidates(AUTO, OPTIONS, silent)
    path = place("damaged")
    save(path, first.searched)
    path.write_bytes(path.read_bytes()[:-9])
    assert load(path) == ()
    save(path, first.searched)
    assert load(path)
    assert len(load(path)) <= MOST


def test_a_schedule_that_breaks_a_rule_is_not_taken() -> None:
    (first, *_) = candidates(AUTO, OPTIONS, silent)
    (one, *_) = first.searched
    assert one.solution is not None
    shorter = replace(one, solution=replace(one.solution, interval=one.solution.interval - 1))
    save(place("broken"), [shorter])
    assert load(place("broken")) == ()


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (first, *_) = candidates(AUTO, OPTIONS, silent)
    (tmp_path / "twill").write_text("no folder")
    save(place("nowhere"), first.searched)
    assert load(place("nowhere")) == ()
