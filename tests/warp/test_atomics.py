"""Atomic operations whose results are read: by the group that executes them, and by no other."""

from pathlib import Path

import pytest

from tests.kernels.programs import program
from tests.simulate.test_values import grid
from twill.diagnostics import TwillError
from twill.extract.reader.ttgir import read
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.generation.refusals import refusals
from twill.inputs import Inputs, cases
from twill.ir.statements import Compute, walk
from twill.ops.table import role
from twill.simulate.compare import arguments
from twill.simulate.interpret import interpret
from twill.warp.plan import Options

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def drawn(a: "*fp16", b: "*fp16", c: "*fp32", next: "*i32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    BEFORE
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        INSIDE
        acc = tl.dot(tl.load(a + (tile * 64 + i) * n + k + j), tl.load(b + (k + i) * 64 + j), acc)
    tl.store(c + (tile * 64 + i) * 64 + j, acc)
"""

WAITS = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @wait(%lock: !tt.ptr<i32>) {
    %nine = arith.constant 9 : i32
    %found = scf.while (%x = %nine) : (i32) -> i32 {
      %old = tt.atomic_cas acq_rel, gpu, %lock, %nine, %nine : (!tt.ptr<i32>, i32, i32) -> i32
      %other = arith.cmpi ne, %old, %nine : i32
      scf.condition(%other) %old : i32
    } do {
    ^bb0(%y: i32):
      scf.yield %y : i32
    }
    tt.return
  }
}
"""


def inputs(folder: Path, before: str, inside: str) -> Inputs:
    (folder / "drawn.py").write_text(KERNEL.replace("BEFORE", before).replace("INSIDE", inside))
    return Inputs(f"{folder / 'drawn.py'}:drawn", arch="sm90")


def test_maxima_of_floats_are_those_of_their_bits(tmp_path: Path) -> None:
    """Triton writes a signed maximum and an unsigned minimum, of one array: one group executes both, in order.
    Of 64-bit integers, CUDA has sums for `unsigned long long`."""
    before = "best, tile = c.to(tl.pointer_type(tl.float32)) + 64 * j, 0"
    inside = (
        "tl.atomic_max(best, k.to(tl.float32)); tl.atomic_add((next + 64).to(tl.pointer_type(tl.int64)), 1)"
    )
    made = generate(inputs(tmp_path, before, inside), GenerateOptions(time_limit=20, check=False))
    text = made.cuda
    assert "atomicMax(reinterpret_cast<int*>(" in text
    assert "atomicMin(reinterpret_cast<unsigned int*>(" in text
    assert "atomicAdd(reinterpret_cast<unsigned long long*>(" in text


def test_one_group_executes_them() -> None:
    made = program("drawn")
    executing = [
        group.id
        for group in made.groups
        for statement in walk(group.body)
        if isinstance(statement, Compute)
        for index in statement.ops
        if role(made.op(index)) in ("atomic", "atomic_exchange")
    ]
    assert len(executing) == 4
    assert len(set(executing)) == 1


def test_a_result_that_several_groups_need_is_for_one_group(tmp_path: Path) -> None:
    """A tile drawn from a counter: the groups that load and that store would draw one each."""
    given = inputs(tmp_path, "tile = tl.atomic_add(next, 1)", "pass")
    several = GenerateOptions(time_limit=5, check=False, lowering=Options(multistage=False))
    with pytest.raises(TwillError, match=r"the result of tt\.atomic_rmw is used.*by several groups"):
        generate(given, several)
    made = generate(given, GenerateOptions(time_limit=5, check=False))
    assert len(made.program.groups) == 1


def test_a_result_in_a_loop_is_refused_before_any_search(tmp_path: Path) -> None:
    found = [
        error.message
        for error in refusals(cases(inputs(tmp_path, "tile = 0", "tile += tl.atomic_add(next, 1)")))
    ]
    assert any("tt.atomic_rmw in a loop whose result is used can not be generated" in one for one in found)


def test_a_loop_that_waits_for_another_program_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.simulate.interpret.MOST", 1000)
    function = read(WAITS, "wait.ttgir").functions[0]
    values, memory = arguments(function, {})
    with pytest.raises(TwillError, match="does not end within 1000 iterations"):
        interpret(function, values, memory, grid(0, 0, (1, 1)))
