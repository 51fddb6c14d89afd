"""The example kernels as warp programs, from schedules kept in `schedules/` (found by `twill schedule`, so that no test has to search)."""

from functools import cache
from pathlib import Path

from twill.codegen.lower import Options, lower
from twill.codegen.nodes import Scheduled
from twill.files import load, read_schedule
from twill.inputs import Inputs, cases
from twill.ir.loop import Module
from twill.ir.program import Program

FORMS = (
    *("product_bf16", "product_e4m3", "product_e5m2_64", "product_e4m3_32", "product_tf32", "product_narrow", "product_bands"),
    "product_across",
)
"""Kernels of `kernels.py`, compiled and scheduled by `make_fixtures.py`."""
EXAMPLES = ("gemm", "gemm_persistent", "dual_gemm", "gemm_reduction", "fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal", "fa_bwd")
_HERE = Path(__file__).parent


@cache
def loops(kernel: str) -> tuple[Module, tuple[Scheduled, ...]]:
    """The module of an example, or of one of the kernels in other forms, and its loops with their schedules."""
    folder = "examples/ttgir" if kernel in EXAMPLES else "tests/codegen/ttgir"
    found = cases(Inputs(f"{folder}/{kernel}.sm90.ttgir", arch="sm90"))
    scheduled = list[Scheduled]()
    for i, case in enumerate(found):
        path = str(_HERE / "schedules" / f"{kernel}.for.{i}.json")
        result = read_schedule(load(path), path).result
        assert case.loop
        assert case.graph
        assert result.solution
        scheduled.append(Scheduled(case.loop, case.graph, result.problem, result.solution))
    module = found[0].module
    assert module
    return module, tuple(scheduled)


@cache
def program(kernel: str) -> Program:
    return lower(*loops(kernel))


def changed(kernel: str, options: Options) -> Program:
    """The example with other options."""
    return lower(*loops(kernel), options)
