"""Builds of the example kernels and of those in other forms, from schedules kept with the tests. One run of
nvcc compiles them all, for each architecture, once for all processes of a test run."""

import ctypes
import fcntl
import os
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.kernels.programs import (
    BLACKWELL,
    BLOCK_SCALED,
    BRAIN,
    BY_ROW,
    CARRIED,
    CLUSTERED,
    EXAMPLES,
    FORMS,
    INDEPENDENT,
    INVARIANT,
    PAIRED,
    PASSED,
    SCALED_EXAMPLES,
    architecture,
    joined,
    loops,
    program,
)
from twill.emulate.build import Build
from twill.emulate.host import LIBRARY, Host, written
from twill.emulate.module import load
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest

OTHERS = (*FORMS, *INVARIANT, *CARRIED, *INDEPENDENT)
SETS = {
    "hopper": (*EXAMPLES, *OTHERS),
    "clustered": CLUSTERED,
    "blackwell": (*BLACKWELL, *PAIRED, *PASSED, *BRAIN),
}
"""The kernels that one run of nvcc compiles: those of Hopper whose thread blocks share loads are a set of
their own."""
SHARED_FOLDER = "TWILL_TEST_BUILDS"
"""The environment's name of the folder that all processes of a test run use (tests/conftest.py)."""
ENTRY = re.compile(
    r"(^\.visible \.entry .*?^\}$)(?=\s*(?:// \.globl|\.file|\.section|\.visible|\Z))",
    re.MULTILINE | re.DOTALL,
)
"""A kernel in PTX. Braces of inline assembly are in the first column, too."""
GEMM = {"M": 128, "N": 256, "K": 256}
ATTENTION = {"heads": 1, "length": 512, "scale": 0.09}


def numbers(kernel: str) -> dict[str, float]:
    """Scalar arguments for about four iterations."""
    more = {"split": 128} if kernel.startswith("continued") else {}
    more |= {"K": 640} if kernel.removesuffix(".sm100") in BLOCK_SCALED else {}
    more |= {"K": 1024} if kernel.removesuffix(".sm100") in SCALED_EXAMPLES else {}
    more |= {"pitch": 32} if kernel.removesuffix(".sm100") in (*BY_ROW, "queries_scaled") else {}
    return {**(ATTENTION if kernel.startswith("fa") else GEMM), **more}


def set_of(kernel: str) -> str:
    if kernel in CLUSTERED:
        return "clustered"
    return "blackwell" if architecture(kernel) == "sm100" else "hopper"


@cache
def folder(name: str) -> Path:
    """Where all.ptx and the library with the host code of a set of kernels are."""
    place = Path(os.environ.get(SHARED_FOLDER) or mkdtemp(prefix="twill-tests-")) / name
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            arch = architecture(SETS[name][0]).removeprefix("sm")
            (place / "all.cu").write_text(joined(SETS[name]))
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("NVCC_APPEND_FLAGS", "-Werror all-warnings")
                written(place / "all.cu", place, [RUNTIME], f"{arch}a")
            (place / "done").touch()
    return place


@cache
def pieces(name: str) -> tuple[str, ...]:
    """The PTX of a set, divided in front of each kernel and behind it."""
    text = (folder(name) / "all.ptx").read_text()
    return tuple(ENTRY.split(text))


def ptx(name: str, kernels: Collection[str]) -> str:
    """The PTX of a set with some of its kernels alone (of each, the forms for TMA and for a single tile)."""
    wanted = "|".join(kernel.replace(".", "_") for kernel in kernels)
    other = re.compile(rf"\.visible \.entry (?!_Z\d+({wanted})_(tma_)?(alone_)?kernel)")
    return "".join(piece for piece in pieces(name) if not other.match(piece))


@cache
def host(kernel: str) -> Host:
    place = folder(set_of(kernel))
    text = ptx(set_of(kernel), [kernel])
    return Host(load(text, f"{kernel}.ptx"), ctypes.CDLL(str(place / LIBRARY)))


@cache
def build(kernel: str) -> Build:
    _, scheduled = loops(kernel)
    made = program(kernel)
    described = manifest(made, scheduled, dict.fromkeys((one.loop.path for one in scheduled), 1.0))
    return Build(replace(described, name=kernel.replace(".", "_")), made.function, host(kernel))


def assembled(kernels: Sequence[str], place: Path, level: int = 1) -> str:
    """What ptxas says to these kernels, all of one set, optimized to a level."""
    (place / "some.ptx").write_text(ptx(set_of(kernels[0]), kernels))
    arch = architecture(kernels[0]).removeprefix("sm")
    command = ["nvcc", f"-arch=sm_{arch}a", "-Xptxas", f"-v,-O{level}", "-cubin", "-o", place / "some.cubin"]
    done = subprocess.run([*command, place / "some.ptx"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr
