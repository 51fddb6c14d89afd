# pyright: basic
"""Calling a kernel, with a launcher that only writes down what it gets, and arrays that only claim to be on a GPU."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twill
from twill.diagnostics import TwillError
from twill.launch.arrays import seen
from twill.launch.load import Kernel
from twill.launch.manifest import Argument, Manifest

ARGUMENTS = (
    Argument("a", "*f16", 16),
    Argument("lse", "*f32"),
    Argument("scale", "f32"),
    Argument("M", "i32", 16),
    Argument("step", "i64"),
)


class Interface:
    """A CUDA array interface over an address."""

    def __init__(self, typestr: str = "<f2", shape: tuple[int, ...] = (4, 8), strides: Any = None, at: int = 4096) -> None:
        members = {"typestr": typestr, "shape": shape, "strides": strides, "data": (at, False)}
        self.__cuda_array_interface__ = {**members, "version": 3, "stream": 7}


class Exported:
    """A NumPy array that says by DLPack that it is on GPU 3."""

    def __init__(self, array: Any, place: int = 2) -> None:
        self.array, self.place = array, place

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place, 3


class Launcher:
    """Gives a status, and keeps what it was called with."""

    def __init__(self, status: int = 0) -> None:
        self.status, self.calls = status, []

    def __call__(self, *values: Any) -> int:
        self.calls.append([getattr(value, "value", value) for value in values])
        return self.status


def kernel(launch: Launcher) -> Kernel:
    return Kernel(Manifest("k", "k.ttgir", 384, 240, ARGUMENTS, ()), Path(), launch)


A, LSE = Interface(), Interface("<f4", (8,))


def test_arguments_reach_the_launcher_in_order() -> None:
    launch = Launcher()
    kernel(launch)[(5, 2)](A, LSE, 0.5, 128, 2**40)
    kernel(launch)[5](A, step=1, M=128, scale=0.5, lse=LSE)
    assert launch.calls == [[4096, 4096, 0.5, 128, 2**40, 5, 2, 1, 7], [4096, 4096, 0.5, 128, 1, 5, 1, 1, 7]]


GOOD: dict[str, Any] = {"a": A, "lse": LSE, "scale": 0.5, "M": 128, "step": 8}


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"a": Interface("<f4")}, "`a`: the kernel takes f16, and this array has f32"),
        ({"a": Interface(at=4100)}, "`a`: its address is no multiple of 16"),
        ({"a": Interface(strides=(2, 8))}, "`a`: it is not contiguous"),
        ({"a": 4096}, "`a`: an array of f16 is needed, not int"),
        ({"a": Exported(np.zeros(8, np.float16), place=1)}, "`a`: this array is not in the memory of a GPU"),
        ({"M": 120}, "`M`: 120 is no multiple of 16"),
        ({"M": 2**31}, "`M`: 2147483648 does not fit into i32"),
        ({"M": 1.5}, "`M`: a number of type i32 is needed, not float"),
        ({"scale": "x"}, "`scale`: a number of type f32 is needed, not str"),
        ({"BLOCK_M": 128}, "`BLOCK_M` is no argument of the kernel"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changed: dict[str, Any], complaint: str) -> None:
    launch = Launcher()
    with pytest.raises(TwillError, match="argument") as refused:
        kernel(launch)[1](**{**GOOD, **changed})
    assert complaint in refused.value.message
    assert not launch.calls


def test_arguments_that_are_missing_or_too_many() -> None:
    for positional, named in (((A, LSE), {"scale": 1.0}), ((A, LSE, 1.0, 16, 1, 1), {}), ((A,), GOOD)):
        with pytest.raises(TwillError) as refused:
            kernel(Launcher())[1](*positional, **named)
        assert "k(a, lse, scale, M, step)" in (refused.value.help or "")


def test_strides_that_the_kernel_is_told_need_not_be_dense() -> None:
    launch = Launcher()
    kernel(launch)[1](**GOOD | {"a": Interface(strides=(32, 2), shape=(4, 8)), "step": 16})
    assert len(launch.calls) == 1


@pytest.mark.parametrize("grid", [(), (0,), (1, 70000), (1, 1, 1, 1)])
def test_a_grid_that_can_not_be(grid: tuple[int, ...]) -> None:
    with pytest.raises(TwillError, match="can not be launched"):
        _ = kernel(Launcher())[grid]


def test_a_launch_that_fails() -> None:
    with pytest.raises(TwillError, match="CUDA error 209") as failed:
        kernel(Launcher(209))[1](**GOOD)
    assert "Hopper" in (failed.value.help or "")


def test_dlpack_is_read() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    part = seen(Exported(whole[1:, ::2]))
    assert part
    assert (part.type, part.shape, part.strides, part.device, part.row_major) == ("f32", (3, 3), (6, 2), 3, False)
    assert ctypes.c_float.from_address(part.address).value == 6.0
    assert seen(3.0) is None


def test_row_major() -> None:
    assert all(found.row_major for found in map(seen, (A, LSE, Interface(shape=(1, 8), strides=(99, 2)))) if found)


def test_a_folder_without_a_library(tmp_path: Path) -> None:
    from twill.launch.manifest import write

    (tmp_path / "kernel.json").write_text(write(kernel(Launcher()).manifest))
    with pytest.raises(TwillError, match=r"has no kernel\.so"):
        twill.load_kernel(tmp_path)
