"""The example kernels, built from the schedules kept in `tests/kernels/schedules`, and what is measured of
them."""

from functools import cache
from pathlib import Path

import twill
from twill.bench.contenders import Field, field

SCHEDULES = Path(__file__).parents[1] / "kernels" / "schedules"
EXAMPLES = "examples/kernels.py"


@cache
def kernel(name: str, arch: str = "sm90") -> twill.Kernel:
    folder = SCHEDULES / "sm100" if arch == "sm100" else SCHEDULES
    schedules = sorted(str(path) for path in folder.glob(f"{name}.for.*.json"))
    return twill.compile(f"examples/ttgir/{name}.{arch}.ttgir", arch=arch, schedules=schedules)


@cache
def lineup(name: str, arch: str = "sm90") -> Field:
    return field(f"{EXAMPLES}:{name}", arch, {}, kernel(name, arch))
