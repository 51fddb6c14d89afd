"""A branch with results for several sub-tiles becomes several branches, and is costed as often as it is taken."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulate.test_values import grid
from twill.costs.machine import load
from twill.costs.model import costed
from twill.extract.dependence.build import graph
from twill.extract.dependence.frequency import UNKNOWN, Most, most_iterations
from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.split_branches import split_branches
from twill.ir.loop import Module
from twill.ir.problem import Problem
from twill.ops.table import role
from twill.simulate.compare import arguments, error
from twill.simulate.interpret import interpret
from twill.smt.symmetry import families

TEXT = Path("tests/kernels/ttgir/masked.sm90.ttgir").read_text(encoding="utf-8")


def module(text: str = TEXT) -> Module:
    return read(text, "masked.ttgir")


def values(one: Module, size: int) -> dict[str, Any]:
    function = one.functions[0]
    found, memory = arguments(function, {"N": size}, 1)
    interpret(function, found, memory, grid(0, 0, (1, 1)))
    return memory.arrays


@pytest.mark.parametrize("size", [64, 200])
def test_values_are_the_same(size: int) -> None:
    before, after = values(module(), size), values(split_branches(module()), size)
    for name in before:
        assert error(before[name].astype(float), after[name].astype(float)) < 1e-6


def test_each_result_has_a_branch_and_lines_stay() -> None:
    before, after = module(), split_branches(module())
    counts = [
        [len(op.results) for op in one.functions[0].walk() if role(op) == "if"] for one in (before, after)
    ]
    assert counts == [[2], [1, 1]]
    assert before.text.count("\n") == after.text.count("\n")
    assert [op.location.line for op in before.functions[0].walk() if role(op) == "yield"][-1] == [
        op.location.line for op in after.functions[0].walk() if role(op) == "yield"
    ][-1]


def test_a_branch_that_reads_what_another_results_in_is_divided_too() -> None:
    head, branch, rest = TEXT.partition("      } loc(#loc17)\n")
    kinds = "tensor<64x64xf32, #mma>, tensor<64x64xf32, #mma>"
    again = (
        f"      %again:2 = scf.if %12 -> ({kinds}) {{\n"
        f"        %low = arith.minimumf %13#0, %cst_0 : tensor<64x64xf32, #mma> loc(#loc17)\n"
        f"        scf.yield %low, %13#1 : {kinds} loc(#loc17)\n"
        f"      }} else {{\n        scf.yield %13#0, %13#1 : {kinds} loc(#loc17)\n      }} loc(#loc17)\n"
    )
    before = module(head + branch + again + rest.replace("%13#", "%again#"))
    after = split_branches(before)
    counts = [
        [len(op.results) for op in one.functions[0].walk() if role(op) == "if"] for one in (before, after)
    ]
    assert counts == [[2, 2], [1, 1, 1, 1]]
    assert before.text.count("\n") == after.text.count("\n")
    for one, other in zip(values(before, 200).values(), values(after, 200).values(), strict=True):
        assert error(one.astype(float), other.astype(float)) < 1e-6


def test_a_branch_that_stores_stays_whole() -> None:
    first = next(line for line in TEXT.splitlines() if "arith.cmpi slt" in line)
    stored = (
        "%zero = arith.constant 0.000000e+00 : f16 loc(#loc)\n tt.store %o, %zero : !tt.ptr<f16> loc(#loc)\n"
    )
    text = TEXT.replace(first, stored + first)
    assert split_branches(module(text)).text == text


def problem(text: str = TEXT) -> Problem:
    one = split_branches(module(text))
    (loop,) = loops(one)
    return costed(graph(one, loop), load("h200"))


def test_a_branch_of_the_last_iteration_costs_nothing_and_holds_no_second_tile() -> None:
    made = problem()
    branches = [op for op in made.operations if op.name == "scf.if"]
    assert [(op.reservations, op.issue, op.warps) for op in branches] == [((), 0, 4)] * 2
    assert [len(family) for family in families(made)] == [2]
    read = [use for value in made.values for use in value.uses if use.op in {op.id for op in branches}]
    assert read
    assert all(use.hold == 0 for use in read)


def test_a_branch_that_may_always_be_taken_is_costed() -> None:
    made = problem(TEXT.replace("arith.cmpi sgt, %", "arith.cmpi slt, %"))
    assert all(op.issue for op in made.operations if op.name == "scf.if")


BOUNDED = """module attributes {{"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @f(%n: i32, %m: i32) {{
    %c0 = arith.constant 0 : i32
    %c100 = arith.constant 100 : i32
    %c64 = arith.constant 64 : i32
    %end = arith.addi %m, %c100 : i32
    %upper = arith.minsi %end, %n : i32
    scf.for %i = {lower} to {upper} step %c64 : i32 {{
      %next = arith.addi %i, %c64 : i32
      %rest = arith.subi {of}, %i : i32
      %is = arith.cmpi {test} : i32
      scf.if %is {{
      }}
    }}
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("lower", "upper", "of", "test", "most"),
    [
        ("%c0", "%n", "%n", "sgt, %next, %n", (1, None)),  # i in (n - 64, n)
        ("%c0", "%n", "%n", "sge, %next, %n", (1, None)),
        ("%c0", "%n", "%n", "slt, %next, %n", (None, 1)),
        ("%c0", "%n", "%n", "slt, %rest, %c64", (1, None)),
        ("%c0", "%n", "%n", "sgt, %i, %n", (0, None)),
        ("%c0", "%n", "%n", "slt, %i, %c64", (1, None)),  # i = 0
        ("%c0", "%n", "%n", "sle, %i, %c64", (2, None)),  # i = 0, 64
        ("%m", "%n", "%n", "sge, %i, %m", (None, 0)),
        ("%m", "%n", "%n", "sgt, %i, %m", (None, 1)),
        ("%c0", "%upper", "%m", "sgt, %next, %m", (3, None)),  # i in (m - 64, m + 100)
        ("%c0", "%n", "%n", "sgt, %next, %m", UNKNOWN),
        ("%c0", "%n", "%n", "eq, %i, %m", UNKNOWN),
    ],
)
def test_iterations_of_a_condition(lower: str, upper: str, of: str, test: str, most: Most) -> None:
    function = read(BOUNDED.format(lower=lower, upper=upper, of=of, test=test), "f.ttgir").functions[0]
    loop = next(op for op in function.walk() if role(op) == "for")
    (branch,) = (op for op in function.walk() if role(op) == "if")
    assert most_iterations(function, loop, branch.operands[0]) == most
    if most != UNKNOWN:
        _count(lower, upper, test, most)


def _count(lower: str, upper: str, test: str, most: Most) -> None:
    """The bound is right for small numbers, and some reach it."""
    predicate, one, other = test.replace(",", "").split()
    holds = {"sgt": int.__gt__, "sge": int.__ge__, "slt": int.__lt__, "sle": int.__le__}[predicate]
    counts = list[tuple[int, int]]()
    for n in range(0, 400, 7):
        for m in range(0, 300, 9):
            known = {"%c0": 0, "%c64": 64, "%n": n, "%m": m, "%upper": min(m + 100, n)}
            truths = [
                holds(*(({**known, "%i": i, "%next": i + 64, "%rest": n - i})[name] for name in (one, other)))
                for i in range(known[lower], known[upper], 64)
            ]
            counts.append((sum(truths), len(truths) - sum(truths)))
    for bound, found in zip(most, ([one for one, _ in counts], [other for _, other in counts]), strict=True):
        assert bound is None or max(found) == bound
