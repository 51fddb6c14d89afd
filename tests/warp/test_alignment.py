"""What the loops of one kernel must have in common."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops
from twill.warp.alignment import CarriedSplitError, ties
from twill.warp.dataflow import read, variables


def test_what_is_computed_from_results_of_loops_shares_their_group() -> None:
    """The second loop begins with the result of the first, the third reads that of the second, and both are
    stored together."""
    module, scheduled = loops("surrounded")
    parts = [(one.loop, one.graph) for one in scheduled]
    code = read(module, parts[0][0].function)
    found = ties(code, parts, variables(code, [loop for loop, _ in parts])).sets
    mmas = [(loop.path, node.id) for loop, graph in parts for node in graph.nodes if node.kind == "mma"]
    assert len(mmas) == 3
    assert len({found[mma] for mma in mmas}) == 1
    loads = [(loop.path, node.id) for loop, graph in parts for node in graph.nodes if node.kind == "load"]
    assert not found.keys() & set(loads)


def test_results_that_are_stored_together_are_not_in_two_groups() -> None:
    """Attention whose accumulator and sums of rows are in two groups: one store divides one by the other."""
    module, (first, second) = loops("fa_fwd_causal")
    parts = [(one.loop, one.graph) for one in (first, second)]
    code = read(module, first.loop.function)
    found = ties(code, parts, variables(code, [loop for loop, _ in parts]))
    assert set(found.homes(code, first)) == set(found.homes(code, second))
    group = tuple(
        3 - g if op.id == "add.26" else g
        for op, g in zip(first.problem.operations, first.solution.group, strict=True)
    )
    torn = replace(first, solution=replace(first.solution, group=group))
    with pytest.raises(CarriedSplitError, match="would change its group"):
        found.homes(code, torn)
