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


def test_an_interruption_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {files.RECORD}


def test_a_set_replaces_what_its_command_wrote_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("the user's")
    files.write_set(tmp_path, {"a": "1", "b": "1", "c": "1", "d": "1"}, "one")
    files.write_set(tmp_path, {"e": "1"}, "other")
    (tmp_path / "c").write_text("changed by the user")
    files.write_set(tmp_path, {"a": "2"}, "one", [tmp_path / "d"])
    assert names(tmp_path) == {"own", "a", "c", "d", "e"}
    assert (tmp_path / "a").read_text() == "2"
    files.record(tmp_path, ["e"], "one")
    files.write_set(tmp_path, {"a": "3"}, "one")
    assert names(tmp_path) == {"own", "a", "c", "d"}


def test_what_no_command_wrote_is_kept_beside(tmp_path: Path) -> None:
    """Another's file and an edited one, each time anew; not what is as it was written, nor what stays so."""
    files.write_set(tmp_path, {"a": "1", "b": "1", "c": "1"}, "one")
    (tmp_path / "own").write_text("the user's")
    (tmp_path / "b").write_text("edited")
    (tmp_path / "c").write_text("2")
    new = {"a": "2", "b": "2", "c": "2", "own": "2", "none": "2"}
    assert [path.name for path in files.set_aside(tmp_path, new)] == ["b.1", "own.1"]
    files.write_set(tmp_path, new, "one")
    assert ((tmp_path / "b.1").read_text(), (tmp_path / "own.1").read_text()) == ("edited", "the user's")
    (tmp_path / "b").write_text("again")
    assert [path.name for path in files.set_aside(tmp_path, {"b": "3"})] == ["b.2"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"../x": {"command": "one", "sha256": ""}}', '{"own": 3}'])
def test_a_record_that_is_damaged_deletes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "x").write_text("")
    (tmp_path / "d" / "own").write_text("")
    (tmp_path / "d" / files.RECORD).write_text(text)
    files.write_set(tmp_path / "d", {"a": "1"}, "one")
    assert names(tmp_path / "d") == {"own", "a"}
    assert (tmp_path / "x").exists()


@pytest.mark.parametrize("fails", range(3))
def test_a_full_disk_leaves_the_old_set(tmp_path: Path, fails: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_set(tmp_path, {"a": "1", "b": "1", "c": "1"}, "one")
    before, written = {path: path.read_text() for path in tmp_path.iterdir()}, list[int]()

    def chmod(*_: object) -> None:
        written.append(1)
        if len(written) == fails + 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "chmod", chmod)
    with pytest.raises(OSError, match="No space left") as raised:
        files.write_set(tmp_path, {"a": "2", "b": "2", "d": "2"}, "one")
    assert raised.value.filename == str(tmp_path / "abd"[fails])
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before
