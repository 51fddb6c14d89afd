"""Copies whose mask leaves out their last elements: an upper bound of columns, which need not be a multiple."""

import re
import shutil
from dataclasses import replace

import pytest

from tests.kernels.programs import loops, program
from twill.emulate import check as emulated
from twill.ir.loop import Op
from twill.ir.program import Program
from twill.ops.axis_info import AxisAnalysis
from twill.ops.pointer_loads import bounds_of_copies, copy_bytes
from twill.ops.table import role
from twill.simulate.check import Trial
from twill.targets import target

ENDS = (0, 8, 43, 1000)
"""Numbers of columns: of no copy and of all, of whole copies and of parts."""


def _load(analysis: AxisAnalysis, name: str) -> Op:
    return next(
        op for op in analysis.function.walk() if role(op) == "pointer_load" and op.result.name == name
    )


def test_one_comparison_of_a_mask_leaves_out_the_last_elements() -> None:
    """That of the columns; the one of the rows is the same for a whole copy."""
    analysis = AxisAnalysis(program("curtailed").function)
    load = _load(analysis, "%y_41")
    assert copy_bytes(analysis, load) == 16
    (found,) = bounds_of_copies(analysis, load, 16)
    assert program("curtailed").op(found).attributes["predicate"] == "slt"


def test_no_comparison_does_where_the_mask_is_that_of_all() -> None:
    analysis = AxisAnalysis(program("paged").function)
    loads = [op for op in analysis.function.walk() if role(op) == "pointer_load" and len(op.operands) > 1]
    assert loads
    assert not any(bounds_of_copies(analysis, op, copy_bytes(analysis, op)) for op in loads)


def test_the_mask_is_not_looked_at_where_the_whole_tile_is_inside() -> None:
    text = target("sm90").source(program("curtailed"))
    assert re.search(r"if \(.*63 < D.*\) \{", text)
    assert "cp_async_first<16>" in text


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_zeros_stand_behind_the_last_column(end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = program("curtailed")

    def trials(of: Program) -> list[Trial]:
        last = emulated.trials(of)[-1]
        return [replace(last, numbers={**last.numbers, "D": end})]

    monkeypatch.setattr(emulated, "chosen", trials)
    run = emulated.check(made, loops("curtailed")[1], target("sm90").source(made), lambda what: None)
    assert run.values
    assert run.error < 1e-4


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_remainders_of_what_is_loaded_are_passed_on() -> None:
    """A lane divides once for its row, and no copy does."""
    text = target("sm90").source(program("curtailed"))
    assert re.search(r"const int64_t number_\w+_of_lane = .*number_\w+_of_lane\) \+ \w+\) % \w+\);", text)
    assert not re.search(r"cp_async\w*<16>.* % ", text)
