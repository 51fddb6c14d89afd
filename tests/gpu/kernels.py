"""The example kernels, built from the schedules kept in `tests/kernels/schedules`, and what is measured of
them."""

from functools import cache
from pathlib import Path

import twill
from twill.bench.contenders import Field, field

SCHEDULES = Path(__file__).parents[1] / "kernels" / "schedules"
EXAMPLES = "examples/kernels.py"


@cache
def kernel(name: str) -> twill.Kernel:
    schedules = sorted(str(path) for path in SCHEDULES.glob(f"{name}.for.*.json"))
    return twill.compile(f"examples/ttgir/{name}.sm90.ttgir", schedules=schedules)


@cache
def lineup(name: str) -> Field:
    return field(f"{EXAMPLES}:{name}", "sm90", {}, kernel(name))
