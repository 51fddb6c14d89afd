"""Arrays of any GPU library, seen as a kernel's launcher must see them.

Takes a tensor of PyTorch, or anything with `__cuda_array_interface__` or `__dlpack__`; gives an `Array`.
Nothing is imported for it. Raises TwillError for an array that is not in the memory of a GPU.
"""

import ctypes
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from twill.diagnostics import TwillError

Passed: TypeAlias = Any
"""A value that a program passes to a launch: a tensor, a number, a descriptor, a tuple of these."""

_TORCH = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "i1",
}

_KINDS = {"f": "f", "b": "i", "i": "i", "u": "i"}
"""Kinds of NumPy's type strings, in TTGIR."""

_CODES = {0: "i", 1: "i", 2: "f", 4: "bf", 6: "i"}
"""DLDataTypeCode (dlpack.h) in TTGIR; booleans are stored as bytes."""
_EIGHT_BITS = {10: "f8E4M3FN", 12: "f8E5M2"}
"""The 8-bit floats among them."""

_ON_GPU = frozenset({2, 13})
"""DLDeviceType: kDLCUDA, kDLCUDAManaged."""


@dataclass(frozen=True, slots=True)
class Array:
    """Memory of a GPU."""

    address: int
    type: str
    """Of its elements, in TTGIR."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    device: int | None
    """Number of the GPU; None where the array does not say."""
    stream: int | None = None
    """The CUDA stream on which it is made; None where the array does not say."""

    @property
    def row_major(self) -> bool:
        """Whether the elements lie one behind the other, the last dimension fastest."""
        return 0 in self.shape or self.merged() in ((), (1,))

    def merged(self) -> tuple[int, ...]:
        """The strides of the dimensions of more than one element, outermost first; dimensions that lie one
        behind the other as one."""
        found = list[tuple[int, int]]()
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size == 1:
                continue
            if found and stride == found[-1][0] * found[-1][1]:
                found[-1] = found[-1][0] * size, found[-1][1]
            else:
                found.append((size, stride))
        return tuple(stride for _, stride in reversed(found))


def seen(value: Passed) -> Array | None:
    """The array that a value is; None where it is none."""
    if hasattr(value, "data_ptr") and hasattr(value, "stride"):
        return _of_torch(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _of_interface(value)
    return _of_dlpack(value) if hasattr(value, "__dlpack__") else None


def library(value: Passed) -> str:
    """The name of the package that an array comes from."""
    return type(value).__module__.partition(".")[0]


def current_stream(name: str, device: int | None) -> int | None:
    """The stream on which a library works at the moment; None where it has no such notion."""
    match name:
        case "torch":
            return sys.modules["torch"].cuda.current_stream(device).cuda_stream
        case "cupy":
            return sys.modules["cupy"].cuda.get_current_stream().ptr
        case _:
            return None


def on_device(name: str, device: int | None) -> AbstractContextManager[Any] | None:
    """Makes a library's GPU the current one; None where the library has no means of that."""
    if device is None:
        return None
    match name:
        case "torch":
            return sys.modules["torch"].cuda.device(device)
        case "cupy":
            return sys.modules["cupy"].cuda.Device(device)
        case _:
            return None


def of_torch(dtype: Passed) -> str:
    """A type of PyTorch in TTGIR; one that TTGIR has not, by PyTorch's name."""
    name = str(dtype).removeprefix("torch.")
    return _TORCH.get(name, name)


def _of_torch(tensor: Passed) -> Array:
    if not tensor.is_cuda:
        raise TwillError(
            f"this tensor is in the memory of `{tensor.device}`", help='move it with .to("cuda")'
        )
    return Array(
        tensor.data_ptr(), of_torch(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.device.index
    )


def _of_interface(array: Passed) -> Array:
    """CUDA array interface, version 2 and 3."""
    found = array.__cuda_array_interface__
    kind, size = found["typestr"][1], int(found["typestr"][2:])
    shape, strides = tuple(found["shape"]), found.get("strides")
    steps = tuple(stride // size for stride in strides) if strides else _dense(shape)
    bits = 1 if kind == "b" else 8 * size
    device = getattr(getattr(array, "device", None), "id", None)
    return Array(
        found["data"][0], f"{_KINDS.get(kind, kind)}{bits}", shape, steps, device, found.get("stream")
    )


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    steps, expected = list[int](), 1
    for size in reversed(shape):
        steps.append(expected)
        expected *= size
    return tuple(reversed(steps))


# --- DLPack -----------------------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _of_dlpack(array: Passed) -> Array:
    """The capsule is not consumed: the array outlives the call, and its memory is only pointed at."""
    place, device = map(int, array.__dlpack_device__())
    if place not in _ON_GPU:
        raise TwillError("this array is not in the memory of a GPU", help="copy it there first")
    capsule = array.__dlpack__()
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _dense(shape)
    kind = _EIGHT_BITS.get(tensor.code) or f"{_CODES.get(tensor.code, 'type')}{tensor.bits}"
    return Array((tensor.data or 0) + tensor.byte_offset, kind, shape, strides, device)
