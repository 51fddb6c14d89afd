"""Waits for slots that come a round too late: a warp that sees the parity of the next round waits for ever."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.builds import build, numbers
from tests.kernels.programs import cuda
from twill.emulate import HazardError
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

KERNEL = "guarded"
"""Four warps load: some tiles by copies of all of them, others by TMA, which the first one starts, and whose
slots are released before the copies are waited for."""
ROUNDS = Request({}, (1, 1, 1))


def request(kernel: str) -> Request:
    """With enough iterations for every slot to be filled again."""
    return replace(ROUNDS, numbers=numbers(kernel) | {"K": 2048})


def test_the_warp_that_fills_a_slot_waits_for_it() -> None:
    assert wrong(build(KERNEL), run(build(KERNEL), request(KERNEL))) is None


def test_a_warp_that_only_waits_for_a_slot_is_found(tmp_path: Path) -> None:
    made = mutant(KERNEL, tmp_path)
    with pytest.raises(HazardError, match="a wait that comes later never ends"):
        run(made, request(KERNEL))


def mutant(kernel: str, place: Path) -> Build:
    """All warps of a group that loads wait for slots that TMA fills."""
    text, changes = re.subn(
        r"if \(thread\.warp == 0\) \{\s*(\S+\.producer_acquire\(.*\);)",
        r"{ \1",
        cuda(kernel),
    )
    assert changes
    (place / "kernel.cu").write_text(text)
    made = build(kernel)
    host = compiled(place / "kernel.cu", place, [RUNTIME], "90a")
    return replace(made, host=host, manifest=replace(made.manifest, name=made.function.name))
