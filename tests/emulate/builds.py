"""Builds of the example kernels and of those in other forms, from schedules kept with the tests. One run of
nvcc compiles them all, for each architecture."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kernels.programs import (
    BLACKWELL,
    BLOCK_SCALED,
    CARRIED,
    CLUSTERED,
    EXAMPLES,
    FORMS,
    INVARIANT,
    PAIRED,
    architecture,
    joined,
    loops,
    program,
)
from twill.emulate.build import Build
from twill.emulate.host import Host, compiled
from twill.launch.build import RUNTIME
from twill.launch.manifest import manifest

OTHERS = (*FORMS, *INVARIANT, *CARRIED)
GEMM = {"M": 128, "N": 256, "K": 256}
ATTENTION = {"heads": 1, "length": 512, "scale": 0.09}


def numbers(kernel: str) -> dict[str, float]:
    """Scalar arguments for about four iterations."""
    more = {"split": 128} if kernel.startswith("continued") else {}
    more |= {"K": 640} if kernel.removesuffix(".sm100") in BLOCK_SCALED else {}
    return {**(ATTENTION if kernel.startswith("fa") else GEMM), **more}


@cache
def host(arch: str, *, clustered: bool = False) -> Host:
    """All kernels of an architecture, or those of Hopper whose thread blocks share loads."""
    kernels = (*BLACKWELL, *PAIRED) if arch == "sm100" else CLUSTERED if clustered else (*EXAMPLES, *OTHERS)
    with TemporaryDirectory() as folder:
        (Path(folder) / "all.cu").write_text(joined(kernels))
        return compiled(Path(folder) / "all.cu", Path(folder), [RUNTIME], f"{arch.removeprefix('sm')}a")


@cache
def build(kernel: str) -> Build:
    _, scheduled = loops(kernel)
    made = program(kernel)
    described = manifest(made, scheduled, dict.fromkeys((one.loop.path for one in scheduled), 1.0))
    name = kernel.replace(".", "_")
    compiled_with = host(architecture(kernel), clustered=kernel in CLUSTERED)
    return Build(replace(described, name=name), made.function, compiled_with)
