"""Changes of layout, and copies to shared memory, that are the same in every iteration are made once, before
the loop."""

from tests.extract.rewrite.control.test_predication import module
from twill.extract.dependence.loops import loops
from twill.extract.rewrite.control.predication import predicated
from twill.extract.rewrite.loads.invariant import hoisted
from twill.ir.loop import Module, Tensor
from twill.ops.table import role


def _changes(made: Module) -> set[str]:
    """Results of the changes of layout in the first innermost loop."""
    loop = next(one for one in loops(made) if one.innermost)
    return {
        op.result.name
        for op in loop.op.inner()
        if role(op) == "layout" and isinstance(op.result.type, Tensor)
    }


def test_an_operand_that_is_made_before_the_loop_changes_its_layout_there() -> None:
    before = predicated(module("chosen"))
    after = hoisted(before)
    moved = _changes(before) - _changes(after)
    assert len(moved) == 1
    assert _changes(after) == _changes(before) - moved
    outside = [op for op in after.functions[0].walk() if op.results and op.results[0].name in moved]
    assert len(outside) == 1
    assert before.text.count("\n") == after.text.count("\n")


def test_tiles_of_an_iteration_change_their_layout_in_it() -> None:
    made = predicated(module("dequantized"))
    assert hoisted(made) is made


def test_a_tile_that_is_made_before_the_loop_is_staged_there() -> None:
    """Tiles that an iteration loads are staged in it."""
    before = predicated(module("shelving"))
    after = hoisted(before)
    staged = (
        [op for one in loops(made) for op in one.op.inner() if role(op) == "alloc"]
        for made in (before, after)
    )
    own, left = map(len, staged)
    assert own == left + 1
    assert before.text.count("\n") == after.text.count("\n")
