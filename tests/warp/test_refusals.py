"""Everything that can not be generated, at once and before a search."""

from pathlib import Path

import pytest

pytest.importorskip("triton")

from twill.diagnostics import JointError, Location, TwillError, together
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.generation.refusals import refusals
from twill.inputs import Inputs, cases

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def odd(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        x = tl.load(a + i * n + k + j)
        acc = tl.dot(x, x, acc)
        acc = tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [acc], dtype=tl.float32, is_pure=False, pack=1)
    tl.device_print("acc", acc)
    tl.store(c + i * 64 + j, acc)
"""


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    (tmp_path / "odd.py").write_text(KERNEL)
    return Inputs(f"{tmp_path / 'odd.py'}:odd", arch="sm90")


def test_all_are_listed_with_what_they_mean_and_a_way_out(inputs: Inputs) -> None:
    error = together(refusals(cases(inputs)))
    assert isinstance(error, JointError)
    assert [(one.message, one.help) for one in error.errors] == [
        (
            "tt.elementwise_inline_asm in a loop can not be generated (PTX from outside)",
            "write it with Triton's operations",
        ),
        (
            "tt.print can not be generated (tl.device_print)",
            "remove it",
        ),
    ]
    assert all(one.location and one.text for one in error.errors)
    assert str(error).count("error:") == 2


def searched(*_: object) -> None:
    pytest.fail("there is no point")


def test_before_any_search(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    from twill import pipeline

    monkeypatch.setattr(pipeline, "solve", searched)
    with pytest.raises(TwillError, match=r"tt\.elementwise_inline_asm in a loop"):
        generate(inputs, GenerateOptions())


def test_kernels_that_are_generated_have_none() -> None:
    for path in sorted(Path("tests/kernels/ttgir").glob("*.sm90.ttgir")):
        assert list(refusals(cases(Inputs(str(path))))) == [], path.name


def test_one_error_stays_itself() -> None:
    one, other = TwillError("a", Location("f", 2)), TwillError("b", Location("f", 1))
    assert together([]) is None
    assert together([one, TwillError("a", Location("f", 2))]) is one
    assert str(together([one, other])) == "f:1:1: error: b\nf:2:1: error: a"


BARRIERS = """
import triton
import triton.language as tl

@triton.jit
def before(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        x = tl.load(a + i * n + k + j)
        tl.debug_barrier()
        acc = tl.dot(x, x, acc)
    tl.debug_barrier()
    tl.store(c + i * 64 + j, acc)

@triton.jit
def behind(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        x = tl.load(a + i * n + k + j)
        acc = tl.dot(x, x, acc)
        tl.debug_barrier()
        tl.store(c + i * 64 + j, acc)

@triton.jit
def begun(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.load(c + i * 64 + j)
    for k in range(0, n, 64):
        x = tl.load(a + i * n + k + j)
        acc = tl.dot(x, x, acc)
        tl.debug_barrier()
        tl.store(c + i * 64 + j, acc)

@triton.jit
def published(a: "*fp16", c: "*fp32", done: "*i32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        x = tl.load(a + i * n + k + j)
        acc = tl.dot(x, x, acc)
        tl.store(c + i * 64 + j, acc)
        tl.debug_barrier()
        tl.atomic_add(done, 1)

@triton.jit
def reread(a: "*fp16", c: "*fp16", o: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        x = tl.load(a + i * n + k + j)
        acc = tl.dot(x, x, acc)
    tl.store(c + i * 64 + j, acc.to(tl.float16))
    tl.debug_barrier()
    for k in range(0, n, 64):
        x = tl.load(a + i * n + k + j)
        acc = tl.dot(x, tl.load(c + i * 64 + j), acc)
    tl.store(o + i * 64 + j, acc)
"""


@pytest.mark.parametrize(
    ("kernel", "refused"), [("before", 0), ("behind", 0), ("begun", 0), ("published", 1), ("reread", 0)]
)
@pytest.mark.parametrize("arch", ["sm90", "sm100"])
def test_barriers_order_nothing_that_was_not_stored(
    kernel: str, refused: int, arch: str, tmp_path: Path
) -> None:
    (tmp_path / "barriers.py").write_text(BARRIERS)
    found = [*refusals(cases(Inputs(f"{tmp_path / 'barriers.py'}:{kernel}", arch=arch)))]
    assert len(found) == refused
    assert all(
        "barrier behind a store can not be generated (tl.debug_barrier())" in one.message for one in found
    )


STORED = """
import triton
import triton.language as tl

@triton.jit
def same(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        x = tl.load(a + i * n + k + j)
        tl.store(c + i * 64 + j, acc)
        acc = tl.dot(x, x, tl.load(c + i * 64 + j))
    tl.store(c + i * 64 + j, acc)

@triton.jit
def moving(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    for k in range(0, n, 64):
        x, at = tl.load(a + i * n + k + j), c + k * 64 + i * 64 + j
        tl.store(at, tl.dot(x, x, tl.load(at)))

@triton.jit
def shifted(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    for k in range(0, n, 64):
        x, at = tl.load(a + i * n + k + j), c + k * 64 + i * 64 + j
        y = tl.dot(x, x, tl.load(at))
        tl.debug_barrier()
        tl.store(at + 4096, y)

@triton.jit
def in_place(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    for k in range(0, n, 64):
        x, at = tl.load(a + i * n + k + j), c + k * 64 + i * 64 + j
        y = tl.dot(x, x, tl.load(at))
        tl.debug_barrier()
        tl.store(c + k * 64 + i * 64 + j, y)

@triton.jit
def unread(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for k in range(0, n, 64):
        x, at = tl.load(a + i * n + k + j), c + k * 64 + i * 64 + j
        acc = tl.dot(x, x, acc) + tl.load(at)
        tl.debug_barrier()
        tl.store(at, tl.zeros([64, 64], tl.float32))
    tl.store(c + n * 64 + i * 64 + j, acc)

@triton.jit
def again(a: "*fp16", c: "*fp32", n: "i32"):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    for m in range(0, n, 64):
        y = tl.load(a + i * n + m + j)
        for k in range(0, n, 64):
            x, at = tl.load(a + i * n + k + j), c + k * 64 + i * 64 + j
            tl.store(at, tl.dot(x, y, tl.load(at)))
"""


@pytest.mark.parametrize(
    ("kernel", "refused"),
    [("same", 1), ("moving", 0), ("shifted", 1), ("in_place", 0), ("unread", 1), ("again", 0)],
)
def test_what_a_kernel_stored_is_not_loaded_again(kernel: str, refused: int, tmp_path: Path) -> None:
    (tmp_path / "stored.py").write_text(STORED)
    found = [*refusals(cases(Inputs(f"{tmp_path / 'stored.py'}:{kernel}", arch="sm90")))]
    assert ["of memory that the kernel stores to before" in one.message for one in found] == [True] * refused
    assert all("in a loop behind it" in (one.help or "") for one in found)
