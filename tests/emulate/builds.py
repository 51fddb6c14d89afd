"""Builds of the example kernels and of those in other forms, from schedules kept with the tests. One run of
nvcc compiles them all."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kernels.programs import CARRIED, EXAMPLES, FORMS, INVARIANT, joined, loops, program
from twill.emulate.build import Build
from twill.emulate.host import Host, compiled
from twill.launch.build import RUNTIME
from twill.launch.manifest import manifest

OTHERS = (*FORMS, *INVARIANT, *CARRIED)
GEMM = {"M": 128, "N": 256, "K": 256}
ATTENTION = {"heads": 1, "length": 512, "scale": 0.09}


def numbers(kernel: str) -> dict[str, float]:
    """Scalar arguments for about four iterations."""
    return dict(ATTENTION if kernel.startswith("fa") else GEMM)


@cache
def host() -> Host:
    with TemporaryDirectory() as folder:
        (Path(folder) / "all.cu").write_text(joined((*EXAMPLES, *OTHERS)))
        return compiled(Path(folder) / "all.cu", Path(folder), [RUNTIME])


@cache
def build(kernel: str) -> Build:
    _, scheduled = loops(kernel)
    made = program(kernel)
    described = manifest(made, scheduled, dict.fromkeys((one.loop.path for one in scheduled), 1.0))
    return Build(replace(described, name=kernel), made.function, host())
