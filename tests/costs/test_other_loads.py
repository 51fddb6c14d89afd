"""Which loads run ahead where memory does not let all of them."""

from dataclasses import replace

from tests.kernels.programs import EXAMPLES
from twill.costs.other_loads import others_ahead, waiting
from twill.inputs import Case, Inputs, cases
from twill.targets import EXACT_LAYOUTS


def case(kernel: str, **options: tuple[tuple[str, int], ...]) -> Case:
    arch = "sm100" if kernel.endswith(".sm100") else "sm90"
    path = f"examples/ttgir/{kernel.removesuffix('.sm100')}.{arch}.ttgir"
    (found,) = cases(replace(Inputs(path, arch=arch, exact_layouts=EXACT_LAYOUTS), **options))
    return found


def test_a_reader_that_follows_another_one_waits_no_more() -> None:
    """Scores follow from queries, and their gradient from the scores; weights, which the gradient of the
    result is multiplied with, do not follow from what else reads it."""
    graph = case("fa_bwd_subtiled").graph
    assert graph is not None
    readers = {value.node: waiting(graph, value) for value in graph.values}
    assert (readers["load.x1"], readers["load.g1"]) == (1, 2)


def test_loads_that_fewest_wait_for_do_not_run_ahead() -> None:
    found = case("fa_bwd_subtiled")
    assert found.graph is not None
    assert found.others_ahead is not None
    ahead = others_ahead(found.problem, found.graph)
    large = {load: ahead[load] for load in ("load.x0", "load.g0", "load.x1", "load.g1")}
    assert large == {"load.x0": 1, "load.g0": 1, "load.x1": 0, "load.g1": 1}
    assert found.others_ahead.operation("load.g1").streaming
    assert not found.others_ahead.operation("load.x1").streaming
    assert [op.id for op in found.others_ahead.operations] == [op.id for op in found.problem.operations]


def test_what_the_user_decided_stays() -> None:
    assert case("fa_bwd_subtiled", ahead=(("load.x1", 1),)).others_ahead is None


def test_where_all_loads_run_ahead_there_is_no_choice() -> None:
    for kernel in ("gemm", "fa_fwd", "fa_bwd"):
        assert kernel in EXAMPLES
        assert case(kernel).others_ahead is None


def test_where_a_warp_of_its_own_issues_mmas_the_choice_stays() -> None:
    assert case("fa_bwd.sm100").others_ahead is None
