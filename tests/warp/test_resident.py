"""A tile that threads load before a loop is staged by a group that holds tiles, also for an MMA of the warp that
loads."""

from dataclasses import replace

import pytest

from tests.kernels.programs import loops
from twill.ir.program import Program
from twill.ir.statements import ProducerStore, walk
from twill.simulate.check import check
from twill.targets import target
from twill.warp.copies import with_copies
from twill.warp.dataflow import read
from twill.warp.lower import lower
from twill.warp.thread_block import copying, launch, most_registers


def moved(group: int) -> Program:
    """Attention whose first MMA, which reads such a tile, is one of another group."""
    module, (one,) = loops("queries_low.sm100")
    at = one.problem.index("dot.s_30")
    groups = tuple(group if i == at else other for i, other in enumerate(one.solution.group))
    scheduled = replace(one, solution=replace(one.solution, group=groups))
    return lower(module, [scheduled], target("sm100"))


def test_a_wide_group_stages_for_the_warp_that_loads() -> None:
    made = moved(0)
    (channel,) = (one for one in made.channels if one.filled_by == "threads" and one.consumers == (0,))
    wide = next(group for group in made.groups if group.id == channel.producer)
    assert wide.warps == 4
    stores = [one for one in walk(wide.body) if isinstance(one, ProducerStore)]
    assert [one.channel for one in stores].count(channel.id) == 1
    assert target("sm100").source(made)
    assert any(run.values for run in check(made, lambda what: None).runs)


def test_a_group_that_reads_it_stages_it_itself() -> None:
    assert not any(one.filled_by == "threads" and one.consumers == (0,) for one in moved(1).channels)


@pytest.mark.parametrize("kernel", ["pointers", "queries"])
def test_what_stays_in_registers_fits_beside_threads_that_copy(kernel: str) -> None:
    """A tile stays in registers where these are left by the schedule, and by threads that copy tiles."""
    module, (one,) = loops(kernel)
    code = with_copies(read(module, one.loop.function), (one,))
    copies = copying(one.machine.copies, code, [[node.ops for node in one.graph.nodes]])
    groups = one.solution.groups
    most = most_registers(groups, one, copies)
    block = launch(groups, one)
    computing = sum(32 * group.warps * most[group.id] for group in groups if group.warps >= 4)
    left = block.entry_registers * block.threads - computing
    assert left >= 128 * max(24, copies)
    assert left - 128 * max(24, copies) < 128 * len(groups) * 8
    assert (copies > 24) == (kernel == "pointers")
