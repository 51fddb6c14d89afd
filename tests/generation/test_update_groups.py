"""Groups of their own for updates of accumulators in tensor memory."""

from dataclasses import replace

from tests.kernels.programs import loops
from twill.costs.model import costed
from twill.generation.choices.update_groups import with_update_group
from twill.ir.schedule import Solution
from twill.warp.tasks import Scheduled


def two_groups(kernel: str) -> Scheduled:
    """The loop with what each sub-tile computes in one group, updates included."""
    (one,) = loops(kernel)[1]
    homes = {"acc0": one.group("exp2.weights_38"), "acc1": one.group("exp2.weights_49")}
    group = tuple(
        next((home for name, home in homes.items() if f".{name}_" in op.id), one.group(op.id))
        for op in one.problem.operations
    )
    solution = Solution(one.solution.interval, one.solution.start, group)
    return replace(one, problem=costed(one.graph, one.machine), solution=solution)


def test_updates_leave_groups_that_have_too_much_to_do() -> None:
    one = two_groups("fa_fwd_subtiled.sm100")
    found = with_update_group(one.problem, one)
    assert found
    (updates,) = set(found.together) - set(one.problem.together)
    kinds = {node.id: node.kind for node in one.graph.nodes}
    assert {kinds[op] for op in updates} == {"tensor_update"}
    assert len(updates) == 2
    assert {op for pair in found.apart for op in pair} == {"exp2.weights_38", "exp2.weights_49", updates[0]}


def test_groups_with_time_to_spare_keep_them() -> None:
    one = two_groups("fa_fwd_subtiled.sm100")
    slow = replace(one, solution=replace(one.solution, interval=10_000))
    assert with_update_group(one.problem, slow) is None


def test_loops_without_updates_stay_as_they_are() -> None:
    (one,) = loops("gemm.sm100")[1]
    crowded = replace(one, solution=replace(one.solution, interval=1))
    assert with_update_group(one.problem, crowded) is None
