"""The table of deliberate defects still applies, and a sample of them is found. `python -m tests.mutants`
runs all."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.run import applied, outcome
from tests.mutants.table import MUTANTS
from twill.diagnostics import TwillError

NAMED = {one.name: one for one in MUTANTS}
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


def test_every_defect_can_be_applied() -> None:
    assert len(MUTANTS) >= 60
    assert [name for name, times in Counter(one.name for one in MUTANTS).items() if times > 1] == []
    for one in MUTANTS:
        text = Path(one.file).read_text()
        assert applied(one, text) != text
        assert one.kernels or one.tests


def test_a_text_that_is_gone_is_an_error() -> None:
    with pytest.raises(TwillError, match="barrier-parity: its text occurs 0 times"):
        applied(NAMED["barrier-parity"], "")


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "judge"), [("half-bytes-runtime", "emulator: "), ("trips-down", "emulator: values")]
)
def test_generated_code_with_a_defect_is_found(name: str, judge: str) -> None:
    assert outcome(NAMED[name]).judge.startswith(judge)


@pytest.mark.parametrize(("name", "judge"), [("epilogue-skipped", "simulator"), ("any-stride", "tests")])
def test_a_defect_is_found_without_nvcc(name: str, judge: str) -> None:
    assert outcome(NAMED[name]).judge == judge
