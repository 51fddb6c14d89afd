"""Files written whole or not at all, alone or in sets, and a record of what was written."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Write `content` to `path`, whose folder is made if need be: through a temporary file beside it, so that
    no reader and no interruption ever sees half of it. Raises OSError where the file system refuses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = _beside(path, content)
    try:
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _beside(path: Path, content: str | bytes) -> str:
    """A temporary file with the content, in the folder of `path`."""
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
    except BaseException as problem:
        os.unlink(name)
        if isinstance(problem, OSError):  # a full disk does not say which file
            problem.filename = str(path)
        raise
    return name


def _umask() -> int:
    """The permissions that new files do not get; reading them means setting them for a moment."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- sets of files ----------------------------------------------------------------------------------------

RECORD = ".twill.json"
"""In a folder that commands write to: which command wrote which file, and its contents' SHA-256."""


def write_set(
    folder: Path, contents: Mapping[str, str | bytes], command: str, inputs: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """Write files that belong together, all or none: each beside its place first, and then all renamed. What
    `command` wrote there before and does not write now goes, unless somebody changed it or it is one of the
    `inputs`. Raises OSError where the file system refuses; the old files are then as they were."""
    folder.mkdir(parents=True, exist_ok=True)
    staged = dict[Path, str]()
    try:
        for name, content in contents.items():
            staged[folder / name] = _beside(folder / name, content)
        for path, temporary in staged.items():
            os.replace(temporary, path)
    except BaseException:
        for temporary in staged.values():
            Path(temporary).unlink(missing_ok=True)
        raise
    _forget(folder, command, [*contents], {path.resolve() for path in inputs})
    record(folder, contents, command)
    return tuple(staged)


def set_aside(folder: Path, contents: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Copy every file that `contents` is about to replace to the first free `NAME.1`, `NAME.2`, ...; gives
    the copies. A file that is as a command wrote it, or will not change, is left out. Raises OSError where
    the file system refuses."""
    known, copies = recorded(folder), list[Path]()
    for name, content in contents.items():
        path, data = folder / name, content.encode() if isinstance(content, str) else content
        found = digest(path)
        ours = name in known and known[name][1] == found
        if not path.is_file() or ours or found == hashlib.sha256(data).hexdigest():
            continue
        copy = next(one for n in count(1) if not (one := path.with_name(f"{name}.{n}")).exists())
        shutil.copy2(path, copy)
        copies.append(copy)
    return tuple(copies)


def record(folder: Path, names: Iterable[str], command: str) -> None:
    """Note that `command` wrote these files of a folder."""
    known = recorded(folder)
    known |= {name: (command, digest(folder / name)) for name in names}
    text = json.dumps(
        {name: {"command": by, "sha256": sha} for name, (by, sha) in sorted(known.items())}, indent=1
    )
    write(folder / RECORD, text + "\n")


def recorded(folder: Path) -> dict[str, tuple[str, str]]:
    """By file name: the command that wrote it, and its SHA-256; empty where there is no record, or none that
    can be read."""
    try:
        members = json.loads((folder / RECORD).read_text())
        return {str(name): (str(one["command"]), str(one["sha256"])) for name, one in members.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def digest(path: Path) -> str:
    """SHA-256 of a file's contents; empty where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def intact(folder: Path) -> bool:
    """Whether a folder has a record, and every file in it is as it was written."""
    known = recorded(folder)
    return bool(known) and all(digest(folder / name) == sha for name, (_, sha) in known.items())


def _forget(folder: Path, command: str, kept: Iterable[str], inputs: set[Path]) -> None:
    known = recorded(folder)
    for name in [name for name, (by, _) in known.items() if by == command and name not in set(kept)]:
        path = folder / name
        if Path(name).name == name and path.resolve() not in inputs and digest(path) == known[name][1]:
            path.unlink(missing_ok=True)
        del known[name]
    if known or (folder / RECORD).exists():
        write(
            folder / RECORD,
            json.dumps({name: {"command": by, "sha256": sha} for name, (by, sha) in sorted(known.items())})
            + "\n",
        )
