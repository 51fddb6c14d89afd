# pyright: basic
"""What names this Twill, and what tells whether a file is as it was."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from twill.launch import folders


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of two modules, with a machine beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("twill/a.py", "twill/b/c.py", "twill/b/__pycache__/c.py", "machines/toy.toml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pass\n")
    monkeypatch.setattr(folders, "PACKAGE", tmp_path / "twill")
    monkeypatch.setattr(folders, "machines", lambda: tmp_path / "machines")
    return tmp_path


def named() -> str:
    """As in a new process."""
    folders.sources.cache_clear()
    try:
        return folders.sources()
    finally:
        folders.sources.cache_clear()


def test_sources_are_read_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = named()
    monkeypatch.setattr(folders, "_contents", lambda paths: pytest.fail("nothing has changed"))
    assert named() == first


@pytest.mark.parametrize("name", ["twill/a.py", "twill/b/c.py", "machines/toy.toml", "twill/b/d.cuh"])
def test_each_source_counts(package: Path, name: str) -> None:
    first = named()
    (package / name).write_text("changed\n")
    assert named() != first


def test_a_source_of_the_same_size_counts(package: Path) -> None:
    first, path = named(), package / "twill" / "a.py"
    before = path.stat()
    path.write_text("past\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert named() != first


def test_the_same_sources_have_the_same_name_whatever_their_dates(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels on disk outlive another installation of the same Twill."""
    first, read = named(), list[int]()
    contents = folders._contents

    def counted(paths: Iterable[str]) -> str:
        read.append(1)
        return contents(paths)

    monkeypatch.setattr(folders, "_contents", counted)
    os.utime(package / "twill" / "a.py", ns=(0, 0))
    assert (named(), read) == (first, [1])


@pytest.mark.parametrize("text", ["", "one", "one two three", "\0"])
def test_a_damaged_record_is_made_anew(package: Path, text: str) -> None:
    first = named()
    (record,) = (package / "cache" / "twill" / "sources").iterdir()
    record.write_text(text)
    assert named() == first
    assert record.read_text().split()[1] == first


def test_where_the_cache_cannot_be_written_the_sources_are_read(package: Path) -> None:
    first = named()
    (record,) = (package / "cache" / "twill" / "sources").iterdir()
    record.unlink()
    record.mkdir()
    assert named() == first


def test_a_missing_file_has_no_stamp(tmp_path: Path) -> None:
    assert folders.stamp(tmp_path / "none") == ""
