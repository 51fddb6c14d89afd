"""The microbenchmarks on this machine's GPU: each record is positive, and a machine file takes them."""

from pathlib import Path

import pytest

from benchmarks.calibrate.calibrate import measure
from benchmarks.calibrate.machine import MACHINE, NUMBERS, Found, rewritten
from tests.gpu.kernels import ANY, here
from twill.costs.machine import load

pytestmark = pytest.mark.gpu(*ANY)


def test_costs_are_measured(tmp_path: Path) -> None:
    _, records = measure()
    assert all(one.each > 0 for one in records)
    found = [Found(one.name, one.parameters, one.once, one.each) for one in records]
    text, said = rewritten(MACHINE.read_text(), found, "results/here.json")
    (tmp_path / "here.toml").write_text(text)
    assert load(str(tmp_path / "here.toml")).arch == "sm100"
    assert here() != "sm100" or len(said) == len(NUMBERS)
