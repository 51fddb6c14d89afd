"""Behind its loops a group loads each tile from tensor memory where it is used."""

import pytest

from tests.kernels.programs import program
from twill.ir.operands import ONCE
from twill.ir.program import Program
from twill.ir.statements import Compute, walk
from twill.ops.table import role
from twill.simulate.check import check


def kept(made: Program) -> list[str]:
    """The tiles that a statement loads from tensor memory and others read."""
    found = list[str]()
    for statement in (one for group in made.groups for one in walk(group.body)):
        if isinstance(statement, Compute) and statement.at.iteration == ONCE:
            loads = (made.op(index) for index in statement.ops)
            own = {one.id for op in loads if role(op) == "tensor_memory_load" for one in op.results}
            found += [write.register.variable for write in statement.writes if write.value in own]
    return found


@pytest.mark.parametrize("kernel", ["fa_bwd.sm100", "fa_bwd_subtiled.sm100"])
def test_two_accumulators_are_loaded_one_after_the_other(kernel: str) -> None:
    """The second gradient waits in tensor memory while the first is stored."""
    made = program(kernel)
    assert not kept(made)
    assert any(run.values for run in check(made, lambda what: None).runs)
