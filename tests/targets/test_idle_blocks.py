# pyright: basic
"""Blocks that have nothing to do return before anything is set up."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.kernels.programs import cuda
from twill.ir.loop import Scalar
from twill.ir.operands import Register
from twill.ir.statements import Compute, If, Write
from twill.targets.cuda.host.idle_blocks import returned_early

RETURN = "return;"


@pytest.mark.parametrize("kernel", ["bumped", "branching"])
def test_early_returns_come_before_barriers_and_tensor_maps(kernel: str) -> None:
    for function in cuda(kernel).split("__global__")[1:]:
        before, _, _ = function.partition("if (threadIdx.x == 0)")
        assert before.count(RETURN) == 1
        assert "mbarrier" not in before
        assert "tma_prefetch" not in before
        assert "__syncthreads" not in before


def test_a_kernel_without_early_return_has_none() -> None:
    assert "nothing to do" not in cuda("masked")


def _program(*conditions: str, loop: bool = False, clustered: bool = False) -> Any:
    """One group that computes a condition by each of these operations, the rest behind it; `loop`: with
    something behind the last one."""
    body: tuple[Any, ...] = ()
    for index in reversed(range(len(conditions))):
        computed = Compute(f"c{index}", (index,), writes=(Write(index, Register(f"c{index}")),))
        body = (computed, If(100 + index, None, body), *((computed,) if loop else ()))
    operations = {
        index: SimpleNamespace(name=name, inner=lambda: ()) for index, name in enumerate(conditions)
    }
    return SimpleNamespace(
        clustered=clustered,
        groups=(SimpleNamespace(body=body, variables=()),),
        op=lambda index: operations.get(index) or SimpleNamespace(operands=("condition",)),
        value=lambda index: SimpleNamespace(type=Scalar("i1")),
    )


def _lines(monkeypatch: pytest.MonkeyPatch, program: Any) -> list[str]:
    monkeypatch.setattr("twill.targets.cuda.host.idle_blocks.printed", lambda emitter, body: [])
    scope = SimpleNamespace(scalar=lambda value: value)
    emitter = SimpleNamespace(program=program, scope=lambda reads: scope)
    return [line.strip() for line in returned_early(program, lambda group: emitter, lambda one: [])]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (_program("arith.cmpi"), 1),
        (_program("arith.cmpi", "arith.cmpi"), 2),
        (_program("arith.cmpi", "tt.load", "arith.cmpi"), 1),
        (_program("tt.load"), 0),
        (_program("tt.store"), 0),
        (_program("arith.cmpi", loop=True), 0),
        (_program("arith.cmpi", clustered=True), 0),
    ],
)
def test_conditions_that_follow_from_arguments_alone_are_taken(
    monkeypatch: pytest.MonkeyPatch, program: Any, count: int
) -> None:
    assert _lines(monkeypatch, program).count("if (!condition) return;") == count
