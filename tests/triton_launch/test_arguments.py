"""From Triton's signature and values to the arguments of Twill's launcher."""

import ctypes
from dataclasses import dataclass, field
from typing import Any

import pytest

from twill.diagnostics import TwillError
from twill.triton.arguments import UnfitError, c_types, leaves, plan


@dataclass
class Tensor:
    address: int

    def data_ptr(self) -> int:
        return self.address


@dataclass
class Descriptor:
    """As Triton's `TensorDescriptor`."""

    base: Tensor
    shape: list[int] = field(default_factory=lambda: [128, 64])
    strides: list[int] = field(default_factory=lambda: [64, 1])
    padding: str = "zero"
    round_f32_to_tf32: bool = False


def arguments(*types: str) -> list[tuple[str, str]]:
    """As a kernel that takes these."""
    return [(f"a{i}", kind) for i, kind in enumerate(types)]


def test_constants_are_not_passed() -> None:
    values = plan(("*fp16", "constexpr", "i32", "fp32"), arguments("*f16", "i32", "f32"))
    assert list(values((Tensor(256), 128, 7, 0.5))) == [256, 7, 0.5]


def test_addresses_and_absent_arrays() -> None:
    values = plan(("*bf16", "*u8", "*ki64"), arguments("*bf16", "*i8", "*i64"))
    assert list(values((512, None, Tensor(16)))) == [512, None, 16]


def test_tuples_inside_tuples() -> None:
    values = plan((("*fp16", ("i32", "constexpr", "u1")), "i64"), arguments("*f16", "i32", "i1", "i64"))
    assert list(values(((Tensor(256), (7, None, True)), 9))) == [256, 7, True, 9]


DESCRIPTOR = ("*f16", "i32", "i32", "i64", "i64")


def test_descriptors_made_by_the_host() -> None:
    values = plan(("tensordesc<fp16[64, 64]>", "i32"), arguments(*DESCRIPTOR, "i32"))
    assert list(values((Descriptor(Tensor(256)), 3))) == [256, 128, 64, 64, 1, 3]


@pytest.mark.parametrize("odd", [{"padding": "nan"}, {"round_f32_to_tf32": True}])
def test_descriptors_that_fill_with_something_else(odd: dict[str, Any]) -> None:
    values = plan(("tensordesc<fp16[64, 64]>",), arguments(*DESCRIPTOR))
    with pytest.raises(UnfitError):
        values((Descriptor(Tensor(256), **odd),))


@pytest.mark.parametrize(
    ("signature", "types"),
    [
        (("*fp16",), ("*bf16",)),
        (("*fp16", "i32"), ("*f16",)),
        (("i32",), ("i64",)),
        (("tensordesc<fp16[64]>",), ("*f16", "i32")),
    ],
)
def test_types_that_differ(signature: tuple[str, ...], types: tuple[str, ...]) -> None:
    with pytest.raises(TwillError, match="its launch passes"):
        plan(signature, arguments(*types))


def test_rank_of_a_descriptor_with_a_layout() -> None:
    (leaf,) = leaves(("tensordesc<bf16[1, 64, 64],#ttg.nvmma_shared<{swizzlingByteWidth = 128}>>",))
    assert leaf.types() == ("*bf16", "i32", "i32", "i32", "i64", "i64", "i64")


def test_c_types() -> None:
    found = c_types(arguments("*f16", "i1", "i32", "f32"))
    assert found[:4] == [ctypes.c_void_p, ctypes.c_bool, ctypes.c_int32, ctypes.c_float]
    assert found[4:] == [ctypes.c_int] * 3 + [ctypes.c_void_p]
    with pytest.raises(TwillError, match="number of type f16"):
        c_types(arguments("f16"))
