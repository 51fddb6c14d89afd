"""Build folders of the example kernels, from schedules kept with the tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kernels.programs import loops, program
from twill.emulate.build import Build, load
from twill.launch.manifest import manifest, write
from twill.targets.hopper import source

GEMM = {"M": 128, "N": 256, "K": 256}
ATTENTION = {"heads": 1, "length": 512, "scale": 0.09}


def numbers(kernel: str) -> dict[str, float]:
    """Scalar arguments for about four iterations."""
    return dict(ATTENTION if kernel.startswith("fa") else GEMM)


def write_build(folder: Path, kernel: str, cuda: str | None = None) -> None:
    """The folder of an example; `cuda` in place of what is generated."""
    made = program(kernel)
    _, scheduled = loops(kernel)
    (folder / "kernel.cu").write_text(cuda or source(made))
    (folder / "kernel.json").write_text(write(manifest(made, scheduled, dict.fromkeys((one.loop.path for one in scheduled), 1.0))))
    (folder / "kernel.ttgir").write_text(made.module.text)


@cache
def build(kernel: str) -> Build:
    with TemporaryDirectory() as folder:
        write_build(Path(folder), kernel)
        return load(Path(folder))
