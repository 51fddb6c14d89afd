"""Types and values of a kernel's arguments, from several places."""

import pytest

from twill.diagnostics import TwillError
from twill.extract.frontend.arguments import Parameter, from_text, resolve
from twill.extract.frontend.triton import passed

A = Parameter("a", constant=False)
N = Parameter("n", constant=False, type="i32")
BLOCK = Parameter("BLOCK", constant=True)
STEP = Parameter("STEP", constant=True, default=2, has_default=True)


def test_types_values_and_options() -> None:
    found = resolve("k", [A, N, BLOCK, STEP], {"a": "*fp16:16", "BLOCK": 128, "num_warps": 8})
    assert found.types == {"a": "*fp16", "n": "i32"}
    assert found.divisible == {"a"}
    assert found.constants == {"BLOCK": 128, "STEP": 2}
    assert found.options == {"num_warps": 8, "num_stages": 3, "num_ctas": 1, "maxnreg": None}


def test_later_settings_win() -> None:
    found = resolve(
        "k", [A, BLOCK, STEP], {"a": "*fp16", "BLOCK": 64}, {"BLOCK": 128, "STEP": 3}, {"BLOCK": 256}
    )
    assert found.constants == {"BLOCK": 256, "STEP": 3}


def test_a_value_for_an_argument_makes_it_a_constant() -> None:
    found = resolve("k", [A, N], {"a": None, "n": 1})
    assert (found.types, found.constants) == ({}, {"a": None, "n": 1})


def test_a_parameter_with_a_type_is_no_option() -> None:
    blocks, stages = Parameter("num_ctas", constant=False), Parameter("num_stages", constant=True)
    given = {"a": "*fp16", "num_ctas": "i32", "num_stages": 4, "num_warps": 8}
    found = resolve("k", [A, blocks, stages], given)
    assert found.types == {"a": "*fp16", "num_ctas": "i32"}
    assert found.constants == {"num_stages": 4}
    assert found.options == {"num_warps": 8, "num_stages": 4, "num_ctas": 1, "maxnreg": None}


def test_a_launch_passes_such_a_parameter_by_position() -> None:
    """By name, Triton would launch clusters of so many thread blocks."""
    blocks = Parameter("num_ctas", constant=False)
    found = resolve("k", [A, blocks, N, BLOCK], {"a": "*fp16", "num_ctas": "i32", "BLOCK": 64})
    values = {"n": 3, "num_ctas": 132, "a": 7, "BLOCK": 64}
    first, named = passed(["a", "num_ctas", "n", "BLOCK"], values, found, {"num_warps": 8})
    assert first == (7, 132)
    assert named == {"n": 3, "BLOCK": 64, "num_warps": 8, "num_stages": 3, "num_ctas": 1, "maxnreg": None}


@pytest.mark.parametrize(
    ("text", "type"),
    [("tl.int32", "i32"), ("tl.float16", "fp16"), ("torch.bfloat16", "bf16"), ("tl.uint8", "u8")],
)
def test_types_as_in_programs(text: str, type: str) -> None:
    assert resolve("k", [A], {"a": text}).types == {"a": type}


def test_a_constant_may_be_text() -> None:
    assert resolve("k", [BLOCK], {"BLOCK": "ieee"}).constants == {"BLOCK": "ieee"}


@pytest.mark.parametrize(
    "text", ["*fp16", "*fp8e4nv:16", "i1", "*i64", "fp32", "bf16", "*u8", "tensordesc<fp16[128,64]>"]
)
def test_spellings_of_types(text: str) -> None:
    assert resolve("k", [A], {"a": text}).types == {"a": text.removesuffix(":16")}


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(TwillError) as caught:
        resolve("k", [A, N, BLOCK], {"n": "int", "BLOK": 128, "num_warps": "many"})
    for part in (
        "`BLOK` is neither",
        "`a` has no type",
        "`int` is no type for `n`",
        "`BLOCK` has no value",
        "num_warps is a number",
    ):
        assert part in caught.value.message
    assert caught.value.help is not None
    assert "--set a=*fp16:16" in caught.value.help


def test_the_message_names_what_was_meant() -> None:
    """Types as CUTLASS, C and PyTorch spell them; the example is of what is missing."""
    with pytest.raises(TwillError) as caught:
        resolve("k", [A, N, BLOCK], {"a": "*half:16", "n": "fp33", "BLOK": 128})
    assert "`*half:16` is no type for `a` (`*fp16:16`?)" in caught.value.message
    assert "`fp33` is no type for `n`: write it as *fp16:16" in caught.value.message
    assert "nor an option (`BLOCK`?)" in caught.value.message
    assert caught.value.help is not None
    assert "(such as --set BLOCK=128)" in caught.value.help


def test_settings_of_the_command_line() -> None:
    texts = {"A": "128", "B": "True", "C": "*fp16:16", "D": "None", "E": "0.5"}
    assert from_text(texts) == {"A": 128, "B": True, "C": "*fp16:16", "D": None, "E": 0.5}
