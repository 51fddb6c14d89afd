"""The example kernels, built for this machine's GPU from the schedules kept in
`tests/kernels/schedules`, and what is measured of them."""

from functools import cache
from pathlib import Path

import twill
from tests.conftest import architectures
from tests.kernels.programs import EXAMPLES, PAIRED
from twill.bench.contenders import Field, field
from twill.generation.builds.built import built
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.launch.load import load
from twill.warp.plan import Options

ARCHITECTURES = {"sm_90": "sm90", "sm_100": "sm100"}
"""By the name that a test's mark has."""
ANY = tuple(ARCHITECTURES)
SCHEDULES = Path(__file__).parents[1] / "kernels" / "schedules"
SOURCE = "examples/kernels.py"


def here() -> str:
    """The architecture of this machine's GPU. Without one, which skips all tests, that of Hopper."""
    return next((arch for name, arch in ARCHITECTURES.items() if name in architectures()), "sm90")


@cache
def kernel(name: str, *, dynamic: bool = False) -> twill.Kernel:
    """An example, or one of the kernels in other forms, as `tests.kernels.programs` names it but without the
    architecture; `..._pairs` for clusters of two thread blocks. `dynamic`: persistent, and its thread blocks
    take over tiles while they run."""
    arch, plain = here(), name.removesuffix("_pairs")
    folder = SCHEDULES / "sm100" if arch == "sm100" else SCHEDULES
    schedules = tuple(sorted(str(path) for path in folder.glob(f"{plain}.for.*.json")))
    example = plain.removesuffix("_polynomial")
    text = (
        Path("examples/ttgir" if example in EXAMPLES else "tests/kernels/ttgir") / f"{example}.{arch}.ttgir"
    )
    multistage = None if dynamic else False
    lowering = Options(pairs=f"{name}.{arch}" in PAIRED, dynamic=dynamic, multistage=multistage)
    inputs = Inputs(
        str(text), arch=arch, persistent=dynamic or None, polynomial_exp2=plain.endswith("_polynomial")
    )
    kept = () if dynamic else schedules
    options = GenerateOptions(schedules=kept, keep_schedules=True, lowering=lowering)
    return load(built(inputs, options))


@cache
def lineup(name: str) -> Field:
    return field(
        f"{SOURCE}:{name.removesuffix('_pairs').removesuffix('_polynomial')}", here(), {}, kernel(name)
    )
