"""Stores of several groups to the same memory outside of loops."""

import pytest

from tests.kernels.programs import cuda, loops, program
from twill.ir.loop import Op
from twill.ir.statements import TensorMemorySync, walk
from twill.targets.cuda.loops.barriers import _tells_others  # pyright: ignore[reportPrivateUsage]
from twill.warp.dataflow import EFFECTS, read
from twill.warp.disjoint import disjoint


@pytest.mark.parametrize("kernel", ["overwritten_random3", "overwritten_random1.sm100"])
def test_groups_synchronize_between_stores_to_the_same_memory(kernel: str) -> None:
    for group in program(kernel).groups:
        assert any(isinstance(one, TensorMemorySync) for one in walk(group.body))


@pytest.mark.parametrize(
    ("kernel", "by_tma"),
    [("exclusive_random2", True), ("settled", True), ("overwritten_random1.sm100", False)],
)
def test_what_tma_reads_or_wrote_is_complete_when_groups_synchronize(kernel: str, by_tma: bool) -> None:
    """Of what threads stored, the synchronization itself tells the other threads of a thread block."""
    assert program(kernel).orders_stores
    before, behind = cuda(kernel).split("named_barrier_sync(tensor_memory_sync", 1)
    assert ("__threadfence();" in before[-200:]) == by_tma
    assert ("fence_async();" in behind[:200]) == by_tma


@pytest.mark.parametrize(("kernel", "told"), [("drawn", True), ("signalled", False), ("settled", False)])
def test_atomic_operations_order_stores_themselves_unless_they_are_relaxed(kernel: str, told: bool) -> None:
    assert _tells_others(program(kernel)) == told


def stores(kernel: str) -> dict[str, list[Op]]:
    """Those of a function, by what they write to."""
    module, _ = loops(kernel)
    found = dict[str, list[Op]]()
    code = read(module, module.functions[0])
    for op in (op for op in code.ops.values() if op.name in EFFECTS):
        found.setdefault(op.name, []).append(op)
    return found


@pytest.mark.parametrize("kernel", ["fa_fwd_subtiled", "masked"])
def test_tiles_apart_from_each_other_do_not_meet(kernel: str) -> None:
    """The rows of one begin where those of the other end."""
    module, _ = loops(kernel)
    code = read(module, module.functions[0])
    pairs = [found for found in stores(kernel).values() if len(found) == 2]
    assert pairs
    for one, other in pairs:
        assert disjoint(code, one, other)
        assert not disjoint(code, one, one)


def test_rows_and_columns_may_meet() -> None:
    module, _ = loops("overwritten")
    one, other = stores("overwritten")["tt.store"][-2:]
    assert not disjoint(read(module, module.functions[0]), one, other)
