"""Behind its loops a group loads each tile from tensor memory where it is used."""

import pytest

from tests.kernels.programs import program
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.operands import ONCE
from twill.ir.program import Program
from twill.ir.statements import Compute, Statement, StoreTile, walk
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


def test_sub_tiles_of_a_group_are_stored_one_after_the_other() -> None:
    """What is computed from the second one's accumulator waits too: 256 columns of both are too many
    registers for a thread."""
    pytest.importorskip("triton")
    sizes = (("BLOCK_M", "256"), ("BLOCK_N", "256"))
    inputs = Inputs("examples/kernels.py:gemm", arch="sm100", settings=sizes, subtile=2)
    made = generate(inputs, GenerateOptions(time_limit=10, check=False)).program
    stored = next(group.body for group in made.groups if any(isinstance(it, StoreTile) for it in group.body))
    words = [type(it) for it in stored if isinstance(it, StoreTile) or reads_accumulators(made, it)]
    assert words == [Compute, StoreTile] * 2


def reads_accumulators(made: Program, statement: Statement) -> bool:
    ops = statement.ops if isinstance(statement, Compute) else ()
    return any(role(made.op(index)) == "tensor_memory_load" for index in ops)
