"""Running maxima that last until they grow by more than a threshold: results are the same but for rounding."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from twill.diagnostics import TwillError
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.lasting_maxima import lasting
from twill.inputs import Inputs, cases
from twill.ir.loop import Module
from twill.simulate.compare import arguments, error
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

PLACE = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 2, "grid.y": 2, "grid.z": 1}
FORWARD = ("fa_fwd.sm90", "fa_fwd.sm100", "fa_fwd_subtiled.sm100", "fa_fwd_causal.sm100")
STEEP = 0.5
"""A scale of scores with which maxima grow by more than 8 in some rows, and by less in others."""


def module(name: str, *changes: tuple[str, str]) -> Module:
    path = Path(f"examples/ttgir/{name}.ttgir")
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return read(text, str(path))


def executed(made: Module, scale: float = STEEP) -> Memory:
    values, memory = arguments(made.functions[0], {"heads": 1, "length": 512, "scale": scale}, 3)
    interpret(made.functions[0], values, memory, PLACE)
    return memory


def rows(memory: Memory, name: str) -> np.ndarray:
    return np.asarray(memory.arrays[name], np.float64)


@pytest.mark.parametrize("name", FORWARD)
def test_attention_computes_the_same(name: str) -> None:
    before, zero, eight = (executed(one) for one in _forms(name))
    assert np.array_equal(rows(before, "o"), rows(zero, "o")), "a threshold of 0 changes no bit"
    assert np.array_equal(rows(before, "lse"), rows(zero, "lse"))
    assert 0 < error(rows(before, "o"), rows(eight, "o")) < 1e-3
    assert 0 < error(rows(before, "lse"), rows(eight, "lse")) < 1e-6


def _forms(name: str) -> tuple[Module, ...]:
    whole = module(name)
    return whole, lasting(whole, 0.0), lasting(whole, 8.0)


def test_maxima_stay_where_they_grow_by_little() -> None:
    """The carried maximum is stored in place of the logarithm: that of the first block of keys."""
    stored = ("math.log2 %total_8#1 :", "arith.subf %total_8#1, %total_8#1 :")
    whole = module("fa_fwd.sm100", stored)
    flat = 0.02
    first, every, kept = (
        rows(executed(one, flat), "lse")[:128] for one in (_of_one_block(whole), whole, lasting(whole, 8.0))
    )
    assert np.any(every > first)
    assert np.array_equal(kept, first)


def _of_one_block(whole: Module) -> Module:
    """The loop has one iteration alone."""
    text = whole.text.replace("to %length step %c128_i32", "to %c128_i32 step %c128_i32")
    assert text != whole.text
    return read(text, whole.file)


def test_lines_stay_where_they_are() -> None:
    whole = module("fa_fwd_causal.sm100")
    assert lasting(whole, 8.0).text.count("\n") == whole.text.count("\n")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gemm.sm100", ()),
        ("fa_bwd.sm100", ()),
        ("fa_fwd.sm100", (("math.exp2 %shrink :", "math.absf %shrink :"),)),
        ("fa_fwd.sm100", (("arith.maxnumf %highest_11,", "arith.minnumf %highest_11,"),)),
    ],
    ids=["no maximum", "not carried", "no exponential", "minimum"],
)
def test_other_kernels_are_refused(name: str, change: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(TwillError, match="no running maximum"):
        lasting(module(name, *change), 8.0)


@pytest.mark.parametrize("threshold", [-1.0, 9.0, float("nan")])
def test_wild_thresholds_are_refused(threshold: float) -> None:
    with pytest.raises(TwillError, match="from 0 to 8"):
        lasting(module("fa_fwd.sm100"), threshold)


def test_persistent_kernels_have_them() -> None:
    """The loop over tiles carries nothing and ends without a yield."""
    whole = Inputs("examples/ttgir/fa_fwd_subtiled.sm90.ttgir", subtile=1, persistent=True)
    (plain,) = cases(whole)
    (other,) = cases(replace(whole, rescale_threshold=8.0))
    assert other.problem != plain.problem


def test_what_is_generated_is_compared_with_the_kernel_as_written() -> None:
    inputs = Inputs("examples/ttgir/fa_fwd.sm100.ttgir", arch="sm100", rescale_threshold=8.0)
    (case,) = cases(inputs)
    assert case.module is not None
    assert case.module.undivided is not None
    assert "_kept" in case.module.text
    assert "_kept" not in case.module.undivided.text


def test_graph_files_have_no_maxima() -> None:
    with pytest.raises(TwillError, match="--rescale-threshold"):
        cases(Inputs("examples/graphs/attention.graph.json", rescale_threshold=0.0))
