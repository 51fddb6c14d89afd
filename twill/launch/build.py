"""From a generated file to a library: runs nvcc and reads what ptxas says.

Takes CUDA text; gives the path of a shared library. Raises TwillError where nvcc is missing, too old or
fails. What makes a kernel slow without stopping it, spilled registers and wgmma that are serialized, is
reported.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from re import MULTILINE, findall, search

from twill.diagnostics import TwillError
from twill.emit.files import digest, intact, record, write
from twill.launch.folders import LIBRARY, LOG, MANIFEST, SOURCE, cache_folder, sources
from twill.launch.manifest import read

RUNTIME = Path(__file__).parents[1] / "targets" / "runtime"
DEVICE_FLAGS = ("-std=c++17", "-O3", "-lineinfo", "-split-compile=0", "-Xptxas", "-v")
"""The forms of a kernel in one file, as with and without TMA, are compiled at the same time, to the same
code."""
FLAGS = (*DEVICE_FLAGS, "-Xcompiler", "-fPIC", "-shared")
REGISTER_USAGE = re.compile(r"^#define TWILL_REGISTER_USAGE_LEVEL (\d+)\n", MULTILINE)
"""The level of register usage of ptxas, in a kernel.cu that has another one than the default."""
ARCHITECTURES = ("sm90", "sm100")
"""What can be generated and built."""
OLDEST = (12, 4)
"""Version of nvcc."""


def gencode(arch: str) -> str:
    """The flag of nvcc for one architecture: the accelerated target, which has wgmma or tcgen05."""
    number = arch.removeprefix("sm")
    return f"-gencode=arch=compute_{number}a,code=sm_{number}a"


@cache
def nvcc() -> tuple[int, int]:
    """The version of the compiler. Raises TwillError where there is none, or an old one."""
    wanted = (
        f"CUDA {OLDEST[0]}.{OLDEST[1]} or newer is needed to build a kernel; twill codegen --no-build only"
        " writes it"
    )
    if shutil.which("nvcc") is None:
        raise TwillError("nvcc is not on the PATH", help=wanted)
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    found = search(r"release (\d+)\.(\d+)", said)
    major, minor = map(int, found.groups()) if found else (0, 0)
    if (major, minor) < OLDEST:
        raise TwillError(f"nvcc {major}.{minor} is too old", help=wanted)
    return major, minor


TOO_FEW = "registers per thread are too few for an instruction"


class TooFewRegistersError(TwillError):
    """ptxas has fewer registers per thread than an instruction needs (C7602)."""


def build(
    folder: Path, flags: tuple[str, ...] = (), kept: Path | None = None, home: Path | None = None
) -> tuple[str, ...]:
    """Make kernel.so and ptxas.txt of the kernel.cu in a folder, with `flags` of nvcc besides its own; gives
    what ptxas warned of. nvcc leaves its intermediate files, kernel.ptx and kernel.o among them, in the
    folder `kept`. `home` is the folder that the kernel is going to lie in: profilers look for its source
    there. Raises TooFewRegistersError, or TwillError where nvcc fails for another reason."""
    if kept is not None:
        flags = (*flags, "-keep", "-keep-dir", str(kept))
    made = folder / f".{LIBRARY}.{os.getpid()}"
    try:
        compile_to(made, folder, (*FLAGS, *flags), home)
    except TwillError:
        (folder / LIBRARY).unlink(missing_ok=True)
        raise
    made.replace(folder / LIBRARY)
    return complaints(folder)


def compile_to(
    made: Path, folder: Path, flags: Sequence[str], home: Path | None = None, code: str = SOURCE
) -> None:
    """Runs nvcc on the kernel.cu in a folder, or on its PTX, and keeps what ptxas says in ptxas.txt. Raises
    what `build` raises."""
    nvcc()
    mark = f"-DTWILL_SOURCE={digest(folder / SOURCE)}"
    flags = (*flags, *_register_usage(folder / SOURCE))
    command = ["nvcc", *flags, gencode(arch_of(folder)), mark, f"-I{RUNTIME}", "-o", str(made)]
    with _located(folder / code, home) as source:
        done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    if done.returncode:
        made.unlink(missing_ok=True)
        raise _failure((home or folder) / SOURCE, done.stderr)
    write(folder / LOG, done.stdout + done.stderr)


def _register_usage(source: Path) -> tuple[str, ...]:
    """The flags of nvcc that a kernel.cu states."""
    level = REGISTER_USAGE.search(source.read_text(encoding="utf-8")) if source.exists() else None
    return ("-Xptxas", f"--register-usage-level={level[1]}") if level else ()


@contextmanager
def _located(source: Path, home: Path | None) -> Generator[Path]:
    """A source whose lines are said to be those of the file of this name in `home`."""
    if home is None:
        yield source
        return
    with tempfile.TemporaryDirectory() as made:
        copy, name = Path(made, source.name), json.dumps(str(home.absolute() / source.name))
        copy.write_text(f"#line 1 {name}\n{source.read_text(encoding='utf-8')}", encoding="utf-8")
        yield copy


def _failure(source: Path, said: str) -> TwillError:
    """Of nvcc."""
    if few := search(r"\(C7602\) Insufficient registers \((\d+)\)", said):
        return TooFewRegistersError(
            f"{few[1]} {TOO_FEW}",
            help="fewer warp groups (--groups) have more registers each",
        )
    return TwillError(f"nvcc can not build {source}:\n{said.strip()}", help="please report this")


def arch_of(folder: Path) -> str:
    """What a kernel's folder says it is built for."""
    described = folder / MANIFEST
    return read(described.read_text(), str(described)).arch if described.exists() else ARCHITECTURES[0]


def cached(key: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` has filled with the files of a built kernel, once: it is kept in the user's cache
    under a name that follows from `key`, which names all that the files depend on, and from Twill's own
    sources. An entry with a file that is missing or not as it was written is made anew; one that is whole
    needs no compiler. Raises TwillError for a cache that is another user's."""
    name = hashlib.sha256(f"{FLAGS}{sources()}{key}".encode()).hexdigest()[:32]
    home = cache_folder()
    own_cache()
    if not intact(home / name):
        nvcc()
        made = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=home))
        try:
            make(made)
            record(made, sorted(path.name for path in made.iterdir()), "compile")
            _rename(made, home / name)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return home / name


def own_cache() -> None:
    """Make the cache, for this user alone. What lies in it is executed, so one that others may write to is
    refused."""
    home = cache_folder()
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = home.stat()
    if found.st_uid != os.getuid():
        raise TwillError(
            f"the cache {home} belongs to another user", help="set XDG_CACHE_HOME to a folder of your own"
        )
    if found.st_mode & 0o077:
        home.chmod(0o700)


def _rename(made: Path, final: Path) -> None:
    """In place of what is there, if anything; of several processes that make the same entry, any may win."""
    aside = made.with_name(f"{made.name}.old")
    with suppress(FileNotFoundError):
        final.rename(aside)
    try:
        made.rename(final)
    except OSError:
        if not intact(final):
            raise
    shutil.rmtree(aside, ignore_errors=True)
    if aside.is_symlink() or aside.is_file():
        aside.unlink()


def complaints(folder: Path) -> tuple[str, ...]:
    """What ptxas warned of when a folder was built."""
    log = (folder / LOG).read_text() if (folder / LOG).exists() else ""
    return warnings(log, read((folder / MANIFEST).read_text(), str(folder / MANIFEST)).registers)


def warnings(log: str, registers: int) -> tuple[str, ...]:
    """Spills and serialized wgmma in what ptxas printed about a kernel whose largest group has so many
    registers per thread."""
    spilled = sum(int(count) for count in findall(r"(\d+) bytes spill stores", log))
    lower = registers - -(-spilled // 32) * 8
    advice = (
        f"schedule for fewer (--registers {lower}), or take a smaller tile"
        if lower >= registers // 2
        else "take a smaller tile"
    )
    found = (
        [f"{spilled} bytes of registers are spilled, of {registers} registers per thread: {advice}"]
        if spilled
        else []
    )
    return (
        *found,
        *(
            serialized.strip()
            for serialized in findall(r"(\(C75\d\d\).*?)(?: (?:in|for) the function .*)?$", log, MULTILINE)
        ),
    )


def registers_used(folder: Path) -> int:
    """The most registers of a thread that ptxas used for a kernel of the kernel.cu that was built last in a
    folder; 0 where it does not say."""
    text = (folder / LOG).read_text(encoding="utf-8")
    return max(map(int, findall(r"Used (\d+) registers", text)), default=0)


def unbuilt(said: Sequence[str]) -> bool:
    """Whether `warnings` are those of a kernel that ptxas does not build."""
    return any(one.endswith(TOO_FEW) for one in said)


def short_of_registers(said: Sequence[str]) -> bool:
    """Whether one of `warnings` is for want of registers: spills, and MMAs serialized for that. ptxas
    serializes others for the instructions between them, which no number of registers changes."""
    return unbuilt(said) or any(search(r"^\d+ bytes of registers|insufficient register", one) for one in said)


def severity(said: Sequence[str]) -> tuple[int, int]:
    """How bad `warnings` are: those of other than spills, then bytes that are spilled."""
    spilled = [search(r"^(\d+) bytes of registers are spilled", one) for one in said]
    return spilled.count(None), sum(int(found[1]) for found in spilled if found)
