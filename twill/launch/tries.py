"""What ptxas warns of for kernels that are tried one after the other.

Takes a folder with a kernel.cu; gives what `launch.build.build` would, without a library. Kernels that differ
in the registers that `setmaxnreg` gives to groups have the same PTX but for these numbers, which are in
inline PTX, and those that differ in ptxas's level of register usage have the same PTX: nvcc's compiler runs
once for them, and ptxas, which takes a fraction of its time, for each.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from twill.launch.build import DEVICE_FLAGS, REGISTER_USAGE, arch_of, compile_to, complaints
from twill.launch.folders import LOG, SOURCE

CUBIN, PTX = "kernel.cubin", "kernel.ptx"
FLAGS = (*DEVICE_FLAGS, "-cubin")
MOST = 8
"""Kernels whose PTX is kept, the last ones."""

MOST_SAID = 128
"""Kernels of which it is kept what ptxas said, the last ones."""

Grant = tuple[str, str]
"""A `setmaxnreg`: whether it takes more or fewer registers, and how many."""
_IN_CUDA = re.compile(r"registers_(inc|dec)rease<(\d+)>")
_IN_PTX = re.compile(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32 +(\d+)")
_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)


@dataclass(slots=True)
class _Kept:
    """The PTX of one of the kernels that differ in registers; empty before it is compiled."""

    lock: Lock = field(default_factory=Lock)
    grants: Sequence[Grant] = ()
    """In the order in which the CUDA has them, each once."""
    ptx: str = ""


_KEPT, _ALL = OrderedDict[str, _Kept](), Lock()
_SAID = OrderedDict[str, str]()
"""What ptxas said of kernels, by their CUDA."""


def tried(folder: Path) -> tuple[str, ...]:
    """What ptxas warns of for the kernel.cu in a folder, without its library: compiling for the host takes
    longer than compiling the kernel. Nothing is compiled twice. Raises what `build` raises."""
    if (said := known(folder)) is not None:
        return said
    said = _tried(folder)
    remember(folder)
    return said


def known(folder: Path) -> tuple[str, ...] | None:
    """What ptxas warned of for the kernel.cu in a folder before; None where it was not compiled."""
    with _ALL:
        log = _SAID.get(_named(folder))
    if log is None:
        return None
    (folder / LOG).write_text(log, encoding="utf-8")
    return complaints(folder)


def remember(folder: Path) -> None:
    """Keep what ptxas said of the kernel.cu that was compiled last in a folder, if anything."""
    if not (folder / LOG).exists():
        return
    with _ALL:
        _SAID[_named(folder)] = (folder / LOG).read_text(encoding="utf-8")
        while len(_SAID) > MOST_SAID:
            _SAID.popitem(last=False)


def _named(folder: Path) -> str:
    cuda = _COMMENT.sub("", (folder / SOURCE).read_text(encoding="utf-8"))
    return sha256(f"{arch_of(folder)}{cuda}".encode()).hexdigest()


def _tried(folder: Path) -> tuple[str, ...]:
    text, grants = without_registers((folder / SOURCE).read_text(encoding="utf-8"))
    kept = _kept(arch_of(folder) + text)
    with kept.lock:
        if not kept.ptx:
            kept.ptx, kept.grants = _compiled(folder), grants
            return complaints(folder)
    ptx = with_registers(kept.ptx, dict(zip(kept.grants, grants, strict=True)))
    (folder / PTX).write_text(ptx, encoding="utf-8")
    compile_to(folder / CUBIN, folder, FLAGS, code=PTX)
    return complaints(folder)


def keep(folder: Path, made: Path) -> None:
    """Keep what ptxas said of the kernel.cu in a folder, and its PTX, where nvcc has left it in `made`:
    kernels with other grants of registers need no compiler then."""
    remember(folder)
    if not (made / PTX).exists():
        return
    text, grants = without_registers((folder / SOURCE).read_text(encoding="utf-8"))
    kept = _kept(arch_of(folder) + text)
    with kept.lock:
        if not kept.ptx:
            kept.ptx, kept.grants = (made / PTX).read_text(encoding="utf-8"), grants


def without_registers(cuda: str) -> tuple[str, Sequence[Grant]]:
    """CUDA without comments and ptxas's level of register usage, with the grants of registers by number, and
    the grants. Equal ones have the same number, so that what the compiler merges is the same."""
    grants = dict[Grant, int]()

    def numbered(found: re.Match[str]) -> str:
        number = grants.setdefault((found[1], found[2]), len(grants))
        return f"registers_{found[1]}rease<#{number}>"

    return _IN_CUDA.sub(numbered, REGISTER_USAGE.sub("", _COMMENT.sub("", cuda))), tuple(grants)


def with_registers(ptx: str, instead: Mapping[Grant, Grant]) -> str:
    """PTX with other grants of registers."""

    def replaced(found: re.Match[str]) -> str:
        way, count = instead.get((found[1], found[2]), (found[1], found[2]))
        return f"setmaxnreg.{way}.sync.aligned.u32 {count}"

    return _IN_PTX.sub(replaced, ptx)


def _kept(key: str) -> _Kept:
    with _ALL:
        found = _KEPT.setdefault(key, _Kept())
        _KEPT.move_to_end(key)
        while len(_KEPT) > MOST:
            _KEPT.popitem(last=False)
        return found


def _compiled(folder: Path) -> str:
    """The PTX of the kernel.cu in a folder, of which ptxas has said what it warns of."""
    with TemporaryDirectory() as made:
        compile_to(folder / CUBIN, folder, (*FLAGS, "-keep", "-keep-dir", made))
        kept = Path(made, PTX)
        return kept.read_text(encoding="utf-8") if kept.exists() else ""
