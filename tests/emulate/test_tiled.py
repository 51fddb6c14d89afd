"""Kernels that load through pointers: which launches take the form with TMA, and that both forms are right."""

import shutil
from typing import Any

import pytest

from tests.kernels.builds import build
from twill.emulate import build as emulated
from twill.emulate.build import Request, run, wrong

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
BUMPED = {"M": 128, "N": 128, "K": 192, "stride": 192}


@pytest.mark.parametrize(
    ("kernel", "given", "tma"),
    [
        ("bumped", BUMPED, True),
        ("bumped", BUMPED | {"K": 80, "stride": 256}, True),
        ("bumped", BUMPED | {"M": 144}, False),
        ("bumped", BUMPED | {"N": 112, "K": 80}, False),
        ("pointers", {}, True),
        ("clamped", {"M": 128, "N": 128, "K": 192}, True),
        ("clamped", {"M": 256, "N": 128, "K": 192}, True),
        ("clamped", {"M": 112, "N": 128, "K": 192}, False),
        ("gathered_rows", {"M": 100}, True),
        ("gathered", {"M": 100, "K": 192}, True),
        ("gathered", {"M": 100, "K": 100}, False),
        ("distant", {"M": 64, "N": 64, "K": 192, "stride": 256, "first": 8}, True),
        ("distant", {"M": 64, "N": 64, "K": 128, "stride": 100, "first": 3}, False),
        ("bordered", {"M": 64, "apart": 48, "stride": 192}, True),
        ("listed", {}, True),
        ("columns", {"M": 64, "N": 64, "K": 96}, True),
        ("columns", {"M": 48, "N": 64, "K": 80}, True),
        ("decayed", {"K": 250, "stride": 128}, True),
        ("decayed", {"K": 130, "stride": 0}, False),
    ],
)
def test_a_launch_takes_tma_where_its_arguments_allow(
    kernel: str, given: dict[str, float], tma: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list[str]()
    kept = emulated.Host.call

    def call(host: emulated.Host, name: str, arguments: list[object], *more: Any) -> object:
        launched = list(kept(host, name, arguments, *more))
        names.extend(one.name for one in launched)
        return launched

    monkeypatch.setattr(emulated.Host, "call", call)
    grid = {"distant": (1, 1, 2), "bordered": (1, 4, 1)}.get(kernel, (1, 1, 1))
    compared = run(build(kernel), Request(given, grid))
    assert wrong(build(kernel), compared) is None, compared
    assert any(one.values > 100 for one in compared)
    assert ["_tma_kernel" in one for one in names] == [tma]
