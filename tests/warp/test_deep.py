"""Schedules with more iterations in flight: values with several instances, loops of fewer iterations than
stages."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType

import networkx as nx
import pytest

from tests.kernels.programs import loops
from tests.simulate.test_values import grid
from twill.diagnostics import DefectError
from twill.ir.program import Program
from twill.ir.statements import Move, Pipelined, walk
from twill.simulate.compare import compare
from twill.simulate.explore import explore, same
from twill.targets.hopper import TARGET
from twill.warp.lower import lower

_NONE: Mapping[str, int] = MappingProxyType({})
LATER = ("load.z", "trunc.acc_21", "mul.acc_24", "dot.acc_26")


def later(kernel: str, intervals: dict[str, int], cycles: Mapping[str, int] = _NONE) -> Program:
    """An example with some operations so many intervals and cycles later than need be, and room for the
    channels that this takes."""
    module, (one,) = loops(kernel)
    solution = one.solution
    starts = tuple(
        start + solution.interval * intervals.get(op.id, 0) + cycles.get(op.id, 0)
        for op, start in zip(one.problem.operations, solution.start, strict=True)
    )
    problem = replace(one.problem, limits=replace(one.problem.limits, shared=1 << 20))
    return lower(module, [replace(one, problem=problem, solution=replace(solution, start=starts))], TARGET)


def delayed(intervals: int) -> Program:
    """`fa_fwd`, with the MMA of weights and values later."""
    return later("fa_fwd", dict.fromkeys(LATER, intervals))


@pytest.mark.parametrize("intervals", [1, 2])
def test_values_that_outlive_an_interval_are_kept(intervals: int) -> None:
    made = delayed(intervals)
    loop = next(s for s in walk(made.groups[1].body) if isinstance(s, Pipelined))
    assert loop.stages == 2 + intervals
    assert {move.variable for move in loop.steady if isinstance(move, Move)} >= {
        "weights_18",
        "shrink_19",
        "highest_6",
    }
    assert max(move.age for move in loop.steady if isinstance(move, Move)) == intervals
    assert loop.short


@pytest.mark.parametrize("intervals", [1, 2])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 6])
def test_every_trip_count_gives_the_same_values(intervals: int, blocks: int) -> None:
    made = delayed(intervals)
    assert explore(made, same(blocks)).complete
    found = compare(made, {"heads": 1, "length": 128 * blocks, "scale": 0.09}, grid(0, 0, (blocks, 1)))
    assert all(one.good for one in found), found


@pytest.mark.parametrize("trips", [1, 2, 3, 6])
def test_sums_of_two_mmas_outlive_the_first_one_of_the_next_iteration(trips: int) -> None:
    """The second adds to the sum in the interval after, and only then is it read."""
    made = later("chunked", {"trunc.0": 1, "store.o_desc": 1}, {"dot.t_17": 294})
    loop = next(s for s in walk(made.groups[1].body) if isinstance(s, Pipelined))
    assert [(s.variable, s.age) for s in loop.steady if isinstance(s, Move)] == [("t_14", 1)]
    assert explore(made, same(trips)).complete
    found = compare(made, {"K": 64 * trips}, grid(0, 0, (1, 1)))
    assert all(one.good for one in found), found


def test_an_mma_that_would_add_to_an_older_sum_is_refused() -> None:
    """The first of the next iteration has overwritten it."""
    with pytest.raises(DefectError, match="is overwritten before"):
        later("chunked", {"dot.t_17": 1, "trunc.0": 2, "store.o_desc": 2})


@pytest.mark.parametrize("kernel", ["fa_fwd", "fa_fwd_subtiled", "gemm_reduction", "dual_gemm"])
@pytest.mark.parametrize("seed", range(4))
def test_random_delays_change_nothing(kernel: str, seed: int) -> None:
    """Any schedule that keeps the dependences gives a program without hazards and with the same values."""
    random = Random(f"{kernel} {seed}")
    _, (one,) = loops(kernel)
    graph = nx.DiGraph([(edge.src, edge.dst) for edge in one.problem.edges])
    parts = nx.condensation(graph)
    extra = dict[int, int]()

    def first(part: int) -> str:
        return min(parts.nodes[part]["members"])

    for part in nx.lexicographical_topological_sort(parts, key=first):
        extra[part] = max((extra[before] for before in parts.predecessors(part)), default=0) + (
            random.random() < 0.1
        )
    made = later(kernel, {op: extra[part] for part in parts for op in parts.nodes[part]["members"]})
    assert all(explore(made, same(trips)).complete for trips in (0, 1, 2, 3, 5))
    numbers = (
        {"heads": 1, "length": 384, "scale": 0.09}
        if kernel.startswith("fa")
        else {"M": 256, "N": 256, "K": 192}
    )
    found = compare(made, numbers, grid(0, 0, (1, 1)))
    assert all(result.good for result in found), found
