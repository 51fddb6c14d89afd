"""Building with a compiler that only pretends: what is written, what is cached, what is said of a missing or
an old one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from twill.diagnostics import TwillError
from twill.emit.files import RECORD
from twill.launch import build
from twill.launch.manifest import Argument, Manifest, Predicted, read, write
from twill.launch.tries import tried

MANIFEST = Manifest(
    "k",
    "k.ttgir",
    384,
    240,
    (Argument("q", "*f16", 16), Argument("scale", "f32")),
    (Predicted("k/for.0", 1024, 1031.5),),
)
FILES = {"kernel.cu": "// a kernel", "kernel.json": write(MANIFEST)}

COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release {version}, V{version}.1"; exit; fi
echo run >> {log}
while [ "$1" != -o ]; do shift; done
echo library > "$2"
echo "ptxas info : 16 bytes spill stores" >&2
"""


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    build.nvcc.cache_clear()
    yield
    build.nvcc.cache_clear()


def install(folder: Path, version: str) -> Path:
    """A compiler of that version; gives the log of its runs."""
    (folder / "bin").mkdir()
    compiler, log = folder / "bin" / "nvcc", folder / "log"
    compiler.write_text(COMPILER.format(version=version, log=log))
    compiler.chmod(0o755)
    return log


def make(folder: Path) -> None:
    """The files, and the library that the compiler makes of them."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    build.build(folder)


def test_a_kernel_is_built_once(tmp_path: Path) -> None:
    log, made = install(tmp_path, "12.4"), list[int]()

    def once(folder: Path) -> None:
        made.append(1)
        make(folder)

    folder = build.cached("a question", once)
    assert build.cached("a question", once) == folder
    assert build.cached("another", once) != folder
    assert (len(made), log.read_text()) == (2, "run\nrun\n")
    assert {path.name for path in folder.iterdir()} == {*FILES, "kernel.so", "ptxas.txt", RECORD}
    assert {path.parent for path in (tmp_path / "cache" / "twill").iterdir()} == {
        tmp_path / "cache" / "twill"
    }


def test_a_spill_comes_with_the_budget_to_try(tmp_path: Path) -> None:
    install(tmp_path, "13.0")
    (complaint,) = build.complaints(build.cached("a question", make))
    assert "16 bytes of registers are spilled, of 240" in complaint
    assert "--registers 232" in complaint


def test_ptxas_warns_without_a_library(tmp_path: Path) -> None:
    install(tmp_path, "13.0")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert "16 bytes of registers are spilled" in tried(tmp_path)[0]
    assert not (tmp_path / "kernel.so").exists()
    assert tried(tmp_path) == build.build(tmp_path)


def test_serialized_products_are_noticed() -> None:
    log = (
        "0 bytes spill stores\nptxas info : (C7514) Potential Performance Loss: serialized in the function"
        " 'k'\nptxas info : Used 168"
    )
    assert build.warnings(log, 240) == ("(C7514) Potential Performance Loss: serialized",)
    assert build.warnings("0 bytes spill stores", 240) == ()


def test_nothing_is_left_of_a_build_that_fails(tmp_path: Path) -> None:
    install(tmp_path, "12.8")
    (tmp_path / "bin" / "nvcc").write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo release 12.8 || { echo broken >&2; exit 1; }"
    )
    with pytest.raises(TwillError, match="broken"):
        build.cached("a question", make)
    assert not [path for path in (tmp_path / "cache" / "twill").iterdir() if path.name[0] != "."]


def test_an_old_compiler_is_refused(tmp_path: Path) -> None:
    install(tmp_path, "12.3")
    with pytest.raises(TwillError, match=r"nvcc 12\.3 is too old") as refused:
        build.nvcc()
    assert "12.4" in (refused.value.help or "")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TwillError, match="not on the PATH"):
        build.nvcc()


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert read(write(MANIFEST), "kernel.json") == MANIFEST
    with pytest.raises(TwillError, match=r"kernel\.json"):
        read(write(MANIFEST).replace('"threads"', '"thread"'), "kernel.json")


@pytest.mark.parametrize("file", ["kernel.so", "kernel.json", "kernel.cu", RECORD])
@pytest.mark.parametrize("damage", ["missing", "truncated", "foreign"])
def test_an_entry_that_is_not_whole_is_made_anew(tmp_path: Path, file: str, damage: str) -> None:
    log = install(tmp_path, "12.4")
    folder = build.cached("a question", make)
    path = folder / file
    text = path.read_text()
    path.unlink()
    if damage != "missing":
        path.write_text(text[:2] if damage == "truncated" else "something else")
    assert build.cached("a question", make) == folder
    assert log.read_text() == "run\nrun\n"
    assert path.read_text() == text
    assert [one.name for one in folder.parent.iterdir()] == [folder.name]


def test_an_entry_that_is_a_file_is_made_anew(tmp_path: Path) -> None:
    install(tmp_path, "12.4")
    folder = build.cached("a question", make)
    for one in folder.iterdir():
        one.unlink()
    folder.rmdir()
    folder.write_text("foreign")
    assert (build.cached("a question", make) / "kernel.so").exists()
    assert [one.name for one in folder.parent.iterdir()] == [folder.name]


def test_what_is_built_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "12.4")
    folder = build.cached("a question", make)
    build.nvcc.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert build.cached("a question", make) == folder
    with pytest.raises(TwillError, match="nvcc is not on the PATH"):
        build.cached("another", make)


def test_the_cache_is_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "12.4")
    home = build.cached("a question", make).parent
    assert home.stat().st_mode & 0o777 == 0o700
    home.chmod(0o777)
    build.cached("a question", make)
    assert home.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(build.os, "getuid", lambda: 12345)
    with pytest.raises(TwillError, match="belongs to another user"):
        build.cached("a question", make)


def test_a_library_that_can_not_be_built_leaves_none(tmp_path: Path) -> None:
    install(tmp_path, "12.4")
    (tmp_path / "bin" / "nvcc").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "release 12.4" && exit\nexit 1\n'
    )
    folder = tmp_path / "k"
    folder.mkdir()
    (folder / "kernel.so").write_text("of another source")
    with pytest.raises(TwillError, match="nvcc can not build"):
        build.build(folder)
    assert not list(folder.iterdir())
