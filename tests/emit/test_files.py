"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from twill.emit import files


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.txt"
    files.write(path, "one")
    files.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["x.txt"]


def test_an_interruption_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    files.write(path, "old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    files.write(tmp_path / "a", "")
    (tmp_path / "b").write_text("")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
