"""Rewrites of a module: the same values, no linear value carried, lines that stay where they are."""

from pathlib import Path

import numpy as np
import pytest

from twill.extract.dependence.loops import loops
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.carried.induction import from_iteration
from twill.extract.rewrite.control.early_return import structured
from twill.ir.loop import Module, Scalar
from twill.simulate.compare import arguments
from twill.simulate.global_memory import Memory
from twill.simulate.interpret import interpret

SIZES = {"M": 200, "N": 136, "K": 160, "stride": 176}


def module(kernel: str) -> Module:
    path = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    return read(path.read_text(), str(path))


def executed(
    made: Module, pid: tuple[int, int], seed: int = 0, grid: int = 2, **sizes: int
) -> tuple[Memory, Memory]:
    """The memory after and before one program."""
    function = made.functions[0]
    numbers = {
        name: value
        for name, value in (SIZES | sizes).items()
        if name in {arg.name.lstrip("%") for arg in function.args}
    }
    values, memory = arguments(function, dict(numbers), seed)
    _, untouched = arguments(function, dict(numbers), seed)
    place = {"pid.x": pid[0], "pid.y": pid[1], "pid.z": 0, "grid.x": grid, "grid.y": 2, "grid.z": 1}
    interpret(function, values, memory, place)
    return memory, untouched


@pytest.mark.parametrize("kernel", ["bumped", "offset", "branching", "gemm"])
def test_lines_stay_where_they_are(kernel: str) -> None:
    path = Path(f"examples/ttgir/{kernel}.sm90.ttgir")
    original = read(path.read_text(), str(path)) if path.exists() else module(kernel)
    rewritten = from_iteration(structured(original))
    assert original.text.count("\n") == rewritten.text.count("\n")
    assert len(rewritten.functions[0].body.blocks) == 1  # pyright: ignore[reportOptionalMemberAccess]
    dots = [
        op.location.line
        for made in (original, rewritten)
        for op in made.functions[0].walk()
        if op.name == "ttng.warp_group_dot"
    ]
    assert dots[: len(dots) // 2] == dots[len(dots) // 2 :]


def test_what_has_neither_is_left_as_it_is() -> None:
    original = module("pointers")
    assert from_iteration(structured(original)).text == original.text


@pytest.mark.parametrize("K", [0, 64, 160])
def test_a_linear_value_is_the_same_from_the_iteration_as_carried(K: int) -> None:
    original = module("offset")
    rewritten = from_iteration(original)
    assert [len(loop.carried) for made in (original, rewritten) for loop in loops(made)] == [3, 1]
    (one, _), (other, before) = executed(original, (1, 0), K=K), executed(rewritten, (1, 0), K=K)
    size = len(before.array("c", 200 * 136))
    assert np.array_equal(one.array("c", size), other.array("c", size))
    assert not np.array_equal(one.array("c", size), before.array("c", size))


def test_pointers_are_computed_from_the_iteration() -> None:
    rewritten = from_iteration(structured(module("bumped")))
    assert [len(loop.carried) for loop in loops(rewritten)] == [1]
    memory, before = executed(rewritten, (1, 0))
    a = before.array("a", 200 * 176)[: 200 * 176].reshape(200, 176)[128:, :160].astype(np.float32)
    b = before.array("b", 160 * 136)[: 160 * 136].reshape(160, 136)[:, :128].astype(np.float32)
    c = memory.array("c", 200 * 136)[: 200 * 136].reshape(200, 136)
    assert np.allclose(c[128:, :128], a @ b, rtol=2e-3, atol=2e-3)
    assert np.array_equal(c[:128], before.array("c", 200 * 136)[: 200 * 136].reshape(200, 136)[:128])


def test_pointers_that_two_loops_carry_are_computed_from_both_iterations() -> None:
    rewritten = from_iteration(structured(module("strips")))
    assert [len(loop.carried) for loop in loops(rewritten)] == [1, 1]


def test_programs_that_return_early_do_what_they_do_before_that() -> None:
    made = structured(module("branching"))
    memory, before = executed(made, (2, 0))
    assert np.array_equal(memory.array("c", 1), before.array("c", len(memory.array("c", 1)))), (
        "beyond the end: nothing"
    )
    for seed in range(6):
        memory, before = executed(made, (0, 0), seed)
        rows = memory.array("c", 200 * 136)[: 128 * 136].reshape(128, 136)[:, :128]
        assert bool((rows == 0).all()) == (before.array("sizes", 1)[0] == 0)
        assert np.array_equal(
            memory.array("c", 1)[128 * 136 :], before.array("c", len(memory.array("c", 1)))[128 * 136 :]
        )


def test_both_branches_of_a_kernel_end_it() -> None:
    """Of four programs: the first two, the third, and the last, which returns early."""
    original = module("parting")
    assert len(original.functions[0].body.blocks) > 1  # pyright: ignore[reportOptionalMemberAccess]
    made = structured(original)
    assert original.text.count("\n") == made.text.count("\n")
    for pid in range(4):
        memory, before = executed(made, (pid, 0), grid=4, M=256, K=64)
        rows = (
            one.array("c", 256 * 64)[64 * 64 * pid :][: 64 * 64].astype(np.float32)
            for one in (memory, before)
        )
        after, untouched = rows
        a = before.array("a", 256 * 64)[: 256 * 64].reshape(256, 64)[64 * pid :][:64].astype(np.float32)
        b = before.array("b", 64 * 64)[: 64 * 64].reshape(64, 64).astype(np.float32)
        wanted = untouched if pid == 3 else (a @ b).ravel() * (1, 1, 2)[pid]
        assert np.allclose(after, wanted, rtol=2e-3, atol=2e-3)


def test_a_step_that_would_overflow_is_multiplied_in_64_bits() -> None:
    rewritten = from_iteration(structured(module("bumped")))
    (loop,) = loops(rewritten)
    steps = [
        op.result.type for op in loop.ops if op.name == "arith.muli" and op.result.name.startswith("%twill")
    ]
    assert steps == [Scalar("i64"), Scalar("i64")]
