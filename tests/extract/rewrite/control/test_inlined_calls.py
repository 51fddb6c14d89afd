"""Functions that are called, in the place of their calls."""

from pathlib import Path

import pytest

pytest.importorskip("triton")

from twill.extract.frontend.triton import capture
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.inlined_calls import inlined
from twill.generation.refusals import refusals
from twill.inputs import Inputs, cases
from twill.ir.loop import Module

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def _tile(a, c, k, n):
    if k >= n:
        return
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for at in range(0, n, 64):
        x = tl.load(a + i * n + at + j)
        acc = tl.dot(x, x, acc)
    tl.store(c + k * 64 + i * 64 + j, acc)

@triton.jit
def twice(a: "*fp16", c: "*fp32", n: "i32"):
    for k in range(0, n, 64):
        _tile(a, c, k, n)
        _tile(a, c + n * 64, k, n)

@triton.jit(noinline=True)
def _scaled(x, by):
    return x * by

@triton.jit
def valued(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, _scaled(n, 2), 64):
        acc = tl.dot(tl.load(a + i * n + k + j), tl.load(a + i * n + k + j), acc)
    tl.store(c + i * 64 + j, acc)

@triton.jit(noinline=True)
def _either(x, by):
    if x > 3:
        return x
    return x * by

@triton.jit
def chosen(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, _either(n, 2), 64):
        acc = tl.dot(tl.load(a + i * n + k + j), tl.load(a + i * n + k + j), acc)
    tl.store(c + i * 64 + j, acc)
"""


_RETURNS = """
@triton.jit
def _summed(a, c, n):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    if n < 0:
        return n
    for k in range(0, n, 64):
        acc = tl.dot(tl.load(a + i * n + k + j), tl.load(a + i * n + k + j), acc)
    tl.store(c + i * 64 + j, acc)
    return n + 1

@triton.jit
def looped(a: "*fp16", c: "*fp32", n: "i32"):
    for i in range(0, n):
        tl.store(c, _summed(a, c, n + i).to(tl.float32))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "called.py").write_text(KERNELS + _RETURNS)
    return tmp_path / "called.py"


def names(module: Module) -> list[str]:
    return [op.name for function in module.functions for op in function.walk()]


@pytest.mark.parametrize(("kernel", "loops"), [("twice", 3), ("valued", 1)])
def test_nothing_is_called_any_more(source: Path, kernel: str, loops: int) -> None:
    module = read(capture(str(source), kernel, "sm90", {}), "called.ttgir")
    assert "tt.call" in names(module)
    made = inlined(module)
    assert [function.name for function in made.functions] == [kernel]
    assert "tt.call" not in names(made)
    assert names(made).count("scf.for") == loops
    assert inlined(made) is made


def test_operations_have_lines_of_their_own(source: Path) -> None:
    """Stores of two calls are not parts of one."""
    made = inlined(read(capture(str(source), "twice", "sm90", {}), "called.ttgir"))
    stores = [op.location.line for op in made.functions[0].walk() if op.name == "tt.store"]
    assert len(set(stores)) == len(stores) == 2


def test_loops_are_those_of_the_kernel(source: Path) -> None:
    found = cases(Inputs(f"{source}:twice", arch="sm90"))
    assert [case.name for case in found] == ["twice/for.0/for.0", "twice/for.0/for.1"]
    assert list(refusals(found)) == []


@pytest.mark.parametrize("kernel", ["chosen", "looped"])
def test_a_function_that_returns_one_of_two_values_is_not_inlined(source: Path, kernel: str) -> None:
    """Nor is the function with the loop taken for the kernel."""
    found = cases(Inputs(f"{source}:{kernel}", arch="sm90"))
    assert any(one.message.startswith("tt.call") for one in refusals(found))
