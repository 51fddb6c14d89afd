"""Products of arguments and constants are computed once, by the launcher."""

import pytest

from tests.kernels.programs import program
from twill.targets.cuda.host.host_numbers import parameters, products
from twill.targets.hopper import source


def test_the_scale_of_attention_is_a_parameter() -> None:
    one = program("fa_fwd_subtiled")
    (parameter,) = parameters(one)
    name = parameter.removeprefix("float ")
    kernel, _, launcher = source(one).partition('extern "C" int')
    assert f"{parameter})" in kernel
    assert kernel.count(f"= {name};") == 2, "one for each group that computes"
    assert f"const {parameter} = scale * " in launcher
    assert f", {name});" in launcher


@pytest.mark.parametrize("name", ["gemm", "fa_fwd"])
def test_what_one_group_computes_stays_there(name: str) -> None:
    assert products(program(name)) == ()
