"""What the loops of one kernel must have in common."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops
from twill.warp.alignment import CarriedSplitError, Ties, aligned, ties
from twill.warp.dataflow import read, variables
from twill.warp.thread_block import only_moves


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


def test_a_tie_to_an_earlier_loop_counts_before_one_that_begins_here() -> None:
    """The groups of the second loop are numbered the other way round, and one of them also has a tie, of an
    operation before, that the first loop does not know."""
    module, (first, second) = loops("fa_fwd_causal")
    turned = replace(second.solution, group=tuple((0, 2, 1)[group] for group in second.solution.group))
    other = replace(second, solution=turned)
    sets = [(first, "add.26", "sum"), (other, "add.26", "sum"), (other, "dot.scores0_31", "begun")]
    tied = Ties({(one.loop.path, node): name for one, node, name in sets})
    code = read(module, first.loop.function)
    found = aligned(code, [first, other], tied)
    assert [one.solution.group for one in found] == [first.solution.group, second.solution.group]


@pytest.mark.parametrize("wide", [True, False])
def test_a_loop_that_only_computes_shares_the_group_that_computes(wide: bool) -> None:
    """Its only group has the number of the group that loads in the next loop, which none of them is tied to;
    it is that one only where it has no more warps."""
    module, (first, second) = loops("fa_fwd_causal")
    one = replace(second.solution.groups[0], id=0, warps=4 if wide else 1)
    alone = replace(
        first, solution=replace(first.solution, group=(0,) * len(first.solution.group), groups=(one,))
    )
    code = read(module, first.loop.function)
    _, found = aligned(code, [alone, second], Ties({}))
    moving = {group.id for group in found.solution.groups if only_moves(group)}
    assert {group.id for group in second.solution.groups if only_moves(group)} == {0}
    assert (0 in moving) != wide
