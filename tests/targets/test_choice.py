"""The launcher of a kernel of several forms."""

from dataclasses import replace

from tests.kernels.programs import changed, program
from twill.ir.program import BlockPace, Program
from twill.targets.hopper import source
from twill.warp.plan import Options

KERNEL = "matmul_32"
FIRST = BlockPace(8, 400.4, 100)


def forms(*paces: BlockPace) -> Program:
    """The kernel beside forms of fewer blocks on an SM, with these paces."""
    others = (replace(changed(KERNEL, Options(most_blocks=one.blocks)), pace=one) for one in paces)
    return replace(program(KERNEL), pace=FIRST, others=tuple(others))


def test_a_kernel_without_a_choice_is_launched_as_it_is() -> None:
    text = source(program(KERNEL))
    assert "Choice" not in text
    assert "Form " not in text


def test_fewer_blocks_are_kept_off_by_shared_memory() -> None:
    text = source(replace(program(KERNEL), pace=FIRST))
    assert "const Form forms[] = {{8, 400, 100}};" in text
    own = program(KERNEL).shared.bytes + 1024
    assert f"const int bytes = choice.bytes > {own} ? choice.bytes : {own};" in text
    assert text.count(", bytes, stream>>>") == text.count("<<<")


def test_each_form_has_kernels_and_a_launcher() -> None:
    text = source(forms(BlockPace(1, 200, 100)))
    assert "const Form forms[] = {{8, 400, 100}, {1, 200, 100}};" in text
    assert "if (choice.form == 1) return " in text
    assert text.count("_1_blocks_launch(") == 2
    assert text.count("static int\n") == 1
    assert text.count('extern "C" int\n') == 1


def test_a_form_for_long_loops_is_not_chosen_by_the_grid() -> None:
    text = source(forms(BlockPace(1, 200, 100, long_loop=48)))
    assert "const Form forms[] = {{8, 400, 100}};" in text
    assert text.index("int64_t iterations = 0;") < text.index("if (iterations >= 48) return ")
    assert "Choice{}, stream);" in text
    assert "choice.form ==" not in text


def test_a_launch_divides_what_stands_around_a_loop_among_its_iterations() -> None:
    counted = {"around": 1600, "trips": 16}
    text = source(replace(forms(BlockPace(1, 200, 100, **counted)), pace=BlockPace(8, 400.4, 100, **counted)))
    assert "const Form forms[] = {{8, 300 + around, 100}, {1, 100 + around, 100}};" in text
    before = [
        text.index(one) for one in ("int64_t iterations = 0;", "const double around = 1600 / ", "Form ")
    ]
    assert before == sorted(before)
