"""Rows divided into sub-tiles: every kernel computes what it computes with whole tiles, and what can not be
divided is refused at its line."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from twill.diagnostics import TwillError
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.early_return import structured
from twill.extract.rewrite.subtile.rewriting import subtiled
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs, cases
from twill.ir.loop import Function, Module
from twill.ir.problem import Problem
from twill.ops.table import is_mma
from twill.simulate.compare import arguments, compare, error, scalars, useful
from twill.simulate.global_memory import Memory
from twill.simulate.index_arrays import Fills
from twill.simulate.interpret import interpret

EXAMPLES, FORMS, ROWS = "examples/ttgir", "tests/kernels/ttgir", "tests/extract/fixtures/rows"
DIVIDED = [
    *(f"{EXAMPLES}/{name}.sm90" for name in ("fa_fwd", "gemm", "gemm_reduction", "dual_gemm", "fa_bwd")),
    *(f"{ROWS}/{name}" for name in ("fa_fwd.sm100", "fa_fwd_causal.sm90", "gemm.sm100", "fa_bwd.sm100")),
    *(f"{FORMS}/{name}.sm90" for name in ("pointers", "bumped", "offset", "biased", "branching", "panels")),
    *(f"{FORMS}/{name}.sm90" for name in ("batched", "gathered_rows", "grouped", "rotated", "queries")),
    *(f"{FORMS}/{name}.sm90" for name in ("unpacked", "prefixes", "query_gradient", "dequantized", "scaled")),
]
PLACE = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 2, "grid.y": 2, "grid.z": 1}


def module(name: str) -> Module:
    path = Path(f"{name}.ttgir")
    return read(path.read_text(), str(path))


def kernel(made: Module) -> Function:
    return next(one for one in structured(made).functions if any(map(is_mma, one.walk())))


ORDER = 2e-5
"""Relative error of sums in another order, rounded to half precision: libraries of linear algebra differ."""


@pytest.mark.parametrize("name", DIVIDED)
def test_sub_tiles_compute_what_whole_tiles_compute(name: str) -> None:
    original = module(name)
    whole, divided = kernel(original), kernel(subtiled(original, 2))
    numbers = {one: min(value, 256) for one, value in scalars(whole, {}).items()}
    contents = useful(whole, numbers, PLACE)
    before = arguments(whole, numbers, 0, contents)[1]
    one, other = (executed(function, numbers, contents) for function in (whole, divided))
    assert one.arrays.keys() == other.arrays.keys()
    changed = 0
    for array, size in ((array, len(found)) for array, found in one.arrays.items()):
        expected, found = one.array(array, size)[:size], other.array(array, size)[:size]
        assert error(expected, found) < ORDER
        changed += int(np.count_nonzero(expected != before.array(array, size)[:size]))
    assert changed


def executed(function: Function, numbers: Mapping[str, float], contents: Fills) -> Memory:
    """The memory after one program."""
    values, memory = arguments(function, numbers, 0, contents)
    interpret(function, values, memory, PLACE)
    return memory


@pytest.mark.parametrize("name", DIVIDED)
def test_every_mma_by_rows_stands_twice_and_lines_stay_where_they_are(name: str) -> None:
    original = module(name)
    divided = subtiled(original, 2)
    assert divided.text.count("\n") == original.text.count("\n")
    mmas = [[op.location.line for op in kernel(one).walk() if is_mma(op)] for one in (original, divided)]
    assert sorted(mmas[0] * 2) == mmas[1]


def test_sub_tiles_of_64_rows_have_a_warpgroup_each() -> None:
    assert subtiled(module(f"{EXAMPLES}/fa_fwd.sm90"), 2).num_warps == 4
    assert subtiled(module(f"{ROWS}/fa_fwd.sm100"), 2).num_warps == 4
    assert subtiled(module(f"{ROWS}/gemm.sm100"), 2).num_warps == 4


def test_one_sub_tile_changes_nothing() -> None:
    original = module(f"{EXAMPLES}/fa_fwd.sm90")
    assert subtiled(original, 1) is original


def test_a_range_that_numbers_rows_and_columns_is_divided_for_the_rows() -> None:
    divided = kernel(subtiled(module(f"{ROWS}/fa_fwd_causal.sm90"), 2))
    starts = {
        (op.attributes["start"], op.attributes["end"]) for op in divided.walk() if op.name == "tt.make_range"
    }
    assert {(0, 64), (64, 128)} <= starts


def test_whole_tiles_that_a_loop_computes_for_sub_tiles_are_computed_for_each() -> None:
    """A row of scale factors, loaded once for all rows: no group hands it to another one."""
    text = subtiled(module(f"{FORMS}/scaled.sm90"), 2).text
    assert "%acc_38_s0 = tt.expand_dims" in text
    assert "%acc_38_s1 = tt.expand_dims" in text
    whole = module(f"{FORMS}/scaled.sm90").text
    assert text.count("tt.expand_dims") > whole.count("tt.expand_dims")


@pytest.mark.parametrize(
    ("name", "count", "reason", "line"),
    [
        (
            f"{EXAMPLES}/fa_fwd_subtiled.sm90",
            2,
            "an MMA of 64 rows is the smallest, and 32 would be left",
            64,
        ),
        (f"{EXAMPLES}/fa_fwd.sm100", 2, "an MMA of 128 rows is the smallest, and 64 would be left", 61),
        (f"{EXAMPLES}/gemm.sm90", 3, "128 rows do not divide into 3 sub-tiles", 52),
        (f"{FORMS}/epilogue.sm90", 2, "tt.reduce combines rows", 125),
        (f"{FORMS}/nested.sm90", 2, "scf.while", 62),
        (f"{FORMS}/matmul_mxfp8.sm100", 2, "ttng.tc_gen5_mma_scaled", 90),
    ],
)
def test_what_can_not_be_divided_is_refused_at_its_line(
    name: str, count: int, reason: str, line: int
) -> None:
    with pytest.raises(TwillError) as found:
        subtiled(module(name), count)
    assert reason in found.value.message
    assert found.value.location
    assert found.value.location.line == line
    assert found.value.help == "use --subtile 1"


def test_a_kernel_with_sub_tiles_is_compared_with_whole_tiles() -> None:
    """A divided kernel that computes something else is found out, though it agrees with its own TTGIR."""
    made = generate(
        Inputs(f"{EXAMPLES}/gemm.sm90.ttgir", arch="sm90", subtile=2), GenerateOptions(check=False)
    )
    numbers, whole = scalars(made.program.function, {}), made.program.module.undivided
    assert whole
    assert all(one.good for one in compare(made.program, numbers, PLACE))
    line = "%acc = arith.constant dense<0.000000e+00>"
    assert line in whole.text
    other = read(whole.text.replace(line, line.replace("0.0", "1.0")), whole.file)
    wrong = replace(made.program, module=replace(made.program.module, undivided=other))
    assert not all(one.good for one in compare(wrong, numbers, PLACE))


def test_graphs_of_sub_tiles_share_the_loads() -> None:
    whole, divided = (
        cases(Inputs(f"{EXAMPLES}/fa_fwd.sm90.ttgir", arch="sm90", subtile=count))[0].problem
        for count in (1, 2)
    )

    def count(problem: Problem, unit: str) -> int:
        return sum(op.id.startswith(unit) for op in problem.operations)

    assert [count(one, "load") for one in (whole, divided)] == [2, 2]
    assert [count(one, "dot") for one in (whole, divided)] == [2, 4]
