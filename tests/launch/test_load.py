# pyright: basic
"""Calling a kernel, with a launcher that only writes down what it gets, and arrays that only claim to be on a
GPU."""

import ctypes
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twill
from twill.diagnostics import TwillError
from twill.ir.apart import Apart
from twill.ir.strides import Stride, Term
from twill.launch.arrays import seen
from twill.launch.load import Kernel
from twill.launch.manifest import Argument, Constant, Manifest
from twill.launch.runtime import Runtime

PITCH, UNIT = Stride((Term(1, ("M",)),)), Stride((Term(1),))
STEP = Stride((Term(1, ("step",)),), told=True)

ARGUMENTS = (
    Argument("a", "*f16", 16, (PITCH, UNIT)),
    Argument("lse", "*f32"),
    Argument("scale", "f32"),
    Argument("M", "i32", 16),
    Argument("step", "i64"),
)


class Interface:
    """A CUDA array interface over an address."""

    def __init__(
        self, typestr: str = "<f2", shape: tuple[int, ...] = (4, 8), strides: Any = None, at: int = 4096
    ) -> None:
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


class Library:
    """The CUDA runtime of a library, by its functions' names."""

    def __init__(self, devices: dict[int, int] | None = None) -> None:
        self.current, self.set = 0, []
        self.twill_error_text = Function(lambda status: f"text of {status}".encode())
        self.twill_device_of = Function(lambda address: (devices or {}).get(address, -1))
        self.twill_set_device = Function(self._set)

    def _set(self, device: Any, before: Any) -> int:
        before._obj.value, self.current = self.current, device.value
        self.set.append(device.value)
        return 0


class Function:
    """One of them; ctypes lets its types be assigned."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def __call__(self, *values: Any) -> Any:
        return self.work(*values)


def kernel(launch: Launcher, library: Any = None, **changed: Any) -> Kernel:
    manifest = replace(Manifest("k", "k.ttgir", 384, 240, ARGUMENTS, ()), **changed)
    return Kernel(manifest, Path(), launch, Runtime(library) if library else None)


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


@pytest.mark.parametrize(
    ("strides", "shape", "steps", "numbers", "fits"),
    [
        ((PITCH, UNIT), (4, 8), (32, 2), {"M": 16}, True),
        (
            (PITCH, UNIT),
            (4, 8),
            (32, 2),
            {"M": 32, "step": 16},
            False,
        ),  # a slice, and another argument is its pitch by chance
        ((PITCH, UNIT), (16, 16), (2, 32), {"M": 16}, False),  # transposed
        ((STEP, UNIT), (16, 16), (2, 32), {"step": 16}, True),  # transposed, and the caller says so
        ((STEP, UNIT), (4, 8), (32, 2), {"step": 15}, False),
        ((STEP, PITCH, UNIT), (2, 4, 8), (1024, 32, 2), {"M": 16, "step": 512}, True),
        (
            (STEP, PITCH, UNIT),
            (2, 4, 16),
            (1024, 32, 2),
            {"M": 16, "step": 512},
            True,
        ),  # rows without gaps between
        ((STEP, UNIT), (2, 2, 8), (1024, 32, 2), {"M": 16, "step": 512}, False),
        ((STEP,), (4, 8), (0, 2), {"step": 0}, False),
        ((STEP, UNIT), (4, 8), (0, 2), {"step": 0}, True),  # one row, read four times
        ((Stride((Term(2, ("M", "step")), Term(8))), UNIT), (2, 8), (272, 2), {"M": 16, "step": 4}, True),
        ((), (4, 8), (32, 2), {"M": 16}, False),
        (None, (4, 8), (32, 2), {"M": 16}, False),
        (None, (4, 8), None, {"M": 16}, True),
        ((PITCH, UNIT), (4, 0), (32, 2), {}, True),
        ((UNIT,), (1, 8), (999, 2), {}, True),
    ],
)
def test_an_array_lies_as_the_kernel_addresses_it(
    strides: Any, shape: Any, steps: Any, numbers: dict[str, int], fits: bool
) -> None:
    launch = Launcher()
    made = kernel(launch, arguments=(replace(ARGUMENTS[0], strides=strides), *ARGUMENTS[1:]))
    arguments = GOOD | {"a": Interface(strides=steps, shape=shape)} | numbers
    if fits:
        made[1](**arguments)
    else:
        with pytest.raises(TwillError, match=r"`a`: it is not contiguous.*and the kernel addresses it"):
            made[1](**arguments)
    assert bool(launch.calls) == fits


@pytest.mark.parametrize("grid", [(), (-1,), (1, 70000), (1, 1, 1, 1), (2.5,), "x", (2**31,)])
def test_a_grid_that_can_not_be(grid: Any) -> None:
    with pytest.raises(TwillError, match="can not be launched"):
        _ = kernel(Launcher())[grid]
    with pytest.raises(TwillError, match="can not be launched"):
        kernel(Launcher())[lambda meta: grid](**GOOD)


@pytest.mark.parametrize("grid", [0, (4, 0), (0, 0, 0), np.int64(0)])
def test_a_grid_without_programs_launches_nothing(grid: Any) -> None:
    launch = Launcher()
    kernel(launch)[grid](**GOOD)
    assert not launch.calls
    with pytest.raises(TwillError, match="`M`: 120 is no multiple"):
        kernel(launch)[grid](**GOOD | {"M": 120})


def test_a_persistent_kernel_walks_over_any_grid() -> None:
    launch = Launcher()
    kernel(launch, persistent=True)[4, 70000, 70](**GOOD)
    assert launch.calls[0][-4:-1] == [4, 70000, 70]
    with pytest.raises(TwillError, match=r"2\^31 programs"):
        kernel(launch, persistent=True)[70000, 70000](**GOOD)


def test_a_grid_that_follows_from_constants_and_arguments() -> None:
    launch = Launcher()
    made = kernel(launch, constants=(Constant("BLOCK_M", "64"),))
    made[lambda meta: (-(-meta["M"] // meta["BLOCK_M"]), np.int32(3))](**GOOD)
    assert launch.calls[0][-4:-1] == [2, 3, 1]
    with pytest.raises(TwillError, match="the grid depends on 'BLOCK_N'") as refused:
        made[lambda meta: (meta["BLOCK_N"],)](**GOOD)
    assert "BLOCK_M" in (refused.value.help or "")


def test_the_launch_is_on_the_gpu_of_the_arrays() -> None:
    library, launch = Library({4096: 2, 8192: 1}), Launcher()
    there = GOOD | {"lse": Interface("<f4", (8,))}
    kernel(launch, library)[1](**there)
    assert library.set == [2, 0], "and afterwards the one before is the current one again"
    with pytest.raises(TwillError, match="different GPUs: `lse` on GPU 1, `a` on GPU 2"):
        kernel(launch, library)[1](**there | {"lse": Interface("<f4", (8,), at=8192)})
    with pytest.raises(TwillError, match="different GPUs: `a` on GPU 2, `lse` on GPU 3"):
        kernel(launch, library)[1](**there | {"lse": Exported(np.zeros(8, np.float32))})
    assert len(launch.calls) == 1


def test_a_launch_that_fails() -> None:
    with pytest.raises(TwillError, match="CUDA error 209, text of 209") as failed:
        kernel(Launcher(209), Library())[1](**GOOD)
    assert "Hopper" in (failed.value.help or "")
    with pytest.raises(TwillError, match="CUDA error 700"):
        kernel(Launcher(700))[1](**GOOD)


@pytest.mark.parametrize(("status", "even"), [(1, "even numbers of tiles"), (9, "even first size")])
def test_a_launch_that_pairs_refuse(status: int, even: str) -> None:
    """What the launchers of such kernels return for tiles, or a grid, of which the last has no neighbour."""
    with pytest.raises(TwillError) as refused:
        kernel(Launcher(status), Library())[1](**GOOD)
    assert even in (refused.value.help or "")


def test_dlpack_is_read() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    part = seen(Exported(whole[1:, ::2]))
    assert part
    assert (part.type, part.shape, part.strides, part.device, part.row_major) == (
        "f32",
        (3, 3),
        (6, 2),
        3,
        False,
    )
    assert ctypes.c_float.from_address(part.address).value == 6.0
    assert seen(3.0) is None


class Shifted:
    """Six float32 of a larger array, by a DLPack capsule whose data begins `byte_offset` behind its
    address."""

    def __init__(self, array: Any, byte_offset: int) -> None:
        self.array, self.shape, self.strides = array, (ctypes.c_int64 * 2)(2, 3), (ctypes.c_int64 * 2)(3, 1)
        places = (ctypes.addressof(self.shape), ctypes.addressof(self.strides))
        fields = struct.pack("<QiiiBBHQQQ", array.ctypes.data, 2, 0, 2, 2, 32, 1, *places, byte_offset)
        self.tensor = ctypes.create_string_buffer(fields, len(fields))

    def __dlpack__(self) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_an_array_that_begins_behind_its_memory() -> None:
    """As a library of GPUs may export a slice; NumPy never does."""
    whole = np.arange(10, dtype=np.float32)
    part = seen(Shifted(whole, 16))
    assert part
    assert (part.address, part.type, part.shape) == (whole.ctypes.data + 16, "f32", (2, 3))
    assert ctypes.c_float.from_address(part.address).value == 4.0


def test_row_major() -> None:
    assert all(
        found.row_major for found in map(seen, (A, LSE, Interface(shape=(1, 8), strides=(99, 2)))) if found
    )


def test_a_folder_without_a_library(tmp_path: Path) -> None:
    from twill.launch.manifest import write

    (tmp_path / "kernel.json").write_text(write(kernel(Launcher()).manifest))
    with pytest.raises(TwillError, match=r"has no kernel\.so"):
        twill.load_kernel(tmp_path)


# --- descriptors made by the host, and tuples -------------------------------------------------------------


class TensorDescriptor:
    """As Triton's."""

    def __init__(self, **changed: Any) -> None:
        self.base, self.shape, self.strides, self.block_shape = A, [4, 8], [8, 1], [2, 8]
        self.padding, self.round_f32_to_tf32 = "zero", False
        vars(self).update(changed)


DESCRIBED = (
    Argument("x", "*f16", 16, descriptor=(2, 8)),
    *(Argument(f"x.shape.{axis}", "i32") for axis in range(2)),
    *(Argument(f"x.stride.{axis}", "i64") for axis in range(2)),
    Argument("K", "i32"),
)


def described(launch: Launcher) -> Kernel:
    return Kernel(Manifest("k", "k.ttgir", 384, 240, DESCRIBED, ()), Path(), launch)


def test_a_descriptor_is_an_address_a_shape_and_strides() -> None:
    launch = Launcher()
    described(launch)[3](TensorDescriptor(), 64)
    described(launch)[3](K=64, x=TensorDescriptor())
    assert launch.calls == [[4096, 4, 8, 8, 1, 64, 3, 1, 1, 7]] * 2


def test_the_array_of_a_descriptor_may_have_any_layout() -> None:
    launch = Launcher()
    described(launch)[1](TensorDescriptor(base=Interface(strides=(64, 2), shape=(4, 8)), strides=[32, 1]), 64)
    assert launch.calls[0][:5] == [4096, 4, 8, 32, 1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (A, "a descriptor of blocks of 2x8 is needed"),
        (TensorDescriptor(block_shape=[4, 8]), "its blocks are 4x8, and the kernel is compiled for 2x8"),
        (TensorDescriptor(padding="nan"), "pad with NaN"),
        (TensorDescriptor(round_f32_to_tf32=True), "round to TF32"),
        (TensorDescriptor(base=Interface(at=4104)), "no multiple of 16"),
    ],
)
def test_descriptors_that_do_not_fit(value: Any, message: str) -> None:
    with pytest.raises(TwillError, match="argument `x`") as caught:
        described(Launcher())[1](value, 64)
    assert message in caught.value.message


def test_numbers_of_a_descriptor_are_not_passed_alone() -> None:
    with pytest.raises(TwillError, match=r"`x.shape.0` is no argument"):
        described(Launcher())[1](TensorDescriptor(), 64, **{"x.shape.0": 4})


def test_tuples_are_their_elements() -> None:
    launch = Launcher()
    kernel(launch)[1]((A, (LSE, 0.5)), 128, 1)
    assert launch.calls == [[4096, 4096, 0.5, 128, 1, 1, 1, 1, 7]]


def test_the_manifest_keeps_descriptors() -> None:
    from twill.launch.manifest import read, write

    manifest = described(Launcher()).manifest
    assert read(write(manifest), "kernel.json") == manifest


def test_arrays_that_overlap_are_not_launched() -> None:
    """Where the kernel stores to one of them."""
    launch = Launcher()
    made = kernel(launch)
    made = replace(made, manifest=replace(made.manifest, apart=(Apart("lse", "a"),)))
    with pytest.raises(TwillError, match="argument `lse`: it overlaps `a`, and the kernel stores to it"):
        made[1](**GOOD)
    assert not launch.calls
    made[1](**{**GOOD, "lse": Interface("<f4", (8,), at=4096 + 64)})
    assert len(launch.calls) == 1
